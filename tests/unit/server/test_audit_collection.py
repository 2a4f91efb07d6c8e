"""Audit events that are encoded from templates, and those of reads that are collected before they are written."""

import asyncio
import functools
import gc
import json

import pytest

from api_client import CM, NS, TOKEN, cm, serving
from kapi.base.clock import SystemClock
from kapi.server.audit import record
from kapi.server.audit.auditor import MAX_COLLECTED, MAX_DELAY, Auditor
from kapi.server.audit.policy import Policy
from kapi.server.context import Context
from kapi.server.transport.message import Peer
from virtual_time import LoopClock, run

ADMIN = Peer("192.0.2.7", local=("admin", ("system:masters",)))
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
AGENT = {"user-agent": "kubectl/v1.36"}


class Backend:
    """A backend that keeps what each write gave it."""

    def __init__(self):
        self.writes = []
        self.closed = False

    def write(self, events):
        self.writes.append([json.loads(event) for event in events])

    async def close(self):
        self.closed = True

    @property
    def uris(self):
        """The URIs of each write."""
        return [[event["requestURI"] for event in write] for write in self.writes]


def collecting(test):
    """Make a test of `test(api, backend, auditor)`, on a server that records metadata and collects reads."""

    @functools.wraps(test)
    def runner():
        async def main():
            backend, clock = Backend(), LoopClock()
            policy = Policy({"omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]})
            auditor = Auditor(policy, [backend], clock, defers_reads=True)
            async with serving(auditor=auditor, clock=clock) as api:
                await asyncio.sleep(1)
                backend.writes.clear()
                await test(api, backend, auditor)

        run(main())

    # pytest would look for fixtures with the names of the parameters.
    del runner.__wrapped__
    return runner


async def read(api, name, **headers):
    return await api.as_peer("GET", f"{CM}/{name}", peer=ADMIN, headers={**AGENT, **headers})


# -- reads that wait --------------------------------------------------------------------------------------------------


@collecting
async def test_reads_are_written_together_after_a_moment(api, backend, auditor):
    await api.made(CM, cm("a"))
    backend.writes.clear()
    for _ in range(3):
        await read(api, "a")
    assert backend.writes == []
    await asyncio.sleep(MAX_DELAY)
    assert backend.uris == [[f"{CM}/a"] * 3]


@collecting
async def test_so_many_reads_are_written_at_once(api, backend, auditor):
    await api.made(CM, cm("a"))
    backend.writes.clear()
    for _ in range(MAX_COLLECTED):
        assert backend.writes == []
        await read(api, "a")
    assert [len(write) for write in backend.writes] == [MAX_COLLECTED]
    await asyncio.sleep(2 * MAX_DELAY)
    assert len(backend.writes) == 1


@collecting
async def test_a_write_is_recorded_before_its_response_and_after_the_reads_before_it(api, backend, auditor):
    await api.made(CM, cm("a"))
    backend.writes.clear()
    await read(api, "a")
    await api.made(CM, cm("b"))
    assert backend.uris == [[f"{CM}/a", CM]]


@collecting
async def test_a_read_that_is_refused_is_recorded_before_its_response(api, backend, auditor):
    answer = await api.as_peer("GET", CM, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status == 403
    assert backend.uris == [[CM]]
    assert (await read(api, "missing")).status == 404
    assert backend.uris == [[CM], [f"{CM}/missing"]]


@collecting
async def test_closing_writes_what_was_collected(api, backend, auditor):
    await api.made(CM, cm("a"))
    backend.writes.clear()
    await read(api, "a")
    await auditor.close()
    assert backend.uris == [[f"{CM}/a"]]
    assert backend.closed


# -- templates --------------------------------------------------------------------------------------------------------

REQUESTS = [
    ("GET", f"{CM}/a", {}, b""),
    ("GET", f"{CM}/a?pretty=%22", {"audit-id": 'q"\\uote'}, b""),
    ("GET", CM, {}, b""),
    ("GET", f"{CM}?fieldSelector=metadata.name%3Da", {}, b""),
    ("GET", "/api/v1/configmaps", {}, b""),
    ("GET", "/apis/apps/v1/namespaces/default/deployments", {}, b""),
    ("GET", f"{NS}/default", {}, b""),
    ("GET", f"{NS}/default/status", {"user-agent": 'odd "agent" \u2028 \\'}, b""),
    ("GET", f"{CM}/a", {"x-forwarded-for": "198.51.100.7"}, b""),
    ("GET", f"{CM}/a", {"user-agent": "x" * 2000}, b""),
    ("GET", f"{CM}/%22q%5C", {}, b""),
    ("GET", "/version", {}, b""),
    ("POST", CM, {}, b'{"metadata":{"name":"new"}}'),
    ("POST", CM, {}, b'{"metadata":{"generateName":"new-"}}'),
    ("POST", CLASSES, {}, b'{"metadata":{"name":"new"},"value":1}'),
    ("PUT", f"{CM}/a", {}, b'{"metadata":{"name":"a"},"data":{"k":"w"}}'),
    ("DELETE", f"{CM}/a", {}, b""),
]
VARYING = ("auditID", "requestReceivedTimestamp", "stageTimestamp")


async def _events(api, backend, auditor, method, path, headers, body):
    """The events of two equal requests: the second may be made of the template of the first."""
    found = []
    for _ in range(2):
        await api.made(CM, cm("a"))
        backend.writes.clear()
        headers = {**AGENT, "content-type": "application/json", **headers}
        await api.as_peer(method, path, peer=ADMIN, headers=headers, body=body)
        auditor._flush()
        (event,) = [event for write in backend.writes for event in write if event["stage"] == "ResponseComplete"]
        for made in (f"{CM}/a", f"{CM}/new", f"{CLASSES}/new"):
            await api.delete(made)
        found.append(event)
    return found


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: f"{request[0]} {request[1]}")
def test_an_event_from_a_template_is_the_same_as_one_that_is_encoded_whole(request_):
    async def events(*omitted):
        backend, clock = Backend(), LoopClock()
        policy = Policy({"omitStages": omitted, "rules": [{"level": "Metadata"}]})
        auditor = Auditor(policy, [backend], clock)
        async with serving(auditor=auditor, clock=clock) as api:
            return await _events(api, backend, auditor, *request_)

    # With a second stage to record, no event is made from a template.
    whole, again = run(events())
    first, second = run(events("RequestReceived"))
    for event in (whole, again, first, second):
        stamps = [event[field] for field in VARYING[1:]]
        assert all(len(stamp) == len("2026-01-01T00:00:00.000000Z") for stamp in stamps)
        assert stamps[0] <= stamps[1]
        if "audit-id" in request_[2]:
            assert event["auditID"] == request_[2]["audit-id"]
        for field in VARYING:
            del event[field]
        event.get("responseStatus", {}).get("details", {}).pop("uid", None)
    assert list(first) == list(whole)
    assert list(first.get("objectRef", {})) == list(whole.get("objectRef", {}))
    assert first == second == whole == again


@collecting
async def test_two_versions_of_a_resource_have_templates_of_their_own(api, backend, auditor):
    for version in ("v1", "v2", "v1"):
        path = f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"
        await api.as_peer("GET", path, peer=ADMIN, headers=AGENT)
    auditor._flush()
    assert [event["objectRef"]["apiVersion"] for event in backend.writes[0]] == ["v1", "v2", "v1"]


@collecting
async def test_templates_are_bounded(api, backend, auditor):
    await api.made(CM, cm("a"))
    for number in range(record.REMEMBERED + 10):
        await read(api, "a", **{"user-agent": f"agent-{number}"})
    assert len(record._templates) <= record.REMEMBERED


@collecting
async def test_the_policy_remembers_a_bounded_number_of_requests(api, backend, auditor):
    for number in range(20):
        await api.as_peer("GET", f"{NS}/n{number}/configmaps", peer=ADMIN, headers=AGENT)
        await api.as_peer("GET", f"{NS}/{'n' * 600}{number}/configmaps", peer=ADMIN, headers=AGENT)
    long = [key for key in auditor._policy._remembered if len(key[-1]) > 500]
    assert long == []


def test_a_request_that_is_recorded_is_freed_without_the_garbage_collector():
    async def main():
        auditor = Auditor(Policy({"rules": [{"level": "Metadata"}]}), [Backend()], SystemClock())
        async with serving(auditor=auditor) as api:
            await api.made(CM, cm("a"))
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    await read(api, "a")
                return [obj for obj in gc.get_objects() if isinstance(obj, Context)]
            finally:
                gc.enable()

    assert run(main()) == []
