"""What controllers tell Prometheus, under the names that dashboards of Kubernetes controllers look for.

One set of families per registry; the series of a controller are there, at zero, as soon as it is.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

RESULTS = ("success", "error", "requeue", "requeue_after")

_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)


class _Families:
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"controller_runtime_{name}", text, ("controller", *labels), registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"controller_runtime_{name}", text, ("controller",), registry=registry)

        self.total = counter("reconcile", "Reconciles, by how they ended.", "result")
        self.errors = counter("reconcile_errors", "Reconciles that failed.")
        self.terminal = counter("terminal_reconcile_errors", "Reconciles that failed for good.")
        self.panics = counter("reconcile_panics", "Reconciles that failed through a mistake in the program.")
        self.timeouts = counter("reconcile_timeouts", "Reconciles that took longer than they may.")
        self.max_workers = gauge("max_concurrent_reconciles", "Workers there are.")
        self.active_workers = gauge("active_workers", "Workers that have something to do.")
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile takes.",
            ("controller",),
            buckets=_BUCKETS,
            registry=registry,
        )


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
