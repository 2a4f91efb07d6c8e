"""The client of one kind calls the client's own verbs, and writes nothing of another kind."""

import asyncio
import inspect

import pytest

from kapi.api.builtin.core_v1 import ConfigMap, Namespace, Secret
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.errors import NotFound
from kapi.client import ALL_NAMESPACES, DELETED, Client, KindClient

HERE = "kind-client"
MAPS = ("v1", "ConfigMap")


def with_client(config, test):
    async def main():
        async with Client(config, namespace=HERE, field_manager="tests") as client, asyncio.timeout(60):
            if await client.find(Namespace, HERE) is None:
                await client.create(Namespace(metadata=ObjectMeta(name=HERE)))
            await test(client)

    asyncio.run(main())


def test_every_verb_of_one_kind_is_one_of_the_client():
    bound = {name for name, _ in inspect.getmembers(KindClient, inspect.isfunction) if not name.startswith("_")}
    missing = {"get_metadata", "list_metadata", "resource", "sub", "gvk_of"}
    connection = {"close", "connect", "with_field_manager", "as_dry_run"}
    whole = {name for name, _ in inspect.getmembers(Client, callable) if not name.startswith("_")}
    assert bound - {"apply_status"} == whole - missing - connection


def test_dictionaries_of_one_kind_need_not_say_what_they_are(admin):
    async def test(client):
        for target in (MAPS, "configmaps"):
            maps = client.resource(target)
            made = await maps.create({"metadata": {"name": "a"}, "data": {"x": "1"}})
            assert (made["kind"], made["metadata"]["namespace"]) == ("ConfigMap", HERE)
            made["data"] = {"x": "2"}
            assert (await maps.update(made))["data"] == {"x": "2"}
            assert (await maps.wait_for("a", lambda one: one["data"] == {"x": "2"}))["data"] == {"x": "2"}
            names = [one["metadata"]["name"] for one in await client.resource(target, ALL_NAMESPACES).list()]
            assert "a" in names
            await maps.delete("a")
            await maps.wait_for("a", DELETED)

    with_client(admin, test)


def test_objects_of_another_kind_are_refused_before_anything_is_sent(admin):
    async def test(client):
        secret = Secret(metadata=ObjectMeta(name="b"))
        with pytest.raises(TypeError, match="Secret is not ConfigMap, the kind of this client"):
            await client.resource(ConfigMap).create(secret)
        for wrong in ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}, secret):
            with pytest.raises(TypeError, match="not a dictionary of v1 ConfigMap, the kind of this client"):
                await client.resource("cm").apply(wrong)
        assert await client.find(Secret, "b") is None

    with_client(admin, test)


def test_a_subresource_that_the_kind_does_not_have_is_not_found(admin):
    async def test(client):
        maps = client.resource(ConfigMap)
        await maps.create(ConfigMap(metadata=ObjectMeta(name="c")))
        with pytest.raises(NotFound):
            await maps.scale("c", 2)
        await maps.delete_all(labels="none=such")
        assert (await maps.get("c")).metadata.name == "c"

    with_client(admin, test)
