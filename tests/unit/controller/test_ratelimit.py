"""When failed keys come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.clock import ManualClock
from kapi.controller.queue.ratelimit import Bucket, ItemExponential, MaxOf, default_rate_limiter


def test_exponential_delays_double_up_to_the_maximum_and_are_kept_per_key():
    limiter = ItemExponential(1, 10)
    assert [limiter.when("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert limiter.when("b") == 1
    assert (limiter.num_requeues("a"), limiter.num_requeues("b"), limiter.num_requeues("c")) == (6, 1, 0)
    limiter.forget("a")
    assert limiter.num_requeues("a") == 0
    assert limiter.when("a") == 1
    assert limiter.num_requeues("b") == 1


def test_exponential_defaults_are_five_milliseconds_and_a_thousand_seconds():
    limiter = ItemExponential()
    delays = [limiter.when("a") for _ in range(40)]
    assert delays[0] == 0.005
    assert delays[-1] == 1000


def test_ten_thousand_failures_do_not_overflow():
    limiter = ItemExponential(0.001, 1e300)
    assert [limiter.when("a") for _ in range(10_000)][-1] <= 1e300


def test_forgetting_frees_the_memory_of_a_key():
    limiter = ItemExponential()
    for number in range(100):
        limiter.when(number)
        limiter.forget(number)
    assert not limiter._failures


@pytest.mark.parametrize("base, maximum", [(0, 1), (-1, 1), (2, 1)])
def test_exponential_refuses_delays_that_make_no_sense(base, maximum):
    with pytest.raises(ValueError, match="expected 0 < base <= maximum"):
        ItemExponential(base, maximum)


@pytest.mark.parametrize("qps, burst", [(0, 1), (-1, 1), (1, 0), (float("nan"), 1)])
def test_a_bucket_refuses_rates_that_make_no_sense(qps, burst):
    with pytest.raises(ValueError, match="expected qps > 0 and burst >= 1"):
        Bucket(qps, burst)


def test_a_bucket_gives_its_burst_at_once_and_then_queues_tries_up():
    clock = ManualClock()
    bucket = Bucket(2, 3, clock=clock)
    assert [bucket.when(key) for key in "aabbc"] == [0, 0, 0, 0.5, 1.0]
    clock.advance(1.5)
    assert bucket.when("a") == 0
    clock.advance(3600)
    assert [bucket.when("a") for _ in range(4)] == [0, 0, 0, 0.5]
    bucket.forget("a")
    assert bucket.num_requeues("a") == 0


@given(st.lists(st.floats(0, 5), max_size=60), st.floats(0.1, 50), st.integers(1, 10))
def test_a_bucket_never_lets_more_through_than_burst_and_rate_allow(pauses, qps, burst):
    clock = ManualClock()
    bucket = Bucket(qps, burst, clock=clock)
    tries = []
    for pause in pauses:
        clock.advance(pause)
        tries.append(clock.monotonic() + bucket.when("a"))
    for first in range(len(tries)):
        for last in range(first, len(tries)):
            assert last - first + 1 <= burst + qps * (tries[last] - tries[first]) + 1e-6


def test_the_longest_of_several_delays_counts_and_every_limiter_is_asked():
    slow, fast = ItemExponential(4, 100), ItemExponential(1, 1000)
    limiter = MaxOf(fast, slow)
    assert [limiter.when("a") for _ in range(6)] == [4, 8, 16, 32, 64, 100]
    assert fast.num_requeues("a") == 6
    fast.when("a")
    assert limiter.num_requeues("a") == 7
    limiter.forget("a")
    assert (fast.num_requeues("a"), slow.num_requeues("a")) == (0, 0)


def test_the_default_backs_off_per_key_and_limits_all_keys_together():
    limiter = default_rate_limiter(clock=ManualClock())
    assert [limiter.when("a") for _ in range(3)] == [0.005, 0.01, 0.02]
    assert [limiter.when(number) for number in range(97)] == [0.005] * 97
    assert limiter.when("b") == pytest.approx(0.1)
