"""The server's process as seen from outside: its log, its memory, the CPU of its event loop; and the canary client.

A stall is measured in CPU time of the server's event loop: what its main thread executed while the canary waited for one answer.
Time on the wall would also count what else the machine did.
"""

import asyncio
import os
import re
from pathlib import Path

from .connection import Connection
from .findings import Finding, traceback

CANARY = "/api/v1/namespaces/fuzz-canary/configmaps/canary"
CANARY_OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary"}, "data": {"count": "0"}}
PAUSE = 0.01
"""Seconds between two requests of the canary."""
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(?:\S.*\n?)?", re.MULTILINE)

_REFUSED = re.compile(r"^kapi\.api\.errors\.", re.MULTILINE)
"""A controller's request was refused, as an administrator can arrange: by deleting a role, by a status that is invalid."""


class Process:
    """Measurements of a running server, from /proc."""

    def __init__(self, server):
        self._server = server

    @property
    def _folder(self):
        return Path(f"/proc/{self._server.process.pid}")

    def memory(self):
        """Resident bytes."""
        return int((self._folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def loop_cpu(self):
        """Seconds of CPU that the main thread has used."""
        pid = self._server.process.pid
        return int((self._folder / f"task/{pid}/schedstat").read_text().split()[0]) / 1e9

    def descriptors(self):
        """How many files and sockets are open."""
        return len(list((self._folder / "fd").iterdir()))


class Log:
    """The tracebacks in a log, each once."""

    def __init__(self, path):
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0

    def tracebacks(self, number):
        """Findings for what was written since the last call."""
        if self._path.stat().st_size <= self._position:
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            text = file.read().decode(errors="replace")
        self._position += len(text.encode())
        return [traceback(number, found[0]) for found in _TRACEBACK.finditer(text) if not _REFUSED.search(found[0])]


class Canary:
    """A well-behaved client that reads one object over and over, and writes it now and then.

    `cost` is the most CPU the event loop spent on others while the canary waited; `waits` are times on the wall, for the report.
    """

    def __init__(self, server, process, bound, report):
        self._connection = Connection(server)
        self._process = process
        self._bound = bound
        self._report = report
        self._count = 0
        self._turn = 0
        self._is_stopped = False
        self.cost = 0.0
        self.waits = []
        self.started = asyncio.Event()
        """Set by the first answer."""

    async def run(self):
        """Ask until stopped; can be run again."""
        self._is_stopped = False
        try:
            while not self._is_stopped:
                await (self._read() if self._turn % 10 else self._write())
                self._turn += 1
                await asyncio.sleep(PAUSE)
        finally:
            self._connection.close()

    def stop(self):
        """End after the answer that is being waited for: the last stall counts too."""
        self._is_stopped = True

    async def _read(self):
        answer = await self._timed(self._connection.get(CANARY))
        if answer.status != 200:
            self._fail("canary", f"read answered {answer.status}", answer.body[:500].decode(errors="replace"))
        elif answer.json["data"]["count"] != str(self._count):
            self._fail("lost write", "the canary does not read what it wrote", answer.body[:500].decode())

    async def _write(self):
        body = {**CANARY_OBJECT, "data": {"count": str(self._count + 1)}}
        answer = await self._timed(self._connection.put("PUT", CANARY, body))
        if answer.status == 200:
            self._count += 1
        else:
            self._fail("canary", f"write answered {answer.status}", answer.body[:500].decode(errors="replace"))

    async def _timed(self, request):
        loop = asyncio.get_running_loop()
        cpu, began = self._process.loop_cpu(), loop.time()
        answer = await request
        cost = self._process.loop_cpu() - cpu
        self.waits.append(loop.time() - began)
        self.started.set()
        self.cost = max(self.cost, cost)
        if cost > self._bound:
            self._fail("stall", "the event loop was held", f"{cost * 1000:.0f} ms of CPU while the canary waited")
        return answer

    def _fail(self, category, signature, detail):
        self._report(Finding(category, signature, detail, ()))
