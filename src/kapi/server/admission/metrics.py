"""The metrics of the admission chain: how long plug-ins and steps took, under kube-apiserver's names.

They are counted in plain lists and turned into series at a scrape: a write passes several plug-ins, and a Prometheus
histogram would cost more than most of them.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_now = time.perf_counter


class Times:
    """The durations with one set of labels."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...] = BUCKETS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @property
    def number(self) -> int:
        """The number of durations."""
        return sum(self._counts)

    def add(self, seconds: float) -> None:
        """Count a duration."""
        bounds = self._bounds
        self._counts[0 if seconds <= bounds[0] else bisect_left(bounds, seconds)] += 1
        self.total += seconds

    def join(self, other: Times) -> None:
        """Count the durations of another one, which has the same bounds."""
        self._counts = [own + more for own, more in zip(self._counts, other._counts, strict=True)]
        self.total += other.total

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the number of durations up to each bound."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        return [(bound, float(count)) for bound, count in zip(bounds, accumulate(self._counts), strict=True)]


class AdmissionMetrics(Collector):
    """Durations by plug-in and by step. A step is all mutating, or all validating, plug-ins of one write."""

    def __init__(self) -> None:
        self._plugins: dict[tuple[str, str, str, str], Times] = {}
        self._steps: dict[tuple[str, str, str], Times] = {}

    def admitted(self, name: str, step: str, operation: str, started: float) -> float:
        """Count a plug-in that let the write pass; returns the time now."""
        now = _now()
        key = (name, step, operation, "false")
        times = self._plugins.get(key)
        if times is None:
            times = self._plugins[key] = Times()
        times.add(now - started)
        return now

    def finished(self, step: str, operation: str, began: float) -> None:
        """Count a step whose plug-ins all let the write pass."""
        self._step(step, operation, "false").add(_now() - began)

    def rejected(self, name: str, step: str, operation: str, started: float, began: float) -> None:
        """Count the plug-in that refused the write, and its step."""
        now = _now()
        key = (name, step, operation, "true")
        self._plugins.setdefault(key, Times()).add(now - started)
        self._step(step, operation, "true").add(now - began)

    def _step(self, step: str, operation: str, rejected: str) -> Times:
        key = (step, operation, rejected)
        times = self._steps.get(key)
        if times is None:
            times = self._steps[key] = Times()
        return times

    def collect(self) -> Iterable[Metric]:
        """Return the histograms."""
        plugins = HistogramMetricFamily(
            "apiserver_admission_controller_admission_duration_seconds",
            "Time that an admission plug-in took.",
            labels=("name", "type", "operation", "rejected"),
        )
        for labels, times in self._plugins.items():
            plugins.add_metric(labels, times.cumulative(), times.total)
        yield plugins
        steps = HistogramMetricFamily(
            "apiserver_admission_step_admission_duration_seconds",
            "Time that the mutating, or the validating, admission of a write took.",
            labels=("type", "operation", "rejected"),
        )
        for step, times in self._steps.items():
            steps.add_metric(step, times.cumulative(), times.total)
        yield steps
