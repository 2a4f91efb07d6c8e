"""Tests of the deadline on an event loop whose clock the test advances."""

from math import inf

from kapi.base.deadline import Deadline


class Timer:
    def __init__(self, at, callback):
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class ManualLoop:
    """The two calls a deadline makes, and a hand to move time."""

    def __init__(self):
        self.now = 100.0
        self.timers = []

    def time(self):
        return self.now

    def call_at(self, at, callback):
        self.timers.append(Timer(at, callback))
        return self.timers[-1]

    def advance(self, seconds):
        self.now += seconds
        for timer in tuple(self.timers):
            if not timer.cancelled and timer.at <= self.now:
                timer.cancelled = True
                timer.callback()


def test_deadline_expires_once():
    loop, expired = ManualLoop(), []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    deadline.set(110.0)
    loop.advance(9)
    assert expired == []
    loop.advance(1)
    loop.advance(100)
    assert expired == [110.0]


def test_deadline_that_is_extended_reuses_its_timer():
    loop, expired = ManualLoop(), []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    for _ in range(900):
        deadline.set(loop.now + 10.0)
        loop.advance(0.01)
    assert len(loop.timers) == 1
    loop.advance(9.0)
    assert expired == []
    assert len(loop.timers) == 2
    loop.advance(1.0)
    assert len(expired) == 1


def test_deadline_that_is_shortened_replaces_its_timer():
    loop, expired = ManualLoop(), []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    deadline.set(200.0)
    deadline.set(110.0)
    loop.advance(10)
    assert expired == [110.0]
    assert [timer.cancelled for timer in loop.timers] == [True, True]


def test_cancelled_deadline_does_not_expire():
    loop, expired = ManualLoop(), []
    deadline = Deadline(loop, lambda: expired.append(loop.now))
    deadline.set(110.0)
    deadline.at = inf
    loop.advance(20)
    assert len(loop.timers) == 1
    deadline.set(130.0)
    deadline.cancel()
    loop.advance(100)
    assert expired == []
