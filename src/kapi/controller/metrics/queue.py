"""Prometheus metrics of work queues, under the names of client-go.

Counters and histograms are fed as things happen. Depth, unfinished work and the longest running worker are read off the
live queues when Prometheus asks, so they are exact, need no ticker, and add up when several queues have one name.
One set of families per registry, however many queues.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from prometheus_client.core import GaugeMetricFamily

from kapi.controller.metrics.series import Families, counters, histograms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from kapi.base.clock import Clock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

_LABELS = ("name", "controller")
_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
# Priorities come from users; beyond this many different ones, the rest share a series.
_MAX_PRIORITIES = 25
_TOO_MANY_PRIORITIES = "exceeded_cardinality_limit"


class Meter(Protocol[K_contra]):
    """The metrics of a queue."""

    def added(self, key: K_contra, priority: int) -> None:
        """A key became dirty."""
        ...

    def taken(self, key: K_contra) -> None:
        """A worker took a key."""
        ...

    def finished(self, key: K_contra) -> None:
        """A worker gave a key back."""
        ...

    def retried(self) -> None:
        """A key was asked to come later."""
        ...


class NoMeter:
    """The metrics of a queue without a name or a registry: none."""

    def added(self, key: object, priority: int) -> None:
        """Nothing."""

    def taken(self, key: object) -> None:
        """Nothing."""

    def finished(self, key: object) -> None:
        """Nothing."""

    def retried(self) -> None:
        """Nothing."""


class QueueMeter(Generic[K]):
    """The meter of one queue. `dirty` is the queue's own: the keys that need work and their priorities."""

    def __init__(self, name: str, clock: Clock, dirty: Mapping[K, int], families: _Families) -> None:
        self.name = name
        self._monotonic = clock.monotonic
        self._dirty = dirty
        # Bounded by the keys of the queue: a key is in here only while it is dirty or being worked on.
        self._added_at: dict[K, float] = {}
        self._taken_at: dict[K, float] = {}
        self._priorities = {"0"}
        self._adds = families.adds.labels(name, name)
        self._waits = families.waits.labels(name, name)
        self._works = families.works.labels(name, name)
        self._retries = families.retries.labels(name, name)

    def added(self, key: K, priority: int) -> None:
        """A key became dirty."""
        self._adds.value += 1
        self._added_at[key] = self._monotonic()

    def taken(self, key: K) -> None:
        """A worker took a key."""
        now = self._taken_at[key] = self._monotonic()
        self._waits.observe(now - self._added_at.pop(key))

    def finished(self, key: K) -> None:
        """A worker gave a key back."""
        self._works.observe(self._monotonic() - self._taken_at.pop(key))

    def retried(self) -> None:
        """A key was asked to come later."""
        self._retries.inc()

    def depth(self) -> dict[str, int]:
        """Dirty keys per priority; a priority once seen stays, so that its series falls to 0 and does not vanish."""
        depths: dict[str, int] = dict.fromkeys(self._priorities, 0)
        for priority in list(self._dirty.values()):
            label = str(priority)
            if label not in depths and len(depths) >= _MAX_PRIORITIES:
                label = _TOO_MANY_PRIORITIES
            depths[label] = depths.get(label, 0) + 1
        self._priorities.update(depths)
        return depths

    def running(self) -> list[float]:
        """For each key that a worker has, how long it has had it."""
        started = list(self._taken_at.values())
        if not started:
            # The clock may be one of a loop that is over; without work there is nothing to ask it.
            return []
        now = self._monotonic()
        return [now - start for start in started]


class _Families(Families):
    """The metric families of one registry, and the gauges read off its queues."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self.adds = self.add(counters("workqueue_adds", "Keys added to the work queue.", _LABELS))
        self.retries = self.add(counters("workqueue_retries", "Keys added again after a delay or a failure.", _LABELS))
        waits = "Seconds a key waits in the queue until a worker takes it."
        self.waits = self.add(histograms("workqueue_queue_duration_seconds", waits, _LABELS, _BUCKETS))
        works = "Seconds a worker spends on a key."
        self.works = self.add(histograms("workqueue_work_duration_seconds", works, _LABELS, _BUCKETS))
        # The gauges of a queue are dropped with the queue.
        self.meters: WeakSet[QueueMeter[Any]] = WeakSet()
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The families without values: registering asks, and must not need a clock."""
        return [*super().describe(), *self._gauges()]

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now."""
        depth, unfinished, longest = self._gauges()
        by_name: dict[str, list[QueueMeter[Any]]] = {}
        for meter in list(self.meters):
            by_name.setdefault(meter.name, []).append(meter)
        for name, meters in sorted(by_name.items()):
            depths: dict[str, int] = {}
            for meter in meters:
                for priority, count in meter.depth().items():
                    depths[priority] = depths.get(priority, 0) + count
            for priority, count in sorted(depths.items()):
                depth.add_metric((name, name, priority), count)
            running = [seconds for meter in meters for seconds in meter.running()]
            unfinished.add_metric((name, name), sum(running))
            longest.add_metric((name, name), max(running, default=0.0))
        return [*super().collect(), depth, unfinished, longest]

    @staticmethod
    def _gauges() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily("workqueue_depth", "Keys in the queue.", labels=(*_LABELS, "priority")),
            GaugeMetricFamily(
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress, over all workers; grows as long as one is stuck.",
                labels=_LABELS,
            ),
            GaugeMetricFamily(
                "workqueue_longest_running_processor_seconds",
                "Seconds the longest running worker has had its key.",
                labels=_LABELS,
            ),
        )


_families: WeakKeyDictionary[CollectorRegistry, _Families] = WeakKeyDictionary()


def queue_meter(registry: CollectorRegistry | None, name: str, clock: Clock, dirty: Mapping[K, int]) -> Meter[K]:
    """A meter for one queue; one that does nothing for a queue without a name or a registry."""
    if registry is None or not name:
        return NoMeter()
    families = _families.get(registry)
    if families is None:
        families = _families[registry] = _Families(registry)
    meter: QueueMeter[K] = QueueMeter(name, clock, dirty, families)
    families.meters.add(meter)
    return meter
