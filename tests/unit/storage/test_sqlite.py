"""What is particular to the SQLite store: its file, its batches, its failures. The contract is in tests/contract."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import weakref
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from kapi.base.clock import ManualClock
from kapi.base.failpoint import FailpointError, armed
from kapi.storage.compact import Compactor
from kapi.storage.interface import (
    Compacted,
    Draft,
    Put,
    StorageBusy,
    StorageFailed,
    StorageUnavailable,
)
from kapi.storage.sqlite import file as sqlite_file
from kapi.storage.sqlite import maintenance as sqlite_maintenance
from kapi.storage.sqlite import writer as sqlite_writer
from kapi.storage.sqlite.reader import read_key, read_log, read_range
from kapi.storage.sqlite.storage import SqliteStorage
from kapi.storage.sqlite.writer import Writer

DRAFT = Draft(b"x" * 700, b"y" * 800)


@asynccontextmanager
async def opened(path: Path, **options):
    store = await SqliteStorage.open(path, **options)
    try:
        yield store
    finally:
        await store.close()


async def refusal(path: Path) -> str:
    with pytest.raises(StorageUnavailable) as caught:
        await SqliteStorage.open(path)
    return str(caught.value)


async def put_many(store, keys):
    return await asyncio.gather(*(store.put(key, DRAFT, 0) for key in keys))


class Gate:
    """Holds the writer thread at a fail point until released."""

    def __init__(self):
        self._reached = threading.Event()
        self._go = threading.Event()

    def __call__(self):
        self._reached.set()
        assert self._go.wait(30)

    async def reached(self):
        assert await asyncio.to_thread(self._reached.wait, 30)

    def open(self):
        self._go.set()


# -- opening


def test_the_directory_and_the_files_are_private(tmp_path):
    async def scenario():
        async with opened(tmp_path / "data") as store:
            await store.put("/a", DRAFT, 0)
            await store.get("/a")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
            assert set(modes) == {"kapi.db", "kapi.db-wal", "kapi.db-shm", "kapi.lock", "kapi.mark"}
            assert set(modes.values()) == {0o600}
            assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700

    asyncio.run(scenario())


def test_every_commit_is_synced_and_the_format_is_marked(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            seen = {}

            def look():
                for name in ("synchronous", "application_id", "user_version"):
                    seen[name] = sqlite_file.pragma(store._writer._connection, name)

            with armed("storage.before_commit", look):
                await store.put("/a", DRAFT, 0)
            assert seen == {"synchronous": 2, "application_id": 0x4B617069, "user_version": 3}

    asyncio.run(scenario())


def test_a_directory_in_use_is_refused_with_its_process_id(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            message = await refusal(tmp_path)
            assert f"in use by another server (process {os.getpid()})" in message
            assert await store.put("/a", DRAFT, 0) == 1
        async with opened(tmp_path) as store:
            assert store.revision == 1

    asyncio.run(scenario())


def test_a_killed_server_leaves_no_lock_behind(tmp_path):
    program = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from kapi.storage.sqlite.storage import SqliteStorage
        async def main():
            store = await SqliteStorage.open(Path(sys.argv[1]))
            print("open", flush=True)
            await asyncio.Event().wait()
        asyncio.run(main())
        """
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout.readline() == "open\n"
        assert f"process {server.pid}" in asyncio.run(refusal(tmp_path))
        server.kill()

    async def scenario():
        async with opened(tmp_path) as store:
            assert await store.put("/a", DRAFT, 0) == 1

    asyncio.run(scenario())


def test_a_missing_parent_is_named(tmp_path):
    message = asyncio.run(refusal(tmp_path / "missing" / "data"))
    assert message.startswith(f"{tmp_path / 'missing'} does not exist; create it")


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "data").write_text("")
    assert "is not a directory" in asyncio.run(refusal(tmp_path / "data"))
    assert "not a directory" in asyncio.run(refusal(tmp_path / "data" / "deeper"))


def test_a_file_that_is_no_database_is_refused_and_unchanged(tmp_path):
    content = b"hello, this is a letter to my aunt\n" * 100
    (tmp_path / "kapi.db").write_bytes(content)
    assert "is not a database; move it away" in asyncio.run(refusal(tmp_path))
    assert (tmp_path / "kapi.db").read_bytes() == content


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE notes (text)"], "is not a Kapi database"),
        (["PRAGMA application_id = 77"], "is not a Kapi database"),
        (["PRAGMA application_id = 1264676969", "PRAGMA user_version = 4"], "written by a newer Kapi"),
    ],
    ids=["tables", "application", "format"],
)
def test_a_database_of_another_application_is_refused_and_unchanged(tmp_path, statements, message):
    connection = sqlite3.connect(tmp_path / "kapi.db", isolation_level=None)
    connection.execute("VACUUM")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    content = (tmp_path / "kapi.db").read_bytes()
    assert message in asyncio.run(refusal(tmp_path))
    assert (tmp_path / "kapi.db").read_bytes() == content


def test_a_damaged_database_is_refused(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, [f"/{number}" for number in range(200)])
        database = tmp_path / "kapi.db"
        content = bytearray(database.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        database.write_bytes(content)
        assert "is damaged" in await refusal(tmp_path)

    asyncio.run(scenario())


UNPRIVILEGED = textwrap.dedent(
    """
    import asyncio, os, sys
    from pathlib import Path
    from kapi.storage.interface import StorageUnavailable
    from kapi.storage.sqlite.storage import SqliteStorage
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        asyncio.run(SqliteStorage.open(Path(sys.argv[1])))
    except StorageUnavailable as error:
        print(error)
    """
)


@pytest.fixture
def public_directory():
    """A directory that other users can reach, which `tmp_path` is not."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for directory, _, _ in os.walk(path):
        Path(directory).chmod(0o755)
    shutil.rmtree(path)


@pytest.mark.parametrize("locked", ["directory", "parent", "database"])
def test_a_store_that_is_not_writable_is_refused(public_directory, locked):
    data = public_directory / "data"
    if locked != "parent":
        asyncio.run(close_new(data))
        data.chmod(0o555 if locked == "directory" else 0o777)
        for path in data.iterdir():
            path.chmod(0o666)
    if locked == "database":
        (data / "kapi.db").chmod(0o444)
    public_directory.chmod(0o555)
    if locked == "directory":
        (data / "kapi.lock").chmod(0o444)
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(data)], capture_output=True, text=True, timeout=30, check=True
    )
    assert "no permission to write" in done.stdout


async def close_new(path: Path) -> None:
    async with opened(path):
        pass


@pytest.mark.parametrize(
    ("number", "text"),
    [(30, "read-only file system"), (28, "is full; free some space"), (122, "is full"), (5, "Input/output error")],
)
def test_errors_of_the_operating_system_are_explained(number, text):
    with (
        pytest.raises(StorageUnavailable, match=text),
        sqlite_file.explained(Path("/data")),
    ):
        raise OSError(number, os.strerror(number))


# -- batches


class Sizes:
    def __init__(self):
        self.sizes = []
        self.seconds = []

    def committed(self, batch_size, seconds):
        self.sizes.append(batch_size)
        self.seconds.append(seconds)


def test_writes_that_wait_for_the_disk_are_committed_together(tmp_path):
    async def scenario():
        sizes, gate = Sizes(), Gate()
        async with opened(tmp_path, observer=sizes) as store:
            with armed("storage.before_commit", gate):
                first = asyncio.create_task(store.put("/first", DRAFT, 0))
                await gate.reached()
                rest = [asyncio.create_task(store.put(f"/{number}", DRAFT, 0)) for number in range(50)]
                await asyncio.sleep(0)
                gate.open()
                await asyncio.gather(first, *rest)
            assert sizes.sizes == [1, 50]
            assert all(seconds > 0 for seconds in sizes.seconds)

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [10, 100_000])
def test_batches_are_bounded_in_number_and_bytes(tmp_path, size):
    async def scenario():
        sizes, gate = Sizes(), Gate()
        count = 600 if size == 10 else 40
        async with opened(tmp_path, observer=sizes) as store:
            with armed("storage.before_commit", gate):
                tasks = [asyncio.create_task(store.put(f"/{n}", Draft(b"x" * size, b""), 0)) for n in range(count)]
                await gate.reached()
                gate.open()
                await asyncio.gather(*tasks)
            assert sum(sizes.sizes) == count
            limit = sqlite_writer.BATCH_OPERATIONS if size == 10 else sqlite_writer.BATCH_BYTES // size + 1
            assert max(sizes.sizes) == limit

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [1, 2, 3, 31, 32, 33, 255, 256])
def test_batches_of_every_size_are_stored_whole(tmp_path, count):
    async def scenario():
        gate = Gate()
        async with opened(tmp_path) as store:
            with armed("storage.before_commit", gate):
                first = asyncio.create_task(store.put("/first", DRAFT, 0))
                await gate.reached()
                tasks = [asyncio.create_task(store.put(f"/{number:03}", DRAFT, 0)) for number in range(count)]
                await asyncio.sleep(0)
                gate.open()
                await asyncio.gather(first, *tasks)
        async with opened(tmp_path) as store:
            page = await store.range("/")
            assert [entry.revision for entry in page.entries] == [*range(2, count + 2), 1]
            assert all(entry.value == DRAFT.render(entry.revision) for entry in page.entries)

    asyncio.run(scenario())


@pytest.mark.parametrize("bound", [{"max_waiting": 5}, {"max_waiting_bytes": 5 * 1502}], ids=["number", "bytes"])
def test_too_many_waiting_writes_are_refused_until_the_disk_catches_up(tmp_path, bound):
    async def scenario():
        gate = Gate()
        async with opened(tmp_path, **bound) as store:
            with armed("storage.before_commit", gate):
                tasks = [asyncio.create_task(store.put(f"/{number}", DRAFT, 0)) for number in range(5)]
                await gate.reached()
                with pytest.raises(StorageBusy):
                    await store.put("/more", DRAFT, 0)
                gate.open()
                await asyncio.gather(*tasks)
            assert await store.put("/more", DRAFT, 0) == 6
            assert (store._waiting, store._waiting_bytes) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["storage.before_commit", "storage.after_commit"])
def test_nothing_is_visible_before_it_is_published(tmp_path, point):
    async def scenario():
        gate, seen = Gate(), []
        async with opened(tmp_path) as store:
            await store.put("/before", DRAFT, 0)
            before = await store.range("/")
            await store.follow(1, lambda _, changes: seen.extend(changes))
            with armed(point, gate):
                write = asyncio.create_task(store.commit([Put("/a", DRAFT, 0), Put("/b", DRAFT, 0)]))
                await gate.reached()
                try:
                    assert seen == []
                    assert store.revision == 1
                    assert await store.get("/a") is None
                    assert await store.range("/") == before
                    late = []
                    await store.follow(0, lambda _, changes: late.extend(changes))
                finally:
                    gate.open()
                assert await write == 2
            assert [change.revision for change in seen] == [2, 2]
            assert [change.revision for change in late] == [1, 2, 2]

    asyncio.run(scenario())


def test_a_commit_that_is_visible_before_it_is_durable_is_caught(tmp_path):
    with armed("storage.ack_before_commit", lambda: None), pytest.raises(AssertionError):
        test_nothing_is_visible_before_it_is_published(tmp_path, "storage.before_commit")


def test_the_loop_runs_while_the_disk_is_busy(tmp_path):
    async def scenario():
        gate = Gate()
        async with opened(tmp_path) as store:
            with armed("storage.before_commit", gate):
                write = asyncio.create_task(store.put("/a", DRAFT, 0))
                await gate.reached()
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not write.done()
                gate.open()
                await write

    asyncio.run(scenario())


def test_a_connection_keeps_nothing_of_the_statements_it_has_executed(tmp_path):
    """Small objects that stay, made one by one during a burst, hold the memory of that burst."""
    with closing(sqlite_file.connect(tmp_path)) as connection:
        connection.execute("SELECT 1").fetchone()
        before = sum(isinstance(thing, weakref.ref) for thing in gc.get_objects())
        for number in range(150):
            assert connection.execute("SELECT ?", (number,)).fetchone() == (number,)
        assert sum(isinstance(thing, weakref.ref) for thing in gc.get_objects()) == before


def test_a_closed_connection_is_freed_without_the_garbage_collector(tmp_path):
    connection = sqlite_file.connect(tmp_path)
    connection.execute("SELECT 1").fetchone()
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    gone = weakref.ref(connection)
    del connection
    assert gone() is None


def test_a_read_overtaken_by_a_compaction_sees_the_oldest_state_there_is(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            revision = 0
            for _ in range(5):
                revision = await store.put("/a", DRAFT, revision)
            await store.compact(5)
            connection = sqlite_file.open_reader(tmp_path)
            # As if the read had been started at revision 2 and had come to the disk only now.
            assert read_key(connection, "/a", 0, 2).revision == 5
            page = read_range(connection, "/", "", 0, 0, 2, counted=True)
            assert ([entry.revision for entry in page.entries], page.revision) == ([5], 5)
            # A feed cannot skip ahead like that.
            with pytest.raises(Compacted):
                read_log(connection, 2, 5)
            connection.close()

    asyncio.run(scenario())


# -- failure


def fail_once_with(error):
    """The disk fails once and is well again; that does not make the store trustworthy."""
    errors = [error]

    def act():
        if errors:
            raise errors.pop()

    return act


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.DatabaseError("malformed"),
        OSError(5, "EIO"),
        FailpointError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_after_a_failed_commit_no_write_is_acknowledged(tmp_path, error):
    async def scenario():
        failures, seen = [], []
        async with opened(tmp_path) as store:
            store.on_failure = failures.append
            await store.follow(0, lambda _, changes: seen.extend(changes))
            assert await store.put("/before", DRAFT, 0) == 1
            with armed("storage.before_commit", fail_once_with(error)):
                results = await asyncio.gather(
                    *(store.put(f"/{n}", DRAFT, 0) for n in range(300)), return_exceptions=True
                )
            assert {type(result) for result in results} == {StorageFailed}
            assert failures == [error]
            for attempt in (store.put("/later", DRAFT, 0), store.delete("/before", 1), store.compact(1)):
                with pytest.raises(StorageFailed):
                    await attempt
            assert failures == [error]
            assert [change.revision for change in seen] == [1]
            assert [entry.key for entry in (await store.range("/")).entries] == ["/before"]
        async with opened(tmp_path) as store:
            assert [entry.key for entry in (await store.range("/")).entries] == ["/before"]
            assert await store.put("/again", DRAFT, 0) > 1

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["storage.before_compact_step", "storage.after_compact_step", "storage.checkpoint"])
def test_a_failure_outside_a_write_is_final(tmp_path, point):
    async def scenario():
        failures = []
        async with opened(tmp_path) as store:
            store.on_failure = failures.append
            with armed(point, "raise"):
                await put_many(store, [f"/{number}" for number in range(250)])
                if "compact" in point:
                    with pytest.raises(StorageFailed):
                        await store.compact(200)
                else:
                    await asyncio.gather(
                        *(store.put(f"/more{n}", DRAFT, 0) for n in range(1000)), return_exceptions=True
                    )
            with pytest.raises(StorageFailed):
                await store.put("/later", DRAFT, 0)
            assert [type(failure) for failure in failures] == [FailpointError]
            assert len((await store.range("/")).entries) >= 250

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["storage.before_publish", "storage.after_publish"])
def test_a_commit_that_cannot_be_published_is_not_acknowledged(tmp_path, point):
    async def scenario():
        failures = []
        async with opened(tmp_path) as store:
            store.on_failure = failures.append
            with armed(point, "raise"), pytest.raises(StorageFailed):
                await store.put("/a", DRAFT, 0)
            with pytest.raises(StorageFailed):
                await store.put("/b", DRAFT, 0)
            assert len(failures) == 1

    asyncio.run(scenario())


def test_a_writer_thread_that_dies_of_a_bug_is_a_failure_of_the_store(tmp_path, monkeypatch):
    async def scenario():
        async with opened(tmp_path) as store:
            failure = asyncio.get_running_loop().create_future()
            store.on_failure = failure.set_result
            monkeypatch.setattr(Writer, "_maintain", lambda writer: (_ for _ in ()).throw(SystemError("a bug")))
            monkeypatch.setattr(Writer, "_attempt", lambda writer, work, commits: work())
            write = asyncio.ensure_future(store.put("/a", DRAFT, 0))
            assert str(await asyncio.wait_for(failure, 30)) == "a bug"
            await asyncio.wait([write])
            with pytest.raises(StorageFailed):
                await store.put("/b", DRAFT, 0)

    asyncio.run(scenario())


def test_nothing_is_published_after_a_follower_has_missed_a_change(tmp_path):
    async def scenario():
        gate, seen, failing = Gate(), [], [True]

        def fail_once(revision, changes):
            if failing:
                failing.clear()
                raise RuntimeError("boom")

        async with opened(tmp_path) as store:
            await store.follow(0, fail_once)
            await store.follow(0, lambda _, changes: seen.extend(changes))
            with armed("storage.before_commit", gate):
                first = asyncio.create_task(store.put("/first", DRAFT, 0))
                await gate.reached()
                rest = [asyncio.create_task(store.put(f"/{number}", DRAFT, 0)) for number in range(5)]
                await asyncio.sleep(0)
                gate.open()
                results = await asyncio.gather(first, *rest, return_exceptions=True)
            assert {type(result) for result in results} == {StorageFailed}
            assert [change.key for change in seen] == ["/first"]

    asyncio.run(scenario())


def test_a_full_disk_is_a_failure_and_loses_no_acknowledged_write(tmp_path):
    async def scenario():
        failures, acknowledged = [], {}
        async with opened(tmp_path) as store:
            store.on_failure = failures.append
            shrink = lambda: store._writer._connection.execute("PRAGMA max_page_count=60")  # noqa: E731

            async def fill() -> None:
                for number in range(1000):
                    acknowledged[f"/{number}"] = await store.put(f"/{number}", DRAFT, 0)

            with armed("storage.before_commit", shrink), pytest.raises(StorageFailed, match="database or disk is full"):
                await fill()
            with pytest.raises(StorageFailed):
                await store.put("/small", Draft(b"", b""), 0)
            assert len(failures) == 1
        async with opened(tmp_path) as store:
            found = {entry.key: entry.revision for entry in (await store.range("/")).entries}
            assert acknowledged
            assert acknowledged.items() <= found.items()

    asyncio.run(scenario())


def test_a_write_error_is_a_failure_and_loses_no_acknowledged_write(tmp_path):
    """The kernel refuses to let files grow: an error from write(2) itself, in a process of its own."""
    program = textwrap.dedent(
        """
        import asyncio, resource, signal, sys
        from pathlib import Path
        from kapi.storage.interface import Compacted, Draft, StorageFailed
        from kapi.storage.sqlite.storage import SqliteStorage
        async def main():
            store = await SqliteStorage.open(Path(sys.argv[1]))
            failures = []
            store.on_failure = failures.append
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
            try:
                for number in range(1000):
                    print(f"/{number}", await store.put(f"/{number}", Draft(b"x" * 1500, b""), 0), flush=True)
            except StorageFailed:
                pass
            assert len(failures) == 1, failures
            try:
                await store.put("/later", Draft(b"", b""), 0)
            except StorageFailed:
                print("failed")
            await store.close()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        asyncio.run(main())
        """
    )
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "failed"
    acknowledged = {key: int(revision) for key, revision in (line.split() for line in lines)}
    assert acknowledged

    async def scenario():
        async with opened(tmp_path) as store:
            found = {entry.key: entry.revision for entry in (await store.range("/")).entries}
            assert acknowledged.items() <= found.items()

    asyncio.run(scenario())


# -- the file over time


def files(path: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of what is on disk; the shared-memory file is not."""
    return {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in path.iterdir() if not p.name.endswith("-shm")}


def wait_for_sync(mark) -> None:
    """Wait until the mark has been synced, which happens once no write has come for a moment."""
    while not mark.is_synced:
        os.sched_yield()


def test_an_idle_store_does_not_touch_the_disk(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with opened(tmp_path) as store:
            compactor = Compactor(store, clock, retention=75)
            await put_many(store, [f"/{number}" for number in range(50)])
            await compactor.step()
            clock.advance(100)
            await compactor.step()
            await asyncio.to_thread(wait_for_sync, store._writer._mark)
            before = files(tmp_path)
            for _ in range(10):
                clock.advance(100)
                await compactor.step()
                await store.compact(store.revision)
                await store.get("/1")
                await store.range("/", limit=10)
                (await store.follow(store.revision, print)).close()
                with pytest.raises(Exception, match="is at revision"):
                    await store.put("/1", DRAFT, 0)
            assert files(tmp_path) == before

    asyncio.run(scenario())


def test_the_write_ahead_log_is_kept_short(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            revisions: dict[str, int] = {}
            for number in range(3000):
                key = f"/{number % 97}"
                # Nothing is read: a read at the moment of a checkpoint would keep the log from restarting.
                revisions[key] = await store.put(key, DRAFT, revisions.get(key, 0))
            # 3,000 single commits write at least 6,000 pages, 24 MB.
            assert (tmp_path / "kapi.db-wal").stat().st_size < 12 << 20
        assert not (tmp_path / "kapi.db-wal").exists()

    asyncio.run(scenario())


def test_compaction_frees_space_that_later_writes_use(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            sizes = []
            revisions = dict.fromkeys((f"/{number}" for number in range(50)), 0)
            for _ in range(8):
                for _ in range(10):
                    done = await asyncio.gather(*(store.put(key, DRAFT, at) for key, at in revisions.items()))
                    revisions = dict(zip(revisions, done, strict=True))
                await store.compact(store.revision)
                sizes.append((tmp_path / "kapi.db").stat().st_size)
                assert count_rows(tmp_path) == 50
            assert sizes[-1] <= sizes[1] * 1.1

    asyncio.run(scenario())


def count_rows(path: Path) -> int:
    connection = sqlite3.connect(path / "kapi.db")
    (rows,) = connection.execute("SELECT count(*) FROM history").fetchone()
    connection.close()
    return rows


def test_an_interrupted_compaction_is_finished_by_the_next_start(tmp_path):
    is_done = threading.Event()

    def look() -> None:
        if count_rows(tmp_path) == 0:
            is_done.set()

    async def scenario():
        async with opened(tmp_path) as store:
            for number in range(600):
                await asyncio.gather(store.put(f"/{number}", DRAFT, 0), store.delete(f"/{number}", 2 * number + 1))
            with armed("storage.after_compact_step", "raise@2"), pytest.raises(StorageFailed):
                await store.compact(1200)
        assert 0 < count_rows(tmp_path) < 1200
        with armed("storage.after_compact_step", look):
            async with opened(tmp_path) as store:
                assert (store.revision, store.compacted) == (1200, 1200)
                assert await asyncio.to_thread(is_done.wait, 30)
                assert await store.put("/next", DRAFT, 0) == 1201

    asyncio.run(scenario())


class Trace:
    """The order of commits and compaction steps; at each of them a new write is made to wait for the writer."""

    def __init__(self, store: SqliteStorage, writes: int) -> None:
        self.events: list[str] = []
        self.store = store
        self.loop = asyncio.get_running_loop()
        self.left = writes
        self.tasks: list[asyncio.Task[int]] = []

    def step(self) -> None:
        self.events.append("step")
        self._submit()

    def commit(self) -> None:
        self.events.append("commit")
        self._submit()

    def _submit(self) -> None:
        if self.left:
            self.left -= 1
            asyncio.run_coroutine_threadsafe(self._start(), self.loop).result(30)

    async def _start(self) -> None:
        self.tasks.append(asyncio.create_task(self.store.put(f"/new/{self.left}", DRAFT, 0)))
        # The task has handed its write over when this returns to the writer thread.
        while self.store._writer.inbox.empty():  # noqa: ASYNC110
            await asyncio.sleep(0)


def test_compaction_and_writes_take_turns_and_neither_starves(tmp_path):
    async def scenario():
        async with opened(tmp_path) as store:
            await put_many(store, [f"/{number}" for number in range(3000)])
            trace = Trace(store, writes=30)
            with armed("storage.before_compact_step", trace.step), armed("storage.after_commit", trace.commit):
                await store.compact(3000)
            await asyncio.gather(*trace.tasks)
            first, last = trace.events.index("step"), len(trace.events) - trace.events[::-1].index("step")
            during = "".join(event[0] for event in trace.events[first:last])
            # While a write waits there are never two steps in a row, and never more than four batches without one.
            busy = during[: during.rindex("c") + 1]
            assert busy.count("c") >= 15
            assert "ss" not in busy
            assert "ccccc" not in busy
            assert during.count("s") >= 3000 / sqlite_maintenance.STEP_REVISIONS

    asyncio.run(scenario())
