"""The pages of a manager: `/healthz` and `/livez`, `/readyz`, `/metrics`.

A check is a function that returns what is wrong, or None. Liveness is about this process: a kubelet restarts a
container that is not live, so what a restart cannot cure, such as a server that does not answer, belongs to readiness.
That the pages are answered at all shows that the event loop is not blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import generate_latest

from kapi.base.webhandler import Response

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.base.webhandler import Request

Check: TypeAlias = Callable[[], str | None]

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Pages:
    """Checks by name, and the pages that show them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.live: dict[str, Check] = {}
        self.ready: dict[str, Check] = {}

    async def all(self, request: Request) -> Response:
        """Answer a request for any page."""
        return await (self.metrics if request.path == "/metrics" else self.probes)(request)

    async def probes(self, request: Request) -> Response:
        """Answer a request for the probes."""
        if (refusal := _refusal(request)) is not None:
            return refusal
        if request.path in ("/healthz", "/livez"):
            return _checked(self.live)
        if request.path == "/readyz":
            return _checked(self.ready)
        return Response(404, b"page not found\n")

    async def metrics(self, request: Request) -> Response:
        """Answer a request for the metrics."""
        if (refusal := _refusal(request)) is not None:
            return refusal
        if request.path == "/metrics":
            return Response(200, generate_latest(self._registry), _METRICS)
        return Response(404, b"page not found\n")


def _refusal(request: Request) -> Response | None:
    return None if request.method in ("GET", "HEAD") else Response(405, b"method not allowed\n")


def _checked(checks: dict[str, Check]) -> Response:
    wrong = {name: text for name, check in checks.items() if (text := check()) is not None}
    lines = [f"[{'-' if name in wrong else '+'}]{name} {wrong.get(name, 'ok')}" for name in checks]
    return Response(500 if wrong else 200, ("\n".join(lines or ["ok"]) + "\n").encode())
