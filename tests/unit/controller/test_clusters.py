"""A manager with several clusters: watches and cached clients of each, with two control planes."""

import asyncio
import contextlib
from typing import NamedTuple

import pytest

from kapi import Request, Result, set_controller_reference
from kapi.api.builtin.core_v1 import ConfigMap, Secret
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.client import ALL_NAMESPACES
from kapi.testing import Environment
from kapi.testing.servers import ADMIN


def config_map(name, **data):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


def with_two_clusters(test):
    """Run a test with two environments, and a manager of the first with a cluster of the second."""

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            home = await stack.enter_async_context(Environment(time="virtual"))
            away = await stack.enter_async_context(Environment(time="virtual"))
            manager = home.manager()
            edge = manager.add_cluster("edge", away.client_for(ADMIN, name="manager"))
            await test(home, away, manager, edge)

    asyncio.run(main())


def test_a_controller_of_one_cluster_follows_objects_of_another():
    """Each ConfigMap on the edge gets a Secret at home, and a receipt on the edge."""

    async def test(home, away, manager, edge):
        async def reconcile(request: Request) -> Result | None:
            found = await edge.client.find(ConfigMap, request)
            if found is None or found.data != {"a": "b"}:
                return None
            secret = Secret(metadata=ObjectMeta(name=request.name, namespace=request.namespace))
            await manager.client.apply(secret, force=True)
            await edge.client.apply(config_map(f"{request.name}-receipt", done="yes"), force=True)
            # Its own write is seen at once, on that cluster and on no other.
            assert (await edge.client.get(ConfigMap, f"{request.name}-receipt", namespace="default")).data
            assert await manager.live.find(ConfigMap, f"{request.name}-receipt", namespace="default") is None
            return None

        def key_of(one: ConfigMap) -> list[Request]:
            return [Request(one.metadata.namespace, one.metadata.name)]

        manager.builder().for_(Secret).watches(ConfigMap, key_of, cluster=edge).complete(reconcile)
        await away.client.create(config_map("early", a="b"))
        async with home.run(manager):
            await away.client.create(config_map("late", a="b"))
            await home.client.create(config_map("not-watched", a="b"))
            await home.settled()
        names = [one.metadata.name for one in await home.client.list(Secret, namespace="default")]
        assert names == ["early", "late"]
        # All reads of the edge came from its cache.
        assert away.history.requests(verb="get", user="manager") == []
        assert home.history.requests(resource="configmaps", verb="watch", user="manager") == []

    with_two_clusters(test)


def test_the_reconciled_kind_and_what_it_owns_may_be_of_another_cluster():
    async def test(home, away, manager, edge):
        async def reconcile(owner: ConfigMap) -> None:
            if owner.data != {"is": "owner"}:
                return
            child = Secret(metadata=ObjectMeta(name=owner.metadata.name, namespace="default"))
            set_controller_reference(owner, child)
            await edge.client.apply(child, force=True)

        manager.builder().for_(ConfigMap, cluster=edge).owns(Secret).complete(reconcile)
        async with home.run(manager):
            await away.client.create(config_map("a", **{"is": "owner"}))
            first = await home.eventually(lambda: away.client.find(Secret, "a", namespace="default"))
            await away.client.delete(Secret, "a", namespace="default")

            async def is_new():
                found = await away.client.find(Secret, "a", namespace="default")
                return found is not None and found.metadata.uid != first.metadata.uid

            await home.eventually(is_new)
        assert await home.client.find(Secret, "a", namespace="default") is None

    with_two_clusters(test)


class Place(NamedTuple):
    """The key of an object in one of several clusters."""

    cluster: str
    key: Request


def test_a_key_that_names_its_cluster_serves_all_of_them():
    async def test(home, away, manager, edge):
        seen = set()

        async def reconcile(place: Place) -> None:
            found = await manager.clusters[place.cluster].client.find(ConfigMap, place.key)
            if found is not None and found.data and "here" in found.data:
                seen.add((place.cluster, found.data["here"]))

        builder = manager.builder(Place).named("everywhere")
        for name, cluster in manager.clusters.items():

            def place_of(one: ConfigMap, name: str = name) -> list[Place]:
                return [Place(name, Request(one.metadata.namespace, one.metadata.name))]

            builder.watches(ConfigMap, place_of, cluster=cluster)
        builder.complete(reconcile)
        async with home.run(manager):
            await home.client.create(config_map("same", here="home"))
            await away.client.create(config_map("same", here="edge"))
            await home.advance(1)
        assert seen == {("", "home"), ("edge", "edge")}

    with_two_clusters(test)


def test_caches_of_all_clusters_are_ready_measured_and_indexed():
    async def test(home, away, manager, edge):
        async def nothing(request: Request) -> None:
            return None

        edge.index(ConfigMap, "a", lambda one: [(one.data or {}).get("a", "")])
        builder = manager.builder().for_(ConfigMap).watches(ConfigMap, lambda one: [], cluster=edge)
        builder.watches_metadata(Secret, lambda one: [], cluster=edge).complete(nothing)
        assert manager._caches_check() == "not synced: ConfigMap.v1; edge: ConfigMap.v1; edge: Secret.v1, metadata"
        await away.client.create(config_map("x", a="1"))
        await away.client.create(config_map("y", a="2"))
        async with home.run(manager):
            assert manager._caches_check() is None
            found = await edge.client.list(ConfigMap, namespace=ALL_NAMESPACES, index={"a": "2"})
            assert [one.metadata.name for one in found] == ["y"]

            def synced(name):
                return manager.registry.get_sample_value("informer_synced", {"name": name})

            assert (synced("ConfigMap.v1"), synced("edge: ConfigMap.v1"), synced("other: ConfigMap.v1")) == (1, 1, None)

    with_two_clusters(test)


def test_clusters_have_names_of_their_own_and_are_added_before_the_manager_runs():
    async def test(home, away, manager, edge):
        for name in ("", "edge"):
            with pytest.raises(ValueError, match="a cluster needs a name of its own"):
                manager.add_cluster(name, away.client)
        assert list(manager.clusters) == ["", "edge"]
        assert manager.clusters[""] is manager.cluster
        assert (manager.cluster.client, manager.cluster.informers) == (manager.client, manager.informers)

        async def nothing(request: Request) -> None:
            return None

        manager.builder().for_(ConfigMap).complete(nothing)
        async with home.run(manager):
            with pytest.raises(RuntimeError, match="cluster late was added too late"):
                manager.add_cluster("late", away.client)

    with_two_clusters(test)


def test_a_cluster_may_be_restricted_to_namespaces():
    async def test(home, away, manager, edge):
        far = manager.add_cluster("far", away.client_for(ADMIN, name="far"), namespace="a,b")
        assert far.namespaces == ("a", "b")

    with_two_clusters(test)
