"""/healthz, /livez and /readyz: named checks, each of which can be asked for, listed or left out.

Alive means: restarting would not help. Ready means: send requests here. A failing check says only its name to the
outside; the reason goes to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from kapi.api.errors import PageNotFound
from kapi.server.transport.message import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TEXT = [
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-Content-Type-Options", "nosniff"),
]

_log = structlog.get_logger("kapi.health")


class Health:
    """The checks of one server. A check is a function that returns None when all is well, else the reason."""

    def __init__(self) -> None:
        self._live: dict[str, Callable[[], str | None]] = {"ping": lambda: None}
        self._ready: dict[str, Callable[[], str | None]] = {}

    def add(self, name: str, check: Callable[[], str | None], *, readiness_only: bool = False) -> None:
        """Register a check."""
        (self._ready if readiness_only else self._live)[name] = check

    def checks(self, endpoint: str) -> dict[str, Callable[[], str | None]]:
        """The checks behind an endpoint, in order."""
        return {**self._live, **self._ready} if endpoint == "readyz" else self._live

    @property
    def ready(self) -> bool:
        """Whether /readyz would say ok."""
        return all(check() is None for check in self.checks("readyz").values())

    def paths(self) -> Iterable[str]:
        """Every path that is served here."""
        for endpoint in ("healthz", "livez", "readyz"):
            yield f"/{endpoint}"
            yield from (f"/{endpoint}/{name}" for name in self.checks(endpoint))

    def answer(self, path: str, query_string: str) -> Response:
        """Answer one of the three endpoints, or one check below it."""
        endpoint, _, name = path.lstrip("/").partition("/")
        checks = self.checks(endpoint)
        if path != f"/{endpoint}" and not name:
            raise PageNotFound
        if name:
            return self._one(checks, name)
        parameters = [part.partition("=") for part in query_string.split("&") if part]
        excluded = {value for key, _, value in parameters if key == "exclude"}
        verbose = any(key == "verbose" for key, _, _ in parameters)
        return self._all(endpoint, checks, excluded, verbose=verbose)

    def _one(self, checks: dict[str, Callable[[], str | None]], name: str) -> Response:
        check = checks.get(name)
        if check is None:
            raise PageNotFound
        reason = check()
        if reason is None:
            return Response(200, list(TEXT), b"ok")
        return Response(500, list(TEXT), f"internal server error: {reason}\n".encode())

    def _all(
        self, endpoint: str, checks: dict[str, Callable[[], str | None]], excluded: set[str], *, verbose: bool
    ) -> Response:
        lines: list[str] = []
        failed: list[str] = []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif (reason := check()) is None:
                lines.append(f"[+]{name} ok")
            else:
                failed.append(name)
                lines.append(f"[-]{name} failed: reason withheld")
                _log.warning("health check failed", endpoint=endpoint, check=name, reason=reason)
        unknown = sorted(excluded - checks.keys())
        if unknown:
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            return Response(500, list(TEXT), "\n".join([*lines, f"{endpoint} check failed\n"]).encode())
        if not verbose:
            return Response(200, list(TEXT), b"ok")
        return Response(200, list(TEXT), "\n".join([*lines, f"{endpoint} check passed\n"]).encode())
