"""Counters and histograms for paths that run many thousand times a second, read off when Prometheus asks.

Those of the Prometheus library take a lock and walk the buckets at each step, which cost as much as the queue itself.
These live on one event loop and need neither: a step is an addition. A family hands out one meter for each set of label
values and, when it is collected, says what they stand at, under the same names and in the same form.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.core import Metric

M = TypeVar("M", "Count", "Level", "Distribution")


class Count:
    """Something that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """One more."""
        self.value += 1


class Level:
    """Something that rises and falls."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """One more."""
        self.value += 1

    def dec(self) -> None:
        """One less."""
        self.value -= 1

    def set(self, value: int) -> None:
        """So many."""
        self.value = value


class Distribution:
    """How often a value fell between which bounds; `counts` has one place more than there are bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """One more value. A bound belongs to what is below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """How many values were not above each bound, and in all, as Prometheus wants to be told."""
        names = [*map(floatToGoString, self.bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))


class Family(Generic[M]):
    """Meters of one name, by the values of their labels. A meter once asked for stays."""

    def __init__(self, name: str, text: str, labels: Sequence[str], make: Callable[[], M]) -> None:
        self._name = name
        self._text = text
        self._labels = labels
        self._make = make
        self._meters: dict[tuple[str, ...], M] = {}

    def labels(self, *values: str) -> M:
        """The meter of these values; it is there, at zero, from now on."""
        if len(values) != len(self._labels):
            raise ValueError(f"{self._name}: {values} are not values of {', '.join(self._labels)}")
        meter = self._meters.get(values)
        if meter is None:
            meter = self._meters[values] = self._make()
        return meter

    def metric(self) -> Metric:
        """What all of them stand at. May be asked from another thread."""
        empty = self._make()
        if isinstance(empty, Distribution):
            histogram = HistogramMetricFamily(self._name, self._text, labels=self._labels)
            for values, meter in list(self._meters.items()):
                assert isinstance(meter, Distribution)
                histogram.add_metric(values, meter.buckets(), meter.sum)
            return histogram
        kind = GaugeMetricFamily if isinstance(empty, Level) else CounterMetricFamily
        found = kind(self._name, self._text, labels=self._labels)
        for values, meter in list(self._meters.items()):
            assert not isinstance(meter, Distribution)
            found.add_metric(values, meter.value)
        return found


class Families(Collector):
    """Several families as one collector."""

    def __init__(self, families: Iterable[Family[Count] | Family[Level] | Family[Distribution]]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """Every family, as it stands."""
        return [family.metric() for family in self._families]
