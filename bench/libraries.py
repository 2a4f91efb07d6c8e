"""The client libraries under measurement: their programs, their virtual environments, and a running client.

Kapi's own runs with this Python; the other libraries for Python run in a virtual environment of theirs, which is made
on first use, and the one for Go is built then. The protocol with clients is in `bench/peers/tally.py`.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench.client import LoadError
from bench.packages import INSTALLING, install
from bench.processes import busy_seconds, resident

if TYPE_CHECKING:
    from collections.abc import Sequence

VENV = Path(".peers/bench-clients")
PROGRAMS = Path(__file__).parent / "peers"
PATIENCE = 180.0
"""Seconds a client may take to report the next step."""
IMPORTS = 5
"""How often an import is timed in one round: what else the machine does can only make it slower."""
OTHERS = ("kubernetes_asyncio", "lightkube", "kr8s", "kopf")
"""Modules, which are called as their packages are."""
CONTROLLER_RUNTIME = "controller-runtime"
"""The library of controllers in Go."""
BUILT = Path(".peers/bench-go/with_controller_runtime")


@dataclass(frozen=True)
class Library:
    """A client library. `module` is what a program in Python imports of it."""

    name: str
    command: tuple[Path, ...]
    module: str = ""


def kapi() -> Library:
    """Return Kapi's own client library."""
    return Library("Kapi", (Path(sys.executable), PROGRAMS / "with_kapi.py"), "kapi.controller.manager")


def controller_runtime(root: Path) -> tuple[Library | None, str]:
    """Build and return the library for Go (quick if nothing changed), or None and the reason."""
    go = shutil.which("go")
    if go is None:
        return None, "there is no Go here to build it with"
    program = root / BUILT
    build = [go, "build", "-trimpath", "-o", str(program), "."]
    try:
        done = subprocess.run(
            build, cwd=PROGRAMS / "go", capture_output=True, text=True, check=False, timeout=INSTALLING
        )
    except subprocess.TimeoutExpired:
        return None, f"not built after {INSTALLING:.0f} s"
    if done.returncode:
        return None, f"cannot be built: {(done.stderr or done.stdout).strip()[-300:]}"
    return Library(CONTROLLER_RUNTIME, (program,)), ""


def others(root: Path) -> tuple[list[Library], dict[str, str]]:
    """Return the other Python libraries, installed if needed, and those that cannot be installed with the reason."""
    python = root / VENV / "bin" / "python"
    usable: list[Library] = []
    left_out: dict[str, str] = {}
    for name in OTHERS:
        if reason := install(python, [name], ["-c", f"import {name}"]):
            left_out[name] = reason
        else:
            usable.append(Library(name, (python, PROGRAMS / f"with_{name}.py"), name))
    return usable, left_out


def importing(library: Library) -> float:
    """Seconds of a processor that a program takes which imports a library and ends; the quickest of a few."""
    command = [str(library.command[0]), "-c", f"import {library.module}"]
    times = []
    for _ in range(IMPORTS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


class Following:
    """A running client process; it is terminated at the end of the block."""

    def __init__(self, library: Library, kubeconfig: Path, log: Path, numbers: Sequence[int]) -> None:
        self._library = library
        self._log = log
        with log.open("wb") as errors:
            # Unbuffered, so that `select` sees everything.
            self._process = subprocess.Popen(
                [*library.command, *map(str, numbers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def resident(self) -> int:
        """Its memory, in bytes."""
        return resident(self._process.pid)

    def busy_seconds(self) -> float:
        """Processor time it has used."""
        return busy_seconds(self._process.pid)

    def begin(self) -> float:
        """Send the start signal and return its time."""
        assert self._process.stdin is not None
        began = time.monotonic()
        self._process.stdin.write(b"\n")
        return began

    def pause(self) -> None:
        """Suspend it, so that events pile up."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> float:
        """Resume it and return the time."""
        resumed = time.monotonic()
        self._process.send_signal(signal.SIGCONT)
        return resumed

    def expect(self, what: str) -> dict[str, Any]:
        """Return its next message, which must be this one."""
        assert self._process.stdout is not None
        give_up = time.monotonic() + PATIENCE
        while select.select([self._process.stdout], [], [], max(0.0, give_up - time.monotonic()))[0]:
            line = self._process.stdout.readline()
            if not line:
                raise LoadError(f"ended: {self._log.read_text(errors='replace').strip()[-300:]}")
            # Libraries may log to standard output.
            if line.startswith(b'{"what"'):
                said: dict[str, Any] = json.loads(line)
                if said["what"] != what:
                    raise LoadError(f"said {said['what']} instead of {what}")
                return said
        raise LoadError(f"not {what} after {PATIENCE:.0f} s")
