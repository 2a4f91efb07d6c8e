"""This tree next to another Kapi: `make bench ARGS="--compare REV"`.

Both servers are alive together and take turns, and what is compared is the processor time that the server needs for a
request, not the time that passes: the first hardly depends on what else the machine does. Each round gives one ratio.
The table has the median of these ratios, and the interval in which the true median is with 95 % of certainty whatever
the distribution (order statistics). A difference is shown if the interval does not contain 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import shutil
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bench import machine, webhook
from bench.client import LoadError
from bench.definitions import SMALL
from bench.objects import collection
from bench.pairs import idle
from bench.report import TIMES
from bench.runner import LoadProcess
from bench.target import Kapi

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.checkout import Tree
    from bench.target import Running

CERTAINTY = 0.95
SECONDS = 5.0
"""How long each row runs; the starts run for three times as long."""
FEWEST_ROUNDS = 6
"""With fewer there is no interval of 95 %."""
SEEDS = 1000
"""Objects that are there before anything is measured."""
PODS = 100
"""Pods with a node, of all that are there then."""
START = "start"
_START_ROWS = {
    "start.processor": ("start to ready, processor time", "ms"),
    "start.elapsed": ("start to ready, elapsed", "ms"),
    "start.memory": ("memory, empty", "MiB"),
}


@dataclass(frozen=True)
class Load:
    """A row: the processor time of the server for one request of a kind."""

    id: str
    title: str
    kind: str
    count: int
    """Requests of a chunk: 10 to 20 ms of work for the server."""
    connections: int = 16
    of: str = "configmaps"
    path: str = ""
    watchers: int = 0
    keys: int = SEEDS
    """Objects that the requests are of, in turns."""


LOADS = (
    Load("get", "get", "get", 128),
    Load("list", "list of 500", "path", 8, 4, path=f"{collection()}?limit=500"),
    Load("create", "create of a ConfigMap", "create", 32),
    Load("pod", "create of a Pod", "create", 32, of="pods"),
    Load("custom", "create of a small custom object", "create", 32, of="small"),
    Load("quota", "create within a quota, 64 connections", "create", 64, 64, of="limited"),
    Load("policies", "create with 10 CEL policies", "create", 32, of="guarded"),
    Load("webhooks", "create with 1 mutating and 1 validating webhook", "create", 16, of="hooked"),
    Load("update", "update", "update", 32),
    Load("patch", "merge patch", "patch", 32),
    Load("apply", "server-side apply of one changed field", "apply.field", 32),
    Load("watch", "event to one of 100 watchers", "watch", 16, watchers=100),
    Load("watchers", "event to one of 1,000 watchers", "watch", 32, watchers=1000),
    Load(
        "nodes",
        "merge patch of a Pod, 1,000 nodes watch their Pods",
        "nodes",
        32,
        of="scaled",
        watchers=1000,
        keys=PODS,
    ),
)
ROWS = (START, *(load.id for load in LOADS))


class _Side(Kapi):
    """One of the two."""

    def __init__(self, tree: Tree) -> None:
        self.name = tree.name
        self.python = tree.python
        self.variables = tree.variables


class Comparison:
    """One run: `theirs` is the other Kapi, `ours` this tree. `figures` are by row, one pair for each round."""

    def __init__(self, theirs: Tree, ours: Tree, *, root: Path, folder: Path, seconds: float, rounds: int) -> None:
        self.names = (theirs.name, ours.name)
        self.figures: dict[str, list[tuple[float, float]]] = {}
        self._targets = (_Side(theirs), _Side(ours))
        self._folder = folder
        self._seconds = seconds
        self._rounds = rounds
        """The fewest rounds of a row, however long they take."""
        self._load = LoadProcess(root)
        self._others = contextlib.ExitStack()
        """What runs besides the servers."""
        self._servers: list[Running] = []
        self._jobs = 0

    def close(self) -> None:
        """Stop the servers and remove their data."""
        for running in self._servers:
            running.stop()
        self._load.stop()
        self._others.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def measure(self, rows: Sequence[str]) -> None:
        """Measure these rows."""
        if START in rows:
            self._measure_starts()
        loads = [load for load in LOADS if load.id in rows]
        if not loads:
            return
        for number, target in enumerate(self._targets):
            self._servers.append(target.start(self._folder / f"{number}" / "data"))
            self._prepare(self._servers[-1], [load.of for load in loads])
        if any(load.of == "hooked" for load in loads):
            self._call_webhooks()
        for load in loads:
            sys.stderr.write(f"  {load.title}\n")
            self._measure_load(load)

    # -- starting -----------------------------------------------------------------------------------------------------

    def _measure_starts(self) -> None:
        """Start both in turns on empty folders. The first start of each writes bytecode, and does not count."""
        sys.stderr.write("  start\n")
        end = time.perf_counter() + 3 * self._seconds
        for turn in itertools.count(-1):
            if turn >= self._rounds and time.perf_counter() > end:
                break
            found = {}
            for number in (0, 1) if turn % 2 == 0 else (1, 0):
                found[number] = self._start(self._targets[number], f"start-{turn}-{number}")
            for row in _START_ROWS if turn >= 0 else ():
                self.figures.setdefault(row, []).append((found[0][row], found[1][row]))

    def _start(self, target: Kapi, name: str) -> dict[str, float]:
        folder = self._folder / name / "data"
        running = target.start(folder)
        try:
            spent = running.processor_seconds()
            asyncio.run(idle(running.processes[0].pid))
            return {
                "start.processor": spent,
                "start.elapsed": running.ready_seconds,
                "start.memory": running.resident(),
            }
        finally:
            running.stop()
            shutil.rmtree(folder.parent)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _prepare(self, running: Running, sorts: Sequence[str]) -> None:
        self._work(running, "prepare")
        self._work(running, "seed", first=0, count=SEEDS)
        if "scaled" in sorts:
            self._work(running, "seed", first=0, count=PODS, of="scaled")
        for sort, job in (("limited", "limit"), ("guarded", "guard")):
            if sort in sorts:
                self._work(running, job)
        if "small" in sorts:
            self._work(running, "define", small=SMALL)

    def _call_webhooks(self) -> None:
        """Start a webhook that both servers call."""
        endpoint = self._others.enter_context(webhook.serving(self._folder / "webhook"))
        for running in self._servers:
            self._work(running, "hook", port=endpoint.port, bundle=endpoint.bundle)

    def _measure_load(self, load: Load) -> None:
        sides = [
            {"address": asdict(running.address), "pid": running.processes[0].pid, "name": name}
            for running, name in zip(self._servers, self.names, strict=True)
        ]
        answer = self._work(
            self._servers[0],
            "pair",
            sides=sides,
            kind=load.kind,
            count=load.count,
            connections=load.connections,
            of=load.of,
            path=load.path,
            watchers=load.watchers,
            keys=load.keys,
            seconds=self._seconds,
            rounds=self._rounds,
        )
        self.figures[load.id] = list(zip(*answer["costs"], strict=True))

    def _work(self, running: Running, action: str, **details: Any) -> dict[str, Any]:
        self._jobs += 1
        return self._load.run(
            {"action": action, "address": asdict(running.address), "run": f"r{self._jobs}", **details}
        )


def interval(values: Sequence[float], certainty: float = CERTAINTY) -> tuple[float, float]:
    """Return the interval of two of the values in which the median of their distribution is, with this certainty.

    With fewer than `FEWEST_ROUNDS` values there is none of 95 %; it is then from the least to the greatest.
    """
    ordered, number = sorted(values), len(values)
    outside, skipped = 2.0 * 0.5**number, 0
    while skipped + 1 < (number + 1) // 2:
        outside += 2.0 * math.comb(number, skipped + 1) * 0.5**number
        if outside > 1 - certainty:
            break
        skipped += 1
    return ordered[skipped], ordered[number - 1 - skipped]


def rows_of(figures: dict[str, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    """Return every row that was measured: medians, the ratio of the other one to this tree, and its interval."""
    rows = []
    titles = {**_START_ROWS, **{load.id: (load.title, "µs") for load in LOADS}}
    for row, pairs in figures.items():
        ratios = [theirs / ours for theirs, ours in pairs]
        title, unit = titles[row]
        rows.append(
            {
                "id": row,
                "title": title,
                "unit": unit,
                "theirs": statistics.median(theirs for theirs, _ in pairs),
                "ours": statistics.median(ours for _, ours in pairs),
                "ratio": statistics.median(ratios),
                "interval": interval(ratios),
                "rounds": pairs,
            }
        )
    return rows


def table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The table, in Markdown that is also easy to read as it is."""
    lines = [["Row", *names, "Ratio", "95 % of it", "Rounds", "This tree"]]
    for row in rows:
        low, high = row["interval"]
        shown = [_shown(row[side], row["unit"]) for side in ("theirs", "ours")]
        ratio, rounds = f"{row['ratio']:.3f}{TIMES}", str(len(row["rounds"]))
        lines.append([row["title"], *shown, ratio, f"{low:.3f} to {high:.3f}", rounds, _verdict(row)])
    texts = (0, len(lines[0]) - 1)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width if at in texts else f"{'-' * (width - 1)}:" for at, width in enumerate(widths)])
    return "".join(f"| {' | '.join(_aligned(line, widths, texts))} |\n" for line in lines)


def _verdict(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    if len(row["rounds"]) < FEWEST_ROUNDS:
        return "too few rounds"
    return "better" if low > 1 else "worse" if high < 1 else "no difference shown"


def _aligned(line: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> Iterator[str]:
    for at, (text, width) in enumerate(zip(line, widths, strict=True)):
        yield text.ljust(width) if at in left else text.rjust(width)


def _shown(value: float, unit: str) -> str:
    match unit:
        case "MiB":
            return f"{value / 2**20:,.1f} MiB"
        case "ms":
            return f"{value * 1e3:,.0f} ms"
        case _:
            return f"{value * 1e6:,.1f} µs" if value < 1e-4 else f"{value * 1e6:,.0f} µs"


def run(options: argparse.Namespace, comparison: Comparison) -> int:
    """Measure, print, and write the files that were asked for."""
    before = machine.load()
    try:
        comparison.measure(options.rows)
    except LoadError as error:
        sys.stderr.write(f"could not be measured: {error}\n")
        return 1
    finally:
        comparison.close()
    rows = rows_of(comparison.figures)
    text = table(comparison.names, rows)
    sys.stdout.write(text)
    sys.stdout.write(
        "\nProcessor time of the server for one request, where nothing else is said. Medians of the rounds; a ratio "
        f"above 1 says that this tree needs less. Load of the machine: {before} before, {machine.load()} after.\n"
    )
    content = json.dumps({"names": comparison.names, "rows": rows}, indent=1) + "\n"
    for path, written in ((options.json, content), (options.markdown, text)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written)
    return 0
