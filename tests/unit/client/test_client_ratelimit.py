"""How often a client may ask."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.clock import ManualClock
from kapi.client.transport.ratelimit import TokenBucket
from virtual_time import LoopClock, run


def test_a_burst_is_sent_at_once_and_the_rest_in_turn():
    async def main():
        bucket = TokenBucket(2, 3, clock=LoopClock())
        started = asyncio.get_running_loop().time()
        turns = []

        async def take(number):
            await bucket.wait()
            turns.append((number, asyncio.get_running_loop().time() - started))

        await asyncio.gather(*map(take, range(6)))
        return turns

    assert run(main()) == [(0, 0), (1, 0), (2, 0), (3, 0.5), (4, 1.0), (5, 1.5)]


@given(
    st.floats(0.5, 50),
    st.integers(1, 10),
    st.lists(st.floats(0, 3), max_size=40),
)
def test_no_window_has_more_turns_than_the_limit_allows(qps, burst, pauses):
    clock = ManualClock()
    bucket = TokenBucket(qps, burst, clock=clock)
    turns = []
    for pause in pauses:
        clock.advance(pause)
        turns.append(clock.monotonic() + bucket.reserve())
    assert turns == sorted(turns)
    for first, start in enumerate(turns):
        for last in range(first, len(turns)):
            assert last - first + 1 <= burst + (turns[last] - start) * qps + 1e-6


def test_limit_of_nothing_is_no_limit():
    with pytest.raises(ValueError, match="more than 0"):
        TokenBucket(0)
