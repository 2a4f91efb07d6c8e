"""Prometheus metrics of requests, under client-go's names: counts by result, and latencies.

Each try counts, as in client-go, and one without an answer has the code `<error>`. Of a watch only the opening is
measured. One set of families per registry.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Histogram

if TYPE_CHECKING:
    from kapi.client.transport.observer import Ended, Outgoing

_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class RequestMeter:
    """An `Observer` that counts requests in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = _families.get(registry)
        if families is None:
            families = _families[registry] = _Families(registry)
        self._families = families

    def begin(self, outgoing: Outgoing, headers: list[tuple[str, str]], /) -> Ended:
        """See `Observer`."""
        families, method, host = self._families, outgoing.method, outgoing.host
        started = time.perf_counter()

        def ended(status: int, failure: BaseException | None) -> None:
            families.total.labels(str(status) if status else "<error>", method, host).inc()
            families.seconds.labels(method, host).observe(time.perf_counter() - started)

        return ended


class _Families:
    """The metric families of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.total = Counter(
            "rest_client_requests",
            "Requests, by status code, method and host.",
            ("code", "method", "host"),
            registry=registry,
        )
        self.seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds.",
            ("verb", "host"),
            buckets=_BUCKETS,
            registry=registry,
        )


_families: WeakKeyDictionary[CollectorRegistry, _Families] = WeakKeyDictionary()
