"""Events go some time after they were last written."""

import asyncio
import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client import CM, NS, cm
from controller_api import running_controllers, with_controllers
from kapi.api.meta import format_time, parse_time
from kapi.controller.manager.manager import Manager
from kapi.controlplane.controllers import eventttl as module
from kapi.controlplane.controllers.context import ControllerContext, ControllerSettings
from kapi.controlplane.controllers.eventttl import add_event_ttl_controller, last_written
from kapi.controlplane.controllers.view import CacheView
from kapi.controlplane.loopback import loopback_client
from kapi.storage.memory import MemoryStorage
from virtual_time import EPOCH, run

EVENTS = f"{NS}/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SHORT = ControllerSettings(event_seconds=100)


def event(name, **fields):
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m", **fields}


def new_event(name):
    return {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }


@with_controllers(add_event_ttl_controller)
async def test_an_event_is_deleted_after_an_hour(api):
    await api.made(EVENTS, event("old"))
    await api.made(NEW_EVENTS, new_event("new"))
    await api.run_until_idle(3590)
    assert len(api.there("events")) == 2
    await api.run_until_idle(20)
    assert not api.there("events")


@with_controllers(add_event_ttl_controller, settings=SHORT)
async def test_every_write_restarts_the_ttl(api):
    for name in ("a", "b"):
        await api.made(EVENTS, event(name))
    for count in range(2, 6):
        await api.run_until_idle(60)
        await api.patch(f"{EVENTS}/a", {"count": count})
    assert api.there("events") == {("default", "a")}
    await api.run_until_idle(90)
    assert api.there("events")
    await api.run_until_idle(20)
    assert not api.there("events")


@with_controllers(add_event_ttl_controller, settings=SHORT)
async def test_other_objects_are_not_deleted(api):
    await api.made(CM, cm("a"))
    await api.made(EVENTS, event("a"))
    await api.run_until_idle(1000)
    assert ("default", "a") in api.there("configmaps")
    assert not api.there("events")


def test_an_event_written_just_before_its_deletion_is_kept(monkeypatch):
    original = module.EventTTLController._delete

    async def check(api):
        async def write_first(self, item):
            await api.patch(f"{EVENTS}/{item.name}", {"count": 7})
            await original(self, item)

        await api.made(EVENTS, event("a"))
        monkeypatch.setattr(module.EventTTLController, "_delete", write_first)
        await api.run_until_idle(110)
        assert api.find("events", "default", "a")["count"] == 7
        monkeypatch.setattr(module.EventTTLController, "_delete", original)
        await api.run_until_idle(110)
        assert not api.there("events")

    with_controllers(add_event_ttl_controller, settings=SHORT)(check)()


def test_the_ttl_continues_while_the_server_is_stopped():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(add_event_ttl_controller, storage=storage, settings=SHORT) as api:
            await api.made(EVENTS, event("a"))
            await api.run_until_idle(50)
            await api.made(EVENTS, event("b"))
        async with running_controllers(storage=storage) as api:
            await api.run_until_idle(30)
        async with running_controllers(add_event_ttl_controller, storage=storage, settings=SHORT) as api:
            await api.run_until_idle(5)
            assert len(api.there("events")) == 2
            await api.run_until_idle(20)
            assert api.there("events") == {("default", "b")}
            await api.run_until_idle(50)
            assert not api.there("events")

    run(main())


def test_a_time_in_the_future_counts_as_now():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            await api.made(EVENTS, event("a", lastTimestamp="2036-01-01T00:00:00Z"))
        async with running_controllers(add_event_ttl_controller, storage=storage, settings=SHORT) as api:
            await api.run_until_idle(110)
            assert not api.there("events")

    run(main())


def test_many_expired_events_are_deleted_at_once():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            for number in range(1200):
                await api.made(EVENTS, event(f"e{number}"))
            await api.run_until_idle(1000)
        async with running_controllers(add_event_ttl_controller, storage=storage, settings=SHORT) as api:
            await api.run_until_idle(1)
            assert not api.there("events")

    run(main())


def test_other_tasks_run_between_the_deletions():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(storage=storage) as api:
            for number in range(300):
                await api.made(EVENTS, event(f"e{number}"))
            await api.run_until_idle(1000)
        async with running_controllers(storage=storage) as api:
            left = []
            controller = module.EventTTLController(context_of(api, SHORT))

            async def other():
                while api.there("events"):
                    left.append(len(api.there("events")))
                    await api.get(f"{CM}/none")
                    await asyncio.sleep(0)

            await asyncio.gather(controller.reconcile(None), other())
            assert len(left) > 5

    run(main())


def context_of(api, settings):
    """A context without a running manager."""
    client = loopback_client(api.transport, agent="test")
    return ControllerContext(Manager(client, namespace="", clock=api.clock), CacheView(api.catalog), settings)


@with_controllers(add_event_ttl_controller, settings=SHORT)
async def test_an_event_with_a_finalizer_does_not_hold_up_others(api):
    await api.made(EVENTS, event("held") | {"metadata": {"name": "held", "finalizers": ["example.com/x"]}})
    for number in range(3):
        await api.made(EVENTS, event(f"e{number}"))
    await api.run_until_idle(110)
    assert api.there("events") == {("default", "held")}
    revision = api.revision
    await api.run_until_idle(1000)
    assert api.revision == revision


@with_controllers(add_event_ttl_controller)
async def test_nothing_is_written_while_nothing_expires(api):
    await api.made(EVENTS, event("a"))
    revision = api.revision
    await api.run_until_idle(3000)
    assert api.revision == revision


MOMENT = "2026-01-01T00:00:{:02}Z"


def body_of(obj):
    return msgspec.json.encode(obj)[1:]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"lastTimestamp": MOMENT.format(9)}, id="lastTimestamp"),
        pytest.param({"eventTime": "2026-01-01T00:00:09.000000Z"}, id="eventTime"),
        pytest.param({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}}, id="series"),
    ],
)
def test_the_newest_time_of_an_event_counts(fields):
    created = {"metadata": {"creationTimestamp": MOMENT.format(1)}}
    assert last_written(body_of(created)) == parse_time(MOMENT.format(1)).timestamp()
    assert last_written(body_of({**created, **fields})) == parse_time(MOMENT.format(9)).timestamp()


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(0, 10**9))
def test_the_newest_time_in_managed_fields_counts(times, created):
    def text(seconds):
        return format_time(EPOCH + dt.timedelta(seconds=seconds))

    metadata = {"creationTimestamp": text(created), "managedFields": [{"time": text(one)} for one in times]}
    assert last_written(body_of({"metadata": metadata})) == EPOCH.timestamp() + max(*times, created)
