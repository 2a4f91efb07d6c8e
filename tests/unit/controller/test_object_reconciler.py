"""Reconcilers that are given objects, the registry of finalizers, options of caches, and the pages of a manager."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from kapi import CacheOptions, Client, Finalizers, Leadership, Manager, ObjectKey, ObjectMeta, Request, Result
from kapi.api.builtin.core_v1 import ConfigMap, Secret
from kapi.api.errors import NotFound
from kapi.api.meta import GroupVersionKind
from kapi.client import ALL_NAMESPACES, DELETED
from kapi.controller.event import Updated
from kapi.controller.manager.leaderelection import Election, LeaderElector
from kapi.controller.reconcile import takes_object
from live_plane import NO_MAPS, live_plane
from virtual_time import LoopClock
from virtual_time import run as run_in_virtual_time

if TYPE_CHECKING:
    from kapi.api.builtin.core_v1 import Pod

MAPS = GroupVersionKind("", "v1", "ConfigMap")
LABEL = {"tests": "objects"}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane"), controllers=f"*,{NO_MAPS}") as path:
        yield path


def managed(kubeconfig, test, **options):
    """Run a test with a manager that it sets up and starts."""

    async def main():
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
            for kind in (ConfigMap, Secret):
                await client.delete_all(kind, namespace="default", labels=LABEL)
            await test(client, Manager(client, **options))

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


def config(name, **data):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels=LABEL), data=data)


# -- reconcilers of objects -------------------------------------------------------------------------------------------


async def by_key(request: Request) -> None: ...


async def unannotated(anything): ...


async def by_class(config: ConfigMap) -> Result | None: ...


async def by_dictionary(config: dict[str, Any]) -> None: ...


async def by_name_for_type_checkers(pod: Pod) -> None: ...


class Method:
    async def reconcile(self, config: ConfigMap) -> None: ...


class Callable:
    async def __call__(self, config: ConfigMap) -> None: ...


def test_the_annotation_of_the_parameter_decides_what_a_reconciler_is_given():
    from kapi.api.builtin.core_v1 import Pod

    assert not takes_object(by_key, ConfigMap)
    assert not takes_object(unannotated, ConfigMap)
    assert not takes_object(lambda request: None, ConfigMap)
    assert takes_object(by_class, ConfigMap)
    assert takes_object(by_dictionary, MAPS)
    assert takes_object(by_name_for_type_checkers, Pod)
    assert takes_object(Method().reconcile, ConfigMap)
    assert takes_object(Callable(), ConfigMap)
    with pytest.raises(TypeError, match="takes a ConfigMap, and for_ names Secret"):
        takes_object(by_class, Secret)
    with pytest.raises(TypeError, match="takes a dictionary, and for_ names the class ConfigMap"):
        takes_object(by_dictionary, ConfigMap)


@pytest.mark.parametrize("kind", [ConfigMap, MAPS], ids=["class", "dictionary"])
def test_a_reconciler_is_given_the_object_and_not_called_for_one_that_is_gone(kubeconfig, kind):
    async def test(client, manager):
        seen, done = [], asyncio.Event()

        def note(data):
            if data:
                seen.append(data)
            if data == {"x": "2"}:
                done.set()

        async def typed(config: ConfigMap) -> Result | None:
            note(config.data)

        async def loose(config: dict[str, Any]) -> Result | None:
            note(config.get("data"))

        (
            manager.builder()
            .for_(kind, lambda event: event.object.labels.get("tests") == "objects")
            .complete(typed if kind is ConfigMap else loose)
        )
        async with running(manager):
            await client.create(config("a", x="1"))
            await client.delete(ConfigMap, "a", namespace="default")
            await client.create(config("b", x="2"))
            await done.wait()
        assert seen[-1] == {"x": "2"}

    managed(kubeconfig, test)


# -- finalizers -------------------------------------------------------------------------------------------------------


def test_registered_finalizers_are_added_and_called_in_order_before_an_object_is_deleted(kubeconfig):
    async def test(client, manager):
        finalizers, called, failures = Finalizers(manager.client), [], ["not yet"]

        @finalizers.register("example.com/first")
        async def first(obj: ConfigMap) -> None:
            called.append("first")

        @finalizers.register("example.com/second")
        def second(obj: ConfigMap) -> None:
            called.append("second")
            if failures:
                raise RuntimeError(failures.pop())

        made = asyncio.Event()

        async def reconcile(config: ConfigMap) -> None:
            if (config.metadata.labels or {}).get("tests") != "objects" or await finalizers.finalize(config):
                return
            made.set()

        manager.builder().for_(ConfigMap).complete(reconcile)
        async with running(manager):
            await client.create(config("a"))
            await made.wait()
            held = await client.get(ConfigMap, "a", namespace="default")
            assert held.metadata.finalizers == ["example.com/first", "example.com/second"]
            assert called == []
            await client.delete(held)
            await client.wait_for(ConfigMap, "a", DELETED, namespace="default", timeout=30)
        # The second one failed once and was called again; the first one had been removed by then.
        assert called == ["first", "second", "second"]
        with pytest.raises(ValueError, match="already"):
            finalizers.register("example.com/first")
        with pytest.raises(ValueError, match="has a domain"):
            finalizers.register("first")

    managed(kubeconfig, test)


# -- options of caches ------------------------------------------------------------------------------------------------


def test_a_cache_holds_what_its_options_select_and_the_client_reads_no_more(kubeconfig):
    def without_data(obj):
        obj.pop("data", None)
        return obj

    async def test(client, manager):
        manager.builder().for_(ConfigMap).watches(Secret, lambda obj: ()).complete(unannotated)
        other = config("other")
        other.metadata.labels = {"tests": "elsewhere"}
        for one in (config("a", x="1"), other):
            with contextlib.suppress(NotFound):
                await client.delete(one)
            await client.create(one)
        async with running(manager):
            found = await manager.client.list(ConfigMap, namespace=ALL_NAMESPACES)
            assert [one.metadata.name for one in found] == ["a"]
            assert found[0].data is None
            assert await manager.client.find(ConfigMap, ObjectKey("default", "other")) is None
            await manager.client.create(Secret(metadata=ObjectMeta(name="s", namespace="default", labels=LABEL)))
            assert (await manager.client.get_metadata(Secret, "s")).metadata.name == "s"
            # Own writes are selected as the cache selects.
            await manager.client.patch(ConfigMap, {"metadata": {"labels": {"tests": "elsewhere"}}}, name="a")
            assert list(await manager.client.list(ConfigMap, namespace=ALL_NAMESPACES)) == []
        await client.delete_all(ConfigMap, namespace="default", labels="tests=elsewhere")

    caches = {
        ConfigMap: CacheOptions(labels="tests=objects", transform=without_data),
        Secret: CacheOptions(namespaces="default", metadata_only=True),
    }
    managed(kubeconfig, test, caches=caches)


def test_a_cache_with_a_resync_shows_its_objects_again(kubeconfig):
    async def test(client, manager):
        again = asyncio.Event()

        def note(event):
            if isinstance(event, Updated) and event.old.resource_version == event.object.resource_version:
                again.set()
            return False

        manager.builder().for_(ConfigMap, note).complete(unannotated)
        await client.create(config("a"))
        async with running(manager):
            await again.wait()

    managed(kubeconfig, test, caches={MAPS: CacheOptions(resync=0.05)})


# -- pages ------------------------------------------------------------------------------------------------------------


def test_metrics_and_probes_have_addresses_of_their_own(kubeconfig):
    async def page(port, path):
        def read():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        return await asyncio.to_thread(read)

    async def test(client, manager):
        manager.builder().for_(ConfigMap).complete(unannotated)
        wrong = []
        manager.add_live_check("worker", lambda: wrong[0] if wrong else None)
        async with running(manager):
            assert (await page(manager.ports["metrics"], "/metrics"))[0] == 200
            assert (await page(manager.ports["metrics"], "/livez"))[0] == 404
            probes = manager.ports["probes"]
            assert (await page(probes, "/metrics"))[0] == 404
            assert await page(probes, "/livez") == (200, "[+]caches ok\n[+]leader-election ok\n[+]worker ok\n")
            wrong.append("stuck")
            assert await page(probes, "/healthz") == (
                500,
                "[+]caches ok\n[+]leader-election ok\n[-]worker stuck\n",
            )
            assert await page(probes, "/readyz") == (200, "[+]caches ok\n")
            # A cache that nothing follows any more is cured by a restart alone.
            wrong.clear()
            [informer] = manager.informers.informers.values()
            informer._reflecting.cancel()
            await asyncio.wait([informer._reflecting])
            assert await page(probes, "/livez") == (
                500,
                f"[-]caches not followed any more: {informer.name}\n[+]leader-election ok\n[+]worker ok\n",
            )

    local = ("127.0.0.1", 0)
    managed(kubeconfig, test, metrics=local, probes=local, leadership=Leadership("pages", "default"))


def test_a_leader_that_does_not_renew_its_lease_is_not_live():
    class Leases:
        async def get(self, name):
            raise NotFound("none")

        async def create(self, obj):
            return obj

        async def replace(self, obj):
            return obj

    async def main():
        elector = LeaderElector(Leases(), Election("a", "me"), clock=LoopClock())
        assert elector.overdue() is None
        assert await elector._try()
        await asyncio.sleep(15)
        assert elector.overdue() is None
        await asyncio.sleep(5)
        assert elector.overdue() == "the lease was not renewed for 20 s"

    run_in_virtual_time(main())
