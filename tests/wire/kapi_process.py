"""A control plane of our own for the wire tests: the real command, in a process of its own, on a free port."""

from __future__ import annotations

import contextlib
import re
import selectors
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

READY = re.compile(
    r"^Ready at https://127\.0\.0\.1:(\d+)\. Next:  export KUBECONFIG=(\S+) && kubectl get namespaces\n$"
)
START_SECONDS = 120
STOP_SECONDS = 30
KAPI = Path(sys.executable).parent / "kapi"


@dataclass
class Server:
    """`kapi up` on a directory; started again it has the same data and, by default, the same port."""

    directory: Path
    options: tuple[str, ...] = ()
    port: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.directory / "data" / "admin.kubeconfig"

    def start(self, *options: str) -> None:
        """Start it and wait for the ready line; the port is kept for later starts."""
        command = [str(KAPI), "up", "--data-dir", str(self.directory / "data"), "--bind", f"127.0.0.1:{self.port}"]
        with (self.directory / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                [*command, *self.options, *options], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = _first_line(self._process.stdout)
        ready = READY.match(line)
        if ready is None:
            self.kill()
            raise AssertionError(f"no ready line but {line!r}; its log:\n{self.log}")
        assert Path(ready[2]) == self.kubeconfig
        self.port = int(ready[1])

    @property
    def log(self) -> str:
        """What the server wrote to its standard error."""
        return (self.directory / "server.log").read_text()

    def stop(self) -> None:
        """Ask it to stop; it must do so with status 0 and without a word of trouble."""
        process, self._process = self._process, None
        assert process is not None, "it does not run"
        process.send_signal(signal.SIGTERM)
        with process:
            try:
                status = process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError(f"still running {STOP_SECONDS} s after SIGTERM:\n{self.log}") from None
        assert status == 0, f"exit status {status} after SIGTERM:\n{self.log}"
        assert "Traceback" not in self.log, self.log

    def kill(self) -> None:
        """End it whatever its state."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with process:
                process.wait()


def _first_line(stream: IO[str]) -> str:
    """The first line, or nothing when the stream ends or is silent for too long."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return stream.readline() if selector.select(START_SECONDS) else ""
