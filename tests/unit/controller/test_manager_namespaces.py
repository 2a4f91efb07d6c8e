"""One manager for several namespaces, against a whole control plane: what is watched, what is read from where.

With KUBEBUILDER_ASSETS set, the same tests run against a real kube-apiserver, too.
"""

import asyncio
import contextlib

import pytest

from kapi import Client, Manager, ObjectKey, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap, Namespace, Secret
from kapi.api.errors import AlreadyExists, NotFound
from kapi.client import ALL_NAMESPACES
from kapi.controller.objects.ownership import set_controller_reference
from kapi.controller.predicate import has_labels
from kube_apiserver_plane import kube_apiserver_plane
from live_plane import live_plane

RED, BLUE, GREEN = "ns-red", "ns-blue", "ns-green"
LABEL = {"tests": "namespaces"}


@pytest.fixture(scope="module", params=[live_plane, kube_apiserver_plane], ids=["kapi", "kube-apiserver"])
def kubeconfig(tmp_path_factory, request):
    with request.param(tmp_path_factory.mktemp("plane")) as path:
        yield path


class Paths:
    """Notes what the server is asked."""

    def __init__(self):
        self.asked = []

    def begin(self, outgoing, headers, /):
        self.asked.append((outgoing.method, outgoing.path, outgoing.is_watch))
        return lambda status, failure: None

    def watched(self, resource):
        return sorted(path for _, path, is_watch in self.asked if is_watch and path.endswith(f"/{resource}"))


def managed(kubeconfig, test, **options):
    """Run a test with a manager of two of three namespaces, in which there is nothing of ours yet."""

    async def main():
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
            for name in (RED, BLUE, GREEN):
                with contextlib.suppress(AlreadyExists):
                    await client.create(Namespace(metadata=ObjectMeta(name=name)))
                for kind in (ConfigMap, Secret):
                    await client.delete_all(kind, namespace=name, labels=LABEL)
            await test(client, Manager(client, **(options or {"namespaces": [RED, BLUE]})))

    asyncio.run(main())


@contextlib.asynccontextmanager
async def running(manager):
    task = asyncio.ensure_future(manager.run(signals=False))
    try:
        await manager.informers.wait_for_sync(30)
        yield
    finally:
        manager.stop()
        await task


def named(name, namespace, kind=ConfigMap, **more):
    return kind(metadata=ObjectMeta(name=name, namespace=namespace, labels=LABEL), **more)


async def nothing(request):
    return None


async def until(condition):
    while not condition():  # noqa: ASYNC110 - many things at once are waited for
        await asyncio.sleep(0.005)


def test_what_is_watched_is_reconciled_in_each_namespace_and_nowhere_else(kubeconfig):
    async def test(client, manager):
        seen = set()

        async def reconcile(request):
            seen.add(request)
            secret = await manager.client.find(Secret, request)
            if secret is not None:
                copy = named(request.name, request.namespace, data={"of": request.name})
                set_controller_reference(secret, copy)
                await manager.client.apply(copy, force=True)

        (
            manager.builder()
            .for_(Secret, has_labels("tests=namespaces"))
            .owns(ConfigMap, has_labels("tests=namespaces"), metadata_only=True)
            .complete(reconcile)
        )
        async with running(manager):
            for namespace in (RED, BLUE, GREEN):
                await client.create(named("a", namespace, Secret))
            for namespace in (RED, BLUE):
                await client.wait_for(
                    ConfigMap, "a", lambda one: one.data == {"of": "a"}, namespace=namespace, timeout=30
                )
            # What was made and goes comes back, by way of its owner.
            seen.clear()
            await client.delete(ConfigMap, "a", namespace=BLUE)
            await until(lambda: ObjectKey(BLUE, "a") in seen)
            await client.wait_for(ConfigMap, "a", lambda one: one.data == {"of": "a"}, namespace=BLUE, timeout=30)
        assert not any(request.namespace == GREEN for request in seen)
        with pytest.raises(NotFound):
            await client.get(ConfigMap, "a", namespace=GREEN)

    managed(kubeconfig, test)


def test_each_namespace_has_one_watch_of_a_kind_and_a_kind_without_namespaces_has_one(kubeconfig):
    async def test(client, manager):
        paths = Paths()
        client.rest.observers = (paths,)
        manager.builder().for_(ConfigMap).watches(Namespace, lambda obj: ()).complete(nothing)
        manager.builder().for_(ConfigMap).named("another").complete(nothing)
        async with running(manager):
            assert paths.watched("configmaps") == [f"/api/v1/namespaces/{name}/configmaps" for name in (BLUE, RED)]
            assert paths.watched("namespaces") == ["/api/v1/namespaces"]

    managed(kubeconfig, test)


def test_reads_come_from_the_cache_of_their_namespace(kubeconfig):
    async def test(client, manager):
        manager.builder().for_(ConfigMap).watches(Namespace, lambda obj: ()).complete(nothing)
        for namespace in (RED, BLUE, GREEN):
            await client.create(named("a", namespace, data={"in": namespace}))
        async with running(manager):
            paths = Paths()
            client.rest.observers = (paths,)
            for namespace in (RED, BLUE):
                found = await manager.client.get(ConfigMap, ObjectKey(namespace, "a"))
                assert found.data == {"in": namespace}
                [listed] = await manager.client.list(ConfigMap, namespace=namespace, labels=LABEL)
                assert listed.data == {"in": namespace}
            everything = await manager.client.list(ConfigMap, namespace=ALL_NAMESPACES, labels=LABEL)
            assert {one.metadata.namespace for one in everything} == {RED, BLUE}
            assert (await manager.client.get(Namespace, ObjectKey("", GREEN))).metadata.name == GREEN
            assert GREEN in {one.metadata.name for one in await manager.client.list(Namespace)}
            assert await manager.client.find(ConfigMap, ObjectKey(RED, "nothing")) is None
            assert paths.asked == []
            # What is not watched is asked of the server.
            assert (await manager.client.get(ConfigMap, ObjectKey(GREEN, "a"))).data == {"in": GREEN}
            assert len(await manager.client.list(ConfigMap, namespace=GREEN, labels=LABEL)) == 1
            assert {path.split("/")[4] for _, path, _ in paths.asked} == {GREEN}

    managed(kubeconfig, test)


def test_own_writes_are_seen_at_once_in_every_namespace_and_nothing_else_is_asked_for(kubeconfig):
    async def test(client, manager):
        manager.builder().for_(ConfigMap).watches(Namespace, lambda obj: ()).complete(nothing)
        async with running(manager):
            paths = Paths()
            client.rest.observers = (paths,)
            for number in range(50):
                for namespace in (RED, BLUE):
                    await manager.client.create(named(f"w{number}", namespace))
                everything = await manager.client.list(ConfigMap, namespace=ALL_NAMESPACES, labels=LABEL)
                assert len(everything) == 2 * (number + 1)
                mine = await manager.client.get(ConfigMap, ObjectKey(BLUE, f"w{number}"))
                mine.data = {"n": str(number)}
                await manager.client.update(mine)
                again = await manager.client.get(ConfigMap, ObjectKey(BLUE, f"w{number}"))
                assert again.data == {"n": str(number)}
            space = await manager.client.get(Namespace, ObjectKey("", RED))
            space.metadata.annotations = {**(space.metadata.annotations or {}), "touched": "yes"}
            await manager.client.update(space)
            touched = await manager.client.get(Namespace, ObjectKey("", RED))
            assert touched.metadata.annotations["touched"] == "yes"
            await manager.client.delete(mine)
            assert await manager.client.find(ConfigMap, ObjectKey(BLUE, "w49")) is None
            assert len(await manager.client.list(ConfigMap, namespace=ALL_NAMESPACES, labels=LABEL)) == 99
            # A program that may read two namespaces would be refused a list of all.
            assert "/api/v1/configmaps" not in {path for _, path, _ in paths.asked}

    managed(kubeconfig, test)


def test_before_the_caches_are_filled_the_namespaces_are_asked_for_one_by_one(kubeconfig):
    async def test(client, manager):
        manager.builder().for_(ConfigMap).complete(nothing)
        for namespace in (RED, BLUE, GREEN):
            await client.create(named("a", namespace))
        manager.cluster.share_caches()
        paths = Paths()
        client.rest.observers = (paths,)
        found = await manager.client.list(ConfigMap, namespace=ALL_NAMESPACES, labels=LABEL)
        assert {one.metadata.namespace for one in found} == {RED, BLUE}
        assert [path for _, path, _ in paths.asked] == [f"/api/v1/namespaces/{name}/configmaps" for name in (BLUE, RED)]

    managed(kubeconfig, test)


def test_readiness_waits_for_every_namespace(kubeconfig):
    async def test(client, manager):
        manager.builder().for_(ConfigMap).complete(nothing)
        assert manager._caches_check() == f"not synced: ConfigMap.v1, namespace {BLUE},{RED}"
        async with running(manager):
            assert manager._caches_check() is None

    managed(kubeconfig, test)


def test_a_kind_without_namespaces_is_cached_where_one_namespace_is_watched(kubeconfig):
    async def test(client, manager):
        manager.builder().for_(Namespace).complete(nothing)
        async with running(manager):
            paths = Paths()
            client.rest.observers = (paths,)
            assert (await manager.client.get(Namespace, ObjectKey("", GREEN))).metadata.name == GREEN
            assert GREEN in {one.metadata.name for one in await manager.client.list(Namespace)}
            assert paths.asked == []

    managed(kubeconfig, test, namespace=RED)


@pytest.mark.parametrize(
    ("said", "environment", "watched"),
    [
        ({}, None, ()),
        ({}, "", ()),
        ({}, "a", ("a",)),
        ({}, " b , a,b", ("a", "b")),
        ({"namespace": ""}, "a,b", ()),
        ({"namespace": "a,b"}, None, ("a", "b")),
        ({"namespaces": ("b", "a")}, "c", ("a", "b")),
        ({"namespaces": [""]}, None, ()),
    ],
)
def test_namespaces_are_those_that_were_said_or_those_of_the_environment(
    kubeconfig, monkeypatch, said, environment, watched
):
    monkeypatch.delenv("WATCH_NAMESPACE", raising=False)
    if environment is not None:
        monkeypatch.setenv("WATCH_NAMESPACE", environment)
    assert Manager(Client.connect(kubeconfig=kubeconfig), **said).namespaces == watched


@pytest.mark.parametrize(
    ("said", "environment", "error", "complaint"),
    [
        ({}, "a,", ValueError, "WATCH_NAMESPACE: .*stands alone"),
        ({}, "A", ValueError, "WATCH_NAMESPACE: namespace 'A'"),
        ({"namespace": "a,,b"}, None, ValueError, "stands alone"),
        ({"namespaces": []}, None, ValueError, "namespaces is empty"),
        ({"namespaces": "a,b"}, None, TypeError, "is called namespace"),
        ({"namespace": "a", "namespaces": ["a"]}, None, ValueError, "not both"),
    ],
)
def test_namespaces_that_cannot_be_meant_are_refused_in_words(
    kubeconfig, monkeypatch, said, environment, error, complaint
):
    if environment is not None:
        monkeypatch.setenv("WATCH_NAMESPACE", environment)
    with pytest.raises(error, match=complaint):
        Manager(Client.connect(kubeconfig=kubeconfig), **said)
