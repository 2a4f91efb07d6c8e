"""Counters and histograms for paths that run many thousand times a second, read off when Prometheus asks.

Those of the Prometheus library take a lock and walk the buckets at each step, which costs as much as the queue itself.
These live on one event loop and need neither: a step is an addition. A family hands out one meter for each set of label
values and, when it is collected, says what they stand at, under the same names and in the same form.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.core import Metric


class Meter(Protocol):
    """A metric with a value."""

    def report(self, metric: Any, labels: Sequence[str]) -> None:
        """Add the current value to the metric of its family."""
        ...


M = TypeVar("M", bound=Meter)


class Counter:
    """A value that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """Add one."""
        self.value += 1

    def report(self, metric: Any, labels: Sequence[str]) -> None:
        """See `Meter`."""
        metric.add_metric(labels, self.value)


class Gauge(Counter):
    """A value that rises and falls."""

    __slots__ = ()

    def dec(self) -> None:
        """Subtract one."""
        self.value -= 1

    def set(self, value: int) -> None:
        """Set the value."""
        self.value = value


class Histogram:
    """Counts of values by bucket; a bound belongs to the bucket below it."""

    __slots__ = ("_bounds", "_counters", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        # One place more than there are bounds, for what is above all of them.
        self._counters = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """One more value."""
        self._counters[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def report(self, metric: Any, labels: Sequence[str]) -> None:
        """See `Meter`."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        metric.add_metric(labels, list(zip(names, accumulate(self._counters), strict=True)), self._sum)


class Family(Generic[M]):
    """Meters of one name, by the values of their labels. A meter once asked for stays."""

    def __init__(self, metric: Callable[[], Metric], make: Callable[[], M]) -> None:
        self._metric = metric
        self._make = make
        self._meters: dict[tuple[str, ...], M] = {}

    def labels(self, *values: str) -> M:
        """The meter of these values; it is there, at zero, from now on."""
        meter = self._meters.get(values)
        if meter is None:
            meter = self._meters[values] = self._make()
        return meter

    def collect(self) -> Metric:
        """Return the metric with all values. May be called from another thread."""
        metric = self._metric()
        for values, meter in list(self._meters.items()):
            meter.report(metric, values)
        return metric


def counters(name: str, text: str, labels: Sequence[str]) -> Family[Counter]:
    """A family of counters."""
    return Family(lambda: CounterMetricFamily(name, text, labels=labels), Counter)


def gauges(name: str, text: str, labels: Sequence[str]) -> Family[Gauge]:
    """A family of gauges."""
    return Family(lambda: GaugeMetricFamily(name, text, labels=labels), Gauge)


def histograms(name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Family[Histogram]:
    """A family of histograms."""
    return Family(lambda: HistogramMetricFamily(name, text, labels=labels), lambda: Histogram(bounds))


class Families(Collector):
    """Several families as one collector. Its subclasses name them; `_all` keeps them in order."""

    def __init__(self) -> None:
        self._all: list[Family[Any]] = []

    def add(self, family: Family[M]) -> Family[M]:
        """Add one."""
        self._all.append(family)
        return family

    def collect(self) -> Iterable[Metric]:
        """Return every family with its values."""
        return [family.collect() for family in self._all]

    def describe(self) -> Iterable[Metric]:
        """The families there are: a registry asks once, to know the names that are taken."""
        return [family.collect() for family in self._all]
