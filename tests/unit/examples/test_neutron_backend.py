"""What the Neutron backend of `examples/network` makes of errors, and how it keeps its calls off the event loop."""

import asyncio
import json
import threading

import pytest

pytest.importorskip("openstack", reason="openstacksdk is not installed here: make venv")

import requests
from keystoneauth1.exceptions import ConnectFailure, ConnectTimeout
from network_controller.backend import (
    Actual,
    AddressOverlap,
    InUse,
    QuotaExceeded,
    Rejected,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Wanted,
)
from network_controller.neutron import NeutronBackend, allocation_pools, translate
from openstack.exceptions import raise_from_response


def answer(status, kind="", message="", headers=None):
    """The error that openstacksdk raises for an answer of Neutron."""
    response = requests.Response()
    response.status_code = status
    response.headers.update({"Content-Type": "application/json", **(headers or {})})
    response._content = json.dumps({"NeutronError": {"type": kind, "message": message, "detail": ""}}).encode()
    response.request = requests.Request("GET", "http://neutron").prepare()
    try:
        raise_from_response(response)
    except Exception as error:
        return error
    raise AssertionError(f"{status} is not an error")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answer(409, "OverQuota", "Quota exceeded for resources: ['network']."), QuotaExceeded),
        (answer(409, "NetworkInUse", "There are one or more ports still in use."), InUse),
        (answer(409, "SubnetInUse", "One or more ports have an IP allocation."), InUse),
        (answer(409, "GatewayConflictWithAllocationPools", "Gateway ip conflicts."), Rejected),
        (answer(400, "InvalidInput", "Requested subnet with cidr: a overlaps with another subnet."), AddressOverlap),
        (answer(400, "HTTPBadRequest", "Invalid input for cidr."), Rejected),
        (answer(401, "", "who are you"), Unauthorized),
        (answer(403, "PolicyNotAuthorized", "rule:create_network is disallowed"), Unauthorized),
        (answer(412, "RevisionNumberConstraintFailed", "changed"), Rejected),
        (answer(429), TooManyRequests),
        (answer(500, "HTTPInternalServerError", "Request Failed"), Unavailable),
        (answer(503), Unavailable),
        (ConnectFailure("refused"), Unavailable),
        (ConnectTimeout("slow"), Unavailable),
        (ConnectionResetError("reset"), Unavailable),
    ],
)
def test_an_error_is_translated(error, expected):
    assert type(translate(error)) is expected


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("-1", 0.0)]
)
def test_the_delay_that_an_answer_asks_for_is_read(value, seconds):
    assert translate(answer(429, headers={"Retry-After": value})).retry_after == seconds


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools"),
    [
        ("10.0.0.0/24", "10.0.0.1", [("10.0.0.2", "10.0.0.254")]),
        ("10.0.0.0/24", "10.0.0.9", [("10.0.0.1", "10.0.0.8"), ("10.0.0.10", "10.0.0.254")]),
        ("10.0.0.0/24", "10.0.0.254", [("10.0.0.1", "10.0.0.253")]),
        ("10.0.0.0/24", "", [("10.0.0.1", "10.0.0.254")]),
        ("10.0.0.0/31", "10.0.0.0", [("10.0.0.1", "10.0.0.1")]),
        ("2001:db8::/64", "2001:db8::1", [("2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff")]),
        ("::/96", "::5", [("::1", "::4"), ("::6", "::ffff:ffff")]),
    ],
)
def test_pools_leave_the_gateway_out(cidr, gateway, pools):
    assert allocation_pools(cidr, gateway) == [{"start": low, "end": high} for low, high in pools]


class SlowNeutron:
    """In the place of `Neutron`: its calls wait until they are let go, and it counts those that overlap."""

    name = "slow"

    def __init__(self):
        self.may_end = threading.Event()
        self.calls = self.active = self.most = 0
        self._lock = threading.Lock()

    def ensure(self, wanted):
        with self._lock:
            self.calls += 1
            self.active += 1
            self.most = max(self.most, self.active)
        self.may_end.wait(60)
        with self._lock:
            self.active -= 1
        return Actual("n", "s")


def test_a_call_that_was_given_up_is_waited_for_by_the_next_one_for_the_same_object():
    wanted = Wanted("uid", "default", "a", "10.0.0.0/8")

    async def main():
        neutron = SlowNeutron()
        backend = NeutronBackend(neutron, pass_seconds=0.05)
        try:
            with pytest.raises(Unavailable, match=r"did not answer within 0\.05 s"):
                await backend.ensure(wanted)
            # The first one still works on this network.
            with pytest.raises(Unavailable, match="did not answer"):
                await backend.ensure(wanted)
            assert neutron.calls == 1
            neutron.may_end.set()
            while backend._running:
                await asyncio.wait(list(backend._running.values()))
                await asyncio.sleep(0)
            backend._seconds = 60
            assert await backend.ensure(wanted) == Actual("n", "s")
            assert (neutron.calls, neutron.most) == (2, 1)
        finally:
            neutron.may_end.set()
            backend.close()

    asyncio.run(main())


def test_calls_do_not_hold_the_event_loop():
    async def main():
        neutron = SlowNeutron()
        backend = NeutronBackend(neutron, pass_seconds=60, workers=2)
        calls = [asyncio.ensure_future(backend.ensure(Wanted(uid, "default", uid, "10.0.0.0/8"))) for uid in "ab"]
        try:
            # If a call held the loop, this line would never be reached.
            await asyncio.sleep(0)
            neutron.may_end.set()
            assert await asyncio.gather(*calls) == [Actual("n", "s")] * 2
        finally:
            neutron.may_end.set()
            backend.close()

    asyncio.run(main())
