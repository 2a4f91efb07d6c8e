"""Stores that an earlier version of Kapi wrote are migrated in place when they are opened."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from test_sqlite import DRAFT, count_rows, fail_once_with, opened, refusal

from kapi.base.failpoint import armed
from kapi.storage.interface import Check, Put

FORMAT_1 = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "CREATE TABLE history (revision INTEGER PRIMARY KEY, key TEXT NOT NULL, gone INTEGER NOT NULL, value BLOB)",
    "CREATE UNIQUE INDEX versions ON history (key, revision, gone)",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('compacted', 3), ('swept', 2)",
    "PRAGMA application_id = 1264676969",
    "PRAGMA user_version = 1",
)
FORMAT_2 = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "CREATE TABLE history (position INTEGER PRIMARY KEY, key TEXT NOT NULL, gone INTEGER NOT NULL, value BLOB)",
    "CREATE UNIQUE INDEX versions ON history (key, position, gone)",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('compacted', 3), ('finished', 2)",
    "PRAGMA application_id = 1264676969",
    "PRAGMA user_version = 2",
)
ROWS = [
    (2, "/a", False, b"a at 2"),
    (3, "/b", False, b"b at 3"),
    (4, "/a", False, b"a at 4"),
    (5, "/b", True, None),
    (6, "/c", False, b"x" * 20_000),
]
"""Revision 1 has been compacted."""


def write_format_1(path):
    write(path, FORMAT_1, ROWS)


def write_format_2(path):
    write(path, FORMAT_2, [(revision << 10, *rest) for revision, *rest in ROWS])


def write(path, statements, rows):
    connection = sqlite3.connect(path / "kapi.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.executemany("INSERT INTO history VALUES (?, ?, ?, ?)", rows)
    connection.close()


formats = pytest.mark.parametrize("write_old", [write_format_1, write_format_2])


async def check_migrated(store):
    assert (store.revision, store.compacted) == (6, 3)
    seen = []
    await store.follow(3, lambda _, changes: seen.extend(changes))
    assert [(c.revision, c.key, c.value is None, c.value) for c in seen] == ROWS[2:]
    assert [tuple(entry) for entry in (await store.range("/", revision=3)).entries] == [
        ("/a", b"a at 2", 2),
        ("/b", b"b at 3", 3),
    ]
    assert [entry.revision for entry in (await store.range("/")).entries] == [4, 6]


@formats
def test_a_store_of_an_earlier_format_is_migrated_when_it_is_opened(tmp_path, write_old):
    write_old(tmp_path)

    async def scenario():
        async with opened(tmp_path) as store:
            await check_migrated(store)
            assert await store.commit([Put("/a", DRAFT, 4), Put("/b", DRAFT, 0), Check("/c", 6)]) == 7
            await store.compact(7)
        async with opened(tmp_path) as store:
            assert {entry.key: entry.revision for entry in (await store.range("/")).entries} == {
                "/a": 7,
                "/b": 7,
                "/c": 6,
            }
            assert count_rows(tmp_path) == 3

    asyncio.run(scenario())


@formats
@pytest.mark.parametrize("point", ["storage.before_migration", "storage.after_migration"])
def test_an_interrupted_migration_is_made_by_the_next_start(tmp_path, point, write_old):
    write_old(tmp_path)

    async def scenario():
        with armed(point, fail_once_with(sqlite3.OperationalError("disk I/O error"))):
            assert "disk I/O error" in await refusal(tmp_path)
        async with opened(tmp_path) as store:
            await check_migrated(store)

    asyncio.run(scenario())


@formats
def test_a_damaged_store_of_an_earlier_format_is_refused_and_unchanged(tmp_path, write_old):
    write_old(tmp_path)
    database = tmp_path / "kapi.db"
    content = bytearray(database.read_bytes())
    # The number of cells of the root page of the index.
    index = next(start for start in range(0, len(content), 4096) if content[start] == 10 and content[start + 4] > 2)
    content[index + 4] -= 1
    database.write_bytes(content)
    assert "is damaged and is not served" in asyncio.run(refusal(tmp_path))
    assert database.read_bytes() == content
    assert not (tmp_path / "kapi.mark").exists()
