"""Prometheus metrics of controllers, under the names of controller-runtime.

One set of families per registry; the series of a controller exist, at zero, as soon as it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kapi.controller.metrics.series import Families, counters, gauges, histograms

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.controller.metrics.series import Counter, Family, Gauge

RESULTS = ("success", "error", "requeue", "requeue_after")

_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class _Families(Families):
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self.total = self._counters("reconcile", "Total number of reconciliations per controller, by result.", "result")
        self.errors = self._counters("reconcile_errors", "Total number of reconciliation errors per controller.")
        self.terminal = self._counters(
            "terminal_reconcile_errors", "Total number of terminal reconciliation errors per controller."
        )
        self.panics = self._counters(
            "reconcile_panics", "Total number of reconciliations that failed because of a bug in the reconciler."
        )
        self.timeouts = self._counters("reconcile_timeouts", "Total number of reconciliation time-outs per controller.")
        self.max_workers = self._gauges(
            "max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller."
        )
        self.active_workers = self._gauges("active_workers", "Number of workers that are reconciling, per controller.")
        name, text = "controller_runtime_reconcile_time_seconds", "Duration of a reconcile, in seconds."
        self.seconds = self.add(histograms(name, text, ("controller",), _BUCKETS))
        registry.register(self)

    def _counters(self, name: str, text: str, *labels: str) -> Family[Counter]:
        return self.add(counters(f"controller_runtime_{name}", text, ("controller", *labels)))

    def _gauges(self, name: str, text: str) -> Family[Gauge]:
        return self.add(gauges(f"controller_runtime_{name}", text, ("controller",)))


class ControllerMeter:
    """The meters of one controller, each ready to be counted."""

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        families = _families.get(registry)
        if families is None:
            families = _families[registry] = _Families(registry)
        self.results = {result: families.total.labels(name, result) for result in RESULTS}
        self.errors = families.errors.labels(name)
        self.terminal = families.terminal.labels(name)
        self.panics = families.panics.labels(name)
        self.timeouts = families.timeouts.labels(name)
        self.max_workers = families.max_workers.labels(name)
        self.active_workers = families.active_workers.labels(name)
        self.seconds = families.seconds.labels(name)


_families: WeakKeyDictionary[CollectorRegistry, _Families] = WeakKeyDictionary()
