"""What controllers tell Prometheus, under the names that dashboards of Kubernetes controllers look for.

One set of families per registry; the series of a controller are there, at zero, as soon as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kapi.controller.metrics.series import Families, counts, distributions, levels

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.controller.metrics.series import Count, Family, Level

RESULTS = ("success", "error", "requeue", "requeue_after")

_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class _Families(Families):
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self.total = self._counts("reconcile", "Reconciles, by how they ended.", "result")
        self.errors = self._counts("reconcile_errors", "Reconciles that failed.")
        self.terminal = self._counts("terminal_reconcile_errors", "Reconciles that failed for good.")
        self.panics = self._counts("reconcile_panics", "Reconciles that failed through a mistake in the program.")
        self.timeouts = self._counts("reconcile_timeouts", "Reconciles that took longer than they may.")
        self.max_workers = self._levels("max_concurrent_reconciles", "Workers there are.")
        self.active_workers = self._levels("active_workers", "Workers that have something to do.")
        name, text = "controller_runtime_reconcile_time_seconds", "How long a reconcile takes."
        self.seconds = self.add(distributions(name, text, ("controller",), _BUCKETS))
        registry.register(self)

    def _counts(self, name: str, text: str, *labels: str) -> Family[Count]:
        return self.add(counts(f"controller_runtime_{name}", text, ("controller", *labels)))

    def _levels(self, name: str, text: str) -> Family[Level]:
        return self.add(levels(f"controller_runtime_{name}", text, ("controller",)))


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
