"""Writes to a SQLite store with several writers, checkpoints and compactions, then ends without closing it.

Run under strace by `test_power_cut`. Prints each acknowledged write: key and revision. With `normal` as second
argument commits are not synced: the planted bug that the test must find.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from kapi.base.failpoint import arm
from kapi.storage.interface import Draft
from kapi.storage.sqlite import maintenance as sqlite_maintenance
from kapi.storage.sqlite import mark as sqlite_mark
from kapi.storage.sqlite import writer as sqlite_writer
from kapi.storage.sqlite.storage import SqliteStorage

WRITERS = 12
ROUNDS = 24


async def write(store: SqliteStorage, name: int) -> None:
    revision = 0
    for number in range(ROUNDS):
        key = f"/{name}/{number // 3}"
        revision = await store.put(key, Draft(b"x" * 500, b"y" * 400), revision if number % 3 else 0)
        os.write(1, f"{key} {revision}\n".encode())
        if name == 0 and number % 6 == 5:
            await store.compact(store.revision - 30)


def trace_mark() -> None:
    """Make every change of the mark a system call: the trace does not show what is stored through a mapping."""
    put = sqlite_mark.MarkFile._put

    def write_too(file: sqlite_mark.MarkFile, mark: sqlite_mark.Mark) -> None:
        put(file, mark)
        os.pwrite(file._descriptor, sqlite_mark._pack(file.mark), sqlite_mark._SLOTS[file.mark.sequence % 2])

    sqlite_mark.MarkFile._put = write_too
    # After a power cut the machine has been started again.
    sqlite_mark.boot_id = lambda: "an earlier boot"


async def main(path: Path, mode: str) -> None:
    # Several checkpoints in a short run, and pages handed back at every opportunity: each of them moves pages that must
    # not be lost on the way.
    sqlite_writer.CHECKPOINT_PAGES = 120
    sqlite_maintenance.FREE_PAGES, sqlite_maintenance.FREE_SHARE = 0, 1_000_000
    trace_mark()
    store = await SqliteStorage.open(path)
    if mode == "normal":
        arm("storage.before_commit", lambda: store._writer._connection.execute("PRAGMA synchronous = NORMAL"))
    await asyncio.gather(*(write(store, name) for name in range(WRITERS)))
    os._exit(0)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
