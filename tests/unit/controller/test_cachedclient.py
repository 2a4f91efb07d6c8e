"""The client of a manager takes and returns what the plain client does, and reads from memory.

With KUBEBUILDER_ASSETS set, the same tests run against a real kube-apiserver, too.
"""

import asyncio
import contextlib

import msgspec
import pytest

from kapi import Client, Manager, ObjectKey, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap, Namespace, Pod, Secret
from kapi.api.errors import AlreadyExists, NotFound
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.client import ALL_NAMESPACES
from kapi.client.metadata import PartialObjectMetadata
from kube_apiserver_plane import kube_apiserver_plane
from live_plane import live_plane

HERE, THERE = "cached-here", "cached-there"
MAPS, SECRETS = GroupVersionKind("", "v1", "ConfigMap"), GroupVersionKind("", "v1", "Secret")
LABEL = {"tests": "cached"}


@pytest.fixture(scope="module", params=[live_plane, kube_apiserver_plane], ids=["kapi", "kube-apiserver"])
def kubeconfig(tmp_path_factory, request):
    with request.param(tmp_path_factory.mktemp("plane")) as path:
        yield path


class Asked:
    """Notes the requests that are no watches."""

    def __init__(self):
        self.reads = []

    def begin(self, outgoing, headers, /):
        if outgoing.method == "GET" and not outgoing.is_watch:
            self.reads.append(outgoing.path)
        return lambda status, failure: None


def managed(kubeconfig, prepare, test):
    """Run a test with a manager that watches what `prepare` makes it watch, and note what is read from the server."""

    async def main():
        connect = Client.connect(kubeconfig=kubeconfig, field_manager="tests", namespace=HERE)
        async with connect as client, asyncio.timeout(60):
            for name in (HERE, THERE):
                with contextlib.suppress(AlreadyExists):
                    await client.create(Namespace(metadata=ObjectMeta(name=name)))
                for kind in (ConfigMap, Secret):
                    await client.delete_all(kind, namespace=name, labels=LABEL)
            manager = Manager(client)
            prepare(manager)
            running = asyncio.ensure_future(manager.run(signals=False))
            await manager.informers.wait_for_sync(30)
            asked = Asked()
            client.rest.observers = (*client.rest.observers, asked)
            try:
                await test(client, manager.client, asked)
            finally:
                manager.stop()
                await running

    asyncio.run(main())


def config(name, namespace=HERE, **data):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels=LABEL), data=data)


def watching_maps(manager):
    manager.builder().for_(ConfigMap).complete(lambda request: asyncio.sleep(0))


async def reach(cached, *names, namespace=HERE):
    """Wait until the cache itself has objects that others made."""
    [cache] = cached._caches[MAPS]
    while any(cache.informer.indexer.get(ObjectKey(namespace, name)) is None for name in names):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def plain(obj):
    """An object as a dictionary, whatever its form."""
    return msgspec.to_builtins(obj)


TARGETS = [
    ConfigMap,
    MAPS,
    GroupVersionResource("", "v1", "configmaps"),
    ("v1", "ConfigMap"),
    "configmaps",
    "cm",
]


def test_every_way_to_name_a_kind_and_an_object_is_understood_and_answered_alike(kubeconfig):
    async def test(client, cached, asked):
        await client.create(config("a", x="1"))
        await client.create(config("b", x="2"))
        await client.create(config("c", THERE))
        await reach(cached, "a", "b")
        await reach(cached, "c", namespace=THERE)
        for target in TARGETS:
            before = len(asked.reads)
            answers = [
                await cached.get(target, "a"),
                await cached.get(target, "a", namespace=HERE),
                await cached.get(target, ObjectKey(HERE, "a")),
                await cached.find(target, "a", resource_version="0"),
            ]
            listed = await cached.list(target, labels=LABEL)
            elsewhere = await cached.list(target, namespace=THERE, labels="tests=cached")
            everywhere = await cached.list(target, namespace=ALL_NAMESPACES, labels=LABEL)
            metadata = await cached.get_metadata(target, "a")
            assert len(asked.reads) == before, "something was read from the server"
            expected = await client.get(target, "a")
            assert all(type(answer) is type(expected) for answer in answers)
            assert all(plain(answer) == plain(expected) for answer in answers)
            assert type(listed) is type(await client.list(target))
            assert [plain(one) for one in listed] == [plain(one) for one in await client.list(target, labels=LABEL)]
            assert listed.resource_version.isdigit()
            assert [plain(one) for one in elsewhere] == [
                plain(one) for one in await client.list(target, namespace=THERE, labels=LABEL)
            ]
            assert [plain(one) for one in everywhere] == [
                plain(one) for one in await client.list(target, namespace=ALL_NAMESPACES, labels=LABEL)
            ]
            assert plain(metadata) == plain(await client.get_metadata(target, "a"))

    managed(kubeconfig, watching_maps, test)


def test_what_is_not_there_is_the_same_error(kubeconfig):
    async def test(client, cached, asked):
        for target in TARGETS:
            with pytest.raises(NotFound) as mine:
                await cached.get(target, "nothing")
            with pytest.raises(NotFound) as theirs:
                await client.get(target, "nothing")
            assert str(mine.value) == str(theirs.value)
            assert await cached.find(target, "nothing") is None
        with pytest.raises(ValueError, match="are in namespaces: name one"):
            await cached.get(ConfigMap, "a", namespace="")

    managed(kubeconfig, watching_maps, test)


def test_kinds_that_are_watched_as_dictionaries_or_by_metadata_come_from_the_cache(kubeconfig):
    def prepare(manager):
        manager.builder().for_(MAPS).owns(Secret, metadata_only=True).complete(lambda request: asyncio.sleep(0))

    async def test(client, cached, asked):
        made = await cached.create(config("a", x="1"))
        await cached.create(Secret(metadata=ObjectMeta(name="s", namespace=HERE, labels=LABEL)))
        assert (await cached.get(MAPS, "a"))["data"] == {"x": "1"}
        assert (await cached.get(ConfigMap, "a")).data == {"x": "1"}
        assert [one.metadata.uid for one in await cached.list(ConfigMap, labels=LABEL)] == [made.metadata.uid]
        found = await cached.get_metadata(Secret, "s")
        assert isinstance(found, PartialObjectMetadata)
        assert [one.metadata.name for one in await cached.list_metadata(SECRETS, labels=LABEL)] == ["s"]
        assert asked.reads == []
        # A cache of metadata has nothing else.
        assert (await cached.get(Secret, "s")).kind == "Secret"
        assert len(asked.reads) == 1

    managed(kubeconfig, prepare, test)


def test_a_list_right_after_each_of_three_hundred_writes_shows_it_without_a_request(kubeconfig):
    async def test(client, cached, asked):
        sizes = {}
        for number in range(300):
            name = f"w{number % 40:02}"
            if number % 7 == 6 and name in sizes:
                await cached.delete(ConfigMap, name)
                del sizes[name]
            elif name not in sizes:
                await cached.create(config(name, n=str(number)))
                sizes[name] = str(number)
            else:
                await cached.patch(ConfigMap, {"data": {"n": str(number)}}, name=name)
                sizes[name] = str(number)
            listed = await cached.list(ConfigMap, labels=LABEL)
            assert {one.metadata.name: one.data["n"] for one in listed} == sizes
            assert [one.metadata.name for one in listed] == sorted(sizes)
        assert asked.reads == []

    managed(kubeconfig, watching_maps, test)


def test_an_object_that_waits_for_a_finalizer_is_shown_until_that_is_removed(kubeconfig):
    async def test(client, cached, asked):
        held = config("held")
        held.metadata.finalizers = ["example.com/hold"]
        await cached.create(held)
        await cached.delete(ConfigMap, "held")
        shown = await cached.get(ConfigMap, "held")
        assert shown.metadata.deletion_timestamp
        shown.metadata.finalizers = None
        await cached.update(shown)
        assert await cached.find(ConfigMap, "held") is None
        assert list(await cached.list(ConfigMap, labels=LABEL)) == []
        again = await cached.create(config("held", new="yes"))
        assert (await cached.get(ConfigMap, "held")).metadata.uid == again.metadata.uid
        assert asked.reads == []

    managed(kubeconfig, watching_maps, test)


def test_after_a_deletion_of_many_nothing_is_read_that_was_deleted(kubeconfig):
    async def test(client, cached, asked):
        for number in range(20):
            await cached.create(config(f"n{number}"))
        await cached.delete_all(ConfigMap, labels=LABEL)
        assert list(await cached.list(ConfigMap, labels=LABEL)) == []
        assert list(await cached.list(ConfigMap, namespace=ALL_NAMESPACES, labels=LABEL)) == []
        assert await cached.find(ConfigMap, "n3") is None
        await cached.create(config("n3"))
        assert (await cached.get(ConfigMap, "n3")).metadata.name == "n3"

    managed(kubeconfig, watching_maps, test)


def test_a_dry_run_is_not_taken_for_a_write(kubeconfig):
    async def test(client, cached, asked):
        await cached.create(config("a", x="1"))
        await cached.create(config("b"), dry_run=True)
        await cached.patch(ConfigMap, {"data": {"x": "2"}}, name="a", dry_run=True)
        dry = cached.as_dry_run()
        await dry.patch(ConfigMap, {"data": {"x": "3"}}, name="a")
        await dry.delete(ConfigMap, "a")
        await dry.delete_all(ConfigMap)
        assert [one.data for one in await cached.list(ConfigMap, labels=LABEL)] == [{"x": "1"}]
        assert (await client.get(ConfigMap, "a")).data == {"x": "1"}
        await dry.resource(ConfigMap).delete("a")
        assert (await client.get(ConfigMap, "a")).data == {"x": "1"}
        with pytest.raises(ValueError, match="of a dry-run client"):
            await dry.sub(ConfigMap, "status")

    managed(kubeconfig, watching_maps, test)


def test_the_client_of_one_kind_reads_from_memory_and_sees_its_own_writes(kubeconfig):
    async def test(client, cached, asked):
        maps = cached.resource(ConfigMap)
        await maps.create(config("a", x="1"))
        assert (await maps.patch("a", {"data": {"x": "2"}})).data == {"x": "2"}
        assert (await maps.get("a")).data == {"x": "2"}
        assert [one.data for one in await maps.list(labels=LABEL)] == [{"x": "2"}]
        await maps.delete("a")
        assert await maps.find("a") is None
        assert asked.reads == []

    managed(kubeconfig, watching_maps, test)


def test_writes_of_a_client_with_another_field_manager_are_seen_and_are_its_own(kubeconfig):
    async def test(client, cached, asked):
        await cached.with_field_manager("other").create(config("a"))
        found = await cached.get(ConfigMap, "a")
        assert [one.manager for one in found.metadata.managed_fields] == ["other"]
        assert asked.reads == []

    managed(kubeconfig, watching_maps, test)


def test_objects_are_found_by_index_and_by_indexed_field_own_writes_included(kubeconfig):
    def prepare(manager):
        manager.index(ConfigMap, "color", lambda one: [one.data["color"]] if one.data else [])
        manager.index(ConfigMap, "data.size")

    async def test(client, cached, asked):
        def names(listed):
            return [one.metadata.name for one in listed]

        for name, color in {"a": "red", "b": "blue", "c": "red"}.items():
            await cached.create(config(name, color=color, size="1"))
        await cached.create(config("d", THERE, color="red", size="2"))
        assert names(await cached.list(ConfigMap, index={"color": "red"})) == ["a", "c"]
        await cached.patch(ConfigMap, {"data": {"color": "blue"}}, name="a")
        assert names(await cached.list(ConfigMap, index={"color": "red"})) == ["c"]
        assert names(await cached.list(ConfigMap, namespace=ALL_NAMESPACES, index={"color": "red"})) == ["c", "d"]
        assert names(await cached.list(ConfigMap, fields={"data.size": "1"}, index={"color": "blue"})) == ["a", "b"]
        assert names(await cached.list(ConfigMap, fields="data.size=1,data.size=2")) == []
        assert asked.reads == []
        with pytest.raises(KeyError, match="there is no index 'shape'"):
            await cached.list(ConfigMap, index={"shape": "round"})
        with pytest.raises(ValueError, match="Secret is not in a cache"):
            await cached.list(Secret, index={"color": "red"})
        # A field without an index is the server's to know.
        assert names(await cached.list(ConfigMap, fields="metadata.name=c")) == ["c"]
        assert len(asked.reads) == 1

    managed(kubeconfig, prepare, test)


def test_what_is_not_watched_or_asked_for_at_a_revision_is_read_from_the_server(kubeconfig):
    async def test(client, cached, asked):
        made = await cached.create(config("a"))
        assert (await cached.get(ConfigMap, "a", resource_version=made.metadata.resource_version)).metadata.name == "a"
        await cached.list(Pod)
        assert len(asked.reads) == 2

    managed(kubeconfig, watching_maps, test)
