"""The file of the SQLite store over time: it stays flat, and shrinks after a burst; the log does not grow without end."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kapi.base.failpoint import FailpointError, armed
from kapi.storage.interface import Draft, StorageFailed
from kapi.storage.sqlite import file as sqlite_file
from kapi.storage.sqlite import maintenance as sqlite_maintenance
from kapi.storage.sqlite import schema as sqlite_schema
from kapi.storage.sqlite import writer as sqlite_writer
from kapi.storage.sqlite.mark import Mark, write_mark
from kapi.storage.sqlite.reader import COMPACTED, ReadGate
from kapi.storage.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pathlib import Path

BOUND = 1 << 20
STORE = "0" * 32


@asynccontextmanager
async def opened(path: Path, **options):
    store = await SqliteStorage.open(path, **options)
    try:
        yield store
    finally:
        await store.close()


def draft(size):
    return Draft(b"x" * size, b"")


def size_of(path):
    """Database and log together."""
    return sum(file.stat().st_size for file in path.iterdir() if not file.name.endswith("-shm"))


async def update(store, key, times, size, revision=0):
    for _ in range(times):
        revision = await store.put(key, draft(size), revision)
    return revision


# -- endless updates


@pytest.mark.parametrize(
    ("keys", "size", "rounds"),
    [(1, 10_000, 240), (1, 300_000, 16), (1, 1_500_000, 8), (64, 1_500, 24), (8, 100_000, 8)],
    ids=["one", "large", "largest", "many", "many-large"],
)
def test_the_files_do_not_grow_however_long_objects_are_updated(tmp_path, keys, size, rounds):
    async def scenario():
        async with opened(tmp_path, history_bytes=BOUND) as store:
            revisions = dict.fromkeys((f"/{number}" for number in range(keys)), 0)
            sizes, written = [], 0
            for _ in range(6):
                for _ in range(rounds):
                    done = await asyncio.gather(*(store.put(key, draft(size), at) for key, at in revisions.items()))
                    revisions = dict(zip(revisions, done, strict=True))
                    written += keys * size
                sizes.append(size_of(tmp_path))
            # Enough to pass the bound many times, the bound of a present that is larger too.
            assert written > 8 * max(BOUND, keys * size)
            assert max(sizes) <= 1.3 * sizes[1]
            assert len((await store.range("/")).entries) == keys

    asyncio.run(scenario())


def test_the_files_do_not_grow_when_objects_are_created_and_deleted(tmp_path):
    async def scenario():
        async with opened(tmp_path, history_bytes=BOUND) as store:
            sizes = []
            for turn in range(6):
                for number in range(300):
                    key = f"/{turn}/{number}"
                    await store.delete(key, await store.put(key, draft(5_000), 0))
                sizes.append(size_of(tmp_path))
            assert max(sizes) <= 1.3 * sizes[1]

    asyncio.run(scenario())


def test_compaction_steps_grow_with_a_writer_that_is_faster(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_maintenance, "STEP_REVISIONS", 1)

    async def scenario():
        most = 0

        def look():
            nonlocal most
            most = max(most, store._writer._ledger.past)

        async with opened(tmp_path, history_bytes=BOUND) as store:
            with armed("storage.before_compact_step", look):
                await asyncio.gather(*(update(store, f"/{number}", 60, 10_000) for number in range(32)))
        # What came during one batch and one step; without the rule it would be 18 MB.
        assert most < 3 * BOUND

    asyncio.run(scenario())


def test_a_large_step_of_one_busy_key_is_no_more_work_than_one_of_many(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            connection = store._writer._connection
            await update(store, "/busy", 600, 10)
            steps = 0

            def count():
                nonlocal steps
                steps += 1

            def arm():
                connection.set_progress_handler(count, 100)

            with armed("storage.before_compact_step", arm):
                await store.compact(store.revision)
            # About 60 instructions for each row; visiting all earlier versions of each would be thousands.
            assert steps < 600 * 200 / 100

    asyncio.run(scenario())


def test_what_is_not_published_is_not_compacted(tmp_path, monkeypatch):
    # Every write is a batch: maintenance after one has ended when the next is made.
    monkeypatch.setattr(sqlite_writer, "BATCH_BYTES", 1)

    async def scenario():
        async with opened(tmp_path, history_bytes=1) as store:
            revision = await update(store, "/a", 1, 10)
            commits = threading.Semaphore(0)
            with armed("storage.after_commit", commits.release):
                writes = [asyncio.create_task(store.put("/a", draft(10), revision + n)) for n in range(5)]
                await asyncio.sleep(0)
                # The loop stands still meanwhile: nothing is published.
                for _ in range(5):
                    assert commits.acquire(timeout=30)
            connection = sqlite_file.open_reader(tmp_path)
            (compacted,) = connection.execute(COMPACTED).fetchone()
            connection.close()
            assert compacted <= store.revision == revision
            await asyncio.gather(*writes)

    asyncio.run(scenario())


# -- after a burst


@pytest.fixture
def few_free_pages(monkeypatch):
    """Keep hardly any free pages, so that little data shows what happens."""
    monkeypatch.setattr(sqlite_maintenance, "FREE_PAGES", 16)


class Vacuumed:
    """Knows when the last free page was returned to the file system."""

    def __init__(self, store):
        self._store = store
        self._is_done = threading.Event()
        self.steps = 0

    def __call__(self):
        self.steps += 1
        if not self._store._writer._maintenance.has_free_pages:
            self._is_done.set()

    async def wait(self):
        assert await asyncio.to_thread(self._is_done.wait, 30)


async def burst(store):
    revision = await update(store, "/kept", 3, 20_000)
    await asyncio.gather(*(update(store, f"/burst/{number}", 30, 10_000) for number in range(16)))
    return revision


def test_the_file_shrinks_after_a_burst(tmp_path, few_free_pages):
    async def scenario():
        async with opened(tmp_path) as store:
            await burst(store)
            before = size_of(tmp_path)
            vacuumed = Vacuumed(store)
            with armed("storage.after_vacuum_step", vacuumed):
                for entry in (await store.range("/burst/")).entries:
                    await store.delete(entry.key, entry.revision)
                await store.compact(store.revision)
                await vacuumed.wait()
            # The log is copied, and the file cut, after the last step.
            await store.compact(store.compacted)
            assert (tmp_path / "kapi.db").stat().st_size < 20 * 4096 + 60_000
            assert before > 4 << 20
            assert (await store.get("/kept")).value == b"x" * 20_000 + b"3"
        connection = sqlite3.connect(tmp_path / "kapi.db")
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()

    asyncio.run(scenario())


def test_a_file_with_many_free_pages_is_vacuumed_when_it_is_opened(tmp_path, monkeypatch):
    async def scenario():
        async with opened(tmp_path) as store:
            await burst(store)
            await store.compact(store.revision)
        before = size_of(tmp_path)
        monkeypatch.setattr(sqlite_maintenance, "FREE_PAGES", 16)
        is_done = threading.Event()
        with armed("storage.after_vacuum_step", is_done.set):
            async with opened(tmp_path) as store:
                await asyncio.to_thread(is_done.wait, 30)
                await all_vacuumed(store)
        assert size_of(tmp_path) < before / 4

    asyncio.run(scenario())


async def all_vacuumed(store):
    while store._writer._maintenance.has_free_pages:
        await store.compact(store.compacted)


def test_a_write_interrupts_the_vacuum(tmp_path, few_free_pages):
    async def scenario():
        async with opened(tmp_path) as store:
            await burst(store)
            loop, writes, moved = asyncio.get_running_loop(), [], []

            async def submit():
                writes.append(asyncio.create_task(store.put(f"/new/{len(writes)}", draft(10), 0)))
                while store._writer.inbox.empty():  # noqa: ASYNC110
                    await asyncio.sleep(0)

            def before():
                moved.append(sqlite_file.pragma(store._writer._connection, "page_count"))
                if len(writes) < 10:
                    asyncio.run_coroutine_threadsafe(submit(), loop).result(30)

            vacuumed = Vacuumed(store)
            with armed("storage.before_vacuum_step", before), armed("storage.after_vacuum_step", vacuumed):
                await store.compact(store.revision)
                await vacuumed.wait()
            await asyncio.gather(*writes)
            assert len(writes) == 10
            # While a write waited no page was moved.
            assert moved[0] == moved[9]
            assert vacuumed.steps > 10

    asyncio.run(scenario())


def test_a_steady_load_vacuums_nothing(tmp_path, few_free_pages):
    async def scenario():
        async with opened(tmp_path, history_bytes=BOUND) as store:
            vacuumed = Vacuumed(store)
            with armed("storage.after_vacuum_step", vacuumed):
                await update(store, "/a", 600, 10_000)
            assert store.compacted > 400
            assert vacuumed.steps == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["storage.before_vacuum_step", "storage.after_vacuum_step"])
def test_a_failure_while_vacuuming_is_final_and_loses_nothing(tmp_path, few_free_pages, point):
    async def scenario():
        failed = asyncio.Event()
        async with opened(tmp_path) as store:
            store.on_failure = lambda error: failed.set() if isinstance(error, FailpointError) else None
            await burst(store)
            before = await store.range("/")
            with armed(point, "raise@2"):
                await asyncio.gather(store.compact(store.revision), return_exceptions=True)
                await asyncio.wait_for(failed.wait(), 30)
            with pytest.raises(StorageFailed):
                await store.put("/later", draft(1), 0)
        async with opened(tmp_path) as store:
            assert await store.range("/") == before

    asyncio.run(scenario())


def test_a_file_of_an_earlier_version_works_and_keeps_its_size(tmp_path, few_free_pages):
    connection = sqlite3.connect(tmp_path / "kapi.db", isolation_level=None)
    connection.execute("PRAGMA auto_vacuum = NONE")
    connection.execute("PRAGMA journal_mode = WAL")
    sqlite_schema.create(connection, STORE)
    connection.close()
    write_mark(tmp_path, Mark(STORE, is_established=True))

    async def scenario():
        async with opened(tmp_path) as store:
            connection = sqlite_file.open_reader(tmp_path)
            vacuumed = Vacuumed(store)
            with armed("storage.after_vacuum_step", vacuumed):
                await burst(store)
                await store.compact(store.revision)
                before = sqlite_file.pragma(connection, "page_count")
                await update(store, "/more", 300, 10_000)
            assert vacuumed.steps == 0
            assert sqlite_file.pragma(connection, "page_count") == before
            connection.close()

    asyncio.run(scenario())


# -- the log


def log_size(path):
    return (path / "kapi.db-wal").stat().st_size


@pytest.fixture
def short_log(monkeypatch):
    monkeypatch.setattr(sqlite_maintenance, "LOG_PAGES", 300)
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_PAGES", 100)


def test_readers_that_overlap_without_end_do_not_make_the_log_grow(tmp_path, short_log):
    async def scenario():
        async with opened(tmp_path, history_bytes=BOUND) as store:
            await asyncio.gather(*(store.put(f"/{number}", draft(2000), 0) for number in range(500)))
            is_over = False

            async def read():
                while not is_over:
                    assert len((await store.range("/", limit=400)).entries) == 400

            readers = [asyncio.create_task(read()) for _ in range(4)]
            sizes, revision = [], 0
            for _ in range(6):
                revision = await update(store, "/a", 120, 10_000, revision)
                sizes.append(log_size(tmp_path))
            is_over = True
            await asyncio.gather(*readers)
            # 7 MB have been written, twice that to the log. What the log may hold is what comes while the running reads end.
            assert max(sizes) < 6 << 20

    asyncio.run(scenario())


def test_a_log_that_a_reader_holds_restarts_when_it_ends_and_writes_do_not_wait(tmp_path, short_log):
    async def scenario():
        async with opened(tmp_path, history_bytes=BOUND) as store:
            await store.put("/first", draft(10), 0)
            gate = store._writer.gate
            connection = sqlite_file.open_reader(tmp_path)
            reading = gate.reading()
            reading.__enter__()
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM history").fetchone()
            # The reader is inside the log: it grows, and new readers wait; writes are made all the same.
            revision = await update(store, "/a", 400, 10_000)
            waiting = asyncio.create_task(store.get("/a"))
            revision = await update(store, "/a", 10, 10_000, revision)
            held = log_size(tmp_path)
            assert held > 4 << 20
            assert gate._is_closed
            assert not waiting.done()
            connection.execute("COMMIT")
            reading.__exit__(None, None, None)
            assert (await waiting).key == "/a"
            await update(store, "/a", 400, 10_000, revision)
            assert log_size(tmp_path) <= held
            connection.close()

    asyncio.run(scenario())


def test_reads_go_on_when_the_store_fails_while_they_wait(tmp_path, short_log):
    async def scenario():
        async with opened(tmp_path) as store:
            with store._writer.gate.reading():
                connection = sqlite_file.open_reader(tmp_path)
                connection.execute("BEGIN")
                connection.execute("SELECT count(*) FROM history").fetchone()
                revision = await update(store, "/a", 300, 10_000)
                waiting = asyncio.create_task(store.get("/a"))
                with armed("storage.before_commit", "raise"), pytest.raises(StorageFailed):
                    await store.put("/a", draft(1), revision)
                assert (await waiting).revision == revision
                connection.close()

    asyncio.run(scenario())


def test_a_store_can_be_closed_while_its_log_waits_for_readers(tmp_path, short_log):
    async def scenario():
        store = await SqliteStorage.open(tmp_path)
        reading = store._writer.gate.reading()
        reading.__enter__()
        connection = sqlite_file.open_reader(tmp_path)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM history").fetchone()
        await update(store, "/a", 300, 10_000)
        assert store._writer.gate._is_closed
        connection.close()
        waiting = asyncio.create_task(store.get("/a"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        reading.__exit__(None, None, None)
        await closing
        assert (await waiting).key == "/a"

    asyncio.run(scenario())


def test_a_gate_without_readers_is_quiet_at_once():
    calls = []
    gate = ReadGate(lambda: calls.append("quiet"))
    with gate.reading():
        pass
    assert gate.close()
    assert not gate.close()
    gate.open()
    assert calls == []


def test_the_last_reader_of_a_closed_gate_calls_back():
    calls = []
    gate = ReadGate(lambda: calls.append("quiet"))
    with gate.reading():
        with gate.reading():
            assert not gate.close()
        assert calls == []
    assert calls == ["quiet"]


def test_a_closed_gate_admits_no_reader_until_it_is_opened():
    gate = ReadGate(lambda: None)
    gate.close()
    order = []

    def read():
        with gate.reading():
            order.append("read")

    reader = threading.Thread(target=read)
    reader.start()
    order.append("open")
    gate.open()
    reader.join(30)
    assert order == ["open", "read"]
