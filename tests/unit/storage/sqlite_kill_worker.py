"""A program that writes to a SQLite store as fast as it can and prints each acknowledged write; the tests kill it.

Every commit writes a key and its twin. One line per acknowledged commit: key, revision (negative for a deletion). A write
of the line is one system call, so what the reader has read was acknowledged, and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from kapi.storage.interface import Delete, Draft, Put
from kapi.storage.sqlite import maintenance as sqlite_maintenance
from kapi.storage.sqlite.storage import SqliteStorage

WRITERS = 20


async def write(store: SqliteStorage, name: str) -> None:
    revision = 0
    for number in itertools.count():
        key = f"/{name}/{number // 4}"
        if number % 4 == 0:
            revision = 0
        if number % 8 == 7:
            removal = await store.commit([Delete(key, revision), Delete(f"/twin{key}", revision)])
            os.write(1, f"{key} {-removal}\n".encode())
        else:
            draft = Draft(b"x" * 700, b"y" * 800)
            revision = await store.commit([Put(key, draft, revision), Put(f"/twin{key}", draft, revision)])
            os.write(1, f"{key} {revision}\n".encode())


async def compact(store: SqliteStorage) -> None:
    while True:
        await store.compact(max(0, store.revision - 100))
        await asyncio.sleep(0.005)


async def main(path: Path, run: str) -> None:
    # Return every free page to the file system as soon as there is nothing else to do.
    sqlite_maintenance.FREE_PAGES, sqlite_maintenance.FREE_SHARE = 0, 1_000_000
    store = await SqliteStorage.open(path)
    await asyncio.gather(compact(store), *(write(store, f"{run}-{number}") for number in range(WRITERS)))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
