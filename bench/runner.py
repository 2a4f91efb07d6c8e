"""Runs the measurements: starts servers on fresh folders, lets the targets take turns, keeps figures and failures."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench import machine
from bench.client import LoadError
from bench.machine import Pinning, starting_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.baselines import Uvicorn
    from bench.figures import Figure
    from bench.libraries import Library
    from bench.settings import Settings
    from bench.target import Running, Target

JOB_TIMEOUT = 900.0
_SHARED = "the shared servers"


class LoadProcess:
    """The load generator, seen from the bench."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, job: dict[str, Any]) -> Figure:
        """Have one job done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], JOB_TIMEOUT)[0]:
            raise LoadError(f"no result after {JOB_TIMEOUT:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise LoadError("the load generator died")
        answer: Figure = json.loads(line)
        if "error" in answer:
            raise LoadError(answer["error"])
        return answer

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Bench:
    """One run. `figures` and `failures` are by row, then by the name of the target."""

    def __init__(
        self,
        settings: Settings,
        *,
        root: Path,
        folder: Path,
        targets: Sequence[Target],
        uvicorn: Uvicorn | None = None,
        sqlite: bool = False,
        libraries: Sequence[Library] = (),
        pinning: Pinning | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.targets = targets
        """Kapi, and kube-apiserver if it is available."""
        self.uvicorn = uvicorn
        self.sqlite = sqlite
        self.libraries = libraries
        """The other client libraries."""
        self.figures: dict[str, dict[str, list[Figure]]] = {}
        self.failures: dict[str, dict[str, str]] = {}
        self._pinning = pinning or Pinning()
        with starting_on(self._pinning.load):
            self._load = LoadProcess(root)
        self._shared: dict[str, tuple[Target, Path, Running]] | None = None
        self._not_shared: dict[str, str] = {}
        self._folders = 0
        self._runs = 0

    def close(self) -> None:
        """Stop everything and remove the data."""
        for _, _, running in (self._shared or {}).values():
            running.stop()
        self._load.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- servers ------------------------------------------------------------------------------------------------------

    def start(self, target: Target, folder: Path) -> Running:
        """Start a target on a folder."""
        with starting_on(self._pinning.servers):
            return target.start(folder)

    def fresh_folder(self) -> Path:
        """A new, empty folder for data."""
        self._folders += 1
        folder = self.folder / f"{self._folders}" / "data"
        folder.mkdir(parents=True)
        return folder

    @contextlib.contextmanager
    def fresh(self, rows: Sequence[str], targets: Sequence[Target] | None = None) -> Iterator[dict[str, Running]]:
        """All targets, newly started and empty; one that does not start fails its rows."""
        started: dict[str, Running] = {}
        try:
            for target in self.targets if targets is None else targets:
                with self.failing(rows, target.name):
                    running = started[target.name] = self.start(target, self.fresh_folder())
                    if target in self.targets:
                        self.work(running, "prepare")
            yield started
        finally:
            for running in started.values():
                running.stop()

    def shared(self, rows: Sequence[str]) -> dict[str, Running]:
        """All targets with `some` ConfigMaps in them; started once and used by several groups of rows."""
        if self._shared is None:
            self._shared = {}
            for target in self.targets:
                with self.failing([_SHARED], target.name):
                    folder = self.fresh_folder()
                    running = self.start(target, folder)
                    self._shared[target.name] = (target, folder, running)
                    self.work(running, "prepare")
                    self.work(running, "seed", first=0, count=self.settings.some)
            self._not_shared = self.failures.pop(_SHARED, {})
        for row in rows:
            self.failures.setdefault(row, {}).update(self._not_shared)
        return {name: made[2] for name, made in self._shared.items() if name not in self._not_shared}

    def restart(self, name: str) -> Running:
        """Stop a shared target and start it again on its data."""
        assert self._shared is not None
        target, folder, running = self._shared[name]
        running.stop()
        running = self.start(target, folder)
        self._shared[name] = (target, folder, running)
        return running

    # -- measuring ----------------------------------------------------------------------------------------------------

    def work(self, running: Running, action: str, **details: Any) -> Figure:
        """Have the load generator run a job on a server; the answer includes the processor use of server and others."""
        busy, all_busy, began = running.busy_seconds(), machine.busy_seconds(), time.perf_counter()
        self._runs += 1
        job = {"action": action, "address": asdict(running.address), "run": f"r{self._runs}", **details}
        figure = self._load.run(job)
        seconds = time.perf_counter() - began
        server = (running.busy_seconds() - busy) / seconds
        others = (machine.busy_seconds() - all_busy) / seconds - server - figure["client_cpu"]
        return figure | {"server_cpu": server, "others_cpu": max(0.0, others)}

    def alternate(self, row: str, runners: Mapping[str, Callable[[], Figure]], *, rounds: int = 0) -> None:
        """Let the runners take turns; one that fails is out for this row."""
        left = dict(runners)
        for _ in range(rounds or self.settings.rounds):
            for name in list(left):
                with self.failing([row], name):
                    self.record(row, name, left[name]())
                if name in self.failures.get(row, {}):
                    del left[name]

    def record(self, row: str, name: str, figure: Figure) -> None:
        """Keep a figure."""
        self.figures.setdefault(row, {}).setdefault(name, []).append(figure)
        sys.stderr.write(f"  {row:<14} {name:<24} {figure['value']:>14,.4g}\n")

    @contextlib.contextmanager
    def failing(self, rows: Sequence[str], name: str) -> Iterator[None]:
        """Record an error of the block as the reason why these rows could not be measured."""
        try:
            yield
        except (LoadError, OSError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"  {name}: {error}\n")
            for row in rows:
                self.failures.setdefault(row, {})[name] = str(error)
