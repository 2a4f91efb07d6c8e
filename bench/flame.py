"""Where the time of a request goes: `make bench ARGS="--flame FOLDER --rows get,create"`.

A server is put under the load of a row while py-spy, in a process of its own, looks a thousand times a second which
functions the thread is in that holds the interpreter lock. One thread holds it at a time, so this is the time that
bounds the server; what runs without the lock (the disk, parts of SQLite) is not seen. It is time that passes, so server
and load have cores of their own, and the machine should be quiet. For each row the folder gets a
flame graph: the width of a function is its share of the samples, what it calls is above it, and equal callers are
joined. The table has the same by package.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from bench.client import LoadError
from bench.compare import LOADS, SEEDS
from bench.packages import install
from bench.target import Kapi

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from bench.compare import Load
    from bench.runner import Bench
    from bench.target import Running

PYTHON = Path(".peers/bench-venv/bin/python")
ROWS = {load.id: load for load in LOADS if not load.watchers and load.of in ("configmaps", "pods")}
DEFAULT_ROWS = ("get", "create")
SECONDS = 10.0
RATE = 1000
"""Samples a second."""
STOP_PATIENCE = 30.0

Stack = tuple[str, ...]
"""Functions, the outermost first, each as `name (path)`."""


# -- sampling ---------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace, bench: Bench, root: Path) -> int:
    """Draw the rows, and print their tables; 1 if that fails, which is told."""
    python = root / PYTHON
    program = python.with_name("py-spy")
    if reason := install(python, ["py-spy"], ["-c", "import importlib.metadata as m; m.version('py-spy')"]):
        sys.stderr.write(f"py-spy: {reason}\n")
        return 1
    try:
        options.flame.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.stderr.write(f"--flame: {error.filename} cannot be a folder: {error.strerror}\n")
        return 1
    running = bench.start(Kapi(), bench.fresh_folder())
    try:
        bench.work(running, "prepare")
        bench.work(running, "seed", first=0, count=SEEDS)
        for row in options.rows:
            samples = _sample(bench, running, ROWS[row], program, options.seconds or SECONDS)
            count = sum(samples.values())
            title = f"{ROWS[row].title}: {count:,} samples of the thread that holds the interpreter lock"
            (options.flame / f"{row}.svg").write_text(svg(tree(samples), title))
            sys.stdout.write(f"{ROWS[row].title}\n{_table(packages(samples))}\n")
    except LoadError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        running.stop()
    return 0


def _sample(bench: Bench, running: Running, load: Load, program: Path, seconds: float) -> Counter[Stack]:
    """Put the server under a load and count its stacks."""
    job = {"kind": load.kind, "connections": load.connections, "of": load.of, "keys": load.keys, "path": load.path}
    bench.work(running, "requests", seconds=1.0, **job)
    folded = bench.folder / f"{load.id}.folded"
    command: list[str | Path] = [
        program,
        "record",
        "--gil",
        "--format",
        "raw",
        "--rate",
        str(RATE),
        "--duration",
        "600",
        "--output",
    ]
    log = folded.with_suffix(".log")
    with log.open("w") as output:
        spy = subprocess.Popen(
            [*command, folded, "--pid", str(running.processes[-1].pid)], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            bench.work(running, "requests", seconds=seconds, **job)
        finally:
            _stop(spy)
    samples = stacks(folded.read_text().splitlines()) if folded.exists() else None
    if not samples:
        raise LoadError(f"py-spy took no samples: {log.read_text().strip()[-300:]}")
    return samples


def _stop(spy: subprocess.Popen[bytes]) -> None:
    """Let the profiler write what it has, and end it."""
    spy.send_signal(signal.SIGINT)
    try:
        spy.wait(STOP_PATIENCE)
    except subprocess.TimeoutExpired:
        spy.kill()
        spy.wait()


def stacks(lines: Iterable[str]) -> Counter[Stack]:
    """Read folded stacks, `outer (path:1);inner (path:2) 17`; the lines of functions do not count."""
    counts: Counter[Stack] = Counter()
    for line in lines:
        frames, _, count = line.rpartition(" ")
        functions = tuple(frame.rpartition(":")[0] + ")" if ":" in frame else frame for frame in frames.split(";"))
        counts[functions] += int(count)
    return counts


# -- tables -----------------------------------------------------------------------------------------------------------


def packages(samples: Counter[Stack]) -> list[tuple[str, float]]:
    """The share of each package of Kapi: that of the innermost function which is Kapi's; the largest first."""
    counts: Counter[str] = Counter()
    for stack, count in samples.items():
        counts[next((name for frame in reversed(stack) if (name := _package(frame))), "")] += count
    whole = sum(counts.values())
    return [(name or "the event loop", count / whole) for name, count in counts.most_common()]


def _package(frame: str) -> str:
    """The package of a function, two levels deep at most; empty if it is not Kapi's, or only starts the event loop."""
    parts = frame.rpartition("(")[2].rstrip(")").split("/")
    if parts[0] != "kapi" or parts[1:2] == ["cli"] or parts[1:3] == ["base", "loop.py"]:
        return ""
    return ".".join(parts[:-1][:3])


def _table(shares: list[tuple[str, float]]) -> str:
    lines = [f"| `{name}` | {share:.1%} |" for name, share in shares if share >= 0.005]
    return "\n".join(["| Package | Share |", "|---|--:|", *lines])


# -- the picture ------------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """A function in the place it was called from, with all that it called."""

    name: str = ""
    count: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def tree(samples: Counter[Stack]) -> Node:
    """Join stacks that begin alike."""
    root = Node("all")
    for stack, count in samples.items():
        node = root
        node.count += count
        for name in stack:
            node = node.children.setdefault(name, Node(name))
            node.count += count
    return root


WIDTH, HEIGHT, MARGIN = 1200.0, 17, 30
NARROWEST = 1.5
"""Functions of fewer pixels are left out."""
CHARACTER = 6.6
"""The width of a letter."""


def svg(root: Node, title: str) -> str:
    """Draw a tree."""
    boxes = list(_boxes(root, 0.0, WIDTH / max(1, root.count), 0))
    height = (max(depth for _, _, _, depth in boxes) + 1) * HEIGHT + MARGIN
    box = f'viewBox="0 0 {WIDTH:.0f} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="monospace" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="8" y="18">{escape(title)}</text>',
    ]
    for node, left, width, depth in boxes:
        top = height - (depth + 1) * HEIGHT
        label = _label(node.name, width)
        parts.append(
            f"<g><title>{escape(node.name)} {node.count / root.count:.1%}</title>"
            f'<rect x="{left:.1f}" y="{top}" width="{max(width - 0.5, 0.5):.1f}" height="{HEIGHT - 1}" '
            f'fill="{_colour(node.name)}"/>'
            + (f'<text x="{left + 2:.1f}" y="{top + 12}">{escape(label)}</text>' if label else "")
            + "</g>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _boxes(node: Node, left: float, scale: float, depth: int) -> Iterator[tuple[Node, float, float, int]]:
    """A function and what it calls, from left to right by name: with its place, width and depth."""
    yield node, left, node.count * scale, depth
    for name in sorted(node.children):
        child = node.children[name]
        if child.count * scale >= NARROWEST:
            yield from _boxes(child, left, scale, depth + 1)
        left += child.count * scale


def _label(name: str, width: float) -> str:
    """As much of the name of a function as fits."""
    short = name.partition(" (")[0]
    fits = int((width - 4) / CHARACTER)
    return short if len(short) <= fits else short[: fits - 1] + "…" if fits >= 4 else ""


def _colour(name: str) -> str:
    """One for each package of Kapi, grey for what is not Kapi's."""
    package = _package(name)
    return f"hsl({crc32(package.encode()) % 360} 65% 75%)" if package else "hsl(0 0% 85%)"
