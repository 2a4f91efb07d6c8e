"""Watching a version that a webhook converts to: everything, in order, and an end with a reason when it cannot be."""

import pytest

from api_client import TABLE
from converting_api import PATIENCE, wired
from kapi.cache import watchcache
from webhook_server import V1, V1BETA1, Certificates, Gate, Reply, honest, listener, path

ILL = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "I am ill"}
FAILED = f"conversion webhook for {V1}, Kind=Listener failed: I am ill"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def ill(call):
    return Reply(ILL, 500)


def shown(event):
    return event["type"], event["object"]["metadata"]["name"], event["object"]["spec"].get("hostPort")


async def take(watch, count):
    return [shown(await watch.next(within=PATIENCE)) for _ in range(count)]


async def ending(watch):
    """The last event of a stream, which must be an error, and its message."""
    *_, last = await watch.rest(within=PATIENCE)
    assert last["type"] == "ERROR", last
    return last["object"]["code"], last["object"]["message"]


async def now(api):
    return (await api.get(path(V1))).version


@wired
async def test_events_are_converted_and_in_order(api, webhook):
    watch = await api.watch(path(V1BETA1))
    await api.listeners("a", "b")
    await api.patch(path(V1, "a"), {"spec": {"port": 2}})
    await api.patch(path(V1BETA1, "b"), {"spec": {"hostPort": "i:3"}})
    await api.delete(path(V1, "a"))
    assert await take(watch, 5) == [
        ("ADDED", "a", "h:1"),
        ("ADDED", "b", "h:1"),
        ("MODIFIED", "a", "h:2"),
        ("MODIFIED", "b", "i:3"),
        ("DELETED", "a", "h:2"),
    ]


@wired
async def test_watch_events_equal_listed_objects(api, webhook):
    watch = await api.watch(path(V1BETA1))
    await api.listeners("a", metadata={"labels": {"x": "y"}})
    event = await watch.next(within=PATIENCE)
    assert event["object"] == (await api.get(path(V1BETA1, "a"))).json


@wired
async def test_many_writes_keep_their_order(api, webhook):
    await api.listeners("a")
    watch = await api.watch(path(V1BETA1), resourceVersion=await now(api))
    for port in range(2, 42):
        await api.patch(path(V1, "a"), {"spec": {"port": port}})
    assert await take(watch, 40) == [("MODIFIED", "a", f"h:{port}") for port in range(2, 42)]


@wired
async def test_initial_events_are_converted_in_one_review(api, webhook):
    await api.listeners("a", "b", "c")
    before = len(webhook.calls)
    watch = await api.watch(path(V1BETA1))
    assert [name for _, name, _ in await take(watch, 3)] == ["a", "b", "c"]
    assert [call.names for call in webhook.calls[before:]] == [["a", "b", "c"]]


@wired
async def test_a_watch_from_a_past_revision_gets_converted_events(api, webhook):
    since = await now(api)
    await api.listeners("a", "b")
    await api.delete(path(V1, "a"))
    watch = await api.watch(path(V1BETA1), resourceVersion=since)
    assert await take(watch, 3) == [("ADDED", "a", "h:1"), ("ADDED", "b", "h:1"), ("DELETED", "a", "h:1")]


@wired
async def test_an_event_is_converted_once_for_its_item(api, webhook):
    await api.listeners("a")
    watch = await api.watch(path(V1BETA1), resourceVersion=await now(api))
    await api.patch(path(V1, "a"), {"spec": {"port": 2}})
    await take(watch, 1)
    assert [call.names for call in webhook.calls] == [["a"]], "the former state is not needed here"
    _, calls = await api.calls(api.get(path(V1BETA1)))
    assert calls == []


@wired
async def test_events_of_other_namespaces_are_not_converted(api, webhook):
    await api.made("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    watch = await api.watch(path(V1BETA1))
    await api.listeners("far", namespace="other")
    await api.listeners("near")
    assert await take(watch, 1) == [("ADDED", "near", "h:1")]
    assert [call.names for call in webhook.calls] == [["near"]]


@wired
async def test_field_selectors_see_the_converted_object_before_and_after(api, webhook):
    await api.listeners("a", "b")
    watch = await api.watch(path(V1BETA1), fieldSelector="spec.hostPort=h:2", resourceVersion=await now(api))
    await api.patch(path(V1, "a"), {"spec": {"port": 2}})
    await api.patch(path(V1, "a"), {"spec": {"replicas": 1}})
    await api.patch(path(V1, "a"), {"spec": {"port": 3}})
    await api.patch(path(V1, "b"), {"spec": {"port": 2}})
    await api.delete(path(V1, "b"))
    events = [await watch.next(within=PATIENCE) for _ in range(5)]
    assert [shown(event) for event in events] == [
        ("ADDED", "a", "h:2"),
        ("MODIFIED", "a", "h:2"),
        ("DELETED", "a", "h:2"),
        ("ADDED", "b", "h:2"),
        ("DELETED", "b", "h:2"),
    ]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions)), "a deletion is shown with the revision it happened at"


@wired
async def test_a_deletion_shows_the_last_state_and_is_converted_once(api, webhook):
    await api.listeners("a")
    watch = await api.watch(path(V1BETA1), fieldSelector="spec.hostPort=h:1", resourceVersion=await now(api))
    before = len(webhook.calls)
    await api.delete(path(V1, "a"))
    event = await watch.next(within=PATIENCE)
    assert shown(event) == ("DELETED", "a", "h:1")
    assert event["object"]["metadata"]["resourceVersion"] == str(api.revision)
    assert [call.names for call in webhook.calls[before:]] == [["a"]]


@wired
async def test_table_rows_are_built_from_converted_objects(api, webhook):
    watch = await api.watch(path(V1BETA1), headers={"Accept": TABLE})
    await api.listeners("a")
    event = await watch.next(within=PATIENCE)
    assert event["object"]["rows"][0]["cells"][0] == "a"


# -- failures ---------------------------------------------------------------------------------------------------------


@wired
async def test_a_webhook_failure_ends_the_watch_with_an_error(api, webhook):
    watch = await api.watch(path(V1BETA1))
    await api.listeners("a")
    assert await take(watch, 1) == [("ADDED", "a", "h:1")]
    webhook.script = ill
    await api.listeners("b")
    assert await ending(watch) == (500, FAILED)


@wired
async def test_a_watch_whose_initial_events_cannot_be_converted_ends_with_an_error(api, webhook):
    await api.listeners("a")
    webhook.script = ill
    assert await ending(await api.watch(path(V1BETA1))) == (500, FAILED)


@wired
async def test_a_watch_whose_past_events_cannot_be_converted_ends_with_an_error(api, webhook):
    since = await now(api)
    await api.listeners("a")
    webhook.script = ill
    assert await ending(await api.watch(path(V1BETA1), resourceVersion=since)) == (500, FAILED)


@wired
async def test_nothing_is_sent_after_a_failure_and_a_new_watch_resumes_there(api, webhook):
    watch = await api.watch(path(V1BETA1))
    (made,) = await api.listeners("a")
    await take(watch, 1)
    webhook.script = ill
    await api.listeners("b")
    assert await ending(watch) == (500, FAILED)
    webhook.script = honest
    await api.listeners("c")
    again = await api.watch(path(V1BETA1), resourceVersion=made["metadata"]["resourceVersion"])
    assert await take(again, 2) == [("ADDED", "b", "h:1"), ("ADDED", "c", "h:1")]


@wired
async def test_a_webhook_failure_does_not_affect_watchers_of_the_stored_version(api, webhook):
    stored, other = await api.watch(path(V1)), await api.watch(path(V1BETA1))
    webhook.script = ill
    await api.listeners("a")
    assert await ending(other) == (500, FAILED)
    await api.listeners("b")
    assert await stored.brief(2) == [("ADDED", "a"), ("ADDED", "b")]


@wired
async def test_a_change_of_the_definition_ends_the_watch(api, webhook):
    watch = await api.watch(path(V1BETA1))
    await api.store_in("v1beta1")
    assert await watch.rest(within=PATIENCE) == []


# -- waiting ----------------------------------------------------------------------------------------------------------


@wired
async def test_a_watcher_whose_events_are_dropped_while_a_webhook_converts_ends_with_410(api, webhook, monkeypatch):
    watch = await api.watch(path(V1BETA1), resourceVersion=await now(api))
    gate = webhook.script = Gate()
    await api.listeners("first")
    await webhook.until_called()
    monkeypatch.setattr(watchcache, "MAX_EVENTS", 3)
    for name in "abcde":
        await api.listeners(name)
    gate.opened.set()
    events = await watch.rest(within=PATIENCE)
    assert [event["type"] for event in events] == ["ADDED", "ERROR"]
    assert events[1]["object"]["code"] == 410
    assert (await api.get(path(V1BETA1))).names == ["a", "b", "c", "d", "e", "first"]


@wired
async def test_a_client_that_disconnects_during_conversion_leaves_no_tasks(api, webhook):
    cache = api.catalog.custom_cache(api.catalog.find("net.example.dev", "v1", "listeners").group_resource)
    watch = await api.watch(path(V1BETA1), resourceVersion=await now(api))
    webhook.script = Gate()
    await api.listeners("a")
    await webhook.until_called()
    await watch.close()
    assert cache.watchers == 0


@wired
async def test_events_keep_no_bytes_once_they_are_sent(api, webhook):
    cache = api.catalog.custom_cache(api.catalog.find("net.example.dev", "v1", "listeners").group_resource)
    since = int(await now(api))
    watch = await api.watch(path(V1BETA1), resourceVersion=since)
    await api.listeners("a", "b")
    await take(watch, 2)
    assert [event.chunks for event in cache.since(since)] == [{}, {}]


@wired
async def test_a_slow_webhook_gets_later_events_in_few_reviews(api, webhook):
    watch = await api.watch(path(V1BETA1), resourceVersion=await now(api))
    gate = webhook.script = Gate()
    await api.made(path(V1), listener("first"))
    await webhook.until_called()
    await api.listeners(*"abcdef")
    gate.opened.set()
    assert [name for _, name, _ in await take(watch, 7)] == ["first", *"abcdef"]
    assert [call.names for call in webhook.calls] == [["first"], list("abcdef")]
