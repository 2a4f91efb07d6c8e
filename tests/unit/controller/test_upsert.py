"""Create or change, against a whole control plane over real sockets: by both clients, in both forms of objects."""

import asyncio
import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi import (
    Client,
    Conflict,
    CustomResource,
    Manager,
    Model,
    NotFound,
    ObjectKey,
    ObjectMeta,
    definition,
    resource,
)
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.patch import mergepatch as patch
from kapi.controller.objects.upsert import Operation, create_or_patch, create_or_update, difference
from live_plane import live_plane

KIND = ("v1", "ConfigMap")
BOTH = pytest.mark.parametrize("upsert", [create_or_update, create_or_patch], ids=["update", "patch"])
FORMS = pytest.mark.parametrize("form", ["dictionary", "class"])


class SwitchSpec(Model):
    on: bool = False
    size: int = 1


@resource("upsert.example.com/v1")
class Switch(CustomResource, kw_only=True):
    spec: SwitchSpec = msgspec.field(default_factory=SwitchSpec)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("plane")) as path:
        yield path


def settings(form, name="settings", namespace="default"):
    if form == "class":
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}


def data(obj):
    return (obj.get("data") if isinstance(obj, dict) else obj.data) or {}


def put(obj, **fields):
    """Set fields of the data and leave the others."""
    wanted = {**data(obj), **fields}
    if isinstance(obj, dict):
        obj["data"] = wanted
    else:
        obj.data = wanted


def revision(obj):
    return obj["metadata"]["resourceVersion"] if isinstance(obj, dict) else obj.metadata.resource_version


def connected(kubeconfig, test):
    async def main():
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
            await client.delete_all(KIND, namespace="default")
            await test(client)

    asyncio.run(main())


@BOTH
@FORMS
def test_an_object_is_created_then_updated_then_left_alone(kubeconfig, upsert, form):
    async def test(client):
        obj = settings(form)
        assert await upsert(client, obj, lambda one: put(one, a="1")) is Operation.CREATED
        made = revision(obj)
        assert data(obj) == {"a": "1"}
        again = settings(form)
        assert await upsert(client, again, lambda one: put(one, a="1")) is Operation.UNCHANGED
        assert revision(again) == made
        assert await upsert(client, again, lambda one: put(one, b="2")) is Operation.UPDATED
        assert data(again) == {"a": "1", "b": "2"}
        stored = await client.get(KIND, "settings")
        assert (stored["data"], stored["metadata"]["resourceVersion"]) == (data(again), revision(again))

    connected(kubeconfig, test)


@BOTH
@FORMS
def test_what_mutate_takes_away_is_gone(kubeconfig, upsert, form):
    async def test(client):
        await client.create({**settings("dictionary"), "data": {"a": "1", "b": "2"}})

        def mutate(one):
            data(one).pop("a")

        assert await upsert(client, settings(form), mutate) is Operation.UPDATED
        assert (await client.get(KIND, "settings"))["data"] == {"b": "2"}

    connected(kubeconfig, test)


@BOTH
def test_mutate_may_wait(kubeconfig, upsert):
    async def test(client):
        async def mutate(one):
            await client.list(KIND, namespace="default")
            put(one, a="1")

        assert await upsert(client, settings("class"), mutate) is Operation.CREATED
        assert await upsert(client, settings("class"), mutate) is Operation.UNCHANGED

    connected(kubeconfig, test)


@BOTH
@FORMS
def test_an_object_without_a_namespace_is_in_the_clients(kubeconfig, upsert, form):
    async def test(client):
        for expected in (Operation.CREATED, Operation.UNCHANGED):
            assert await upsert(client, settings(form, namespace=None), lambda one: put(one, a="1")) is expected
        assert (await client.get(KIND, "settings", namespace="default"))["data"] == {"a": "1"}

    connected(kubeconfig, test)


@BOTH
def test_one_that_another_creates_meanwhile_is_updated(kubeconfig, upsert):
    async def test(client):
        async def mutate(one):
            if not data(one):
                await client.create({**settings("dictionary"), "data": {"theirs": "1"}})
            put(one, ours="1")

        assert await upsert(client, settings("dictionary"), mutate) is Operation.UPDATED
        assert (await client.get(KIND, "settings"))["data"] == {"theirs": "1", "ours": "1"}

    connected(kubeconfig, test)


@BOTH
def test_one_that_another_deletes_meanwhile_is_created_again(kubeconfig, upsert):
    async def test(client):
        await client.create({**settings("dictionary"), "data": {"theirs": "1"}})

        async def mutate(one):
            if "theirs" in data(one):
                await client.delete(KIND, "settings")
            put(one, ours="1")

        assert await upsert(client, settings("class"), mutate) is Operation.CREATED
        assert (await client.get(KIND, "settings"))["data"] == {"ours": "1"}

    connected(kubeconfig, test)


def test_concurrent_updates_lose_none(kubeconfig):
    async def test(client):
        def count(one):
            put(one, count=str(int(data(one).get("count", 0)) + 1))

        async def several():
            for _ in range(5):
                await create_or_update(client, settings("class"), count, attempts=1000)

        await asyncio.gather(*(several() for _ in range(8)))
        assert (await client.get(KIND, "settings"))["data"] == {"count": "40"}

    connected(kubeconfig, test)


def test_a_patch_that_replaces_a_list_does_not_lose_what_others_added(kubeconfig):
    async def test(client):
        await client.create(settings("dictionary"))

        async def mutate(one):
            if not one["metadata"].get("finalizers"):
                await client.patch(one, {"metadata": {"finalizers": ["example.com/theirs"]}})
            one["metadata"]["finalizers"] = [*one["metadata"].get("finalizers", []), "example.com/ours"]

        obj = settings("dictionary")
        assert await create_or_patch(client, obj, mutate) is Operation.UPDATED
        try:
            assert sorted(obj["metadata"]["finalizers"]) == ["example.com/ours", "example.com/theirs"]
        finally:
            await client.patch(obj, {"metadata": {"finalizers": None}})

    connected(kubeconfig, test)


def test_a_patch_of_other_fields_does_not_conflict(kubeconfig):
    async def test(client):
        await client.create(settings("dictionary"))
        calls = 0

        async def mutate(one):
            nonlocal calls
            calls += 1
            await client.patch(KIND, {"data": {"theirs": str(calls)}}, name="settings")
            put(one, ours="1")

        obj = settings("class")
        assert await create_or_patch(client, obj, mutate) is Operation.UPDATED
        assert calls == 1
        assert data(obj) == {"theirs": "1", "ours": "1"}

    connected(kubeconfig, test)


@FORMS
def test_after_repeated_conflicts_the_error_is_raised_and_the_object_is_unchanged(kubeconfig, form):
    async def test(client):
        await client.create(settings("dictionary"))
        calls = 0

        async def mutate(one):
            nonlocal calls
            calls += 1
            await client.patch(KIND, {"data": {"theirs": str(calls)}}, name="settings")
            put(one, ours="1")

        obj = settings(form)
        given = copy.deepcopy(obj)
        with pytest.raises(Conflict):
            await create_or_update(client, obj, mutate, attempts=3)
        assert calls == 3
        assert obj == given

    connected(kubeconfig, test)


@BOTH
def test_a_namespace_that_is_not_there_is_not_tried_again(kubeconfig, upsert):
    async def test(client):
        calls = []
        with pytest.raises(NotFound, match="nowhere"):
            await upsert(client, settings("class", namespace="nowhere"), calls.append)
        assert len(calls) == 1

    connected(kubeconfig, test)


@BOTH
def test_what_mutate_raises_is_raised_and_nothing_written(kubeconfig, upsert):
    async def test(client):
        def mutate(one):
            # Its own trouble with another object, and no reason to call it again.
            raise Conflict("elsewhere")

        with pytest.raises(Conflict, match="elsewhere"):
            await upsert(client, settings("class"), mutate)
        with pytest.raises(NotFound):
            await client.get(KIND, "settings")

    connected(kubeconfig, test)


@BOTH
@FORMS
def test_another_name_and_none_are_refused(kubeconfig, upsert, form):
    async def test(client):
        def rename(one):
            if isinstance(one, dict):
                one["metadata"]["name"] = "other"
            else:
                one.metadata.name = "other"

        with pytest.raises(ValueError, match="default/other of default/settings"):
            await upsert(client, settings(form), rename)
        with pytest.raises(ValueError, match="no name"):
            await upsert(client, settings(form, name=""), rename)
        with pytest.raises(ValueError, match="one at least"):
            await upsert(client, settings(form), rename, attempts=0)

    connected(kubeconfig, test)


@BOTH
@FORMS
def test_through_a_cache_own_writes_are_seen_and_those_of_others_respected(kubeconfig, upsert, form):
    async def test(client):
        manager = Manager(client, namespace="default")
        manager.builder().for_(ConfigMap).complete(lambda request: asyncio.sleep(0))
        running = asyncio.ensure_future(manager.run(signals=False))
        await manager.informers.wait_for_sync(30)
        seen = []

        def count(one):
            seen.append(int(data(one).get("count", 0)))
            put(one, count=str(seen[-1] + 1))

        for number in range(50):
            expected = Operation.UPDATED if number else Operation.CREATED
            assert await upsert(manager.client, settings(form), count) is expected
            # Past the cache: what it holds now is outdated more often than not.
            await client.patch(KIND, {"data": {"theirs": str(number)}}, name="settings")
        assert (await client.get(KIND, "settings"))["data"] == {"count": "50", "theirs": "49"}
        assert [number for number, before in enumerate(seen) if number and before < seen[number - 1]] == []
        live = await manager.client.get(ConfigMap, ObjectKey("default", "settings"))
        assert live.data["count"] == "50"
        manager.stop()
        await running

    connected(kubeconfig, test)


LEAF = st.booleans() | st.integers(0, 3) | st.text(max_size=2) | st.lists(st.booleans() | st.integers(0, 1), max_size=2)
DOCUMENT = st.recursive(
    st.dictionaries(st.sampled_from("abc"), LEAF, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), LEAF | inner, max_size=3),
    max_leaves=6,
)


@BOTH
def test_a_change_to_the_default_of_a_class_is_written(kubeconfig, upsert):
    async def test(client):
        made = definition(Switch)
        spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        # The server has other defaults than the class.
        spec["properties"]["on"]["default"] = True
        spec["properties"]["novelty"] = {"type": "string"}
        spec.pop("default", None)
        await client.apply(made, force=True)
        head = {
            "apiVersion": "upsert.example.com/v1",
            "kind": "Switch",
            "metadata": {"name": upsert.__name__.replace("_", "-")},
        }
        await client.create({**head, "spec": {"on": True, "size": 3, "novelty": "kept"}})
        switch = Switch(metadata=ObjectMeta(name=head["metadata"]["name"], namespace="default"))

        def turn_off(found):
            found.spec.on = False
            found.spec.size = 1

        assert await upsert(client, switch, turn_off) is Operation.UPDATED
        assert await upsert(client, switch, turn_off) is Operation.UNCHANGED
        stored = await client.get(("upsert.example.com/v1", "Switch"), switch.metadata.name)
        assert stored["spec"] == {"on": False, "size": 1, "novelty": "kept"}
        # The caller's object is the one that the server holds, and can be written as it is.
        switch.metadata.labels = {"a": "b"}
        await client.update(switch)
        stored = await client.get(("upsert.example.com/v1", "Switch"), switch.metadata.name)
        assert stored["spec"] == {"on": False, "size": 1, "novelty": "kept"}

    connected(kubeconfig, test)


@given(DOCUMENT, DOCUMENT)
def test_the_difference_makes_one_document_of_another(before, after):
    merged = patch.merge(copy.deepcopy(before), difference(before, after))
    assert msgspec.json.encode(merged, order="sorted") == msgspec.json.encode(after, order="sorted")


@given(DOCUMENT)
def test_there_is_no_difference_between_equals(document):
    assert difference(document, copy.deepcopy(document)) == {}


def test_one_and_true_are_different():
    assert difference({"a": 1, "b": [1]}, {"a": True, "b": [True]}) == {"a": True, "b": [True]}
