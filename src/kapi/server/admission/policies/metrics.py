"""The metrics of policies, under kube-apiserver's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_BUCKETS: Final = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_LABELS: Final = ("policy", "policy_binding", "error_type")
_MOST_SERIES: Final = 1000
"""Further policies and bindings are not counted: clients choose their names."""


class PolicyMetrics:
    """The checks of the policies of one kind, counted and timed."""

    def __init__(self, registry: CollectorRegistry, kind: str, *labels: str) -> None:
        """`kind` is `validating` or `mutating`."""
        prefix = f"apiserver_{kind}_admission_policy_check"
        names = (*_LABELS, *labels)
        self._count = Counter(f"{prefix}_total", "Checks of admission policies.", names, registry=registry)
        self._seconds = Histogram(
            f"{prefix}_duration_seconds",
            "Time that expressions of admission policies took.",
            names,
            registry=registry,
            buckets=_BUCKETS,
        )
        self._series: set[tuple[str, ...]] = set()

    def observe(self, seconds: float, policy: str, binding: str, error: str, *labels: str) -> None:
        """Count one check."""
        values = (policy, binding, error, *labels)
        if values not in self._series:
            if len(self._series) >= _MOST_SERIES:
                return
            self._series.add(values)
        self._count.labels(*values).inc()
        self._seconds.labels(*values).observe(seconds)


def error_type(message: str) -> str:
    """Return the type of an error as the metrics name it."""
    if message.startswith("compilation"):
        return "compile_error"
    if message.startswith("validation failed due to running out of cost budget"):
        return "out_of_budget"
    return "invalid_error"
