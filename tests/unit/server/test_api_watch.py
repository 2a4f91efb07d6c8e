"""Watches through the whole server: initial events, event order, selectors, bookmarks, time-outs and errors."""

import asyncio

import pytest

from api_client import CM, NS, PARTIAL, PARTIAL_LIST, PODS, TABLE, cm, pod, served
from kapi.cache import watchcache
from kapi.registry.encoding import draft
from kapi.server.handlers import watch as watching
from kapi.storage.interface import Put

END = "k8s.io/initial-events-end"


def _seen(events):
    return [(event["type"], event["object"]["metadata"].get("name")) for event in events]


def _version(event):
    return int(event["object"]["metadata"]["resourceVersion"])


# -- beginning --------------------------------------------------------------------------------------------------------


@served
async def test_watch_from_a_revision_delivers_later_events(api):
    first = await api.made(CM, cm("a"))
    await api.made(CM, cm("b", data={"k": "v"}))
    watch = await api.watch(CM, resourceVersion=first["metadata"]["resourceVersion"])
    assert watch.status == 200
    assert ("Content-Type", "application/json") in watch.headers
    event = await watch.next()
    assert event == {"type": "ADDED", "object": (await api.get(f"{CM}/b")).json}
    await api.patch(f"{CM}/a", {"data": {"x": "y"}})
    await api.delete(f"{CM}/b")
    events = await watch.take(2)
    assert _seen(events) == [("MODIFIED", "a"), ("DELETED", "b")]
    assert _version(events[1]) == api.revision
    assert events[1]["object"]["data"] == {"k": "v"}


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
@served
async def test_watch_from_any_revision_begins_with_the_current_state(api, query):
    await api.made(CM, cm("b"))
    await api.made(CM, cm("a"))
    await api.patch(f"{CM}/b", {"data": {"x": "y"}})
    watch = await api.watch(CM, **query)
    events = await watch.take(2)
    assert _seen(events) == [("ADDED", "a"), ("ADDED", "b")]
    assert events[1]["object"]["data"] == {"x": "y"}
    await api.made(CM, cm("c"))
    assert await watch.brief(1) == [("ADDED", "c")]


@served
async def test_watch_is_confined_to_its_namespace(api):
    watch = await api.watch(CM)
    everywhere = await api.watch("/api/v1/configmaps")
    await api.made(f"{NS}/kube-system/configmaps", cm("x"))
    await api.made(NS, {"metadata": {"name": "default-2"}})
    await api.made(f"{NS}/default-2/configmaps", cm("y"))
    await api.made(CM, cm("z"))
    assert await watch.brief(1) == [("ADDED", "z")]
    assert await everywhere.brief(3) == [("ADDED", "x"), ("ADDED", "y"), ("ADDED", "z")]


@served
async def test_other_resources_are_not_seen(api):
    watch = await api.watch(CM)
    await api.made(PODS, pod("p"))
    assert await watch.is_quiet()


@pytest.mark.parametrize("value", ["1", "true", "yes", ""])
@served
async def test_watch_parameter_is_true_unless_0_or_false(api, value):
    reply = await api.transport.request("GET", f"{CM}?watch={value}")
    assert not isinstance(reply._source, bytes)
    await reply.aclose()
    assert (await api.get(CM, watch="0"))["kind"] == "ConfigMapList"
    assert (await api.get(CM, watch="FALSE"))["kind"] == "ConfigMapList"


@served
async def test_deprecated_watch_paths_are_served(api):
    await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    for path, names in [
        ("/api/v1/watch/configmaps", ["a", "b"]),
        ("/api/v1/watch/namespaces/default/configmaps", ["a", "b"]),
        ("/api/v1/watch/namespaces/default/configmaps/b", ["b"]),
        ("/api/v1/watch/namespaces/default/configmaps/none", []),
    ]:
        watch = await api.watch(path)
        assert await watch.brief(len(names)) == [("ADDED", name) for name in names]
        assert await watch.is_quiet()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("rest", ["", "/a"])
@served
async def test_other_methods_on_deprecated_watch_paths_are_not_allowed(api, method, rest):
    await api.made(CM, cm("a"))
    headers = {"content-type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
    path = f"/api/v1/watch/namespaces/default/configmaps{rest}"
    body = b"" if method == "DELETE" else cm("a" if rest else "b", data={"by": "accident"})
    answer = await api.request(method, path, body, headers=headers)
    assert answer.error[:2] == (405, "MethodNotAllowed"), answer
    items = (await api.get(CM))["items"]
    assert [(item["metadata"]["name"], item.get("data")) for item in items] == [("a", None)]


@served
async def test_name_of_a_deprecated_watch_path_and_selector_must_agree(api):
    answer = await api.get("/api/v1/watch/namespaces/default/configmaps/b", fieldSelector="metadata.name=a")
    assert answer.error == (400, "BadRequest", "fieldSelector metadata.name doesn't match requested name")


# -- initial events ---------------------------------------------------------------------------------------------------


@served
async def test_end_of_the_initial_events_is_a_bookmark(api):
    await api.made(CM, cm("a"))
    await api.made(PODS, pod("p"))
    watch = await api.watch(
        CM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    events = await watch.take(2)
    assert _seen(events[:1]) == [("ADDED", "a")]
    metadata = {"resourceVersion": str(api.revision), "annotations": {END: "true"}}
    assert events[1] == {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}}
    await api.made(CM, cm("b"))
    assert await watch.brief(1) == [("ADDED", "b")]


@served
async def test_empty_collection_gets_the_initial_events_bookmark(api):
    watch = await api.watch(
        CM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    assert (await watch.next())["object"]["metadata"]["annotations"] == {END: "true"}


@served
async def test_initial_events_bookmark_needs_allow_watch_bookmarks(api):
    await api.made(CM, cm("a"))
    watch = await api.watch(CM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    assert await watch.brief(1) == [("ADDED", "a")]
    assert await watch.is_quiet()


@pytest.mark.parametrize("version", ["", "0"])
@served
async def test_watch_without_send_initial_events_gets_the_bookmark(api, version):
    watch = await api.watch(CM, resourceVersion=version, allowWatchBookmarks="true")
    assert (await watch.next())["object"]["metadata"]["annotations"] == {END: "true"}


@served
async def test_watch_from_a_revision_gets_no_initial_events_bookmark(api):
    watch = await api.watch(CM, resourceVersion=api.revision, allowWatchBookmarks="true")
    assert await watch.is_quiet()


@served
async def test_initial_events_can_be_declined(api):
    await api.made(CM, cm("a"))
    watch = await api.watch(CM, sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    await api.made(CM, cm("b"))
    assert await watch.brief(1) == [("ADDED", "b")]


@served
async def test_initial_events_obey_selectors(api):
    await api.made(CM, cm("a", metadata={"labels": {"x": "1"}}))
    await api.made(CM, cm("b"))
    watch = await api.watch(CM, labelSelector="x=1", allowWatchBookmarks="true")
    assert _seen(await watch.take(2)) == [("ADDED", "a"), ("BOOKMARK", None)]


@served
async def test_initial_events_of_many_objects(api):
    count = watching.SLICE * 2 + 7
    for index in range(count):
        await api.made(CM, cm(f"c{index:05}"))
    watch = await api.watch(CM, allowWatchBookmarks="true")
    events = await watch.take(count + 1)
    assert [event["object"]["metadata"]["name"] for event in events[:-1]] == [f"c{index:05}" for index in range(count)]
    assert events[-1]["type"] == "BOOKMARK"


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            {"sendInitialEvents": "true"},
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        (
            {"continue": "x"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
    ],
)
@served
async def test_invalid_combinations_of_watch_options_are_refused(api, query, why):
    answer = await api.request("GET", CM, watch="1", **query)
    assert answer.error == (422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {why}')


@served
async def test_exact_match_is_not_for_watches(api):
    answer = await api.get(CM, watch="1", sendInitialEvents="true", resourceVersionMatch="Exact", resourceVersion="1")
    assert answer.status == 422
    assert 'Unsupported value: "Exact": supported values: "NotOlderThan"' in answer.message


@served
async def test_limit_of_a_watch_is_ignored(api):
    await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    watch = await api.watch(CM, limit=1)
    assert await watch.brief(2) == [("ADDED", "a"), ("ADDED", "b")]


# -- revisions --------------------------------------------------------------------------------------------------------


@served
async def test_too_old_revision_is_an_error_event(api):
    await api.made(CM, cm("a"))
    cache = api.catalog.store("configmaps").cache
    cache.floor = api.revision
    watch = await api.watch(CM, resourceVersion="1")
    assert watch.status == 200
    event = await watch.next()
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"too old resource version: 1 ({api.revision})",
        "reason": "Expired",
        "code": 410,
    }
    assert event == {"type": "ERROR", "object": status}
    assert await watch.next() is None


@served
async def test_oldest_revision_kept_can_be_watched_from(api):
    await api.made(CM, cm("a"))
    cache = api.catalog.store("configmaps").cache
    cache.floor = api.revision - 1
    watch = await api.watch(CM, resourceVersion=api.revision - 1)
    assert await watch.brief(1) == [("ADDED", "a")]


@served
async def test_watch_from_a_future_revision_waits_for_it(api):
    watch = await api.watch(CM, resourceVersion=api.revision + 2)
    await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    await api.made(CM, cm("c"))
    # a and b are not after the revision that was asked for.
    assert await watch.brief(1) == [("ADDED", "c")]


@served
async def test_initial_events_of_the_future_are_an_error_event(api):
    watch = await api.watch(
        CM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", resourceVersion="99999999"
    )
    assert watch.status == 200
    event = await watch.next()
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 504
    assert event["object"]["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert await watch.next() is None


@served
async def test_revision_must_be_a_number(api):
    answer = await api.get(CM, watch="1", resourceVersion="abc")
    why = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    assert answer.error == (500, "", why)


@served
async def test_every_watch_sees_the_same_order(api):
    start = api.revision
    watches = [await api.watch(CM, resourceVersion=start) for _ in range(3)]
    for index in range(20):
        await api.made(CM, cm(f"c{index}"))
        if index % 3 == 0:
            await api.delete(f"{CM}/c{index}")
    watches.append(await api.watch(CM, resourceVersion=start))
    count = 20 + 7
    runs = [[(event["type"], _version(event)) for event in await watch.take(count)] for watch in watches]
    assert all(run == runs[0] for run in runs)
    versions = [version for _, version in runs[0]]
    assert versions == sorted(set(versions))


# -- selectors --------------------------------------------------------------------------------------------------------


@served
async def test_object_that_begins_to_match_is_added(api):
    await api.made(CM, cm("a"))
    watch = await api.watch(CM, labelSelector="x=1", resourceVersion=api.revision)
    await api.patch(f"{CM}/a", {"metadata": {"labels": {"x": "1"}}})
    event = await watch.next()
    assert event["type"] == "ADDED"
    assert _version(event) == api.revision


@served
async def test_object_that_ceases_to_match_is_deleted_with_its_last_matching_state(api):
    await api.made(CM, cm("a", metadata={"labels": {"x": "1"}}, data={"k": "old"}))
    watch = await api.watch(CM, labelSelector="x=1", resourceVersion=api.revision)
    await api.patch(f"{CM}/a", {"metadata": {"labels": {"x": "2"}}, "data": {"k": "new"}})
    event = await watch.next()
    assert event["type"] == "DELETED"
    # The old content under the new revision.
    assert event["object"]["metadata"]["labels"] == {"x": "1"}
    assert event["object"]["data"] == {"k": "old"}
    assert _version(event) == api.revision


@served
async def test_object_that_never_matches_has_no_events(api):
    watch = await api.watch(CM, labelSelector="x=1")
    await api.made(CM, cm("a"))
    await api.patch(f"{CM}/a", {"data": {"k": "v"}})
    await api.delete(f"{CM}/a")
    assert await watch.is_quiet()


@served
async def test_matching_object_is_modified_and_deleted(api):
    watch = await api.watch(CM, labelSelector="x=1")
    await api.made(CM, cm("a", metadata={"labels": {"x": "1"}}))
    await api.patch(f"{CM}/a", {"data": {"k": "v"}})
    await api.delete(f"{CM}/a")
    assert await watch.brief(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@served
async def test_transitions_are_the_same_for_late_watchers(api):
    start = api.revision
    await api.made(CM, cm("a"))
    for value in ("1", "2", "1"):
        await api.patch(f"{CM}/a", {"metadata": {"labels": {"x": value}}})
    await api.delete(f"{CM}/a")
    watch = await api.watch(CM, labelSelector="x=1", resourceVersion=start)
    assert await watch.brief(4) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]


@served
async def test_field_selectors_make_transitions_too(api):
    await api.made(PODS, pod("p"))
    watch = await api.watch(PODS, fieldSelector="status.phase=Pending", resourceVersion=api.revision)
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    event = await watch.next()
    assert (event["type"], event["object"]["status"]["phase"]) == ("DELETED", "Pending")


@served
async def test_one_name_can_be_watched(api):
    watch = await api.watch(CM, fieldSelector="metadata.name=b")
    await api.made(CM, cm("a"))
    await api.made(CM, cm("b"))
    assert await watch.brief(1) == [("ADDED", "b")]


@served
async def test_recreated_object_is_deleted_and_added(api):
    await api.made(CM, cm("a"))
    watch = await api.watch(CM, resourceVersion=api.revision)
    await api.delete(f"{CM}/a")
    await api.made(CM, cm("a"))
    first, second = await watch.take(2)
    assert (first["type"], second["type"]) == ("DELETED", "ADDED")
    assert first["object"]["metadata"]["uid"] != second["object"]["metadata"]["uid"]


# -- bookmarks and the end --------------------------------------------------------------------------------------------


@served
async def test_bookmarks_come_every_minute_while_the_store_moves(api):
    watch = await api.watch(CM, resourceVersion=api.revision, allowWatchBookmarks="true")
    assert await watch.is_quiet(200)
    await api.made(PODS, pod("p"))
    event = await watch.next(within=watching.BOOKMARK_INTERVAL + 1)
    assert event["type"] == "BOOKMARK"
    assert event["object"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(api.revision)},
    }
    # Nothing new: nothing to say.
    assert await watch.is_quiet(200)


@served
async def test_bookmark_is_sent_before_the_end(api):
    watch = await api.watch(CM, resourceVersion=api.revision, allowWatchBookmarks="true", timeoutSeconds=10)
    await api.made(PODS, pod("p"))
    events = await watch.rest()
    assert [event["type"] for event in events] == ["BOOKMARK"]
    assert _version(events[0]) == api.revision


@served
async def test_no_bookmarks_unless_requested(api):
    watch = await api.watch(CM, resourceVersion=api.revision, timeoutSeconds=300)
    await api.made(PODS, pod("p"))
    assert await watch.rest() == []


@pytest.mark.parametrize("bookmarks", ["true", "false"])
@pytest.mark.parametrize("seconds", [1, 3, 61, 3600])
@served
async def test_watch_ends_when_its_time_is_up(api, seconds, bookmarks):
    started = api.clock.monotonic()
    watch = await api.watch(CM, resourceVersion=api.revision, timeoutSeconds=seconds, allowWatchBookmarks=bookmarks)
    assert await watch.rest() == []
    assert api.clock.monotonic() - started == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize("query", [{}, {"timeoutSeconds": 0}, {"timeoutSeconds": -5}])
@served
async def test_watch_ends_by_itself_after_half_an_hour_to_an_hour(api, query):
    started = api.clock.monotonic()
    await (await api.watch(CM, resourceVersion=api.revision, **query)).rest()
    assert 1800 <= api.clock.monotonic() - started <= 3600


@served
async def test_deadline_of_requests_is_not_for_watches(api):
    watch = await api.watch(CM, timeout="1s", timeoutSeconds=600)
    await asyncio.sleep(120)
    await api.made(CM, cm("a"))
    assert await watch.brief(1) == [("ADDED", "a")]


@served
async def test_closed_watch_is_removed(api):
    cache = api.catalog.store("configmaps").cache
    watch = await api.watch(CM)
    await asyncio.sleep(1)
    assert cache.watchers == 1
    await watch.close()
    assert cache.watchers == 0
    assert b'apiserver_longrunning_requests{group="",resource="configmaps",version="v1"} 0.0' in api.metrics.render()


@served
async def test_watch_that_is_not_read_costs_little_and_gets_everything_when_it_is(api):
    idle = await api.watch(CM, resourceVersion=api.revision)
    busy = await api.watch(CM, resourceVersion=api.revision)
    await asyncio.sleep(0)
    for index in range(6):
        await api.made(CM, cm(f"c{index}", data={"x": "y" * 1_000_000}))
        await api.made(CM, cm(f"d{index}", data={"x": "y"}))
        assert await busy.brief(2) == [("ADDED", f"c{index}"), ("ADDED", f"d{index}")]
    # What was written and not read, and what is charged for it.
    assert idle.reply._source.pending < 200_000
    assert 0 < api.services.memory.used < 300_000
    assert await idle.brief(12) == [("ADDED", f"{kind}{index}") for index in range(6) for kind in "cd"]
    await api.made(CM, cm("last"))
    assert await idle.brief(1) == await busy.brief(1) == [("ADDED", "last")]
    assert await idle.is_quiet()
    assert api.services.memory.used == 0


@served
async def test_writers_wait_while_too_many_changes_wait_for_their_delivery(api):
    await api.made(CM, cm("old"))
    fan_out = api.catalog.store("configmaps").cache.fan_out
    caught_up = fan_out.caught_up = asyncio.Event()
    other = await api.made(PODS, pod("other"))
    writes = [asyncio.ensure_future(one) for one in (api.made(CM, cm("new")), api.delete(f"{CM}/old"))]
    await asyncio.sleep(1)
    assert not any(write.done() for write in writes)
    assert api.revision == int(other["metadata"]["resourceVersion"])
    fan_out.caught_up = None
    caught_up.set()
    await asyncio.gather(*writes)
    assert [item["metadata"]["name"] for item in (await api.get(CM)).json["items"]] == ["new"]


@served
async def test_watch_that_is_slower_than_history_ends_with_410(api, monkeypatch):
    watch = await api.watch(CM, resourceVersion=api.revision)
    monkeypatch.setattr(watchcache, "MAX_EVENTS", 3)
    for index in range(10):
        await api.made(CM, cm(f"c{index}", data={"x": "y" * 100_000}))
    events = await watch.rest()
    assert [event["type"] for event in events] == ["ADDED", "ERROR"]
    assert events[1]["object"]["code"] == 410


@served
async def test_initial_events_are_made_as_the_client_reads(api):
    for index in range(6):
        await api.made(CM, cm(f"c{index}", data={"x": "y" * 1_000_000}))
    watch = await api.watch(CM, resourceVersion="0")
    await api.put(f"{CM}/c5", cm("c5", data={"x": "z" * 1_000_000}))
    await api.delete(f"{CM}/c4")
    assert watch.reply._source.pending < 200_000
    # The two objects that only this watch still needs.
    assert 2_000_000 < api.services.memory.used < 2_400_000
    events = await watch.take(8)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        *[("ADDED", f"c{index}") for index in range(6)],
        ("MODIFIED", "c5"),
        ("DELETED", "c4"),
    ]
    assert [event["object"]["data"]["x"][0] for event in events] == list("yyyyyyzy")
    assert await watch.is_quiet()
    assert api.services.memory.used == 0


@served
async def test_slowest_watches_are_closed_when_the_account_is_full(api):
    api.services.memory.total = 500_000
    watches = [await api.watch(CM, resourceVersion=api.revision) for _ in range(10)]
    await api.made(CM, cm("large", data={"x": "y" * 1_000_000}))
    await asyncio.sleep(1)
    assert api.services.memory.used <= 500_000
    outcomes = []
    for watch in watches:
        try:
            outcomes.append(await watch.brief(1))
        except ConnectionResetError:
            outcomes.append("closed")
    assert outcomes.count("closed") >= 5
    assert outcomes.count([("ADDED", "large")]) == 10 - outcomes.count("closed") > 0


# -- forms ------------------------------------------------------------------------------------------------------------


@served
async def test_table_watch_names_its_columns_once(api):
    await api.made(CM, cm("a", data={"k": "v"}))
    watch = await api.watch(CM, headers={"accept": TABLE}, allowWatchBookmarks="true")
    await api.made(CM, cm("b"))
    first, bookmark, second = await watch.take(3)
    assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    for event, cells in ((first, ["a", 1, "0s"]), (second, ["b", 0, "0s"])):
        assert event["type"] == "ADDED"
        assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert [row["cells"] for row in event["object"]["rows"]] == [cells]
        assert event["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert second["object"]["metadata"]["resourceVersion"] == str(api.revision)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "Table"
    assert bookmark["object"]["rows"][0]["object"]["metadata"]["annotations"] == {END: "true"}


@served
async def test_partial_watch_sends_metadata_only(api):
    made = await api.made(CM, cm("a", data={"k": "v"}))
    watch = await api.watch(CM, headers={"accept": PARTIAL}, allowWatchBookmarks="true")
    event, bookmark = await watch.take(2)
    obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    assert event == {"type": "ADDED", "object": obj}
    assert bookmark["object"]["kind"] == "PartialObjectMetadata"
    await api.delete(f"{CM}/a")
    event = await watch.next()
    assert (event["type"], _version(event)) == ("DELETED", api.revision)


@served
async def test_error_events_stay_statuses(api):
    await api.made(CM, cm("a"))
    api.catalog.store("configmaps").cache.floor = api.revision
    watch = await api.watch(CM, resourceVersion="1", headers={"accept": TABLE})
    assert (await watch.next())["object"]["kind"] == "Status"


@pytest.mark.parametrize("accept", ["application/yaml", PARTIAL_LIST, "text/html"])
@served
async def test_forms_that_cannot_be_streamed_are_refused(api, accept):
    answer = await api.get(CM, watch="1", headers={"accept": accept})
    assert answer.status == 406
    assert "NotAcceptable" in answer.text


@served
async def test_protobuf_client_that_also_takes_json_is_served(api):
    accept = "application/vnd.kubernetes.protobuf;stream=watch,application/json;stream=watch,application/json"
    watch = await api.watch(CM, headers={"accept": accept})
    await api.made(CM, cm("a"))
    assert await watch.brief(1) == [("ADDED", "a")]


@served
async def test_pretty_is_not_for_watches(api):
    await api.made(CM, cm("a"))
    watch = await api.watch(CM, pretty="true", headers={"user-agent": "curl/8"})
    assert await watch.brief(1) == [("ADDED", "a")]


@served
async def test_resources_that_cannot_be_watched(api):
    answer = await api.get("/api/v1/componentstatuses", watch="1")
    assert answer.error == (405, "MethodNotAllowed", 'watch is not supported on resources of kind "componentstatuses"')
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert (await api.get(path, watch="1")).error[0] == 405


@served
async def test_deprecated_kind_is_warned_about(api):
    watch = await api.watch(f"{NS}/default/endpoints")
    assert any(name == "Warning" and "Endpoints is deprecated" in value for name, value in watch.headers)


@served
async def test_a_watch_from_the_past_does_not_divide_the_events_of_one_revision(api, monkeypatch):
    monkeypatch.setattr(watching, "SLICE", 2)
    begin = api.revision
    for first in (0, 3, 6):
        objects = [cm(f"c{number}", metadata={"namespace": "default"}) for number in range(first, first + 3)]
        await api.storage.commit(
            [Put(f"/registry/core/configmaps/default/{obj['metadata']['name']}", draft(obj), 0) for obj in objects]
        )
    watch = await api.watch(CM, resourceVersion=str(begin))
    assert await watch.brief(9) == [("ADDED", f"c{number}") for number in range(9)]
    await watch.close()
