"""The metrics of calls to admission webhooks, under kube-apiserver's names. A request that calls none touches none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from kapi.server.admission.metrics import Times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry, Metric

BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
MAX_CODE: Final = 600
"""Codes above are counted as this one, so that a webhook cannot make more and more series."""
MAX_NAMES: Final = 1000
"""Webhooks beyond, counting those that were deleted, are counted under an empty name."""

CALL_FAILED: Final = "calling_webhook_error"
SERVER_FAILED: Final = "apiserver_internal_error"
DENIED: Final = "no_error"

_PREFIX: Final = "apiserver_admission_webhook"


_TOLD: Final = {False: "false", True: "true"}


class WebhookMetrics(Collector):
    """Calls, their outcomes and durations, by the name of the webhook. Calls are counted in plain lists."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._names: set[str] = set()
        self._calls: dict[tuple[str, str, str, int, bool], Times] = {}
        # The client library appends `_total` to the names of counters, which these two do not have in Kubernetes.
        self._rejections = Gauge(
            f"{_PREFIX}_rejection_count",
            "Admission webhook rejection count, identified by name and broken out for each admission type (validating "
            "or admit) and operation. Additional labels specify an error type (calling_webhook_error or "
            "apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection "
            "code if the webhook rejects the request with an HTTP status code.",
            ("name", "type", "operation", "error_type", "rejection_code"),
            registry=registry,
        )
        self._failed_open = Gauge(
            f"{_PREFIX}_fail_open_count",
            "Admission webhook fail open count, identified by name and broken out for each admission type (validating "
            "or admit).",
            ("name", "type"),
            registry=registry,
        )
        registry.register(self)

    def called(self, name: str, step: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        """Count a call."""
        key = (self._name(name), step, operation, min(code, MAX_CODE), rejected)
        times = self._calls.get(key)
        if times is None:
            times = self._calls[key] = Times(BUCKETS)
        times.add(seconds)

    def collect(self) -> Iterable[Metric]:
        """Return the calls, which are counted here, as series."""
        requests = CounterMetricFamily(
            f"{_PREFIX}_request",
            "Admission webhook request total, identified by name and broken out for each admission type (validating or "
            "admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP "
            "status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
            labels=("name", "type", "operation", "code", "rejected"),
        )
        durations = HistogramMetricFamily(
            f"{_PREFIX}_admission_duration_seconds",
            "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and "
            "API resource and type (validate or admit).",
            labels=("name", "type", "operation", "rejected"),
        )
        # The durations do not tell calls of different codes apart.
        joined: dict[tuple[str, str, str, bool], Times] = {}
        for (name, step, operation, code, rejected), times in self._calls.items():
            requests.add_metric((name, step, operation, str(code), _TOLD[rejected]), times.number)
            joined.setdefault((name, step, operation, rejected), Times(BUCKETS)).join(times)
        for (name, step, operation, rejected), times in joined.items():
            durations.add_metric((name, step, operation, _TOLD[rejected]), times.cumulative(), times.total)
        yield requests
        yield durations

    def rejected(self, name: str, step: str, operation: str, error_type: str, code: int) -> None:
        """Count a request that was refused because of a webhook."""
        self._rejections.labels(self._name(name), step, operation, error_type, str(min(code, MAX_CODE))).inc()

    def failed_open(self, name: str, step: str) -> None:
        """Count a failure that was ignored."""
        self._failed_open.labels(self._name(name), step).inc()

    def _name(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= MAX_NAMES:
                return ""
            self._names.add(name)
        return name


_of_registry: WeakKeyDictionary[CollectorRegistry, WebhookMetrics] = WeakKeyDictionary()


def metrics_of(registry: CollectorRegistry) -> WebhookMetrics:
    """Return the metrics in a registry; both plug-ins share them."""
    found = _of_registry.get(registry)
    if found is None:
        found = _of_registry[registry] = WebhookMetrics(registry)
    return found
