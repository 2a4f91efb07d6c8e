"""When events are delivered: at once if nothing else is going on, together while other writes are on their way."""

import asyncio

import pytest

from kapi.base.clock import ManualClock
from kapi.cache import fanout
from kapi.cache.fanout import BATCH_BYTES, FEW, LONGEST_WAIT
from kapi.cache.watchcache import CacheHub, Selection
from kapi.cache.watcher import Watcher
from kapi.storage.interface import Change
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PREFIX = "/registry/core/things/"
TOOK = 0.005
"""Seconds that a delivery seems to take."""


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

    def __init__(self):
        self.writes = []

    def frame(self, data):
        return data

    def write_framed(self, framed):
        self.writes.append(framed.decode().split())
        return False

    def write(self, data):
        self.write_framed(data)


class Fan:
    """Watchers of everything, by a clock that deliveries move."""

    def __init__(self, watchers=FEW):
        self.hub = CacheHub(Storage(), lambda _: Reader(), clock=ManualClock())
        self.cache = self.hub.cache(PREFIX)
        self.outlets = [Outlet() for _ in range(watchers)]
        for outlet in self.outlets:
            self.cache.add(Watcher(self.cache, "", None, Encoder(), outlet))
        self.revision = 0

    def put(self, *, waiting=0, size=10):
        self.hub.storage.waiting = waiting
        self.revision += 1
        change = Change(self.revision, f"{PREFIX}n/x", b"x" * size, Selection(None, None))
        self.hub._take(self.revision, [change])

    @property
    def writes(self):
        assert all(outlet.writes == self.outlets[0].writes for outlet in self.outlets)
        return self.outlets[0].writes


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock of deliveries is the event loop's, which stands still but for them and for timers."""
    spent = [0.0]

    class Timed(fanout.FanOut):
        def _deliver(self, events):
            began = fanout.perf_counter()
            super()._deliver(events)
            spent[0] += TOOK
            self._not_before = fanout.perf_counter() + min(fanout.perf_counter() - began, LONGEST_WAIT)

    monkeypatch.setattr(fanout, "perf_counter", lambda: asyncio.get_running_loop().time() + spent[0])
    monkeypatch.setattr("kapi.cache.watchcache.FanOut", Timed)


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


def test_no_more_than_a_batch_waits():
    async def main():
        fan = Fan()
        fan.put()
        for _ in range(5):
            fan.put(waiting=1, size=BATCH_BYTES // 4)
        assert fan.writes == [["1"], ["2", "3", "4", "5", "6"]]

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
