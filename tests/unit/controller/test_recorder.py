"""Events as a server stores them: written once, counted afterwards, never in the way."""

import asyncio
import contextvars
import json

import structlog

from api_client import CM, Api
from kapi.api.errors import ServiceUnavailable
from kapi.client.errors import error_from_status
from kapi.controller.recorder import BURST, WAITING, EventRecorder
from virtual_time import run

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class Events:
    """The events of a namespace of a server in this process, over a line that can be cut."""

    def __init__(self, api):
        self.api, self.cut, self.asked = api, False, 0
        self.path = EVENTS

    def __call__(self, namespace):
        self.path = EVENTS.replace("default", namespace)
        return self

    async def _ask(self, method, path, body, headers=None):
        self.asked += 1
        if self.cut:
            raise ServiceUnavailable("the line is cut")
        answer = await self.api.request(method, path, body, headers=headers)
        if answer.status >= 300:
            raise error_from_status(answer.json)
        return json.loads(answer.raw)

    async def create(self, obj):
        return await self._ask("POST", self.path, obj)

    async def patch(self, name, patch):
        return await self._ask(
            "PATCH", f"{self.path}/{name}", patch, headers={"content-type": "application/merge-patch+json"}
        )


def recorded(test):
    """Run a test with a server, a recorder and an object to talk about, in virtual time."""

    def wrapper():
        async def main():
            api = Api()
            await api.start()
            try:
                subject = await api.made(CM, {"metadata": {"name": "it"}})
                events = Events(api)
                recorder = EventRecorder(events, "example.com/controller", "host-1", clock=api.clock)
                await test(api, events, recorder, subject)
            finally:
                await api.stop()

        run(main())

    wrapper.__name__ = test.__name__
    return wrapper


async def stored(api):
    return (await api.get(EVENTS)).json["items"]


@recorded
async def test_an_event_names_its_controller_reason_and_object(api, events, recorder, subject):
    async with recorder:
        recorder.normal(subject, "Created", "made a network", action="Create")
    (event,) = await stored(api)
    assert event["reason"] == "Created"
    assert event["action"] == "Create"
    assert event["note"] == "made a network"
    assert event["type"] == "Normal"
    assert event["reportingController"] == "example.com/controller"
    assert event["reportingInstance"] == "host-1"
    assert event["regarding"]["kind"] == "ConfigMap"
    assert event["regarding"]["name"] == "it"
    assert event["regarding"]["uid"] == subject["metadata"]["uid"]
    assert "series" not in event


@recorded
async def test_what_happens_again_is_counted_in_one_event(api, events, recorder, subject):
    async with recorder:
        for _ in range(5):
            recorder.warning(subject, "Failed", "no answer")
            await asyncio.sleep(1)
    (event,) = await stored(api)
    assert event["series"]["count"] == 5


@recorded
async def test_two_recorders_speak_of_an_object_at_the_same_instant(api, events, recorder, subject):
    other = EventRecorder(events, "example.com/other", "host-1", clock=api.clock)
    async with recorder, other:
        recorder.normal(subject, "Ready", "one")
        other.normal(subject, "Ready", "two")
    assert sorted(item["note"] for item in (await api.get(EVENTS))["items"]) == ["one", "two"]


@recorded
async def test_after_a_long_silence_a_new_event_begins(api, events, recorder, subject):
    async with recorder:
        recorder.warning(subject, "Failed", "no answer")
        await asyncio.sleep(1000)
        recorder.warning(subject, "Failed", "no answer")
    assert len(await stored(api)) == 2


@recorded
async def test_an_event_that_was_deleted_meanwhile_is_written_anew(api, events, recorder, subject):
    async with recorder:
        recorder.warning(subject, "Failed", "no answer")
        await asyncio.sleep(1)
        await api.delete(EVENTS)
        recorder.warning(subject, "Failed", "no answer")
    (event,) = await stored(api)
    assert event["reason"] == "Failed"


@recorded
async def test_an_object_that_is_talked_about_too_much_is_talked_about_less(api, events, recorder, subject):
    async with recorder:
        for number in range(10 * BURST):
            recorder.normal(subject, "Noise", f"number {number}")
        assert recorder._queue.qsize() <= BURST
        await asyncio.sleep(3000)
        for number in range(10 * BURST):
            recorder.normal(subject, "Noise", f"later number {number}")
    notes = [event["note"] for event in await stored(api)]
    assert len([note for note in notes if note.startswith("number")]) == BURST
    assert 10 <= len([note for note in notes if note.startswith("later")]) <= 11


@recorded
async def test_a_server_that_is_away_costs_events_and_nothing_else(api, events, recorder, subject):
    events.cut = True
    async with recorder:
        recorder.normal(subject, "Lost", "dropped")
        await asyncio.sleep(1)
        events.cut = False
        recorder.normal(subject, "Heard", "recorded")
    assert [event["reason"] for event in await stored(api)] == ["Heard"]


@recorded
async def test_what_waits_is_bounded(api, events, recorder, subject):
    for number in range(3 * WAITING):
        recorder.normal({**subject, "metadata": {**subject["metadata"], "uid": f"u{number}"}}, "Noise", "much of it")
    assert recorder._queue.qsize() == WAITING


@recorded
async def test_long_texts_are_cut_to_what_a_server_takes(api, events, recorder, subject):
    async with recorder:
        recorder.normal(subject, "R" * 500, "n" * 5000)
    (event,) = await stored(api)
    assert len(event["note"]) == 1024
    assert event["note"].endswith("...")
    assert len(event["reason"]) == 128


def test_events_about_objects_without_a_namespace_go_to_the_default_one():
    async def main():
        api = Api()
        await api.start()
        node = await api.made("/api/v1/nodes", {"metadata": {"name": "n"}})
        async with EventRecorder(Events(api), "example.com/c", clock=api.clock) as recorder:
            recorder.normal(node, "Seen", "a node")
        assert [event["regarding"]["name"] for event in await stored(api)] == ["n"]
        await api.stop()

    run(main())


@recorded
async def test_a_recorder_starts_with_its_first_event(api, events, recorder, subject):
    recorder.normal(subject, "Created", "in a reconcile")
    await asyncio.sleep(1)
    assert [event["reason"] for event in await stored(api)] == ["Created"]
    await recorder.close()


def test_events_recorded_before_there_is_an_event_loop_are_sent_when_the_recorder_is_closed():
    recorder = EventRecorder(lambda namespace: collected, "example.com/c")
    collected = Collected()
    recorder.normal({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, "Early", "before the loop")
    asyncio.run(recorder.close())
    assert collected.reasons == ["Early"]


class Collected:
    """Events in memory."""

    def __init__(self):
        self.reasons = []

    async def create(self, obj):
        self.reasons.append(obj["reason"])
        return obj


@recorded
async def test_the_task_of_a_recorder_does_not_inherit_the_context_of_a_reconcile(api, events, recorder, subject):
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    def events_of(namespace):
        seen.append(variable.get())
        return events(namespace)

    recorder._events = events_of
    variable.set("a reconcile")
    recorder.normal(subject, "Created", "in a reconcile")
    await recorder.close()
    assert seen == ["none"]


@recorded
async def test_events_that_are_dropped_are_logged(api, events, recorder, subject):
    with structlog.testing.capture_logs() as logs:
        for number in range(BURST + 1):
            recorder.normal(subject, "Noise", f"number {number}")
        await recorder.close()
        recorder.normal(subject, "Late", "after the end")
    assert [(line["event"], line["dropped"]) for line in logs] == [
        ("events dropped: there are too many about one object", 1),
        ("events dropped: the recorder is closed", 2),
    ]
