"""The memory account: budgets are kept, the slowest is closed first, nothing leaks."""

import random

import pytest

from api_client import served
from kapi.api.errors import TooManyRequests
from kapi.api.user import ANONYMOUS, User
from kapi.server.transport.limits import Limits
from kapi.server.transport.memory import (
    KINDS,
    OVER_PEER_BUDGET,
    OVER_TOTAL_BUDGET,
    REQUEST,
    RESPONSE,
    WATCH_BACKLOG,
    MemoryAccount,
    peer_name,
)

MIB = 1 << 20


def account(total=100, per_peer=60):
    return MemoryAccount(Limits(held=total, held_per_peer=per_peer))


class Peer:
    """Opens holds under one name and records which were closed."""

    def __init__(self, account, name):
        self.account = account
        self.name = name
        self.closed = []

    def hold(self, label, size=0, kind=REQUEST):
        hold = self.account.open(kind, self.name, lambda reason: self.closed.append((label, reason)))
        hold.resize(size, progressed=True)
        return hold


def test_bytes_are_counted_by_kind_and_released():
    memory = account()
    peer = Peer(memory, "user:a")
    with peer.hold("body", 10) as body, peer.hold("events", 20, WATCH_BACKLOG) as events:
        assert memory.used == 30
        assert memory.by_kind == {REQUEST: 10, RESPONSE: 0, WATCH_BACKLOG: 20}
        events.resize(5, progressed=True)
        body.resize(12, progressed=True)
        assert memory.by_kind == {REQUEST: 12, RESPONSE: 0, WATCH_BACKLOG: 5}
    assert memory.used == 0
    assert memory.peers == 0
    assert not memory.line
    assert peer.closed == []


def test_release_twice_releases_once():
    memory = account()
    peer = Peer(memory, "user:a")
    one, _other = peer.hold("one", 10), peer.hold("other", 10)
    one.release()
    one.release()
    one.resize(50, progressed=True)
    one.pin()
    assert (memory.used, memory.pinned, memory.peers) == (10, 0, 1)


def test_peer_over_its_budget_loses_its_slowest_hold_and_no_other_peer_does():
    memory = account()
    slow, other = Peer(memory, "user:slow"), Peer(memory, "user:other")
    oldest_of_all = other.hold("other", 30)
    first, second = slow.hold("first", 30), slow.hold("second", 30)
    third = slow.hold("third", 1)
    assert slow.closed == [("first", OVER_PEER_BUDGET)]
    assert (first.is_open, second.is_open, third.is_open, oldest_of_all.is_open) == (False, True, True, True)
    assert memory.closures[REQUEST, OVER_PEER_BUDGET] == 1
    assert memory.used == 61


def test_total_over_budget_closes_the_hold_without_progress_for_the_longest():
    memory = account()
    peers = [Peer(memory, f"address:{number}") for number in range(3)]
    stalled = peers[0].hold("stalled", 40, WATCH_BACKLOG)
    reading = peers[1].hold("reading", 40, RESPONSE)
    stalled.resize(45, progressed=False)
    reading.resize(35, progressed=True)
    peers[2].hold("new", 30)
    assert [peer.closed for peer in peers] == [[("stalled", OVER_TOTAL_BUDGET)], [], []]
    assert memory.closures[WATCH_BACKLOG, OVER_TOTAL_BUDGET] == 1


def test_progress_makes_a_hold_the_last_to_be_closed():
    memory = account()
    peer = Peer(memory, "user:a")
    first, second = peer.hold("first", 30), peer.hold("second", 30)
    first.resize(30, progressed=True)
    first.resize(31, progressed=True)
    assert (first.is_open, second.is_open) == (True, False)


def test_growth_without_progress_does_not_move_a_hold_back():
    memory = account()
    peer = Peer(memory, "user:a")
    first, second = peer.hold("first", 30, WATCH_BACKLOG), peer.hold("second", 20, WATCH_BACKLOG)
    first.resize(41, progressed=False)
    assert (first.is_open, second.is_open) == (False, True)


def test_hold_of_no_bytes_is_not_closed():
    memory = account()
    peer = Peer(memory, "user:a")
    idle, drained = peer.hold("idle"), peer.hold("drained", 50)
    drained.resize(0, progressed=True)
    busy = peer.hold("busy", 60)
    busy.resize(61, progressed=True)
    assert (idle.is_open, drained.is_open, busy.is_open) == (True, True, False)


def test_pinned_hold_is_not_closed_for_others_and_the_growing_one_is():
    memory = account()
    peer = Peer(memory, "user:a")
    handled = peer.hold("handled", 40)
    handled.pin()
    growing = peer.hold("growing", 21)
    assert (handled.is_open, growing.is_open) == (True, False)
    handled.unpin()
    peer.hold("next", 21)
    assert peer.closed == [("growing", OVER_PEER_BUDGET), ("handled", OVER_PEER_BUDGET)]


def test_pinned_hold_that_grows_over_the_budget_is_closed_when_no_other_can_be():
    memory = account()
    peer = Peer(memory, "user:a")
    hold = peer.hold("pinned", 60)
    hold.pin()
    hold.resize(61, progressed=True)
    assert peer.closed == [("pinned", OVER_PEER_BUDGET)]
    assert (memory.used, memory.pinned, memory.peers) == (0, 0, 0)


def test_request_is_refused_while_what_is_pinned_leaves_no_space_for_it():
    memory = account()
    handled = Peer(memory, "user:a").hold("handled", 50)
    memory.check("user:a", 60)
    handled.pin()
    memory.check("user:a", 10)
    memory.check("user:b", 50)
    with pytest.raises(TooManyRequests) as refused:
        memory.check("user:a", 11)
    assert refused.value.retry_after == 1
    with pytest.raises(TooManyRequests):
        memory.check("user:b", 51)
    assert memory.refusals == 2
    handled.release()
    memory.check("user:a", 60)


def test_close_that_raises_leaves_the_account_right(caplog):
    memory = account()

    def broken(_reason):
        raise RuntimeError("broken")

    memory.open(REQUEST, "user:a", broken).resize(61, progressed=True)
    assert (memory.used, memory.peers) == (0, 0)
    assert "closing a request for its memory failed" in caplog.text


def test_peer_is_the_user_once_it_is_known():
    assert peer_name(None, "10.0.0.1") == "address:10.0.0.1"
    assert peer_name(ANONYMOUS, "10.0.0.1") == "address:10.0.0.1"
    assert peer_name(User("10.0.0.1"), "10.0.0.2") == "user:10.0.0.1"


def test_budgets_hold_and_nothing_leaks_in_any_order_of_calls():
    chance = random.Random(12)
    for _ in range(50):
        memory = account()
        peers = [Peer(memory, f"user:{number}") for number in range(4)]
        holds = []
        for _ in range(300):
            if not holds or chance.random() < 0.2:
                holds.append(chance.choice(peers).hold("", kind=chance.choice(KINDS)))
            hold = chance.choice(holds)
            chance.choice(
                [
                    hold.pin,
                    hold.unpin,
                    hold.release,
                    lambda hold=hold: hold.resize(chance.randrange(70), progressed=chance.random() < 0.5),
                ]
            )()
            still = [hold for hold in holds if hold.is_open]
            assert memory.used == sum(memory.by_kind.values()) == sum(hold.size for hold in still) <= memory.total
            assert memory.pinned == sum(hold.size for hold in still if hold.is_pinned)
            assert set(memory.line) == {hold for hold in still if hold.size and not hold.is_pinned}
        for hold in holds:
            hold.release()
        assert (memory.used, memory.pinned, memory.peers, len(memory.line)) == (0, 0, 0, 0)


@served
async def test_held_bytes_closures_and_refusals_are_metrics(api):
    memory = account()
    api.metrics.observe_memory(memory)
    peer = Peer(memory, "user:a")
    peer.hold("events", 30, WATCH_BACKLOG).pin()
    peer.hold("body", 31)
    with pytest.raises(TooManyRequests):
        memory.check("user:a", 40)
    page = (await api.get("/metrics")).text
    assert 'kapi_held_bytes{kind="watch-backlog"} 30.0' in page
    assert 'kapi_held_bytes_budget{scope="peer"} 60.0' in page
    assert 'kapi_held_bytes_closures_total{kind="request",reason="peer-budget"} 1.0' in page
    assert "kapi_held_bytes_refusals_total 1.0" in page
