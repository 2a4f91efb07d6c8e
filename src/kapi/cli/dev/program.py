"""An operator in a process of its own, restarted when the files of its project change.

Every start is a new process: a module that is imported twice leaves its old classes, tasks and registrations behind. It
is stopped by SIGTERM, so reconciles in progress end and the lease of the leader is released, and the next one leads at
once. It is in a session of its own, so that Ctrl-C reaches it through here, once; and it ends with this process,
however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from kapi.controller.manager.manager import SHUTDOWN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kapi.cli.dev.files import ProjectFiles

GRACE_SECONDS: Final = SHUTDOWN_SECONDS + 5.0
"""The time a program has to end after SIGTERM: that of a manager, and a little more. It is killed after that."""


class Program:
    """One process of a program. `output`, if given, is called with each line it writes."""

    def __init__(self, process: asyncio.subprocess.Process, output: Callable[[str], None] | None) -> None:
        self._process = process
        self._reading = asyncio.ensure_future(_read(process.stdout, output)) if process.stdout and output else None

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        output: Callable[[str], None] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Program:
        """Start `python ARGUMENTS`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            # A file that is changed twice in a second may have the size and the time, in seconds, of its old bytecode.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **(environment or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE if output else None,
            stderr=asyncio.subprocess.STDOUT if output else None,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
        return cls(process, output)

    async def wait(self) -> int:
        """Wait for its end; returns the exit status, negative for a signal."""
        status = await self._process.wait()
        if self._reading is not None:
            # A process that the program left behind may hold the pipe open; it is of no interest any more.
            await asyncio.wait([self._reading], timeout=1.0)
            self._reading.cancel()
        return status

    async def stop(self, grace: float = GRACE_SECONDS) -> int:
        """Ask it to end, and kill it and all processes it started if it does not within `grace` seconds."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        waiting = asyncio.ensure_future(self.wait())
        try:
            done, _ = await asyncio.wait([waiting], timeout=grace)
        except asyncio.CancelledError:
            self.kill()
            await waiting
            raise
        if not done:
            self.kill()
        return await waiting

    def kill(self) -> None:
        """Kill it and the processes it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def _read(stream: asyncio.StreamReader, output: Callable[[str], None]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the buffer, which has been emptied
            continue
        if not line:
            return
        output(line.decode(errors="replace").rstrip("\n"))


class Reloader:
    """Runs a program, and runs it again whenever files of the project change.

    A program that ends by itself, because it cannot be imported, say, is started again at the next change.
    """

    def __init__(
        self, start: Callable[[], Awaitable[Program]], files: ProjectFiles, say: Callable[[str], None]
    ) -> None:
        self._start = start
        self._files = files
        self._say = say
        self._stopping = asyncio.Event()
        self._program: Program | None = None

    def stop(self) -> None:
        """End `run`; when called again, kill the program."""
        if self._stopping.is_set() and self._program is not None:
            self._program.kill()
        self._stopping.set()

    async def run(self) -> int:
        """Run until `stop`; returns 0, or 1 if the program failed to end by itself then."""
        while True:
            self._program = program = await self._start()
            try:
                changed = await self._until_changed(program)
            finally:
                # Also if this task is cancelled: no process is left behind.
                status = await program.stop()
            if self._stopping.is_set():
                return 0 if status in (0, -signal.SIGTERM) else 1
            self._say(f"{_listed(changed)} changed; restarting")

    async def _until_changed(self, program: Program) -> list[Path]:
        """Return the files that changed; none if `stop` was called."""
        changing = asyncio.ensure_future(self._files.changed())
        stopping = asyncio.ensure_future(self._stopping.wait())
        ending = asyncio.ensure_future(program.wait())
        try:
            await asyncio.wait([changing, stopping, ending], return_when=asyncio.FIRST_COMPLETED)
            if not changing.done() and not stopping.done():
                self._say(f"exited with status {ending.result()}; waiting for a change")
                await asyncio.wait([changing, stopping], return_when=asyncio.FIRST_COMPLETED)
            return changing.result() if changing.done() else []
        finally:
            for task in (changing, stopping, ending):
                task.cancel()
            await asyncio.gather(changing, stopping, ending, return_exceptions=True)


def _listed(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(str(path) for path in paths[:3]) + more


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at each SIGINT, SIGTERM and SIGHUP, which is that the terminal was closed."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
