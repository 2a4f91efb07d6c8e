"""Prometheus metrics of webhooks, under the names of controller-runtime.

The series of a webhook, which is a path, exist at zero as soon as it does. Unknown paths are not counted: callers could
make up any number of them. One set of families per registry.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))


class Call:
    """A call that is under way. One that ends without an answer counts as a failure of the server."""

    status = 500


class WebhookMeter:
    """The meters of all webhooks that share a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = _families.get(registry)
        if families is None:
            families = _families[registry] = _Families(registry)
        self._families = families

    def expect(self, path: str) -> None:
        """Have the series of a webhook at zero before it is called."""
        self._families.in_flight.labels(path)
        self._families.seconds.labels(path)
        for code in ("200", "500"):
            self._families.total.labels(path, code)

    @contextlib.contextmanager
    def call(self, path: str) -> Iterator[Call]:
        """Count a call of a webhook; the code that answers it sets the status."""
        families, call = self._families, Call()
        started = time.perf_counter()
        families.in_flight.labels(path).inc()
        try:
            yield call
        finally:
            families.in_flight.labels(path).dec()
            families.seconds.labels(path).observe(time.perf_counter() - started)
            families.total.labels(path, str(call.status)).inc()


class _Families:
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "controller_runtime_webhook"
        self.total = Counter(f"{prefix}_requests", "Calls, by status code.", ("webhook", "code"), registry=registry)
        self.in_flight = Gauge(f"{prefix}_requests_in_flight", "Calls in progress.", ("webhook",), registry=registry)
        self.seconds = Histogram(
            f"{prefix}_latency_seconds",
            "Latency of calls in seconds.",
            ("webhook",),
            buckets=_BUCKETS,
            registry=registry,
        )


_families: WeakKeyDictionary[CollectorRegistry, _Families] = WeakKeyDictionary()
