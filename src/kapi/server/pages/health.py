"""/healthz, /livez and /readyz: named checks, each of which can be asked for, listed or excluded.

The names are kube-apiserver's where the same thing is checked here, because scripts and probes ask for them one by one
(`/healthz/etcd`, `/readyz/poststarthook/bootstrap-controller`). A client is told only the name of a failing check; the
reason is logged.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from kapi.api.errors import PageNotFound
from kapi.server.transport.message import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Check = Callable[[], str | None]

STORE = "etcd"
"""The check of the store, whichever it is: this is the name that scripts know."""
TEXT = ("Content-Type", "text/plain; charset=utf-8")
NOSNIFF = ("X-Content-Type-Options", "nosniff")

_ENDPOINTS = ("healthz", "livez", "readyz")

_log = structlog.get_logger("kapi.health")


class _Entry(NamedTuple):
    check: Check
    readiness_only: bool


class Hook:
    """A step of the start-up. Its check, `poststarthook/<name>`, fails until the step is done."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False

    def check(self) -> str | None:
        """Return None once the step is done."""
        return None if self.done else "not finished"


class Health:
    """The health checks of one server. A check is a function that returns None, or the reason why it fails."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self.results = HealthResults()
        self.add("ping", lambda: None)
        self.add("log", lambda: None)

    def add(self, name: str, check: Check, *, readiness_only: bool = False) -> None:
        """Register a check; `readiness_only` for one that restarting the server would not help."""
        self._entries[name] = _Entry(check, readiness_only)

    def add_hook(self, name: str) -> Hook:
        """Register the check of a step of the start-up; the caller sets `done`."""
        hook = Hook()
        self.add(f"poststarthook/{name}", hook.check)
        return hook

    def checks(self, endpoint: str) -> dict[str, Check]:
        """Return the checks of an endpoint, in order."""
        ready = endpoint == "readyz"
        return {name: entry.check for name, entry in self._entries.items() if ready or not entry.readiness_only}

    @property
    def ready(self) -> bool:
        """True if /readyz answers ok."""
        return all(check() is None for check in self.checks("readyz").values())

    def paths(self) -> Iterable[str]:
        """Every path that is served here."""
        for endpoint in _ENDPOINTS:
            yield f"/{endpoint}"
            yield from (f"/{endpoint}/{name}" for name in self.checks(endpoint))

    def answer(self, path: str, query: str) -> Response:
        """Answer one of the three endpoints, or one check below it."""
        endpoint, _, name = path.lstrip("/").partition("/")
        checks = self.checks(endpoint)
        if path != f"/{endpoint}" and not name:
            raise PageNotFound
        if name:
            return _answer_one(checks, name)
        parameters = parse_qsl(query, keep_blank_values=True)
        excluded = {value for key, value in parameters if key == "exclude"}
        verbose = any(key == "verbose" for key, _ in parameters)
        return self._answer_all(endpoint, checks, excluded, verbose=verbose)

    def _answer_all(self, endpoint: str, checks: dict[str, Check], excluded: set[str], *, verbose: bool) -> Response:
        lines: list[str] = []
        failed = False
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = check()
            self.results.record(name, endpoint, healthy=reason is None)
            if reason is None:
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
                _log.warning("health check failed", endpoint=endpoint, check=name, reason=reason)
        unknown = sorted(excluded - checks.keys())
        if unknown:
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            return Response(500, [TEXT, NOSNIFF], "\n".join([*lines, f"{endpoint} check failed\n"]).encode())
        if not verbose:
            return Response(200, [TEXT, NOSNIFF], b"ok")
        return Response(200, [TEXT, NOSNIFF], "\n".join([*lines, f"{endpoint} check passed\n"]).encode())


def _answer_one(checks: dict[str, Check], name: str) -> Response:
    check = checks.get(name)
    if check is None:
        raise PageNotFound
    reason = check()
    if reason is None:
        return Response(200, [TEXT], b"ok")
    return Response(500, [TEXT, NOSNIFF], f"internal server error: {reason}\n".encode())


class HealthResults(Collector):
    """The results of the checks, for /metrics/slis: the last of each, and how often each result was seen."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def record(self, name: str, endpoint: str, *, healthy: bool) -> None:
        """Count one result of a check."""
        self._last[name, endpoint] = healthy
        self._counts[name, "success" if healthy else "error", endpoint] += 1

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """Yield both metrics, with the names and help of Kubernetes."""
        last = GaugeMetricFamily(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            labels=["name", "type"],
        )
        for (name, endpoint), healthy in sorted(self._last.items()):
            last.add_metric([name, endpoint], float(healthy))
        yield last
        total = CounterMetricFamily(
            "kubernetes_healthchecks",
            "[STABLE] This metric records the results of all healthcheck.",
            labels=["name", "status", "type"],
        )
        for (name, status, endpoint), count in sorted(self._counts.items()):
            total.add_metric([name, status, endpoint], count)
        yield total
