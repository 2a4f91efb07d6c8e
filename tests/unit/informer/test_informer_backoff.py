from random import Random

import pytest

from kapi.base.clock import ManualClock
from kapi.informer.backoff import MAX_ASKED, Backoff, Delays


class Fixed(Random):
    """The same number each time."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def random(self):
        return self.number


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_delays_double_to_the_longest_plus_jitter(jitter):
    backoff = Backoff(Delays(), ManualClock(), Fixed(jitter))
    expected = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert [backoff.next() for _ in expected] == pytest.approx([base * (1 + jitter) for base in expected])


def test_begins_anew_after_two_healthy_minutes():
    clock = ManualClock()
    backoff = Backoff(Delays(), clock, Fixed(0.0))
    delays = [backoff.next() for _ in range(4)]
    clock.advance(delays[-1] + 119)
    assert backoff.next() == 12.8
    clock.advance(12.8 + 121)
    assert backoff.next() == 0.8


def test_waiting_itself_is_not_health():
    clock = ManualClock()
    backoff = Backoff(Delays(reset_after=10), clock, Fixed(0.0))
    for _ in range(8):
        clock.advance(backoff.next())
    assert backoff.next() == 30.0


def test_what_the_server_asks_for_is_honoured_within_reason():
    backoff = Backoff(Delays(), ManualClock(), Fixed(0.0))
    assert backoff.next(asked=20) == 20
    assert backoff.next(asked=1) == 1.6
    assert backoff.next(asked=1e9) == MAX_ASKED
