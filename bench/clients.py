"""The rows about controllers: the time and memory until a cache is synced, and how fast changes reach a reconciler.

Here the server is the same for all, Kapi's, and clients take turns: Kapi's informer and controller, and what others
have or leave to their users.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from bench import machine
from bench.figures import quantile
from bench.libraries import CONTROLLER_RUNTIME, OTHERS, Following, Library, importing, kapi
from bench.table import Group, Row
from bench.target import Kapi

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Running

MEMORY_LIMIT = 14_000
"""Bytes a Pod of 4 kB may cost in a cache."""
SLOW = 15.0
"""A client that takes longer for the smaller cache is not asked for the larger one, which would take minutes."""
AGAINST = "kubernetes_asyncio"
IN_GO = ((CONTROLLER_RUNTIME, 0.5),)
"""Go has two cores where Python has one, and compiles; half as fast is what Kapi allows itself."""
KUBECONFIG = "admin.kubeconfig"
TYPICAL = "typical"
"""The sort of object that is followed: Pods of 4 kB."""
_FIRST = "client.sync.some"
_LAST = "client.sync.many"
_IMPORT = "client.import"


def _rows(settings: Settings) -> list[Row]:
    some, burst = f"{settings.some:,} Pods", f"{settings.burst:,}"
    return [
        Row(_IMPORT, "import of the library, processor time", "ms", 1 / 1.2, against="lightkube"),
        Row(_FIRST, f"cache of {some} filled", "s", 2.0, against=AGAINST, more_budgets=IN_GO),
        Row("client.object", "memory of the client for each of them", "B", limit=MEMORY_LIMIT),
        Row("client.start", f"start to {some} reconciled once", "s", 10.0, against="kopf"),
        Row("client.reconcile", f"reconciles of {some} in a full cache", "/s", more_budgets=IN_GO),
        Row("client.drain", f"burst of {burst} updates to reconciles", "/s", 10.0, against="kopf", more_budgets=IN_GO),
        Row("client.late", "write to reconcile", "ms", more_budgets=IN_GO),
        Row(_LAST, f"cache of {settings.many:,} Pods filled", "s", 2.0, against=AGAINST, more_budgets=IN_GO),
        Row(
            "client.memory", "memory of the client with them", "MiB", more_budgets=tuple((name, 2.0) for name in OTHERS)
        ),
    ]


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    settings = bench.settings
    libraries = [kapi(), *bench.libraries]
    others = [row for row in rows if row not in (_FIRST, _LAST, _IMPORT)]
    imported = [library for library in libraries if library.module]
    bench.alternate(_IMPORT, {library.name: partial(_import, library) for library in imported})
    folder = bench.fresh_folder()
    server = None
    try:
        with bench.failing(rows, libraries[0].name):
            server = bench.start(Kapi(), folder)
            bench.work(server, "prepare")
            bench.work(server, "seed", first=0, count=settings.some, of=TYPICAL)
            follow = partial(_follow, bench, server, folder)
            bench.alternate(_FIRST, {library.name: partial(follow, library) for library in libraries})
            for name, reason in bench.failures.get(_FIRST, {}).items():
                _fail(bench, others, name, reason)
            bench.work(server, "seed", first=settings.some, count=settings.many, of=TYPICAL)
            fast = [library for library in libraries if _is_fast(bench, library)]
            fill = {library.name: partial(_fill, bench, server, folder, library) for library in fast}
            # Once: it takes long, and the smaller row shows how much it varies.
            bench.alternate(_LAST, fill, rounds=1)
    finally:
        if server is not None:
            server.stop()


def _is_fast(bench: Bench, library: Library) -> bool:
    return any(figure["value"] < SLOW for figure in bench.figures.get(_FIRST, {}).get(library.name, ()))


def _fail(bench: Bench, rows: Sequence[str], name: str, reason: str) -> None:
    """The rows a client did not come to are not measured for the same reason as the one it failed in."""
    for row in rows:
        if name not in bench.figures.get(row, {}):
            bench.failures.setdefault(row, {})[name] = reason


def _started(library: Library, folder: Path, *numbers: int) -> Following:
    return Following(library, folder / KUBECONFIG, folder.with_name(f"{library.name}.log"), numbers)


def _follow(bench: Bench, server: Running, folder: Path, library: Library) -> Figure:
    """One client from its start to its end fills all rows but the last."""
    settings, name = bench.settings, library.name
    with _started(library, folder, settings.some, settings.burst, settings.touches) as client:
        client.expect("ready")
        empty = client.resident()
        business = Business(server, client)
        began = client.begin()
        synced = client.expect("synced")["at"]
        filled = {"value": synced - began, **business.shares()}
        reconciled = client.expect("reconciled")
        time.sleep(settings.pause)
        bench.record("client.object", name, {"value": (client.resident() - empty) / settings.some})
        bench.record("client.start", name, {"value": reconciled["at"] - began})
        # Where reconciles are mixed with the filling of the cache they have no rate of their own.
        if reconciled["first"] >= synced:
            seconds = reconciled["at"] - reconciled["first"]
            bench.record("client.reconcile", name, {"value": settings.some / seconds})
        bench.record("client.drain", name, _drain(bench, server, client))
        bench.work(server, "touch", first=settings.burst, count=settings.touches, connections=1, pause=0.002)
        late = client.expect("touched")["late"]
        bench.record("client.late", name, _latency(late))
    return filled


def _drain(bench: Bench, server: Running, client: Following) -> Figure:
    """The client sleeps while objects change, each once, and is woken when all have."""
    burst = bench.settings.burst
    client.pause()
    try:
        bench.work(server, "touch", first=0, count=burst, connections=16)
    finally:
        business = Business(server, client)
        resumed = client.resume()
    seconds = client.expect("drained")["at"] - resumed
    return {"value": burst / seconds, **business.shares()}


def _latency(late: Sequence[float]) -> Figure:
    middle = quantile(late, 0.5)
    return {"value": middle, "p50": middle, "p99": quantile(late, 0.99)}


def _fill(bench: Bench, server: Running, folder: Path, library: Library) -> Figure:
    with _started(library, folder, bench.settings.many, 0, 0) as client:
        client.expect("ready")
        business = Business(server, client)
        began = client.begin()
        filled = {"value": client.expect("synced")["at"] - began, **business.shares()}
        time.sleep(bench.settings.pause)
        bench.record("client.memory", library.name, {"value": client.resident()})
        return filled


def _import(library: Library) -> Figure:
    return {"value": importing(library)}


class Business:
    """Measures processor use of server, client and others from now on; 1.0 is one core."""

    def __init__(self, server: Running, client: Following) -> None:
        self._server = server
        self._client = client
        self._began = time.monotonic()
        self._before = self._seconds()

    def _seconds(self) -> tuple[float, float, float]:
        return self._server.busy_seconds(), self._client.busy_seconds(), machine.busy_seconds()

    def shares(self) -> Figure:
        """Return the measured use. The client is measured here, so its share is no reason to doubt a row."""
        elapsed = time.monotonic() - self._began
        server, client, everything = (
            (after - before) / elapsed for after, before in zip(self._seconds(), self._before, strict=True)
        )
        others = max(0.0, everything - server - client)
        return {"server_cpu": server, "follower_cpu": client, "others_cpu": others}


GROUP = Group("client", _rows, _measure)
