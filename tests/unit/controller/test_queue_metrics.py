"""What queues tell Prometheus."""

import asyncio
import gc

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from kapi.base.clock import ManualClock
from kapi.controller.queue import LOW_PRIORITY, DelayingQueue, RateLimitingQueue, WorkQueue
from virtual_time import LoopClock, run


def reader(registry):
    def read(metric, name="pods", **labels):
        return registry.get_sample_value(f"workqueue_{metric}", {"name": name, "controller": name, **labels})

    return read


def test_depth_adds_and_durations_follow_a_key_through_the_queue():
    async def main():
        registry = CollectorRegistry()
        read = reader(registry)
        queue = WorkQueue("pods", clock=LoopClock(), registry=registry)
        assert read("depth", priority="0") == 0
        for key in "aab":
            queue.add(key)
        assert (read("depth", priority="0"), read("adds_total")) == (2, 2)
        await asyncio.sleep(3)
        key = await queue.get()
        assert read("depth", priority="0") == 1
        assert (read("queue_duration_seconds_sum"), read("queue_duration_seconds_count")) == (3, 1)
        await asyncio.sleep(5)
        assert (read("unfinished_work_seconds"), read("longest_running_processor_seconds")) == (5, 5)
        queue.add(key)
        assert (read("depth", priority="0"), read("adds_total")) == (2, 3)
        queue.done(key)
        assert (read("work_duration_seconds_sum"), read("work_duration_seconds_count")) == (5, 1)
        assert (read("unfinished_work_seconds"), read("longest_running_processor_seconds")) == (0, 0)

    run(main())


def test_a_key_added_during_work_has_waited_since_it_was_added():
    async def main():
        registry = CollectorRegistry()
        queue = WorkQueue("pods", clock=LoopClock(), registry=registry)
        queue.add("a")
        await queue.get()
        await asyncio.sleep(1)
        queue.add("a")
        await asyncio.sleep(4)
        queue.done("a")
        await queue.get()
        assert reader(registry)("queue_duration_seconds_sum") == 4

    run(main())


def test_depth_is_reported_per_priority_and_a_series_falls_to_zero_instead_of_vanishing():
    async def main():
        registry = CollectorRegistry()
        read = reader(registry)
        queue = WorkQueue("pods", clock=LoopClock(), registry=registry)
        queue.add("a", priority=LOW_PRIORITY)
        queue.add("b")
        assert (read("depth", priority="-100"), read("depth", priority="0")) == (1, 1)
        queue.add("a")
        assert (read("depth", priority="-100"), read("depth", priority="0")) == (0, 2)

    run(main())


def test_priorities_do_not_make_series_without_end():
    registry = CollectorRegistry()
    queue = WorkQueue("pods", clock=ManualClock(), registry=registry)
    for number in range(1000):
        queue.add(number, priority=number)
    families = [family for family in registry.collect() if family.name == "workqueue_depth"]
    assert len(families[0].samples) <= 26
    assert sum(sample.value for sample in families[0].samples) == 1000


def test_retries_count_keys_asked_to_come_later():
    async def main():
        registry = CollectorRegistry()
        queue = RateLimitingQueue("pods", clock=LoopClock(), registry=registry)
        queue.add("a")
        queue.add_after("a", 5)
        queue.add_rate_limited("a")
        assert reader(registry)("retries_total") == 2
        queue.shut_down()

    run(main())


def test_queues_of_one_name_share_their_series_and_add_up():
    async def main():
        registry = CollectorRegistry()
        read = reader(registry)
        first, second = (WorkQueue("pods", clock=LoopClock(), registry=registry) for _ in range(2))
        other = DelayingQueue("nodes", clock=LoopClock(), registry=registry)
        first.add("a")
        second.add("a")
        second.add("b")
        assert (read("depth", priority="0"), read("adds_total")) == (3, 3)
        assert read("depth", "nodes", priority="0") == 0
        await first.get()
        await asyncio.sleep(2)
        await second.get()
        await asyncio.sleep(1)
        assert (read("unfinished_work_seconds"), read("longest_running_processor_seconds")) == (4, 3)
        assert len(other) == 0

    run(main())


def test_a_collected_queue_drops_its_gauges_and_leaves_its_counters():
    registry = CollectorRegistry()
    read = reader(registry)
    queue = WorkQueue("pods", clock=ManualClock(), registry=registry)
    queue.add("a")
    del queue
    gc.collect()
    assert read("depth", priority="0") is None
    assert read("adds_total") == 1


def test_registries_do_not_know_each_other_and_are_not_kept_alive():
    registries = [CollectorRegistry(), CollectorRegistry()]
    queues = [WorkQueue("pods", clock=ManualClock(), registry=registry) for registry in registries]
    queues[0].add("a")
    assert [reader(registry)("adds_total") for registry in registries] == [1, 0]
    from kapi.controller.metrics.queue import _families

    known = len(_families)
    registries.clear()
    queues.clear()
    gc.collect()
    assert len(_families) == known - 2


def test_a_queue_without_a_name_or_a_registry_is_not_measured():
    registry = CollectorRegistry()
    WorkQueue("", registry=registry).add("a")
    WorkQueue("pods").add("a")
    assert list(registry.collect()) == []


def test_the_names_are_the_ones_dashboards_know():
    registry = CollectorRegistry()
    queue = WorkQueue("pods", clock=ManualClock(), registry=registry)
    text = generate_latest(registry).decode()
    for line in (
        "# TYPE workqueue_depth gauge",
        "# TYPE workqueue_adds_total counter",
        "# TYPE workqueue_queue_duration_seconds histogram",
        "# TYPE workqueue_work_duration_seconds histogram",
        "# TYPE workqueue_unfinished_work_seconds gauge",
        "# TYPE workqueue_longest_running_processor_seconds gauge",
        "# TYPE workqueue_retries_total counter",
    ):
        assert line in text
    assert 'workqueue_work_duration_seconds_bucket{controller="pods",le="1e-08",name="pods"}' in text
    assert len(queue) == 0
