"""The rows about Kapi on etcd, next to kube-apiserver on an etcd of its own. There are none where there is no etcd.

One API server, and two on one etcd, between which the connections of the load take turns. What a row counts is what
all of them answer together.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bench.kube_apiserver import KubeApiserver, etcd_command, find
from bench.table import Group, Row, connections
from bench.target import HOST, Kapi, Process, Running, free_port, stopped_on_error, wait_listening, wait_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.figures import Figure
    from bench.runner import Bench
    from bench.settings import Settings

NUMBERS = {"etcd": 1, "etcd.two": 2}
"""The number of API servers by the beginning of a row's name."""
CONNECTIONS = (1, 16)
BUDGETS = {"create": 2.0, "get": 3.0, "list": 2.0, "watch": 2.0}


class KapiOnEtcd(Kapi):
    """`kapi up --storage etcd://…` with one durable member; its processor time and memory include those of etcd."""

    def __init__(self, program: Path, *, servers: int = 1) -> None:
        self._program = program
        self._servers = servers

    def start(self, folder: Path) -> Running:
        port = free_port()
        began = time.perf_counter()
        etcd = Process(etcd_command(self._program, folder / "etcd", port), folder / "etcd.log")
        processes = [etcd]
        with stopped_on_error(processes):
            wait_listening(port, etcd)
            self.options = ("--storage", f"etcd://{HOST}:{port}")
            first = super().start(folder)
            processes += first.processes
            others = [free_port() for _ in range(self._servers - 1)]
            for other in others:
                processes.append(self.process(folder / f"server-{other}", other, "--pki-dir", str(folder / "pki")))
                wait_ready(replace(first.address, port=other), processes)
        return Running(replace(first.address, other_ports=others), processes, began)


def _rows(settings: Settings) -> list[Row]:
    return [row for prefix in NUMBERS for row in _rows_of(prefix, settings)] if find()[0] is not None else []


def _rows_of(prefix: str, settings: Settings) -> list[Row]:
    servers = NUMBERS[prefix]
    on = "etcd" if servers == 1 else f"etcd, {servers} servers"
    watchers = settings.watchers["some"]
    return [
        *(
            Row(f"{prefix}.{kind}.{number}", f"{kind} on {on}, {connections(number)}", "/s", BUDGETS[kind])
            for kind in ("create", "get")
            for number in CONNECTIONS
            if number >= servers
        ),
        Row(f"{prefix}.list", f"list of {settings.some:,} on {on}, {connections(servers)}", "/s", BUDGETS["list"]),
        Row(f"{prefix}.watch", f"events on {on}, {watchers:,} watchers", "/s", BUDGETS["watch"]),
    ]


def _measure(bench: Bench, rows: Sequence[str]) -> None:
    for prefix, servers in NUMBERS.items():
        _measure_servers(bench, [row.id for row in _rows_of(prefix, bench.settings) if row.id in rows], prefix, servers)


def _measure_servers(bench: Bench, rows: Sequence[str], prefix: str, servers: int) -> None:
    found, _ = find()
    if found is None or not rows:
        return
    compared = [found.several(servers)] if any(isinstance(target, KubeApiserver) for target in bench.targets) else []
    with bench.fresh(rows, [KapiOnEtcd(found.etcd, servers=servers), *compared]) as started:
        for name, running in started.items():
            with bench.failing(rows, name):
                bench.work(running, "prepare")
                bench.work(running, "seed", first=0, count=bench.settings.some)
        # Lists first: a row that creates adds to what is listed.
        for row in sorted(rows, key=lambda one: not one.endswith(".list")):
            job = _job(bench, row.removeprefix(f"{prefix}."), servers)
            bench.alternate(row, {name: partial(job, running) for name, running in started.items()})


def _job(bench: Bench, row: str, servers: int) -> Callable[[Running], Figure]:
    """What to do for a row, on a server."""
    settings = bench.settings
    kind, _, number = row.partition(".")
    if kind == "list":
        return lambda running: bench.work(
            running, "lists", keys=settings.some, seconds=settings.seconds, connections=servers
        )
    if kind == "watch":
        return partial(_watch, bench)
    details = {"kind": kind, "connections": int(number), "seconds": settings.seconds, "keys": settings.some}
    return lambda running: bench.work(running, "requests", of="configmaps", **details)


def _watch(bench: Bench, running: Running) -> Figure:
    """Events a second; the time from a write to its event, which is in the same answer, is another row's unit."""
    figure = bench.work(running, "watch", watchers=bench.settings.watchers["some"], seconds=bench.settings.seconds)
    return {name: value for name, value in figure.items() if name not in ("p50", "p99")}


GROUP = Group("etcd", _rows, _measure)
