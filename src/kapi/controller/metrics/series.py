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
    """Something that stands at a value."""

    def report(self, metric: Any, labels: Sequence[str]) -> None:
        """Add what it stands at to the metric of its family."""
        ...


M = TypeVar("M", bound=Meter)


class Count:
    """Something that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """One more."""
        self.value += 1

    def report(self, metric: Any, labels: Sequence[str]) -> None:
        """See `Meter`."""
        metric.add_metric(labels, self.value)


class Level(Count):
    """Something that rises and falls."""

    __slots__ = ()

    def dec(self) -> None:
        """One less."""
        self.value -= 1

    def set(self, value: int) -> None:
        """So many."""
        self.value = value


class Distribution:
    """How often a value fell between which bounds; a bound belongs to what is below it."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        # One place more than there are bounds, for what is above all of them.
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def report(self, metric: Any, labels: Sequence[str]) -> None:
        """See `Meter`."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        metric.add_metric(labels, list(zip(names, accumulate(self._counts), strict=True)), self._sum)


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
        """What all of them stand at. May be asked from another thread."""
        metric = self._metric()
        for values, meter in list(self._meters.items()):
            meter.report(metric, values)
        return metric


def counts(name: str, text: str, labels: Sequence[str]) -> Family[Count]:
    """A family of counters."""
    return Family(lambda: CounterMetricFamily(name, text, labels=labels), Count)


def levels(name: str, text: str, labels: Sequence[str]) -> Family[Level]:
    """A family of gauges."""
    return Family(lambda: GaugeMetricFamily(name, text, labels=labels), Level)


def distributions(name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Family[Distribution]:
    """A family of histograms."""
    return Family(lambda: HistogramMetricFamily(name, text, labels=labels), lambda: Distribution(bounds))


class Families(Collector):
    """Several families as one collector. Its subclasses name them; `_all` keeps them in order."""

    def __init__(self) -> None:
        self._all: list[Family[Any]] = []

    def add(self, family: Family[M]) -> Family[M]:
        """One more."""
        self._all.append(family)
        return family

    def collect(self) -> Iterable[Metric]:
        """Every family, as it stands."""
        return [family.collect() for family in self._all]

    def describe(self) -> Iterable[Metric]:
        """The families there are: a registry asks once, to know the names that are taken."""
        return [family.collect() for family in self._all]
