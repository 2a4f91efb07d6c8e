"""The reports of an operator that `kapi dev` runs: lines of JSON in a pipe, from its process to the live view."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

MOST_TEXT: Final = 500
"""The characters of a result: a line stays below 4096 bytes, up to which a pipe takes it whole or not at all."""


class Kinds(msgspec.Struct, tag="kinds", frozen=True):
    """The kinds of the operator, as (group, version, kind): those it defines, and others that it watches."""

    own: list[tuple[str, str, str]]
    watched: list[tuple[str, str, str]]


class Reconciled(msgspec.Struct, tag="reconcile", frozen=True):
    """A reconcile ended. `result` begins with `ok` if it did not fail."""

    controller: str
    namespace: str
    name: str
    result: str
    seconds: float
    queued: int
    """The keys in the queue of the controller at the end."""

    @property
    def is_ok(self) -> bool:
        """Return True if the reconciler returned."""
        return self.result.startswith("ok")


class Queues(msgspec.Struct, tag="queues", frozen=True):
    """The keys in the queue of each controller."""

    queued: dict[str, int]


Report: TypeAlias = Kinds | Reconciled | Queues
_decoder: Final = msgspec.json.Decoder(Report)


class ReportWriter:
    """Writes reports. Those that the reader has no space for are dropped: a view must not slow the operator down."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    def send(self, report: Report) -> None:
        """Write a report, unless the pipe is full or closed."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._fd, msgspec.json.encode(report) + b"\n")


async def read_reports(fd: int) -> AsyncGenerator[Report, None]:
    """The reports of a pipe until its other end is closed; closes this end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0))
    try:
        while line := await reader.readline():
            yield _decoder.decode(line)
    finally:
        transport.close()
