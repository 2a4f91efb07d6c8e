"""Definitions that change while their objects are used: who is disturbed, what is seen, and what is never stored."""

import asyncio

import pytest

from api_client import APPLY, JSON_PATCH, SlowStorage, served
from custom_kinds import (
    GROUP,
    INTEGER,
    STRING,
    WIDGET_CRD,
    WIDGETS,
    defined,
    definition,
    record,
    redefined,
    version,
    widget,
)

W = f"{WIDGETS}/w"
V2 = f"/apis/{GROUP}/v2/namespaces/default/widgets"
NAME = "widgets.example.com"
TRY_AGAIN = "the definition of widgets.example.com changed while the request was handled; try again"


def schema_of(spec, index=0):
    """The schema of the spec of objects, in the spec of a definition."""
    return spec["versions"][index]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def with_property(name, schema, index=0):
    def change(spec):
        schema_of(spec, index)["properties"][name] = schema

    return change


def two_versions():
    return definition(versions=[version("v1", storage=True), version("v2", record(size=INTEGER, other=STRING))])


# -- watchers ---------------------------------------------------------------------------------------------------------


@served
async def test_a_schema_change_ends_watches_of_its_version_and_no_event_is_missed(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget("a"))
    watch = await api.watch(WIDGETS)
    last = (await watch.next())["object"]["metadata"]["resourceVersion"]
    await api.made(WIDGETS, widget("b"))
    last = (await watch.next())["object"]["metadata"]["resourceVersion"]
    await redefined(api, NAME, with_property("new", {"type": "string", "default": "n"}))
    assert await watch.rest() == []
    await api.made(WIDGETS, widget("c", {}))
    await api.delete(f"{WIDGETS}/a")
    again = await api.watch(WIDGETS, resourceVersion=last)
    events = await again.take(2)
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in events] == [("ADDED", "c"), ("DELETED", "a")]
    assert events[0]["object"]["spec"] == {"colour": "red", "new": "n"}


@served
async def test_a_schema_change_keeps_watches_of_other_versions(api):
    await defined(api, two_versions())
    first = await api.watch(WIDGETS, resourceVersion=api.revision)
    second = await api.watch(V2, resourceVersion=api.revision)
    await redefined(api, NAME, with_property("new", STRING, index=1))
    assert await second.rest() == []
    await api.made(WIDGETS, widget())
    assert await first.brief(1) == [("ADDED", "w")]


@served
async def test_a_schema_change_of_the_stored_version_ends_all_watches(api):
    await defined(api, two_versions())
    watches = [await api.watch(path, resourceVersion=api.revision) for path in (WIDGETS, V2)]
    await redefined(api, NAME, with_property("new", STRING))
    assert [await watch.rest() for watch in watches] == [[], []]


@pytest.mark.parametrize(
    "change",
    [
        lambda crd: crd["metadata"].setdefault("labels", {}).update(a="b"),
        lambda crd: crd["metadata"].setdefault("annotations", {}).update(a="b"),
    ],
    ids=["labels", "annotations"],
)
@served
async def test_a_change_outside_the_versions_ends_no_watch(api, change):
    await defined(api, definition())
    watch = await api.watch(WIDGETS, resourceVersion=api.revision)
    resource = api.catalog.find(GROUP, "v1", "widgets")
    crd = (await api.get(WIDGET_CRD)).json
    change(crd)
    assert (await api.put(WIDGET_CRD, crd)).status == 200
    assert api.catalog.find(GROUP, "v1", "widgets") is resource
    await api.made(WIDGETS, widget())
    assert await watch.brief(1) == [("ADDED", "w")]


@served
async def test_a_schema_change_keeps_watches_of_other_kinds(api):
    await defined(api, definition(), definition("Gadget"))
    gadgets = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
    watch = await api.watch(gadgets, resourceVersion=api.revision)
    await redefined(api, NAME, with_property("new", STRING))
    await api.made(gadgets, widget(kind="Gadget"))
    assert await watch.brief(1) == [("ADDED", "w")]


# -- objects that were there ------------------------------------------------------------------------------------------


@served
async def test_new_defaults_show_in_existing_objects(api):
    await defined(api, definition())
    before = await api.made(WIDGETS, widget(spec={"size": 1}))
    then = api.revision
    await redefined(api, NAME, with_property("new", {"type": "string", "default": "n"}))
    spec = {"size": 1, "colour": "red", "new": "n"}
    one = await api.get(W)
    assert one["spec"] == spec
    assert one.version == before["metadata"]["resourceVersion"]
    assert one.metadata["generation"] == 1
    assert (await api.get(WIDGETS))["items"] == [one.json]
    past = await api.get(WIDGETS, resourceVersion=then, resourceVersionMatch="Exact")
    assert past["items"][0]["spec"] == spec
    watch = await api.watch(WIDGETS)
    assert (await watch.next())["object"] == one.json
    await api.delete(W)
    gone = await watch.next()
    assert (gone["type"], gone["object"]["spec"]) == ("DELETED", spec)


@served
async def test_fields_removed_from_the_schema_are_not_returned(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget(spec={"size": 1, "tags": ["a"]}))
    await redefined(api, NAME, lambda spec: schema_of(spec)["properties"].pop("tags"))
    assert (await api.get(W))["spec"] == {"size": 1, "colour": "red"}
    assert (await api.get(WIDGETS))["items"][0]["spec"] == {"size": 1, "colour": "red"}
    # They are still stored: a schema that knows them again shows them again, until the object is written.
    await redefined(api, NAME, with_property("tags", {"type": "array", "items": STRING}))
    assert (await api.get(W))["spec"]["tags"] == ["a"]
    await redefined(api, NAME, lambda spec: schema_of(spec)["properties"].pop("tags"))
    await api.patch(W, {"metadata": {"labels": {"a": "b"}}})
    await redefined(api, NAME, with_property("tags", {"type": "array", "items": STRING}))
    assert "tags" not in (await api.get(W))["spec"]


@served
async def test_writing_an_object_back_stores_it_by_the_new_schema(api):
    await defined(api, definition())
    first = await api.made(WIDGETS, widget(spec={"size": 1}))
    await redefined(api, NAME, with_property("new", {"type": "string", "default": "n"}))
    current = (await api.get(W)).json
    answer = await api.put(W, current)
    assert int(answer.version) > int(first["metadata"]["resourceVersion"])
    assert answer.metadata["generation"] == 1
    await redefined(api, NAME, with_property("new", STRING))
    assert (await api.get(W))["spec"]["new"] == "n"
    # Now it is stored as it would be today, and writing it back is nothing.
    assert (await api.put(W, (await api.get(W)).json)).version == answer.version


@served
async def test_selectors_use_the_new_schema(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget("old", {"size": 1}))

    def change(spec):
        schema_of(spec)["properties"]["zone"] = {"type": "string", "default": "here"}
        spec["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.zone"}]

    await redefined(api, NAME, change)
    await api.made(WIDGETS, widget("new", {"zone": "there"}))
    assert (await api.get(WIDGETS, fieldSelector="spec.zone=here")).names == ["old"]
    assert (await api.get(WIDGETS, fieldSelector="spec.zone!=here")).names == ["new"]


@served
async def test_selectors_use_the_new_selectable_fields(api):
    def select_by(path):
        return lambda spec: spec["versions"][0].update(selectableFields=[{"jsonPath": path}])

    await defined(api, definition())
    await redefined(api, NAME, select_by(".spec.colour"))
    await api.made(WIDGETS, widget("a", {"size": 1}))
    await api.made(WIDGETS, widget("b", {"size": 2}))
    assert (await api.get(WIDGETS, fieldSelector="spec.colour=red")).names == ["a", "b"]
    await redefined(api, NAME, select_by(".spec.size"))
    assert (await api.get(WIDGETS)).names == ["a", "b"]
    assert (await api.get(WIDGETS, fieldSelector="spec.size=2")).names == ["b"]
    assert (await api.get(WIDGETS, fieldSelector="spec.colour=red")).status == 400
    watch = await api.watch(WIDGETS, fieldSelector="spec.size=1")
    assert await watch.brief(1) == [("ADDED", "a")]
    await api.delete(f"{WIDGETS}/a")
    assert await watch.brief(1) == [("DELETED", "a")]


@served
async def test_stricter_schemas_validate_changed_values_only(api):
    await defined(api, definition())
    await api.made(WIDGETS, widget(spec={"size": 99}))
    await redefined(api, NAME, with_property("size", {"type": "integer", "maximum": 10}))
    assert (await api.get(W))["spec"]["size"] == 99
    assert (await api.patch(W, {"spec": {"colour": "blue"}})).status == 200
    assert (await api.patch(W, {"spec": {"size": 98}})).status == 422
    assert (await api.post(WIDGETS, widget("x", {"size": 99}))).status == 422


@served
async def test_a_changed_list_type_changes_the_ownership_of_the_list(api):
    await defined(api, definition(spec=record(tags={"type": "array", "items": STRING})))
    await api.patch(W, widget(spec={"tags": ["a"]}), APPLY, fieldManager="one")
    as_set = {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}
    await redefined(api, NAME, with_property("tags", as_set))
    answer = await api.patch(W, widget(spec={"tags": ["b"]}), APPLY, fieldManager="two")
    assert (answer.status, answer["spec"]["tags"]) == (200, ["a", "b"])
    await redefined(api, NAME, with_property("tags", {"type": "array", "items": STRING}))
    assert (await api.patch(W, widget(spec={"tags": ["c"]}), APPLY, fieldManager="two")).status == 409
    forced = await api.patch(W, widget(spec={"tags": ["c"]}), APPLY, fieldManager="two", force="true")
    assert forced["spec"]["tags"] == ["c"]
    assert [entry["manager"] for entry in forced.metadata["managedFields"]] == ["two"]


# -- requests that are under way --------------------------------------------------------------------------------------


async def _put(api):
    current = (await api.get(W)).json
    return await api.put(W, {**current, "spec": {"size": 50}})


WRITES = {
    "create": lambda api: api.post(WIDGETS, widget("new", {"size": 50})),
    "update": _put,
    "merge": lambda api: api.patch(W, {"spec": {"size": 50}}),
    "json": lambda api: api.patch(W, [{"op": "replace", "path": "/spec/size", "value": 50}], JSON_PATCH),
    "apply": lambda api: api.patch(W, widget(spec={"size": 50}), APPLY, fieldManager="m", force="true"),
    "scale": lambda api: api.patch(f"{W}/scale", {"spec": {"replicas": 50}}),
}


class _Admission:
    """Admission that holds requests after they were validated, until they are released."""

    def __init__(self, inner):
        self._inner = inner
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def mutate(self, operation, obj, old):
        return await self._inner.mutate(operation, obj, old)

    async def validate(self, operation, obj, old):
        if operation.resource.resource == "widgets" and not self.open.is_set():
            self.reached.set()
            await self.open.wait()
        return await self._inner.validate(operation, obj, old)


@pytest.mark.parametrize("write", WRITES)
@served
async def test_an_object_validated_by_the_old_schema_is_not_stored_after_a_change(api, write):
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    await defined(api, definition(versions=[version("v1", storage=True, subresources={"scale": scale})]))
    await api.made(WIDGETS, widget(spec={"size": 1}))
    held = api.services.admission = _Admission(api.services.admission)
    under_way = asyncio.ensure_future(WRITES[write](api))
    await held.reached.wait()
    await redefined(api, NAME, with_property("size", {"type": "integer", "maximum": 10}))
    before = api.revision
    held.open.set()
    answer = await under_way
    assert answer.error == (429, "TooManyRequests", TRY_AGAIN)
    assert answer.header("Retry-After") == "1"
    assert api.revision == before
    assert (await api.get(WIDGETS)).names == ["w"]
    assert (await api.get(W))["spec"]["size"] == 1
    # By the new rules it is refused for good.
    assert (await WRITES[write](api)).status == 422


@served
async def test_a_write_of_a_version_that_is_no_longer_served_is_not_stored(api):
    await defined(api, two_versions())
    held = api.services.admission = _Admission(api.services.admission)
    under_way = asyncio.ensure_future(api.post(V2, widget(spec={"size": 1}, api_version=f"{GROUP}/v2")))
    await held.reached.wait()
    await redefined(api, NAME, lambda spec: spec["versions"].pop())
    held.open.set()
    assert (await under_way).status == 429
    assert (await api.get(WIDGETS)).names == []


@served(storage=SlowStorage)
async def test_during_schema_changes_every_stored_object_satisfies_the_schema_of_its_revision(api):
    await defined(api, definition(spec=record(["size"], size=INTEGER)))

    async def define():
        for limit in range(1, 20):

            def change(spec, limit=limit):
                schema_of(spec)["properties"]["size"] = {"type": "integer", "minimum": limit, "maximum": limit}

            await redefined(api, NAME, change)

    async def write(number):
        kept = []
        for attempt in range(40):
            answer = await api.post(WIDGETS, widget(f"w{number}-{attempt}", {"size": attempt // 2}))
            assert answer.status in (201, 422, 429), answer
            if answer.status == 201:
                kept.append((int(answer.version), answer["spec"]["size"]))
        return kept

    watch = await api.watch(WIDGET_CRD.rpartition("/")[0], resourceVersion=api.revision)
    _, *written = await asyncio.gather(define(), *(write(number) for number in range(4)))
    changes = []
    while len(changes) < 19:
        obj = (await watch.next())["object"]
        size = schema_of(obj["spec"])["properties"]["size"]
        changes.append((int(obj["metadata"]["resourceVersion"]), size["maximum"]))
    for revision, size in [one for kept in written for one in kept]:
        before = [limit for at, limit in changes if at < revision]
        assert not before or size == before[-1], (revision, size, changes)
