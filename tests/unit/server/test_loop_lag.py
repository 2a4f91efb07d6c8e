"""The lag of the event loop as a metric, and the helper by which tests bound a turn of the loop."""

import asyncio
import time

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from kapi.server.pages import metrics
from kapi.server.pages.metrics import LoopLag
from loop_turns import loop_turns


def spin(seconds):
    """Use this much CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def page(registry):
    samples = [line.rpartition(" ") for line in generate_latest(registry).decode().splitlines()]
    return {name: float(value) for name, _, value in samples if not name.startswith("#")}


def test_stall_of_the_loop_is_in_the_metrics():
    async def main():
        registry = CollectorRegistry()
        lag = LoopLag(registry)
        probe = asyncio.ensure_future(lag.run())
        await asyncio.sleep(0)
        spin(3 * metrics.LAG_INTERVAL)
        while not page(registry)["kapi_event_loop_lag_seconds_count"]:  # noqa: ASYNC110 (the probe has no event)
            await asyncio.sleep(0)
        probe.cancel()
        assert page(registry)["kapi_event_loop_lag_seconds_sum"] >= metrics.LAG_INTERVAL
        assert page(registry)["kapi_event_loop_lag_longest_seconds"] >= metrics.LAG_INTERVAL

    asyncio.run(main())


def test_longest_lag_is_reported_for_two_windows_and_then_forgotten(monkeypatch):
    async def main():
        lag = LoopLag(CollectorRegistry())
        lag.record(7.0)
        lag.record(0.1)
        monkeypatch.setattr(metrics, "LAG_WINDOW", -1.0)  # Every measurement begins a window.
        monkeypatch.setattr(metrics, "LAG_INTERVAL", 0.0)
        probe = asyncio.ensure_future(lag.run())
        await asyncio.sleep(0)
        assert lag.longest == 7.0
        while lag.longest == 7.0:  # noqa: ASYNC110 (the probe has no event)
            await asyncio.sleep(0)
        probe.cancel()

    asyncio.run(main())


def test_turn_that_computes_is_measured_in_its_thread_and_in_another():
    async def longest(work):
        async with loop_turns() as turns:
            await work()
        return turns.longest

    async def on_loop():
        spin(0.2)

    async def in_steps():
        for _ in range(20):
            spin(0.01)
            await asyncio.sleep(0)

    async def holding_the_lock():
        # One call into C that never gives up the interpreter's lock.
        await asyncio.to_thread(sorted, range(1_000_000, 0, -1), key=int.__neg__)

    assert asyncio.run(longest(on_loop)) >= 0.2
    assert asyncio.run(longest(in_steps)) < 0.2
    assert asyncio.run(longest(holding_the_lock)) > 0.03
