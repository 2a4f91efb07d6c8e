"""Objects of any kind on a real server: every verb, and what each refuses."""

import asyncio
import functools
import itertools

import pytest

from kapi.api.errors import AlreadyExists, BadRequest, Conflict, Expired, NotFound
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.api.patch.mergepatch import APPLY_PATCH, JSON_PATCH, STRATEGIC_MERGE_PATCH
from kapi.client import AnswerError, ClientConfig, DynamicClient, NoMatch, RESTClient
from kapi.client.rest import METADATA, TABLE

CONFIGMAPS = GroupVersionResource("", "v1", "configmaps")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")
_number = itertools.count()


def on_server(test):
    """Run `test(maps)` with the ConfigMaps of a namespace of its own."""

    @functools.wraps(test)
    def runner(admin):
        async def main():
            async with RESTClient(admin) as rest:
                client = DynamicClient(rest)
                namespace = f"dynamic-{next(_number)}"
                await client.resource(NAMESPACES).create({"metadata": {"name": namespace}})
                async with asyncio.timeout(30):
                    await test(client.resource(CONFIGMAPS, namespace))

        asyncio.run(main())

    del runner.__wrapped__
    return runner


def cm(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@on_server
async def test_object_is_created_read_and_deleted(maps):
    made = await maps.create(cm("a", k="v"), field_manager="me")
    assert made["metadata"]["namespace"] == maps.namespace
    assert made["metadata"]["managedFields"][0]["manager"] == "me"
    assert await maps.get("a") == made
    with pytest.raises(AlreadyExists):
        await maps.create(cm("a"))
    status = await maps.delete("a")
    assert status["status"] == "Success"
    with pytest.raises(NotFound):
        await maps.get("a")


@on_server
async def test_dry_run_stores_nothing(maps):
    await maps.create(cm("a"), dry_run=True)
    with pytest.raises(NotFound):
        await maps.get("a")
    await maps.create(cm("a"))
    await maps.delete("a", dry_run=True)
    await maps.get("a")


@on_server
async def test_unknown_field_is_refused_when_asked_to(maps):
    with pytest.raises(BadRequest, match="unknown field"):
        await maps.create({**cm("a"), "datas": {}}, field_validation="Strict")


@on_server
async def test_second_replace_of_one_version_is_a_conflict(maps):
    made = await maps.create(cm("a", k="1"))
    await maps.replace({**made, "data": {"k": "2"}})
    with pytest.raises(Conflict, match="the object has been modified"):
        await maps.replace({**made, "data": {"k": "3"}})
    assert (await maps.get("a"))["data"] == {"k": "2"}


@on_server
async def test_patches_of_every_type_change_what_they_mention(maps):
    await maps.create(cm("a", k="1", l="1"))
    await maps.patch("a", {"data": {"k": "2"}})
    await maps.patch("a", [{"op": "add", "path": "/data/m", "value": "3"}], JSON_PATCH)
    after = await maps.patch("a", {"data": {"l": None}}, STRATEGIC_MERGE_PATCH)
    assert after["data"] == {"k": "2", "m": "3"}
    after = await maps.patch("a", cm("a", n="4"), APPLY_PATCH, field_manager="x", force=True)
    assert after["data"] == {"k": "2", "m": "3", "n": "4"}


@on_server
async def test_fields_of_two_appliers_are_both_kept(maps):
    await maps.apply(cm("a", k="1"), field_manager="one")
    after = await maps.apply(cm("a", l="2"), field_manager="two")
    assert after["data"] == {"k": "1", "l": "2"}
    with pytest.raises(Conflict) as raised:
        await maps.apply(cm("a", k="9"), field_manager="two")
    assert raised.value.details["causes"][0]["field"] == ".data.k"
    after = await maps.apply(cm("a", k="9"), field_manager="two", force=True)
    assert after["data"] == {"k": "9"}


@on_server
async def test_delete_of_another_object_is_a_conflict(maps):
    made = await maps.create(cm("a"))
    with pytest.raises(Conflict):
        await maps.delete("a", uid="another")
    with pytest.raises(Conflict):
        await maps.delete("a", resource_version="1")
    await maps.delete("a", uid=made["metadata"]["uid"], propagation="Background", grace_period=0)


@on_server
async def test_a_collection_is_listed_in_pages_and_deleted_at_once(maps):
    for index in range(5):
        await maps.create({**cm(f"a{index}"), "metadata": {"name": f"a{index}", "labels": {"odd": str(index % 2)}}})
    pages = [page async for page in maps.pages(limit=2)]
    assert [len(page["items"]) for page in pages] == [2, 2, 1]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert len((await maps.list(label_selector="odd=1"))["items"]) == 2
    assert len((await maps.list(field_selector="metadata.name=a3"))["items"]) == 1
    await maps.delete_collection(label_selector="odd=1")
    assert [item["metadata"]["name"] for item in (await maps.list())["items"]] == ["a0", "a2", "a4"]


@on_server
async def test_other_forms_of_an_object_can_be_asked_for(maps):
    await maps.create(cm("a", k="1"))
    assert (await maps.get("a", accept=METADATA))["kind"] == "PartialObjectMetadata"
    assert (await maps.list(accept=TABLE))["rows"][0]["cells"][:2] == ["a", 1]


@on_server
async def test_watch_sees_every_change_in_order(maps):
    start = (await maps.list())["metadata"]["resourceVersion"]
    async with maps.watch(resource_version=start) as events:
        await maps.create(cm("a", k="1"))
        await maps.patch("a", {"data": {"k": "2"}})
        await maps.delete("a")
        seen = [await anext(events) for _ in range(3)]
    assert [event.type for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[1].object["data"] == {"k": "2"}


@on_server
async def test_watch_ends_when_it_was_asked_to(maps):
    async with maps.watch(timeout_seconds=1) as events:
        assert [event async for event in events] == []


@on_server
async def test_initial_events_end_with_a_bookmark(maps):
    await maps.create(cm("a"))
    async with maps.watch(
        send_initial_events=True, allow_bookmarks=True, resource_version_match="NotOlderThan"
    ) as events:
        seen = [await anext(events) for _ in range(2)]
    assert [event.type for event in seen] == ["ADDED", "BOOKMARK"]


def test_error_event_is_raised(script):
    frame = b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","message":"too old","code":410}}\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    async def watch(answer, error):
        async with (
            script([head % len(answer) + answer]).serving() as config,
            RESTClient(config) as rest,
            DynamicClient(rest).resource(CONFIGMAPS).watch(resource_version="1") as events,
        ):
            with pytest.raises(error) as raised:
                await anext(events)
            return raised.value

    assert asyncio.run(watch(frame, Expired)).message == "too old"
    asyncio.run(watch(b"[\n", AnswerError))
    asyncio.run(watch(b'{"type":"ADDED"}\n', AnswerError))


@on_server
async def test_subresource_is_written_apart(maps):
    deployments = DynamicClient(maps.rest).resource(DEPLOYMENTS, maps.namespace)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await deployments.create({"metadata": {"name": "d"}, "spec": spec})
    scale = await deployments.get("d", subresource="scale")
    await deployments.replace({**scale, "spec": {"replicas": 3}}, subresource="scale")
    await deployments.patch("d", {"status": {"observedGeneration": 1}}, subresource="status")
    after = await deployments.get("d")
    assert (after["spec"]["replicas"], after["status"]["observedGeneration"]) == (3, 1)


def test_paths_are_built_from_escaped_parts():
    client = DynamicClient(None)
    assert client.resource(CONFIGMAPS).path() == "/api/v1/configmaps"
    assert client.resource(DEPLOYMENTS, "ns").path("d", "scale") == "/apis/apps/v1/namespaces/ns/deployments/d/scale"
    assert client.resource(CONFIGMAPS, "ns").path("a:b?c") == "/api/v1/namespaces/ns/configmaps/a%3Ab%3Fc"
    for odd in ("..", ".", "a/b", "a%2fb"):
        with pytest.raises(ValueError, match="cannot be part of a path"):
            client.resource(CONFIGMAPS, odd).path()
        with pytest.raises(ValueError, match="cannot be part of a path"):
            client.resource(CONFIGMAPS).path(odd)


def test_empty_name_never_means_the_whole_collection():
    maps = DynamicClient(RESTClient(ClientConfig("http://127.0.0.1:1"))).resource(CONFIGMAPS, "ns")
    for call in (
        maps.delete(""),
        maps.get(""),
        maps.replace({}),
        maps.patch("", {}),
        maps.apply({}, field_manager="x"),
    ):
        with pytest.raises(ValueError, match="a name is needed"):
            asyncio.run(call)


def test_resource_is_found_by_kind(admin):
    async def main():
        async with RESTClient(admin) as rest:
            client = DynamicClient(rest)
            found = await client.kind(GroupVersionKind("apps", "v1", "Deployment"), "default")
            assert (found.gvr, found.namespace) == (DEPLOYMENTS, "default")
            with pytest.raises(NoMatch):
                await client.kind(GroupVersionKind("apps", "v1", "Foo"))

    asyncio.run(main())
