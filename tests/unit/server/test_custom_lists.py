"""Reading custom objects: lists in pages and selections, tables and metadata, watches, and deletion in bulk."""

import pytest

from api_client import NS, PARTIAL, PARTIAL_LIST, TABLE, SlowStorage, served
from custom_kinds import GROUP, INTEGER, STRING, WIDGETS, defined, definition, record, version, widget

END = "k8s.io/initial-events-end"
ALL = f"/apis/{GROUP}/v1/widgets"
SELECTABLE = [{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}]


def selectable(**more):
    spec = record(colour={"type": "string", "default": "red"}, size=INTEGER, on={"type": "boolean"}, zz=STRING)
    return definition(versions=[version("v1", spec, storage=True, selectableFields=SELECTABLE, **more)])


async def filled(api, count=5, crd=None):
    await defined(api, crd or definition())
    for number in range(count):
        labels = {"odd": str(number % 2)}
        await api.made(WIDGETS, widget(f"w{number}", {"size": number}, metadata={"labels": labels}))


# -- lists ------------------------------------------------------------------------------------------------------------


@served
async def test_items_of_a_list_have_api_version_and_kind(api):
    await filled(api, 2)
    listed = await api.get(WIDGETS)
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", f"{GROUP}/v1")
    assert [item["kind"] for item in listed["items"]] == ["Widget", "Widget"]
    assert [item["apiVersion"] for item in listed["items"]] == [f"{GROUP}/v1"] * 2
    assert listed.metadata == {"resourceVersion": str(api.revision), "continue": ""}
    assert listed["items"][0] == (await api.get(f"{WIDGETS}/w0")).json


@served
async def test_a_list_has_the_list_kind_of_the_definition(api):
    await defined(api, definition(listKind="Widgets"))
    assert (await api.get(WIDGETS))["kind"] == "Widgets"


@served
async def test_pages_show_one_revision(api):
    await filled(api)
    first = await api.get(WIDGETS, limit=2)
    assert first.names == ["w0", "w1"]
    assert first.metadata["remainingItemCount"] == 3
    await api.delete(f"{WIDGETS}/w2")
    await api.patch(f"{WIDGETS}/w3", {"spec": {"size": 30}})
    second = await api.get(WIDGETS, limit=2, continue_=first.metadata["continue"])
    assert second.names == ["w2", "w3"]
    assert second["items"][1]["spec"]["size"] == 3
    assert second.version == first.version
    last = await api.get(WIDGETS, limit=2, continue_=second.metadata["continue"])
    assert last.names == ["w4"]
    assert last.metadata["continue"] == ""


@served
async def test_a_list_can_be_of_an_earlier_revision(api):
    await filled(api, 2)
    then = api.revision
    await api.delete(f"{WIDGETS}/w0")
    old = await api.get(WIDGETS, resourceVersion=then, resourceVersionMatch="Exact")
    assert old.names == ["w0", "w1"]
    assert old["items"][0]["spec"] == {"size": 0, "colour": "red"}


@served
async def test_one_namespace_or_all_can_be_listed(api):
    await filled(api, 1)
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made(f"/apis/{GROUP}/v1/namespaces/other/widgets", widget("x"))
    assert (await api.get(WIDGETS)).names == ["w0"]
    assert (await api.get(ALL)).names == ["w0", "x"]
    watch = await api.watch(ALL)
    assert await watch.brief(2) == [("ADDED", "w0"), ("ADDED", "x")]
    for method in ("POST", "DELETE"):
        assert (await api.request(method, ALL, widget("y") if method == "POST" else b"")).status == 404
    assert (await api.get(ALL)).names == ["w0", "x"]


@served
async def test_cluster_scoped_kinds_have_no_namespace(api):
    await defined(api, definition(scope="Cluster"))
    assert (await api.get(WIDGETS)).status == 404
    made = await api.post(ALL, widget(metadata={"namespace": "default"}))
    assert made.status == 201
    assert "namespace" not in made.metadata
    assert (await api.get(f"{ALL}/w")).json == made.json
    assert (await api.get(ALL, fieldSelector="metadata.namespace=x")).message == (
        "field label not supported: metadata.namespace"
    )


# -- selectors --------------------------------------------------------------------------------------------------------


@served
async def test_label_selectors_filter_lists(api):
    await filled(api)
    assert (await api.get(WIDGETS, labelSelector="odd=1")).names == ["w1", "w3"]
    assert (await api.get(WIDGETS, labelSelector="odd notin (1)", limit=2)).names == ["w0", "w2"]


SELECTIONS = [
    ("spec.colour=red", ["a", "c"]),
    ("spec.colour==blue", ["b"]),
    ("spec.colour!=red", ["b"]),
    ("spec.size=2", ["b"]),
    ("spec.size!=2", ["a", "c"]),
    ("spec.size=", ["c"]),
    ("spec.on=true", ["a"]),
    ("spec.on!=true", ["b", "c"]),
    ("spec.colour=red,spec.size=1", ["a"]),
    ("metadata.name=b", ["b"]),
    ("metadata.name!=b,spec.on=", ["c"]),
    ("metadata.namespace=default", ["a", "b", "c"]),
]


@pytest.mark.parametrize(("selector", "names"), SELECTIONS, ids=[selector for selector, _ in SELECTIONS])
@served
async def test_selectable_fields_of_the_definition_filter_lists(api, selector, names):
    await defined(api, selectable())
    await api.made(WIDGETS, widget("a", {"size": 1, "on": True}))
    await api.made(WIDGETS, widget("b", {"size": 2, "colour": "blue", "on": False}))
    await api.made(WIDGETS, widget("c", {}))
    assert (await api.get(WIDGETS, fieldSelector=selector)).names == names
    assert (await api.get(ALL, fieldSelector=selector)).names == names


@served
async def test_other_field_selectors_are_refused(api):
    await defined(api, selectable(), definition("Gadget"))
    refused = await api.get(WIDGETS, fieldSelector="spec.zz=1")
    assert refused.error == (400, "BadRequest", "field label not supported: spec.zz")
    gadgets = await api.get(f"/apis/{GROUP}/v1/namespaces/default/gadgets", fieldSelector="spec.size=1")
    assert gadgets.error == (400, "BadRequest", "field label not supported: spec.size")


@served
async def test_a_watch_with_a_selector_reports_transitions(api):
    await defined(api, selectable())
    await api.made(WIDGETS, widget("a", {"colour": "red"}))
    watch = await api.watch(WIDGETS, fieldSelector="spec.colour=red")
    reverse = await api.watch(WIDGETS, fieldSelector="spec.colour!=red")
    assert await watch.brief(1) == [("ADDED", "a")]
    await api.patch(f"{WIDGETS}/a", {"spec": {"colour": "blue"}})
    left = await watch.next()
    assert (left["type"], left["object"]["spec"]["colour"]) == ("DELETED", "red")
    assert left["object"]["metadata"]["resourceVersion"] == str(api.revision)
    entered = await reverse.next()
    assert (entered["type"], entered["object"]["spec"]["colour"]) == ("ADDED", "blue")
    await api.patch(f"{WIDGETS}/a", {"spec": {"size": 1}})
    assert await reverse.brief(1) == [("MODIFIED", "a")]
    await api.patch(f"{WIDGETS}/a", {"spec": {"colour": None}})
    assert await watch.brief(1) == [("ADDED", "a")]
    assert await reverse.brief(1) == [("DELETED", "a")]
    await api.delete(f"{WIDGETS}/a")
    assert await watch.brief(1) == [("DELETED", "a")]


# -- forms ------------------------------------------------------------------------------------------------------------

COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1, "description": "What it is for"},
]


@served
async def test_tables_have_the_columns_of_the_definition(api):
    await defined(api, definition(versions=[version("v1", storage=True, additionalPrinterColumns=COLUMNS)]))
    await api.made(WIDGETS, widget("a", {"size": 3, "tags": ["x", "y"]}))
    await api.made(WIDGETS, widget("b"))
    table = await api.get(WIDGETS, headers={"accept": TABLE})
    assert [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Tags", "string", 1),
    ]
    assert [row["cells"] for row in table["rows"]] == [["a", 3, '["x","y"]'], ["b", None, None]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = await api.get(f"{WIDGETS}/a", headers={"accept": TABLE}, includeObject="Object")
    assert whole["rows"][0]["object"] == (await api.get(f"{WIDGETS}/a")).json
    older = await api.get(WIDGETS, headers={"accept": TABLE.replace("v=v1;", "v=v1beta1;")})
    assert {row["object"]["apiVersion"] for row in older["rows"]} == {"meta.k8s.io/v1beta1"}


@served
async def test_a_table_without_columns_shows_the_age(api):
    await filled(api, 1)
    table = await api.get(WIDGETS, headers={"accept": TABLE})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["rows"][0]["cells"] == ["w0", "0s"]


@served
async def test_a_watch_can_be_of_tables(api):
    await filled(api, 1)
    watch = await api.watch(WIDGETS, headers={"accept": TABLE})
    await api.patch(f"{WIDGETS}/w0", {"spec": {"size": 4}})
    first, second = await watch.take(2)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "w0"


@served
async def test_partial_object_metadata_can_be_requested(api):
    await filled(api, 2)
    one = await api.get(f"{WIDGETS}/w0", headers={"accept": PARTIAL})
    assert one.json == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": (await api.get(f"{WIDGETS}/w0")).metadata,
    }
    many = await api.get(WIDGETS, headers={"accept": PARTIAL_LIST})
    assert many["kind"] == "PartialObjectMetadataList"
    assert many.names == ["w0", "w1"]
    watch = await api.watch(WIDGETS, headers={"accept": PARTIAL})
    event = await watch.next()
    assert event["object"] == one.json


# -- watches ----------------------------------------------------------------------------------------------------------


@served
async def test_a_watch_delivers_every_change_in_order(api):
    await defined(api, definition())
    watch = await api.watch(WIDGETS, resourceVersion=api.revision)
    await api.made(WIDGETS, widget("a"))
    await api.patch(f"{WIDGETS}/a", {"spec": {"size": 1}})
    await api.patch(f"{WIDGETS}/a/status", {"status": {"ready": True}})
    await api.delete(f"{WIDGETS}/a")
    events = await watch.take(4)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert events[2]["object"]["status"] == {"ready": True}
    assert {(event["object"]["kind"], event["object"]["apiVersion"]) for event in events} == {("Widget", f"{GROUP}/v1")}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


@served
async def test_a_watch_may_send_initial_events_and_mark_their_end(api):
    await filled(api, 2)
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = await api.watch(WIDGETS, **options)
    events = await watch.take(3)
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    mark = events[2]["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("Widget", f"{GROUP}/v1")
    assert mark["metadata"]["annotations"] == {END: "true"}
    assert mark["metadata"]["resourceVersion"] == str(api.revision)


@served
async def test_bookmarks_report_the_revision_of_an_idle_watch(api):
    await defined(api, definition(), definition("Gadget"))
    watch = await api.watch(WIDGETS, resourceVersion=api.revision, allowWatchBookmarks="true")
    await api.made(f"/apis/{GROUP}/v1/namespaces/default/gadgets", widget(kind="Gadget"))
    mark = await watch.next(within=120)
    assert (mark["type"], mark["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", str(api.revision))


@served
async def test_one_object_can_be_watched(api):
    await filled(api, 2)
    watch = await api.watch(WIDGETS, fieldSelector="metadata.name=w1", resourceVersion=api.revision)
    await api.patch(f"{WIDGETS}/w0", {"spec": {"size": 9}})
    await api.patch(f"{WIDGETS}/w1", {"spec": {"size": 9}})
    assert await watch.brief(1) == [("MODIFIED", "w1")]
    assert await watch.is_quiet()


# -- deletion ---------------------------------------------------------------------------------------------------------


@served
async def test_a_deletion_returns_the_deleted_object(api):
    await filled(api, 1)
    uid = (await api.get(f"{WIDGETS}/w0")).metadata["uid"]
    answer = await api.delete(f"{WIDGETS}/w0")
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "w0", "group": GROUP, "kind": "widgets", "uid": uid}
    assert (await api.delete(f"{WIDGETS}/w0")).error == (404, "NotFound", 'widgets.example.com "w0" not found')


@served
async def test_deletecollection_honours_selectors(api):
    await filled(api, crd=selectable())
    answer = await api.delete(WIDGETS, labelSelector="odd=1")
    assert answer["kind"] == "WidgetList"
    assert answer.names == ["w1", "w3"]
    assert (await api.delete(WIDGETS, fieldSelector="spec.size=4")).names == ["w4"]
    assert (await api.delete(WIDGETS, dryRun="All")).names == ["w0", "w2"]
    assert (await api.get(WIDGETS)).names == ["w0", "w2"]
    await api.delete(WIDGETS)
    assert (await api.get(WIDGETS)).names == []


@served(storage=SlowStorage)
async def test_propagation_policy_becomes_a_finalizer(api):
    await filled(api, 1)
    answer = await api.delete(f"{WIDGETS}/w0", {"propagationPolicy": "Foreground"})
    assert answer.metadata["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in answer.metadata
