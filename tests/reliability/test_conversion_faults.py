"""Conversion webhooks that hang, die, come back and stutter: who suffers from it, who does not, and what is left.

Everything is real: the webhook is a process's worth of sockets on loopback. No assertion depends on how long something takes;
what must not wait is awaited while what hangs is known to hang.
"""

import asyncio
import contextlib
import logging
import random

import pytest

from api_client import APPLY, CM, cm, serving
from converting_api import PATIENCE, wired
from kapi.registry.custom import definitioncontroller
from virtual_time import run
from webhook_server import (
    DEFINITIONS,
    NAME,
    V1,
    V1BETA1,
    Certificates,
    Gate,
    Hangup,
    Reply,
    Reset,
    converted,
    definition,
    honest,
    listener,
    path,
)

SECRET = "the-password-in-an-object"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextlib.asynccontextmanager
async def hanging(api, webhook, *works):
    """While requests wait for a webhook that does not answer; at the end it does. Yields their tasks."""
    gate = webhook.script = Gate()
    tasks = [asyncio.ensure_future(work) for work in works]
    await webhook.until_called()
    yield tasks
    assert not any(task.done() for task in tasks), "they were meant to wait all the time"
    gate.opened.set()
    webhook.script = honest
    await asyncio.wait(tasks, timeout=PATIENCE)


# -- a webhook that hangs ---------------------------------------------------------------------------------------------


@wired
async def test_a_hanging_conversion_webhook_does_not_affect_other_kinds(api, webhook):
    await api.listeners(*(f"n{index}" for index in range(40)))
    other = definition({"strategy": "None"})
    other["metadata"]["name"] = "speakers.net.example.dev"
    other["spec"]["names"] = {"plural": "speakers", "kind": "Speaker"}
    watch = await api.watch(CM)
    converting_watch = await api.watch(path(V1BETA1, namespace="default"), resourceVersion=api.revision)
    works = [api.get(path(V1BETA1, f"n{index}")) for index in range(40)] + [api.get(path(V1BETA1))]
    async with hanging(api, webhook, *works) as tasks:
        await api.made(CM, cm("a"))
        assert (await api.patch(f"{CM}/a", {"data": {"x": "y"}})).status == 200
        assert (await watch.brief(2))[-1] == ("MODIFIED", "a")
        await api.made(DEFINITIONS, other)
        speakers = path(V1).replace("listeners", "speakers")
        await api.made(speakers, {**listener("s"), "kind": "Speaker"})
        assert (await api.get(speakers.replace("v1", "v1beta1"))).names == ["s"]
    assert {task.result().status for task in tasks} == {200}
    await converting_watch.close()


@wired
async def test_a_hanging_conversion_webhook_does_not_affect_the_stored_version(api, webhook):
    await api.listeners("a", "b")
    watch = await api.watch(path(V1), resourceVersion=api.revision)
    slow_watch = await api.watch(path(V1BETA1), resourceVersion=api.revision)
    async with hanging(api, webhook, api.get(path(V1BETA1))):
        await api.listeners("c")
        assert (await api.patch(path(V1, "a"), {"spec": {"port": 2}})).status == 200
        assert (await api.delete(path(V1, "b"))).status == 200
        assert (await api.get(path(V1))).names == ["a", "c"]
        assert await watch.brief(3) == [("ADDED", "c"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert await slow_watch.brief(3) == [("ADDED", "c"), ("MODIFIED", "a"), ("DELETED", "b")]


@wired
async def test_converted_objects_are_served_while_the_webhook_hangs(api, webhook):
    await api.listeners("a")
    await api.get(path(V1BETA1))
    await api.listeners("b")
    async with hanging(api, webhook, api.get(path(V1BETA1))):
        assert (await api.get(path(V1BETA1, "a"))).status == 200


WRITES = {
    "create": lambda api, **query: api.post(path(V1BETA1), listener("new", V1BETA1), **query),
    "patch": lambda api, **query: api.patch(path(V1BETA1, "a"), {"spec": {"hostPort": "i:2"}}, **query),
    "apply": lambda api, **query: api.patch(
        path(V1BETA1, "a"),
        {"apiVersion": V1BETA1, "kind": "Listener", "metadata": {"name": "a"}, "spec": {"replicas": 2}},
        APPLY,
        fieldManager="two",
        **query,
    ),
    "delete": lambda api, **query: api.delete(path(V1BETA1, "a"), **query),
}


@pytest.mark.parametrize("verb", [*WRITES, "list"])
@wired
async def test_a_request_past_its_deadline_is_a_timeout_and_changes_nothing(api, webhook, verb):
    await api.listeners("a")
    gate = webhook.script = Gate()
    revision = api.revision
    work = WRITES.get(verb, lambda api, **query: api.get(path(V1BETA1), **query))
    answer = await work(api, timeout="50ms")
    assert answer.error[:2] == (504, "Timeout")
    gate.opened.set()
    webhook.script = honest
    await api.get(path(V1BETA1))
    assert api.revision == revision


@pytest.mark.parametrize("verb", WRITES)
@wired
async def test_a_client_that_disconnects_during_conversion_has_written_nothing(api, webhook, verb):
    await api.listeners("a")
    gate = webhook.script = Gate()
    revision = api.revision
    request = asyncio.ensure_future(WRITES[verb](api))
    await webhook.until_called()
    request.cancel()
    await asyncio.wait([request])
    gate.opened.set()
    webhook.script = honest
    assert (await api.get(path(V1BETA1))).names == ["a"]
    assert api.revision == revision


@wired(seconds=0.05)
async def test_a_webhook_that_does_not_answer_is_a_client_timeout(api, webhook):
    await api.listeners("a")
    webhook.script = Gate()
    answer = await api.get(path(V1BETA1, "a"))
    assert answer.error[:2] == (500, "")
    assert answer.message.endswith("(Client.Timeout exceeded while awaiting headers)")


@wired
async def test_shutdown_cancels_requests_that_wait_for_a_webhook(api, webhook):
    await api.listeners("a")
    watch = await api.watch(path(V1BETA1), resourceVersion=api.revision)
    webhook.script = Gate()
    request = asyncio.ensure_future(api.get(path(V1BETA1)))
    await api.listeners("b")
    await webhook.until_called()
    await api.stop()
    assert (await asyncio.wait_for(request, PATIENCE)).error[:2] == (500, "")
    assert await watch.rest(within=PATIENCE) == []


# -- ownership, which asks from inside --------------------------------------------------------------------------------


def applied(api, name, api_version, manager, spec):
    obj = {"apiVersion": api_version, "kind": "Listener", "metadata": {"name": name}, "spec": spec}
    return api.patch(path(api_version, name), obj, APPLY, fieldManager=manager)


@pytest.mark.parametrize("script", [honest, lambda call: Reply(b"", 500)], ids=["honest", "failing"])
@wired
async def test_many_writers_at_once_whose_ownership_is_converted_do_not_block_each_other(api, webhook, script):
    names = [f"n{index}" for index in range(60)]
    for name in names:
        await applied(api, name, V1, "one", {"host": "h", "port": 1})
    await api.get(path(V1BETA1))
    webhook.script = script
    answers = await asyncio.wait_for(
        asyncio.gather(*(applied(api, name, V1BETA1, "two", {"replicas": 2}) for name in names)), PATIENCE
    )
    assert {answer.status for answer in answers} == {200 if script is honest else 500}
    assert (await api.get(path(V1, "n0")))["spec"].get("replicas") == (2 if script is honest else None)


# -- a webhook that dies and comes back -----------------------------------------------------------------------------------


@wired
async def test_a_restarted_webhook_is_called_again(api, webhook):
    await api.listeners("a", "b")
    assert (await api.get(path(V1BETA1, "a"))).status == 200
    await webhook.stop()
    await webhook.start()
    assert (await api.get(path(V1BETA1, "b"))).status == 200


@wired
async def test_an_unavailable_webhook_is_reported_and_used_once_it_is_back(api, webhook):
    await api.listeners("a")
    await webhook.stop()
    answer = await api.get(path(V1BETA1, "a"))
    assert answer.message.endswith(f"dial tcp 127.0.0.1:{webhook.port}: connect: connection refused")
    await webhook.start()
    assert (await api.get(path(V1BETA1, "a"))).status == 200


async def reason_of(watch, wanted):
    """Watch a definition until a condition explains why it still exists; return its message, or None once it is deleted."""
    while (event := await watch.next(within=PATIENCE)) is not None:
        if event["type"] == "DELETED":
            return None
        for condition in event["object"]["status"]["conditions"]:
            if condition["type"] == "Terminating" and condition["reason"] == wanted:
                return condition["message"]
    raise AssertionError("the watch ended")


@wired
async def test_instances_of_a_deleted_definition_are_deleted_once_its_webhook_is_back(api, webhook, monkeypatch):
    monkeypatch.setattr(definitioncontroller, "FIRST_BACKOFF", 0.01)
    monkeypatch.setattr(definitioncontroller, "MAX_BACKOFF", 0.01)
    await api.listeners("a", "b")
    await api.store_in("v1beta1")
    await webhook.stop()
    watch = await api.watch(DEFINITIONS, fieldSelector=f"metadata.name={NAME}")
    assert (await api.delete(f"{DEFINITIONS}/{NAME}")).status == 200
    message = await reason_of(watch, "InstanceDeletionFailed")
    assert f"conversion webhook for {V1}, Kind=Listener failed: Post" in message
    assert (await api.get(path(V1))).names == ["a", "b"]
    await webhook.start()
    assert await reason_of(watch, "never") is None
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).status == 404


@wired
async def test_a_definition_with_objects_in_its_stored_version_is_deleted_without_its_webhook(api, webhook):
    await api.listeners("a", "b")
    await webhook.stop()
    watch = await api.watch(DEFINITIONS, fieldSelector=f"metadata.name={NAME}")
    await api.delete(f"{DEFINITIONS}/{NAME}")
    assert await reason_of(watch, "never") is None
    await webhook.start()
    assert webhook.calls == []


# -- a webhook that stutters ------------------------------------------------------------------------------------------


class Stuttering:
    """Honest most of the time."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def __call__(self, call):
        what = self._random.random()
        if what < 0.1:
            raise Reset
        if what < 0.2:
            raise Hangup
        if what < 0.3:
            return Reply(b"boom", 500, content_type="text/plain")
        return honest(call)


async def observed(api, since, until):
    """Everything a version's watcher sees between two revisions, over as many watches as it takes."""
    events = []
    while since < until:
        watch = await api.watch(path(V1BETA1), resourceVersion=since)
        while since < until and (event := await watch.next(within=PATIENCE)) is not None:
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 500
                break
            events.append(event)
            since = int(event["object"]["metadata"]["resourceVersion"])
        await watch.close()
    return events


@pytest.mark.parametrize("seed", range(3))
@wired
async def test_no_event_is_lost_repeated_or_changed_by_an_unreliable_webhook(api, webhook, seed):
    chance = random.Random(seed)
    since = api.revision
    stored = await api.watch(path(V1), resourceVersion=since)
    webhook.script = Stuttering(seed)
    acknowledged = 0
    for number in range(60):
        api_version, name = chance.choice((V1, V1BETA1)), chance.choice("abc")
        obj = listener(name, api_version, port=number)
        kind = chance.choice(("create", "patch", "delete"))
        before = api.revision
        if kind == "create":
            answer = await api.post(path(api_version), obj)
        elif kind == "patch":
            answer = await api.patch(path(api_version, name), {"spec": obj["spec"]})
        else:
            answer = await api.delete(path(api_version, name))
        changed = api.revision - before
        assert changed == (answer.status < 300), answer
        acknowledged += changed
    seen = await observed(api, since, api.revision)
    truth = await stored.take(acknowledged, within=PATIENCE)
    expected = [{"type": event["type"], "object": converted(event["object"], V1BETA1)} for event in truth]
    assert seen == expected


# -- bookmarks, in virtual time -------------------------------------------------------------------------------------------


class WaitingConverter:
    """Converts once it may."""

    def __init__(self):
        self.may = asyncio.Event()

    async def convert(self, objects, api_version):
        await self.may.wait()
        return [converted(obj, api_version) for obj in objects]


def test_a_bookmark_does_not_overtake_events_that_wait_for_a_webhook():
    async def main():
        converter = WaitingConverter()
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}}
        async with serving(converter_for=lambda name, conversion: converter) as api:
            await api.made(DEFINITIONS, definition({"strategy": "Webhook", "webhook": webhook}))
            watch = await api.watch(path(V1BETA1), allowWatchBookmarks="true", resourceVersion=api.revision)
            await api.made(path(V1), listener("a"))
            assert await watch.is_quiet(600)
            converter.may.set()
            assert await watch.brief(1) == [("ADDED", "a")]
            bookmark = await watch.next(within=120)
            assert bookmark["type"] == "BOOKMARK"
            assert int(bookmark["object"]["metadata"]["resourceVersion"]) == api.revision

    run(main())


# -- secrets ----------------------------------------------------------------------------------------------------------


def echoing_nothing(call):
    """An answer that is wrong in a way one would like to show the object for."""
    objects = [{key: value for key, value in obj.items() if key != "kind"} for obj in call.objects]
    response = {"uid": call.review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    return Reply({"apiVersion": call.review["apiVersion"], "kind": "ConversionReview", "response": response})


def hangs_up(call):
    raise Hangup


@pytest.mark.parametrize("script", [honest, echoing_nothing, hangs_up])
@wired
async def test_contents_of_objects_and_ca_bundles_are_not_logged(api, webhook, caplog, capfd, monkeypatch, script):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(definitioncontroller, "FIRST_BACKOFF", 0.01)
    await api.listeners("a", "b", host=SECRET)
    await api.store_in("v1beta1")
    webhook.script = script
    answers = [await api.get(path(V1BETA1, "a")), await api.patch(path(V1BETA1, "a"), {"spec": {"hostPort": "h:1"}})]
    watch = await api.watch(DEFINITIONS, fieldSelector=f"metadata.name={NAME}")
    await api.delete(f"{DEFINITIONS}/{NAME}")
    if script is not honest:
        await reason_of(watch, "InstanceDeletionFailed")
    webhook.script = honest
    await reason_of(watch, "never")
    out = capfd.readouterr()
    bundle = webhook.certificates.bundle
    texts = [caplog.text, out.out, out.err, *(answer.text for answer in answers if answer.status >= 300)]
    assert not any(secret in text for secret in (SECRET, bundle[:60]) for text in texts)
