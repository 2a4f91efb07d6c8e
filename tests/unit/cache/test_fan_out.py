"""When events are delivered: at once if nothing else is going on, together while other writes are on their way."""

import asyncio
from types import SimpleNamespace

import pytest

from kapi.base.clock import ManualClock
from kapi.cache import fanout
from kapi.cache.fanout import BATCH_BYTES, FEW, LEAVING, SLICE
from kapi.cache.watchcache import CacheHub, Selection
from kapi.cache.watcher import Watcher
from kapi.cache.watcherindex import STEP, WatcherIndex
from kapi.storage.interface import Change
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PREFIX = "/registry/core/things/"
TOOK = SLICE * 0.8
"""Seconds that a delivery to `FEW` watchers seems to take."""
MANY = 10 * FEW


class Storage(MemoryStorage):
    waiting = 0


class Reader:
    def split(self, value):
        return "", value


class Encoder:
    share = "plain"

    def encode(self, kind, item):
        return b"%d " % item.revision


class Outlet:
    framing = None
    is_full = False
    spent = 0.0
    """Seconds that all writes together seem to have taken."""

    def __init__(self):
        self.writes = []

    def frame(self, data):
        return data

    def write_framed(self, framed):
        Outlet.spent += TOOK / FEW
        self.writes.append(framed.decode().split())
        return self.is_full

    def write(self, data):
        self.write_framed(data)


class Fan:
    """Watchers of everything, by a clock that deliveries move."""

    def __init__(self, watchers=FEW):
        self.hub = CacheHub(Storage(), lambda _: Reader(), clock=ManualClock())
        self.cache = self.hub.cache(PREFIX)
        self.outlets = [Outlet() for _ in range(watchers)]
        self.watchers = [Watcher(self.cache, "", None, Encoder(), outlet) for outlet in self.outlets]
        for watcher in self.watchers:
            self.cache.add(watcher)
        self.revision = 0

    def put(self, *, waiting=0, size=10):
        self.hub.storage.waiting = waiting
        self.revision += 1
        change = Change(self.revision, f"{PREFIX}n/x", b"x" * size, Selection(None, None))
        self.hub._take(self.revision, [change])

    @property
    def reached(self):
        """How many watchers have been sent the last change."""
        return sum(bool(one.writes) and one.writes[-1][-1] == str(self.revision) for one in self.outlets)

    @property
    def writes(self):
        assert all(outlet.writes == self.outlets[0].writes for outlet in self.outlets)
        return self.outlets[0].writes


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock of deliveries is the event loop's, which stands still but for them and for timers."""
    monkeypatch.setattr(Outlet, "spent", 0.0)
    monkeypatch.setattr(fanout, "perf_counter", lambda: asyncio.get_running_loop().time() + Outlet.spent)


async def _turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_change_on_an_idle_server_is_delivered_before_the_write_is_answered():
    async def main():
        fan = Fan()
        for expected in range(1, 4):
            fan.put(waiting=1)
            assert fan.writes[-1] == [str(expected)]
            await asyncio.sleep(1)

    run(main())


def test_a_change_that_no_other_follows_waits_for_no_clock():
    async def main():
        fan = Fan()
        fan.put()
        fan.put()
        now = asyncio.get_running_loop().time()
        assert fan.writes == [["1"]]
        await _turns(3)
        assert fan.writes == [["1"], ["2"]]
        assert asyncio.get_running_loop().time() == now

    run(main())


def test_changes_are_sent_together_while_writes_are_on_their_way():
    async def main():
        fan = Fan()
        fan.put()
        for _ in range(5):
            fan.put(waiting=3)
            await _turns(5)
        assert fan.writes == [["1"]]
        await asyncio.sleep(TOOK * 1.01)
        assert fan.writes == [["1"], ["2", "3", "4", "5", "6"]]

    run(main())


def test_changes_that_wait_are_sent_when_the_last_write_was_made():
    async def main():
        fan = Fan()
        fan.put()
        fan.put(waiting=2)
        await _turns(5)
        fan.put(waiting=0)
        now = asyncio.get_running_loop().time()
        await _turns(3)
        assert fan.writes == [["1"], ["2", "3"]]
        assert asyncio.get_running_loop().time() == now

    run(main())


def test_few_watchers_never_wait():
    async def main():
        fan = Fan(FEW - 1)
        for expected in range(1, 4):
            fan.put(waiting=1)
            assert len(fan.writes) == expected

    run(main())


def test_no_more_than_a_batch_is_sent_at_once():
    async def main():
        fan = Fan()
        fan.put()
        for _ in range(4):
            fan.put(waiting=1, size=BATCH_BYTES // 4)
        assert fan.writes == [["1"]]
        fan.put(waiting=1, size=BATCH_BYTES // 4)
        assert fan.writes == [["1"], ["2", "3", "4", "5"]]
        await asyncio.sleep(TOOK * 1.01)
        assert fan.writes == [["1"], ["2", "3", "4", "5"], ["6"]]

    run(main())


# -- slices -----------------------------------------------------------------------------------------------------------


def test_the_event_loop_does_other_work_between_the_slices_of_a_long_delivery():
    async def main():
        fan = Fan(MANY)
        fan.put()
        reached = [fan.reached]
        while reached[-1] < MANY:
            await _turns(1)
            reached.append(fan.reached)
        slices = [after - before for before, after in zip([0, *reached], reached, strict=False)]
        assert max(slices) <= SLICE / (TOOK / FEW) + STEP
        assert len(slices) < MANY / FEW + 2
        assert fan.writes == [["1"]]

    run(main())


def test_changes_during_a_delivery_are_sent_after_it_in_order():
    async def main():
        fan = Fan(MANY)
        for _ in range(3):
            fan.put()
        assert 0 < sum(map(len, [one.writes for one in fan.outlets])) < MANY
        await asyncio.sleep(1)
        assert fan.writes == [["1"], ["2", "3"]]

    run(main())


def test_a_watcher_that_has_read_from_history_meanwhile_is_not_sent_the_same_again():
    """One has left and joined again, one has joined, one has left and one has ended."""

    async def main():
        fan = Fan(MANY)
        again, left, ended = fan.watchers[-3:]
        fan.put()
        fan.cache.leave(again)
        new = Watcher(fan.cache, "", None, Encoder(), Outlet())
        for watcher in (again, new):
            watcher.after = 1
            fan.cache.add(watcher)
        fan.cache.leave(left)
        fan.cache.remove(ended)
        await asyncio.sleep(1)
        fan.put()
        await asyncio.sleep(1)
        assert [one.outlet.writes for one in (again, new)] == [[["2"]]] * 2
        assert [one.outlet.writes for one in (left, ended)] == [[]] * 2
        assert all(one.writes == [["1"], ["2"]] for one in fan.outlets[:-3])

    run(main())


def test_a_watcher_that_is_flushed_is_sent_everything_once():
    async def main():
        fan = Fan(MANY)
        fan.put()
        fan.put()
        reached, waiting = fan.watchers[0], fan.watchers[-1]
        for watcher in (reached, waiting):
            fan.cache.flush(watcher)
        assert (reached.outlet.writes, waiting.outlet.writes) == ([["1"], ["2"]], [["1", "2"]])
        await asyncio.sleep(1)
        assert (reached.outlet.writes, waiting.outlet.writes) == ([["1"], ["2"]], [["1", "2"]])
        assert fan.outlets[-2].writes == [["1"], ["2"]]

    run(main())


def test_a_watcher_that_is_flushed_reads_from_history_what_is_too_much_for_one_write():
    async def main():
        fan = Fan(MANY)
        for _ in range(3):
            fan.put(size=BATCH_BYTES)
        reached, waiting = fan.watchers[0], fan.watchers[-1]
        for watcher in (reached, waiting):
            fan.cache.flush(watcher)
        assert (reached.after, waiting.after) == (1, 0)
        assert not any(watcher in fan.cache.fan_out.watchers for watcher in (reached, waiting))
        await asyncio.sleep(1)
        assert (reached.outlet.writes, waiting.outlet.writes) == ([["1"]], [])

    run(main())


def test_few_watchers_leave_the_feed_in_one_turn():
    """Each that does not keep up wakes the task of its request."""

    async def main():
        fan = Fan(MANY)
        Outlet.spent = float("-inf")
        for outlet in fan.outlets:
            outlet.is_full = True
        fan.put()
        behind = [fan.cache.watchers - len(fan.cache.fan_out.watchers)]
        while behind[-1] < MANY:
            await _turns(1)
            behind.append(fan.cache.watchers - len(fan.cache.fan_out.watchers))
        assert max(after - before for before, after in zip([0, *behind], behind, strict=False)) <= LEAVING + STEP
        assert {watcher.after for watcher in fan.watchers} == {1}

    run(main())


def test_writers_wait_while_more_than_a_batch_waits():
    async def main():
        fan = Fan(MANY)
        for _ in range(2):
            fan.put(size=BATCH_BYTES)
        assert fan.cache.fan_out.caught_up is None
        fan.put()
        caught_up = fan.cache.fan_out.caught_up
        assert not caught_up.is_set()
        await caught_up.wait()
        assert fan.cache.fan_out.caught_up is None
        assert fan.outlets[-1].writes == [["1"]]
        await asyncio.sleep(1)
        assert fan.writes == [["1"], ["2"], ["3"]]

    run(main())


def test_no_more_than_the_most_waits_of_what_others_commit(monkeypatch):
    monkeypatch.setattr(fanout, "MOST_BYTES", 10 * BATCH_BYTES)

    async def main():
        fan = Fan(MANY)
        for _ in range(12):
            fan.put(size=BATCH_BYTES)
        assert fan.writes == [["1"], ["2"]]
        assert fan.cache.fan_out._waiting_bytes == 10 * BATCH_BYTES
        await asyncio.sleep(1)
        assert fan.writes == [[str(number)] for number in range(1, 13)]
        assert fan.cache.fan_out._waiting_bytes == 0

    run(main())


def test_watchers_read_from_history_what_could_not_be_delivered(monkeypatch):
    async def main():
        fan = Fan(MANY)
        fan.put()
        await asyncio.sleep(1)
        concerned = WatcherIndex.concerned

        def broken(self, events):
            yield from concerned(self, events).items()
            raise ValueError("planted")

        monkeypatch.setattr(
            WatcherIndex, "concerned", lambda *arguments: SimpleNamespace(items=lambda: broken(*arguments))
        )
        fan.put()
        await asyncio.sleep(1)
        assert [watcher.after for watcher in fan.watchers] == [2] * MANY
        assert len(fan.cache.fan_out.watchers) == 0
        assert fan.hub.invalid.parts
        monkeypatch.undo()
        for watcher in fan.watchers:
            fan.cache.add(watcher)
        fan.put()
        await asyncio.sleep(1)
        assert fan.writes == [["1"], ["2"], ["3"]]

    run(main())


def test_what_waits_for_a_hub_that_reads_the_store_anew_is_not_sent():
    """The watches end with 410: what happened meanwhile is not known."""

    async def main():
        fan = Fan()
        fan.put()
        fan.put(waiting=1)
        fan.cache.replace({}, 5)
        await asyncio.sleep(1)
        assert fan.writes == [["1"]]

    run(main())
