"""How costs grow: `make bench ARGS="--scale"`.

For each section a server is started at several sizes, and the processor time and memory that one item costs are
measured; `growth` has the bound on what they may grow to. It fails if a row exceeds its bound.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from bench import machine
from bench.client import LoadError, call
from bench.growth import Growth, table
from bench.objects import collection, request
from bench.pairs import idle
from bench.population import PATTERN, app_of, node_of, populate, small_pod
from bench.runner import LoadProcess
from bench.target import Kapi

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from bench.target import Running

IDLE_PATIENCE = 60.0
"""Seconds that a server may be busy after it has started or been filled."""
PODS = collection(resource="pods")


@dataclass(frozen=True)
class Sizes:
    """The sizes of each section, smallest first."""

    objects: tuple[int, ...] = (10_000, 100_000, 300_000)
    definitions: tuple[int, ...] = (100, 300, 1000)
    connections: tuple[int, ...] = (500, 1500, 5000)
    watchers: tuple[int, ...] = (100, 300, 1000)
    nodes: tuple[int, ...] = (50, 500, 5000)
    """Watches that each select the Pods of one node."""
    values: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    """Bytes of an object."""
    requests: float = 1.0
    """The share of the usual number of requests."""
    starts: int = 3
    """How often a server is started with a number of objects."""


QUICK = Sizes((200, 400), (4, 8), (10, 20), (5, 10), (5, 10), (1000, 10_000), 0.1, 1)


class Scale:
    """One run. `tables` are by section."""

    def __init__(self, sizes: Sizes, *, root: Path, folder: Path) -> None:
        self.sizes = sizes
        self.tables: dict[str, list[Growth]] = {}
        self._folder = folder
        self._load = LoadProcess(root)
        self._jobs = 0

    def close(self) -> None:
        """Stop the load generator."""
        self._load.stop()

    # -- objects ------------------------------------------------------------------------------------------------------

    def objects(self) -> list[Growth]:
        """Measure with more and more Pods in the store."""
        one, each = "a request", "a stored object"
        rows = {
            "start": Growth("start", each),
            "memory": Growth("memory", each, "B"),
            "get": Growth("get", one),
            "create": Growth("create", one),
            "update": Growth("merge patch", one),
            "page": Growth("list, page of 500", one),
            "label": Growth("list of 100 by a label", one),
            "field": Growth("list of 100 by `spec.nodeName`", one),
            "list": Growth("list", each),
            "scan": Growth("list by `tier notin (back)`, none selected", each),
        }
        folder = self._folder / "objects"
        running = Kapi().start(folder)
        self._prepare(running)
        asyncio.run(call(running.address, request("POST", PODS, small_pod(PATTERN, None))))
        running.stop()
        running, empty = self._restarted(folder)
        memory = running.resident()
        running.stop()
        done = 0
        for size in self.sizes.objects:
            asyncio.run(populate(folder, done, size))
            done = size
            running, spent = self._restarted(folder)
            try:
                rows["start"].costs[size] = max(spent - empty, 0.0) / size
                rows["memory"].costs[size] = (running.resident() - memory) / size
                for row, cost in self._object_costs(running, size).items():
                    rows[row].costs[size] = cost
            finally:
                running.stop()
        return list(rows.values())

    def _object_costs(self, running: Running, size: int) -> dict[str, float]:
        group = size // 200
        label, node = quote(f"app={app_of(group)}"), quote(f"spec.nodeName={node_of(group)}")
        nothing = quote("tier notin (back)")
        details = {"of": "scaled", "keys": size}
        return {
            "get": self._cost(running, "get", 200, 20, **details),
            "create": self._cost(running, "create", 100, 10, **details),
            "update": self._cost(running, "annotate", 100, 10, **details),
            "page": self._cost(running, "path", 10, 5, path=f"{PODS}?limit=500"),
            "label": self._cost(running, "path", 10, 5, path=f"{PODS}?labelSelector={label}"),
            "field": self._cost(running, "path", 10, 5, path=f"{PODS}?fieldSelector={node}"),
            "list": self._cost(running, "path", 1, 2, connections=1, path=PODS) / size,
            "scan": self._cost(running, "path", 1, 3, connections=1, path=f"{PODS}?labelSelector={nothing}") / size,
        }

    # -- the other sections -------------------------------------------------------------------------------------------

    def definitions(self) -> list[Growth]:
        """Measure with more and more custom kinds, each with one object."""
        each = "a definition"
        rows = {
            "install": Growth("install", each),
            "memory": Growth("memory", each, "B"),
            "start": Growth("start", each),
            "create": Growth("create of a custom object", "a request"),
        }
        folder = self._folder / "definitions"
        Kapi().start(folder).stop()
        running, empty = self._restarted(folder)
        running.stop()
        for size in self.sizes.definitions:
            folder = self._folder / f"definitions-{size}"
            running = Kapi().start(folder)
            try:
                memory = self._started(running)[1]
                self._prepare(running)
                before = running.processor_seconds()
                self._work(running, "install", name="small", count=size)
                self._work(running, "use", name="small", count=size)
                _wait_idle(running)
                rows["install"].costs[size] = (running.processor_seconds() - before) / size
                rows["memory"].costs[size] = (running.resident() - memory) / size
                rows["create"].costs[size] = self._cost(running, "create", 100, 10, of="small")
                running.stop()
                running, spent = self._restarted(folder)
                rows["start"].costs[size] = max(spent - empty, 0.0) / size
            finally:
                running.stop()
        return list(rows.values())

    def connections(self) -> list[Growth]:
        """Measure with more and more connections that are open and idle."""
        each = "a connection"
        rows = {
            "connect": Growth("connect with a client certificate", each),
            "memory": Growth("memory", each, "B"),
            "idle": Growth("a second of being idle", each),
            "get": Growth("get on other connections", "a request"),
        }
        with _Server(self._folder / "connections") as running:
            self._prepare(running)
            self._work(running, "seed", first=0, count=1000)
            for size in self.sizes.connections:
                figure = self._work(
                    running, "crowd", pid=running.processes[0].pid, count=size, requests=self._number(2000), keys=1000
                )
                for name, row in rows.items():
                    row.costs[size] = figure[name]
        return list(rows.values())

    def watchers(self) -> list[Growth]:
        """Measure with more and more watches of everything in a namespace."""
        rows = [Growth("event, watches of a namespace", "an event for a watcher")]
        with _Server(self._folder / "watchers") as running:
            self._prepare(running)
            for size in self.sizes.watchers:
                rows[0].costs[size] = self._cost(running, "watch", 20, 5, watchers=size)
        return rows

    def nodes(self) -> list[Growth]:
        """Measure with more and more watches that select the Pods of one node each, as kubelets do."""
        rows = [Growth("merge patch of a Pod, one watch for each node", "a request")]
        with _Server(self._folder / "nodes") as running:
            self._prepare(running)
            self._work(running, "seed", first=0, count=100, of="scaled")
            for size in self.sizes.nodes:
                rows[0].costs[size] = self._cost(running, "nodes", 100, 5, watchers=size, of="scaled", keys=100)
        return rows

    def values(self) -> list[Growth]:
        """Measure with larger and larger objects."""
        each = "a byte"
        rows = {name: Growth(f"{name} of a ConfigMap", each, "ns") for name in ("create", "get", "replace")}
        for size in self.sizes.values:
            with _Server(self._folder / f"values-{size}") as running:
                self._prepare(running)
                details = {"of": f"values.{size}", "keys": 4}
                self._work(running, "seed", first=0, count=4, of=details["of"])
                for name, row in rows.items():
                    row.costs[size] = self._cost(running, name, 4, 5, connections=4, **details) / size
        return list(rows.values())

    # -- one figure ---------------------------------------------------------------------------------------------------

    def _started(self, running: Running) -> tuple[float, float]:
        """The processor time until a server is ready and has nothing more to do, and its memory then."""
        return _wait_idle(running), running.resident()

    def _restarted(self, folder: Path) -> tuple[Running, float]:
        """A server on a store, and the processor time of its start: the least of a few, as what disturbs only adds.

        A start on a new folder is no measure for these: it makes keys and default objects.
        """
        spent = []
        while True:
            running = Kapi().start(folder)
            spent.append(self._started(running)[0])
            if len(spent) == self.sizes.starts:
                return running, min(spent)
            running.stop()

    def _prepare(self, running: Running) -> None:
        self._work(running, "prepare")

    def _cost(self, running: Running, kind: str, count: int, rounds: int, **details: Any) -> float:
        """The processor time of one request, in seconds; the median over rounds."""
        side = {"address": asdict(running.address), "pid": running.processes[0].pid}
        number = self._number(count)
        job = {"connections": min(8, number), **details}
        answer = self._work(running, "pair", sides=[side], kind=kind, count=number, seconds=0.0, rounds=rounds, **job)
        costs: list[float] = answer["costs"][0]
        return statistics.median(costs)

    def _number(self, count: int) -> int:
        return max(1, int(count * self.sizes.requests))

    def _work(self, running: Running, action: str, **details: Any) -> dict[str, Any]:
        self._jobs += 1
        return self._load.run(
            {"action": action, "address": asdict(running.address), "run": f"r{self._jobs}", **details}
        )


class _Server:
    """A server on an empty folder, within a block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Running:
        self._running = Kapi().start(self._folder)
        return self._running

    def __exit__(self, *_: object) -> None:
        self._running.stop()


def _wait_idle(running: Running) -> float:
    return asyncio.run(idle(running.processes[0].pid, IDLE_PATIENCE))


SECTIONS: dict[str, tuple[str, Callable[[Scale], list[Growth]]]] = {
    "objects": ("Stored objects", Scale.objects),
    "definitions": ("CustomResourceDefinitions", Scale.definitions),
    "connections": ("Idle connections", Scale.connections),
    "watchers": ("Watches", Scale.watchers),
    "nodes": ("Watches by `spec.nodeName`", Scale.nodes),
    "values": ("Bytes of an object", Scale.values),
}


def run(options: argparse.Namespace, scale: Scale, *, is_bound: bool = True) -> int:
    """Measure, print, and write the files that were asked for; fails if a row grows more than it may."""
    before, began = machine.load(), time.perf_counter()
    tables: dict[str, list[Growth]] = {}
    try:
        for section in options.rows:
            sys.stderr.write(f"  {section}\n")
            tables[section] = SECTIONS[section][1](scale)
            sys.stdout.write(table(SECTIONS[section][0], tables[section]) + "\n")
            sys.stdout.flush()
    except LoadError as error:
        sys.stderr.write(f"could not be measured: {error}\n")
        return 1
    finally:
        scale.close()
    wrong = [f"{section}: {row.title}" for section, rows in tables.items() for row in rows if not row.is_linear]
    sys.stdout.write(
        f"Processor time of the server; {time.perf_counter() - began:,.0f} s. Load of the machine: {before} before, "
        f"{machine.load()} after.\n"
    )
    _write(options, tables)
    for row in wrong:
        sys.stderr.write(f"grows faster than its input: {row}\n")
    return 1 if wrong and is_bound else 0


def _write(options: argparse.Namespace, tables: dict[str, list[Growth]]) -> None:
    if options.json is not None:
        result = {section: [row.as_json() for row in rows] for section, rows in tables.items()}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.markdown is not None:
        options.markdown.write_text("\n".join(table(SECTIONS[section][0], rows) for section, rows in tables.items()))
