"""Servers under measurement: starting them, knowing when they are ready, what they cost, stopping them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.client import Address, LoadError
from bench.processes import busy_seconds, family, processor_seconds, resident

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOST = "127.0.0.1"
READY_TIMEOUT = 120.0
POLL = 0.005
STOP_TIMEOUT = 20.0


class Target(Protocol):
    """Something that can be started and measured."""

    name: str

    def start(self, folder: Path) -> Running:
        """Start on a folder, empty or of an earlier start, and return when it is ready."""
        ...


class Running:
    """A started server: one process or several."""

    def __init__(self, address: Address, processes: Sequence[Process], began: float) -> None:
        self.address = address
        self.processes = processes
        self.ready_seconds = time.perf_counter() - began

    def resident(self) -> int:
        """Memory of all its processes and those they have started, in bytes."""
        return sum(resident(pid) for process in self.processes for pid in family(process.pid))

    def busy_seconds(self) -> float:
        """Processor time all its processes have used."""
        return sum(busy_seconds(process.pid) for process in self.processes)

    def processor_seconds(self) -> float:
        """The same in nanoseconds' resolution, with the processes that these have started."""
        return sum(processor_seconds(process.pid) for process in self.processes)

    def stop(self) -> None:
        """Stop all processes, the last started first."""
        for process in reversed(self.processes):
            process.stop()


class Process:
    """A process with its output in a file, which is shown when it fails."""

    def __init__(self, command: Sequence[str | Path], log: Path, variables: Mapping[str, str] | None = None) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._name = Path(command[0]).name
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment(variables or {})
            )
        self.pid = self._process.pid

    def check(self) -> None:
        """Raise if it has ended."""
        if self._process.poll() is not None:
            tail = self._log.read_text(errors="replace")[-1000:]
            raise LoadError(f"{self._name} ended with {self._process.returncode}: {tail}")

    def stop(self) -> None:
        """Terminate it with SIGTERM, then SIGKILL."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return our environment, but with bytecode cached as in installed packages; else every start compiles all."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return ours | dict(variables)


class Kapi:
    """`kapi up` with everything at its default: SQLite, durable writes, TLS, authorisation."""

    name = "Kapi"
    options: Sequence[str] = ()
    """Options of `kapi up`."""
    python = sys.executable
    variables: Mapping[str, str] = {}
    """Environment variables that choose which Kapi it is."""
    _COMMAND = "import sys; sys.argv[0] = 'kapi'; from kapi.cli.entry import main; main()"

    def start(self, folder: Path) -> Running:
        port = free_port()
        pki = folder / "pki"
        address = Address(HOST, port, str(pki / "ca.crt"), str(pki / "admin.crt"), str(pki / "admin.key"))
        began = time.perf_counter()
        process = self.process(folder, port)
        with stopped_on_error([process]):
            wait_ready(address, [process])
        return Running(address, [process], began)

    def process(self, folder: Path, port: int, *options: str) -> Process:
        """Start the program on a data folder and a port, with further options."""
        up = ["up", "--data-dir", folder, "--bind", f"{HOST}:{port}", *self.options, *options]
        return Process([self.python, "-c", self._COMMAND, *up], folder.with_suffix(".log"), self.variables)


@contextlib.contextmanager
def stopped_on_error(processes: Sequence[Process]) -> Iterator[None]:
    """Leave nothing behind if a start fails."""
    try:
        yield
    except BaseException:
        for process in reversed(processes):
            process.stop()
        raise


def wait_ready(address: Address, processes: Sequence[Process], path: str = "/readyz") -> None:
    """Ask until the answer is 200. Trust comes later: the server may be about to make its certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if address.certificate and Path(address.certificate).exists():
        context.load_cert_chain(address.certificate, address.key)
    give_up = time.monotonic() + READY_TIMEOUT
    while not _is_ready(address, context, path):
        for process in processes:
            process.check()
        if time.monotonic() > give_up:
            raise LoadError(f"not ready after {READY_TIMEOUT:.0f} s")
        time.sleep(POLL)


def _is_ready(address: Address, context: ssl.SSLContext, path: str) -> bool:
    ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    try:
        with (
            socket.create_connection((address.host, address.port), timeout=5) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(ask)
            return connection.recv(64).split(b" ", 2)[1:2] == [b"200"]
    except OSError:
        return False


def wait_listening(port: int, process: Process) -> None:
    """Wait until a port accepts connections."""
    give_up = time.monotonic() + READY_TIMEOUT
    while True:
        try:
            socket.create_connection((HOST, port), timeout=5).close()
        except OSError:
            process.check()
            if time.monotonic() > give_up:
                raise
            time.sleep(POLL)
        else:
            return


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port
