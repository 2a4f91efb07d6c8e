"""The baselines when there is no kube-apiserver: a bare web server for gets, SQLite itself for creates.

Neither does what an API server does; they show how much of the machine is left for doing it. They are measured in the
same run and in alternation, as kube-apiserver would be.
"""

from __future__ import annotations

import itertools
import sqlite3
import time
from pathlib import Path

from bench.client import Address
from bench.figures import Figure, summary
from bench.kube_apiserver import certificates
from bench.objects import config_map
from bench.packages import install
from bench.target import HOST, Process, Running, free_port, stopped_on_error, wait_ready

VENV = Path(".peers/bench-venv")
PACKAGES = ("uvicorn", "httptools", "uvloop")


class Uvicorn:
    """A fixed answer served by uvicorn over TLS, in a virtual environment of its own."""

    name = "uvicorn, fixed answer"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._python = root / VENV / "bin" / "python"

    def install(self) -> str:
        """Make the environment if it is not there; return why that failed, or an empty string."""
        reason = install(self._python, PACKAGES, ["-c", f"import {', '.join(PACKAGES)}"])
        return f"uvicorn: {reason}" if reason else ""

    def start(self, folder: Path) -> Running:
        pairs = certificates(folder / "pki")
        port = free_port()
        address = Address(HOST, port, str(pairs["ca"].certificate))
        began = time.perf_counter()
        process = Process(
            [
                *(self._python, "-m", "uvicorn", "hello:app", "--app-dir", self._root / "bench"),
                *("--host", HOST, "--port", str(port), "--no-access-log", "--log-level", "warning"),
                *("--ssl-certfile", pairs["server"].certificate, "--ssl-keyfile", pairs["server"].key),
                *("--loop", "uvloop", "--http", "httptools", "--lifespan", "off"),
            ],
            folder.with_suffix(".log"),
        )
        with stopped_on_error([process]):
            wait_ready(address, [process])
        return Running(address, [process], began)


class SQLite:
    """Durable inserts in a loop: WAL, synchronous=FULL, on the same disk."""

    @staticmethod
    def name(rows: int) -> str:
        """Return its name in the table."""
        return f"SQLite, {rows} row{'s' if rows > 1 else ''} a commit"

    @staticmethod
    def measure(folder: Path, rows: int, seconds: float) -> Figure:
        """Rows a second when so many go into each commit; latencies are those of commits."""
        folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(folder / f"{time.monotonic_ns()}.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(
            "CREATE TABLE objects (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, value BLOB NOT NULL)"
        )
        value = config_map("object")
        numbers = itertools.count(1)
        times: list[float] = []
        started = now = time.perf_counter()
        while now < started + seconds:
            connection.execute("BEGIN IMMEDIATE")
            batch = [(number, f"/bench/{number}", value) for number in itertools.islice(numbers, rows)]
            connection.executemany("INSERT INTO objects VALUES (?, ?, ?)", batch)
            connection.execute("COMMIT")
            before, now = now, time.perf_counter()
            times.append(now - before)
        connection.close()
        figure = summary(times, now - started)
        return figure | {"value": figure["value"] * rows}
