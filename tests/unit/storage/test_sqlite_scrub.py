"""A running store notices rows that are damaged on disk, and files that were deleted or replaced."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from test_sqlite import DRAFT, opened, put_many

from kapi.base.clock import ManualClock
from kapi.base.failpoint import armed
from kapi.storage.interface import StorageDamaged, StorageFailed
from kapi.storage.sqlite import scrub as sqlite_scrub
from kapi.storage.sqlite import writer as sqlite_writer
from kapi.storage.sqlite.openfiles import FilesReplaced
from kapi.storage.sqlite.scrub import PASS_SECONDS, Scrub

KEYS = [f"/{number:03}" for number in range(300)]


async def checkpoint(store) -> None:
    """Copy the log into the database."""
    connection = store._writer._connection
    with armed("storage.before_commit", lambda: connection.execute("PRAGMA wal_checkpoint(RESTART)")):
        await store.put("/checkpoint", DRAFT, 0)


def damage(store, text: bytes) -> None:
    """Change a byte of the database file."""
    path = store._directory / "kapi.db"
    offset = path.read_bytes().index(text)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"#")


async def whole_pass(scrub: Scrub) -> None:
    before = scrub.passes
    while scrub.passes == before:
        await scrub.step()


def test_a_whole_store_is_read_twice_in_slices(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with opened(tmp_path) as store:
            await put_many(store, KEYS)
            scrub = Scrub(store, clock)
            await scrub.step()
            assert scrub.rows == sqlite_scrub.SLICE_ROWS
            await whole_pass(scrub)
            assert scrub.rows == 2 * len(KEYS)
            assert scrub.check() is None
            # The next pass begins an hour after this one began.
            await scrub.step()
            assert scrub.rows == 2 * len(KEYS)
            clock.advance(PASS_SECONDS)
            await whole_pass(scrub)
            assert (scrub.rows, scrub.passes) == (4 * len(KEYS), 2)

    asyncio.run(scenario())


def test_scrubs_that_run_at_once_take_turns(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, KEYS)
            for _ in range(10):
                scrubs = [Scrub(store, ManualClock()) for _ in range(4)]
                await asyncio.gather(*map(whole_pass, scrubs))
                assert [(scrub.rows, scrub.check()) for scrub in scrubs] == [(2 * len(KEYS), None)] * 4

    asyncio.run(scenario())


def test_a_mistake_of_the_program_is_not_reported_as_damage(tmp_path):
    connection = sqlite3.connect(tmp_path / "closed")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        sqlite_scrub.read_slice(connection, sqlite_scrub.Cursor())


def test_a_damaged_row_is_reported_until_it_has_been_replaced_and_removed(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, KEYS)
            await checkpoint(store)
            scrub = Scrub(store, ManualClock())
            await whole_pass(scrub)
            damage(store, b"x" * 700 + b"7y")
            scrub = Scrub(store, ManualClock())
            await whole_pass(scrub)
            assert f"kapi.db, row {7 << 10}, key /006: the row does not match its checksum" in scrub.check()
            assert [found.key for found in scrub.damages] == ["/006"]
            revision = await store.put("/006", DRAFT, 7)
            await scrub.step()
            assert scrub.check() is not None
            await store.compact(revision)
            await scrub.step()
            assert scrub.check() is None

    asyncio.run(scenario())


def test_a_damaged_index_is_found(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, KEYS)
            await checkpoint(store)
            content = (tmp_path / "kapi.db").read_bytes()
            damage(store, content[content.rindex(b"/006") :][:30])
            scrub = Scrub(store, ManualClock())
            await whole_pass(scrub)
            assert scrub.check() is not None

    asyncio.run(scenario())


def test_a_damaged_row_that_is_read_is_reported(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, KEYS)
            await checkpoint(store)
            damage(store, b"x" * 700 + b"7y")
            with pytest.raises(Exception, match="does not match its checksum"):
                await store.get("/006")
            assert "key /006" in Scrub(store, ManualClock()).check()

    asyncio.run(scenario())


def test_a_page_that_cannot_be_read_is_damage_and_not_an_error_of_the_server(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, KEYS)
            await checkpoint(store)
            content = (tmp_path / "kapi.db").read_bytes()
            page = content.index(b"x" * 700 + b"7y") // 4096 * 4096
            with (tmp_path / "kapi.db").open("r+b") as file:
                file.seek(page)
                file.write(b"\xff" * 100)
            with pytest.raises(StorageDamaged, match="SQLite cannot read it"):
                await store.get("/006")
            assert "SQLite cannot read it" in Scrub(store, ManualClock()).check()
            # Reads of other pages go on.
            assert (await store.get("/299")).revision == 300

    asyncio.run(scenario())


REMOVALS = {
    "the directory": shutil.rmtree,
    "the database": lambda path: (path / "kapi.db").unlink(),
    "the log": lambda path: (path / "kapi.db-wal").unlink(),
    "the mark": lambda path: (path / "kapi.mark").unlink(),
}


@pytest.mark.parametrize("how", REMOVALS)
def test_a_write_to_files_that_were_deleted_is_not_acknowledged(tmp_path, how, monkeypatch):
    monkeypatch.setattr(sqlite_writer, "_VERIFY_SECONDS", 0.0)
    path = tmp_path / "data"

    async def scenario():
        failures = []
        async with opened(path) as store:
            store.on_failure = failures.append
            await store.put("/a", DRAFT, 0)
            REMOVALS[how](path)
            with pytest.raises(StorageFailed, match="was deleted while the store was open"):
                await store.put("/b", DRAFT, 0)
            assert [type(failure) for failure in failures] == [FilesReplaced]

    asyncio.run(scenario())


def test_writes_are_acknowledged_for_a_second_at_most_after_the_files_were_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_writer, "_VERIFY_SECONDS", 0.02)
    path = tmp_path / "data"

    async def scenario():
        async with opened(path) as store:
            shutil.rmtree(path)

            async def write():
                for number in range(100_000):
                    await store.put(f"/{number}", DRAFT, 0)

            with pytest.raises(StorageFailed):
                await write()

    asyncio.run(scenario())


def test_files_that_were_replaced_are_noticed_without_a_write_and_left_alone(tmp_path):
    path = tmp_path / "data"

    async def scenario():
        failure = asyncio.get_running_loop().create_future()
        async with opened(path) as store:
            store.on_failure = failure.set_result
            await put_many(store, KEYS[:10])
            scrub = Scrub(store, ManualClock())
            await scrub.step()
            shutil.copytree(path, tmp_path / "backup")
            shutil.rmtree(path)
            shutil.copytree(tmp_path / "backup", path)
            assert (path / "kapi.db-wal").stat().st_size > 0
            with pytest.raises(StorageFailed):
                await scrub.step()
            assert "was replaced by another file" in str(failure.result())
            with pytest.raises(StorageFailed):
                await store.put("/b", DRAFT, 0)
        # Closing the store has not deleted the log of the backup.
        assert (path / "kapi.db-wal").read_bytes() == (tmp_path / "backup/kapi.db-wal").read_bytes()

    asyncio.run(scenario())


def test_a_process_that_ends_leaves_the_files_that_replaced_its_own(tmp_path):
    program = textwrap.dedent(
        """
        import asyncio, shutil, sys
        from pathlib import Path
        from kapi.storage.interface import Draft
        from kapi.storage.sqlite.storage import SqliteStorage
        async def main(path):
            store = await SqliteStorage.open(path)
            await store.put("/a", Draft(b"x", b"y"), 0)
            shutil.copytree(path, path.with_name("backup"))
            shutil.rmtree(path)
            shutil.copytree(path.with_name("backup"), path)
            await store.verify_files()
            await store.close()
        asyncio.run(main(Path(sys.argv[1])))
        """
    )
    path = tmp_path / "data"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    connection = sqlite3.connect(path / "kapi.db")
    assert connection.execute("SELECT key FROM history").fetchall() == [("/a",)]
    connection.close()
