"""The rows about built-in kinds: what each is called, what is asked of it, and how it is measured; and all groups."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from bench import aggregation, clients, controllers, custom, environments, etcd, identity, webhook
from bench.baselines import SQLite
from bench.table import Group, Row, connections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings
    from bench.target import Running, Target

POD_CONNECTIONS = 16
QUOTA_CONNECTIONS = 64
POLICY_CONNECTIONS = 16
WEBHOOK_CONNECTIONS = 16
APPLY_CONNECTIONS = 16
PODS_EVERY = 10
"""In the memory rows every so-manieth object is a Pod."""


# -- single requests --------------------------------------------------------------------------------------------------


def _request_rows(kind: str, budget: float | None, settings: Settings) -> list[Row]:
    return [Row(f"{kind}.{n}", f"{kind}, {connections(n)}", "/s", budget) for n in settings.connections]


def _create_rows(settings: Settings) -> list[Row]:
    pods = Row("create.pods", f"create of Pods, {connections(POD_CONNECTIONS)}", "/s")
    quota = Row("create.quota", f"create within a quota, {connections(QUOTA_CONNECTIONS)}", "/s", 3.0)
    policies = Row("create.policies", f"create with 10 CEL policies, {connections(POLICY_CONNECTIONS)}", "/s", 3.0)
    webhooks = Row(
        "create.webhooks",
        f"create with 1 mutating and 1 validating webhook, {connections(WEBHOOK_CONNECTIONS)}",
        "/s",
        3.0,
    )
    return [*_request_rows("create", 3.0, settings), pods, quota, policies, webhooks]


def _requests(bench: Bench, running: Running, kind: str, number: int, of: str = "configmaps") -> Figure:
    return bench.work(
        running,
        "requests",
        kind=kind,
        connections=number,
        seconds=bench.settings.seconds,
        keys=bench.settings.some,
        of=of,
    )


def _measure_creates(bench: Bench, rows: Sequence[str]) -> None:
    with bench.fresh(rows) as servers:
        for number in bench.settings.connections:
            runners: dict[str, Callable[[], Figure]] = {
                name: partial(_requests, bench, running, "create", number) for name, running in servers.items()
            }
            if bench.sqlite:
                folder, seconds = bench.folder / "sqlite", bench.settings.seconds
                runners[SQLite.name(number)] = partial(SQLite.measure, folder, number, seconds)
            bench.alternate(f"create.{number}", runners)
        pods = {
            name: partial(_requests, bench, running, "create", POD_CONNECTIONS, "pods")
            for name, running in servers.items()
        }
        bench.alternate("create.pods", pods)
        for row, job, number, of in (
            ("create.quota", "limit", QUOTA_CONNECTIONS, "limited"),
            ("create.policies", "guard", POLICY_CONNECTIONS, "guarded"),
        ):
            for running in servers.values():
                bench.work(running, job)
            restricted = {
                name: partial(_requests, bench, running, "create", number, of) for name, running in servers.items()
            }
            bench.alternate(row, restricted)
        _measure_webhooks(bench, servers)


def _measure_webhooks(bench: Bench, servers: dict[str, Running]) -> None:
    with webhook.serving(bench.folder / "webhook") as endpoint:
        for running in servers.values():
            bench.work(running, "hook", port=endpoint.port, bundle=endpoint.bundle)
        hooked = {
            name: partial(_requests, bench, running, "create", WEBHOOK_CONNECTIONS, "hooked")
            for name, running in servers.items()
        }
        bench.alternate("create.webhooks", hooked)


def _measure_gets(bench: Bench, rows: Sequence[str]) -> None:
    yardsticks: list[Target] = [bench.uvicorn] if bench.uvicorn is not None else []
    with bench.fresh(rows, yardsticks) as others:
        servers = {**bench.shared(rows), **others}
        _alternate_requests(bench, "get", servers)


def _measure_writes(kind: str, bench: Bench, rows: Sequence[str]) -> None:
    _alternate_requests(bench, kind, bench.shared(rows))


def _alternate_requests(bench: Bench, kind: str, servers: dict[str, Running]) -> None:
    for number in bench.settings.connections:
        runners = {name: partial(_requests, bench, running, kind, number) for name, running in servers.items()}
        bench.alternate(f"{kind}.{number}", runners)


def _apply_rows(settings: Settings) -> list[Row]:
    on = connections(APPLY_CONNECTIONS)
    return [
        Row("apply.new", f"server-side apply of new objects, {on}", "/s", 2.0),
        Row("apply.field", f"server-side apply of one changed field, {on}", "/s", 2.0),
        Row("apply.same", f"server-side apply that changes nothing, {on}", "/s", 2.0),
    ]


def _measure_applies(bench: Bench, rows: Sequence[str]) -> None:
    servers = bench.shared(rows)
    for row in rows:
        runners = {
            name: partial(_requests, bench, running, row, APPLY_CONNECTIONS) for name, running in servers.items()
        }
        bench.alternate(row, runners)


# -- lists and watches ------------------------------------------------------------------------------------------------


def _list_rows(settings: Settings) -> list[Row]:
    return [
        Row("list.whole", f"list of {settings.some:,}, whole", "/s", 2.0),
        Row("list.paged", f"list of {settings.some:,}, pages of {settings.page}", "/s", 2.0),
    ]


def _measure_lists(bench: Bench, rows: Sequence[str]) -> None:
    servers = bench.shared(rows)
    details = {"keys": bench.settings.some, "seconds": bench.settings.seconds}
    for row, limit in (("list.whole", 0), ("list.paged", bench.settings.page)):
        runners = {
            name: partial(bench.work, running, "lists", limit=limit, **details) for name, running in servers.items()
        }
        bench.alternate(row, runners)


def _watch_rows(settings: Settings) -> list[Row]:
    rows = []
    for name, number in settings.watchers.items():
        watchers = f"{number:,} watcher{'s' if number > 1 else ''}"
        rows.append(Row(f"watch.{name}", f"events, {watchers}", "/s", 2.0))
        rows.append(Row(f"event.{name}", f"write to event, {watchers}", "ms"))
    return rows


def _measure_watches(bench: Bench, rows: Sequence[str]) -> None:
    servers = bench.shared(rows)
    for label, number in bench.settings.watchers.items():
        row, event = f"watch.{label}", f"event.{label}"
        runners = {name: partial(_watch, bench, running, number, event, name) for name, running in servers.items()}
        bench.alternate(row, runners)
        for name, reason in bench.failures.get(row, {}).items():
            bench.failures.setdefault(event, {})[name] = reason


def _watch(bench: Bench, running: Running, watchers: int, event: str, name: str) -> Figure:
    """One measurement fills two rows: the rate, and the time from write to event."""
    figure = bench.work(running, "watch", watchers=watchers, seconds=bench.settings.seconds)
    latency = {"value": figure["p50"], "p50": figure.pop("p50"), "p99": figure.pop("p99")}
    bench.record(event, name, latency)
    return figure


# -- starting and memory ----------------------------------------------------------------------------------------------


def _ready_rows(settings: Settings) -> list[Row]:
    return [
        Row("ready.fresh", "start to ready, empty folder", "s", 10.0),
        Row("ready.loaded", f"start to ready, {settings.some:,} objects", "s"),
    ]


def _measure_ready(bench: Bench, rows: Sequence[str]) -> None:
    bench.alternate("ready.fresh", {target.name: partial(_start_and_stop, bench, target) for target in bench.targets})
    names = bench.shared(rows[1:])
    bench.alternate("ready.loaded", {name: partial(_restart, bench, name) for name in names})


def _start_and_stop(bench: Bench, target: Target) -> Figure:
    running = bench.start(target, bench.fresh_folder())
    running.stop()
    return {"value": running.ready_seconds}


def _restart(bench: Bench, name: str) -> Figure:
    return {"value": bench.restart(name).ready_seconds}


def _memory_rows(settings: Settings) -> list[Row]:
    return [
        Row("memory.empty", "memory, empty", "MiB", 4.0),
        Row("memory.some", f"memory, {settings.some:,} objects", "MiB"),
        Row("memory.many", f"memory, {settings.many:,} objects", "MiB"),
        Row("memory.object", "memory for each object", "B", 2.0),
    ]


def _measure_memory(bench: Bench, rows: Sequence[str]) -> None:
    """Once, not in rounds: it takes long, and memory is not noisy."""
    with bench.fresh(rows) as servers:
        for name, running in servers.items():
            with bench.failing(rows, name):
                _fill(bench, name, running)


def _fill(bench: Bench, name: str, running: Running) -> None:
    settings = bench.settings
    held = {0: _resident(bench, "memory.empty", name, running)}
    for row, first, count in (("memory.some", 0, settings.some), ("memory.many", settings.some, settings.many)):
        bench.work(running, "seed", first=first, count=count, pods_every=PODS_EVERY)
        held[count] = _resident(bench, row, name, running)
    bench.record("memory.object", name, {"value": (held[settings.many] - held[0]) / settings.many})


def _resident(bench: Bench, row: str, name: str, running: Running) -> int:
    time.sleep(bench.settings.pause)
    resident = running.resident()
    bench.record(row, name, {"value": resident})
    return resident


GROUPS = (
    Group("ready", _ready_rows, _measure_ready),
    Group("memory", _memory_rows, _measure_memory),
    Group("create", _create_rows, _measure_creates),
    Group("get", partial(_request_rows, "get", 4.0), _measure_gets),
    Group("update", partial(_request_rows, "update", None), partial(_measure_writes, "update")),
    Group("patch", partial(_request_rows, "patch", None), partial(_measure_writes, "patch")),
    Group("list", _list_rows, _measure_lists),
    Group("watch", _watch_rows, _measure_watches),
    custom.GROUP,
    identity.GROUP,
    aggregation.GROUP,
    clients.GROUP,
    controllers.GROUP,
    etcd.GROUP,
    environments.GROUP,
    # Last, because it adds objects to what is listed.
    Group("apply", _apply_rows, _measure_applies),
)
