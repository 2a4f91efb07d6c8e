"""Finalizers that are added and removed on a server, by patches that do not conflict."""

import asyncio

import pytest

from kapi import Client, NotFound, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.errors import Invalid
from kapi.controller.manager.cachedclient import CachedClient
from kapi.controller.objects.finalizer import ensure_finalizer, has_finalizer, remove_finalizer
from live_plane import live_plane

KIND = ("v1", "ConfigMap")
MINE, THEIRS = "example.com/mine", "example.com/theirs"
FORMS = pytest.mark.parametrize("kind", [ConfigMap, KIND], ids=["class", "dictionary"])


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane")) as path:
        yield path


def connected(kubeconfig, test):
    async def main():
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests", namespace="default") as client:
            await test(client)

    asyncio.run(main())


async def made(client, name, kind=ConfigMap, finalizers=()):
    await client.create(ConfigMap(metadata=ObjectMeta(name=name, finalizers=list(finalizers) or None)))
    return await client.get(kind, name)


async def finalizers(client, name):
    return (await client.get(KIND, name))["metadata"].get("finalizers", [])


@FORMS
@pytest.mark.parametrize("wrap", [lambda client: client, CachedClient], ids=["plain", "cached"])
def test_a_finalizer_is_added_once_and_removed_once(kubeconfig, kind, wrap):
    async def test(plain):
        client, obj = (
            wrap(plain),
            await made(plain, name := f"once-{kind is KIND}-{wrap is CachedClient}".lower(), kind),
        )
        assert await ensure_finalizer(client, obj, MINE) is True
        assert await ensure_finalizer(client, obj, MINE) is False
        assert await ensure_finalizer(client, obj, THEIRS) is True
        assert await finalizers(plain, name) == [MINE, THEIRS]
        assert has_finalizer(obj, MINE)
        # The object is what the server holds, so that it can be updated.
        obj = await client.update(obj)
        assert await remove_finalizer(client, obj, MINE) is True
        assert await remove_finalizer(client, obj, MINE) is False
        assert await finalizers(plain, name) == [THEIRS]
        assert await remove_finalizer(client, obj, THEIRS) is True
        assert await finalizers(plain, name) == []

    connected(kubeconfig, test)


@pytest.mark.parametrize("others", [[], [THEIRS]], ids=["first", "second"])
def test_a_stale_object_is_no_conflict_and_what_others_wrote_stays(kubeconfig, others):
    async def test(client):
        stale = await made(client, name := f"stale-{len(others)}", finalizers=others)
        await client.patch(stale, {"data": {"a": "b"}, "metadata": {"finalizers": ["example.com/new", *others]}})
        assert await ensure_finalizer(client, stale, MINE) is True
        assert await finalizers(client, name) == ["example.com/new", *others, MINE]
        assert stale.data == {"a": "b"}

    connected(kubeconfig, test)


def test_a_finalizer_that_moved_in_the_list_is_removed(kubeconfig):
    async def test(client):
        stale = await made(client, "moved", finalizers=[MINE])
        await client.patch(stale, {"metadata": {"finalizers": [THEIRS, MINE]}})
        assert await remove_finalizer(client, stale, MINE) is True
        assert await finalizers(client, "moved") == [THEIRS]

    connected(kubeconfig, test)


def test_many_writers_at_once_lose_no_finalizer(kubeconfig):
    async def test(client):
        obj = await made(client, "many")
        names = [f"example.com/f{number}" for number in range(8)]
        copies = [await client.get(ConfigMap, "many") for _ in names]
        await asyncio.gather(*(ensure_finalizer(client, one, name) for one, name in zip(copies, names, strict=True)))
        assert sorted(await finalizers(client, "many")) == names
        copies = [await client.get(ConfigMap, "many") for _ in names]
        await asyncio.gather(*(remove_finalizer(client, one, name) for one, name in zip(copies, names, strict=True)))
        assert await finalizers(client, "many") == []
        assert obj.metadata.name == "many"

    connected(kubeconfig, test)


def test_the_last_finalizer_of_a_deleted_object_lets_it_go_and_one_that_is_gone_has_none(kubeconfig):
    async def test(client):
        obj = await made(client, "ends", finalizers=[MINE])
        await client.delete(ConfigMap, "ends")
        with pytest.raises(Invalid):
            await ensure_finalizer(client, await client.get(ConfigMap, "ends"), THEIRS)
        again = await client.get(ConfigMap, "ends")
        assert await remove_finalizer(client, again, MINE) is True
        with pytest.raises(NotFound):
            await client.get(ConfigMap, "ends")
        assert await remove_finalizer(client, obj, MINE) is False
        # Another object of the same name keeps its finalizer.
        await made(client, "ends", finalizers=[MINE])
        assert await remove_finalizer(client, obj, MINE) is False
        assert await finalizers(client, "ends") == [MINE]
        with pytest.raises(NotFound):
            await ensure_finalizer(client, obj, THEIRS)

    connected(kubeconfig, test)
