"""Damage to the files of a SQLite store is noticed when it is opened; a store that is refused is left as it is."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3

import pytest
from damaged_files import ALL, COUNT, FRAME, copy, flip, forget_confirmed, frames, keys, refused
from test_sqlite import DRAFT, opened, put_many

from kapi.base.failpoint import armed
from kapi.storage.interface import Draft, StorageDamaged
from kapi.storage.sqlite import mark as sqlite_mark
from kapi.storage.sqlite.mark import BLOCK, Mark, MarkFile, read_mark, write_mark
from kapi.storage.sqlite.wal import Log, corrections, examine

# -- rows


def test_a_bit_flipped_in_a_value_is_refused_with_its_file_row_and_key(tmp_path, closed):
    path = copy(closed, tmp_path)
    content = (path / "kapi.db").read_bytes()
    flip(path / "kapi.db", content.index(b"x" * 700 + b"7y") + 300)
    message = refused(path)
    assert f"kapi.db, row {7 << 10}, key /006: the row does not match its checksum" in message
    assert f"kapi store check {path}" in message
    assert f"kapi store repair {path}" in message


def test_a_bit_flipped_in_a_key_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    flip(path / "kapi.db", (path / "kapi.db").read_bytes().index(b"/006") + 3)
    assert "is damaged and is not served" in refused(path)


def test_a_row_that_is_damaged_while_the_store_is_open_is_not_served(tmp_path, closed):
    path = copy(closed, tmp_path)

    async def scenario():
        async with opened(path) as store:
            flip(path / "kapi.db", (path / "kapi.db").read_bytes().index(b"x" * 700 + b"7y"))
            for read in (store.get("/006"), store.range("/"), store.follow(0, lambda *_: None)):
                with pytest.raises(StorageDamaged, match=f"row {7 << 10}, key /006"):
                    await read
            assert (await store.get("/007")).revision == 8
            # Writing the object again replaces the damaged version.
            revision = await store.put("/006", DRAFT, 7)
            await store.compact(revision)
            assert (await store.get("/006")).revision == revision
            assert len((await store.range("/")).entries) == COUNT

    asyncio.run(scenario())
    assert asyncio.run(keys(path)) == ALL


def test_a_flipped_number_in_meta_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    connection = sqlite3.connect(path / "kapi.db")
    connection.execute("UPDATE meta SET value = 5 WHERE name = 'compacted'")
    connection.commit()
    connection.close()
    assert "key meta.compacted" in refused(path)


def test_a_schema_that_is_no_text_any_more_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    flip(path / "kapi.db", (path / "kapi.db").read_bytes().index(b"CREATE TABLE history") + 22, bit=7)
    assert "SQLite cannot read" in refused(path)


def test_a_header_that_says_that_the_file_cannot_be_written_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    flip(path / "kapi.db", 18)
    assert "kapi.db, offset 18: the header says that the file cannot be written" in refused(path)


def test_a_missing_revision_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    connection = sqlite3.connect(path / "kapi.db")
    connection.execute("DELETE FROM history WHERE key = '/006'")
    connection.commit()
    connection.close()
    assert "the revisions 7 to 7 are missing" in refused(path)


def test_without_checksums_a_flipped_bit_would_be_served(tmp_path, closed, monkeypatch):
    """The positive control."""
    path = copy(closed, tmp_path)
    flip(path / "kapi.db", (path / "kapi.db").read_bytes().index(b"x" * 700 + b"7y") + 300)
    for module in ("verification", "reader"):
        monkeypatch.setattr(f"kapi.storage.sqlite.{module}.is_whole", lambda _: True)
    assert asyncio.run(keys(path)) == ALL


# -- the write-ahead log


def test_a_crash_leaves_a_log_that_is_read_to_its_end(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    assert (path / "kapi.db-wal").stat().st_size > COUNT * FRAME
    assert asyncio.run(keys(path)) == ALL


PLACES = {"page": 24 + 2000, "salt": 9, "checksum": 18, "page number": 3, "commit size": 7}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("which", ["first", "middle"])
@pytest.mark.parametrize("is_confirmed", [True, False], ids=["confirmed", "not confirmed"])
def test_a_bit_flipped_in_a_frame_that_others_follow_is_refused(tmp_path, crashed, place, which, is_confirmed):
    path = copy(crashed, tmp_path)
    if not is_confirmed:
        forget_confirmed(path)
    number = {"first": 0, "middle": frames(path) // 2}[which]
    offset = 32 + number * FRAME
    flip(path / "kapi.db-wal", offset + PLACES[place])
    assert f"kapi.db-wal, offset {offset}: frame {number + 1} " in refused(path)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("last", [1, 2], ids=["last", "last but one"])
@pytest.mark.parametrize("is_confirmed", [True, False], ids=["confirmed", "not confirmed"])
def test_a_byte_changed_in_the_last_transaction_is_corrected(tmp_path, crashed, place, last, is_confirmed):
    path = copy(crashed, tmp_path)
    if not is_confirmed:
        forget_confirmed(path)
    flip(path / "kapi.db-wal", 32 + (frames(path) - last) * FRAME + PLACES[place], bit=6)
    if (place, last) == ("commit size", 2):
        # It looks like the end of a transaction that another one follows.
        assert "of the write-ahead log is damaged" in refused(path)
        return

    async def scenario():
        async with opened(path) as store:
            assert [entry.key for entry in (await store.range("/")).entries] == ALL
            assert (store.revision, store.compacted) == (COUNT, 0)

    asyncio.run(scenario())
    assert sorted(file.name for file in path.iterdir()) == ["kapi.db", "kapi.lock", "kapi.mark"]


def test_a_correction_that_was_interrupted_begins_again(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    flip(path / "kapi.db-wal", 32 + (frames(path) - 1) * FRAME + 2000)
    shutil.copy(path / "kapi.db-wal", path / "kapi.db-wal.found")
    # What an attempt has left.
    flip(path / "kapi.db-wal", 32 + (frames(path) - 1) * FRAME + 3000)
    assert asyncio.run(keys(path)) == ALL


def test_a_last_transaction_that_is_confirmed_and_cannot_be_corrected_is_refused(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    for within in (1000, 2000, 3000):
        flip(path / "kapi.db-wal", 32 + (frames(path) - 1) * FRAME + within)
    assert f"ends at revision {COUNT - 1}, but revision {COUNT} had been acknowledged" in refused(path)


@pytest.mark.parametrize("offset", [0, 5, 10, 13, 17, 22, 25, 31])
def test_a_bit_flipped_in_the_header_of_the_log_is_refused(tmp_path, crashed, offset):
    path = copy(crashed, tmp_path)
    forget_confirmed(path)
    flip(path / "kapi.db-wal", offset)
    assert "kapi.db-wal, offset 0: the header of the write-ahead log is not valid" in refused(path)


def test_sqlite_alone_would_drop_the_rest_of_a_log_in_silence(tmp_path, crashed):
    """The positive control: this is what the checks above prevent."""
    path = copy(crashed, tmp_path)
    flip(path / "kapi.db-wal", 32 + frames(path) // 2 * FRAME + 2000)
    connection = sqlite3.connect(path / "kapi.db")
    (count,) = connection.execute("SELECT count(*) FROM history").fetchone()
    connection.close()
    assert 0 < count < COUNT


@pytest.mark.parametrize("lost", [(0, 0), (0, 2048), (0, 3584), (1, 1024)], ids=str)
def test_a_transaction_that_was_being_written_is_dropped_and_its_revisions_are_not_used_again(tmp_path, crashed, lost):
    path = copy(crashed, tmp_path)
    forget_confirmed(path)
    reserved = read_mark(path).reserved
    log = path / "kapi.db-wal"
    content = bytearray(log.read_bytes())
    # Of the frames of the last transaction one sector is not on disk, all others are.
    commits = [number for number in range(1, frames(path) + 1) if Log.read(log).frame(number).size]
    assert commits[-1] - commits[-2] == 2
    frame, within = lost
    sector = (32 + (commits[-2] + frame) * FRAME + within) // 512 * 512
    # The sector in which the transaction before ends is the same in both states up to that end.
    start = max(sector, 32 + commits[-2] * FRAME)
    content[start : sector + 512] = b"\x17" * (sector + 512 - start)
    log.write_bytes(content)

    async def scenario():
        async with opened(path) as store:
            assert [entry.key for entry in (await store.range("/")).entries] == ALL[:-1]
            assert store.revision == store.compacted == reserved
            assert await store.put("/new", DRAFT, 0) == reserved + 1
        async with opened(path) as store:
            assert [entry.key for entry in (await store.range("/")).entries] == [*ALL[:-1], "/new"]

    asyncio.run(scenario())


def test_a_transaction_that_was_being_written_when_the_process_was_killed_leaves_no_gap(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    # The machine was not started again, so the mark is exact: the last transaction was not acknowledged.
    write_mark(path, read_mark(path)._replace(confirmed=COUNT - 1))
    log = path / "kapi.db-wal"
    content = bytearray(log.read_bytes())
    content[-3000:] = bytes(3000)
    log.write_bytes(content)

    async def scenario():
        async with opened(path) as store:
            assert [entry.key for entry in (await store.range("/")).entries] == ALL[:-1]
            assert (store.revision, store.compacted) == (COUNT - 1, 0)

    asyncio.run(scenario())


def test_a_transaction_without_its_end_is_dropped(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    forget_confirmed(path)
    log = path / "kapi.db-wal"
    log.write_bytes(log.read_bytes()[:-FRAME])

    async def scenario():
        async with opened(path) as store:
            assert [entry.key for entry in (await store.range("/")).entries] == ALL[:-1]
            # Readable frames without a commit frame were never acknowledged: nothing is skipped.
            assert await store.put("/new", DRAFT, 0) == COUNT

    asyncio.run(scenario())


def test_an_acknowledged_transaction_that_is_missing_is_refused(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    log = path / "kapi.db-wal"
    log.write_bytes(log.read_bytes()[:-FRAME])
    assert f"ends at revision {COUNT - 1}, but revision {COUNT} had been acknowledged" in refused(path)


def test_any_one_byte_of_a_frame_can_be_corrected(crashed, tmp_path):
    path = copy(crashed, tmp_path)
    log = Log.read(path / "kapi.db-wal")
    for within in (0, 5, 9, 15, 16, 23, 24, 25, 1000, 2047, FRAME - 1):
        start = 32 + 4 * FRAME
        damaged = bytearray(log.content)
        damaged[start + within] ^= 0x5A
        other = Log(bytes(damaged))
        assert log.content[start : start + FRAME] in corrections(other, 5, log.frame(4).sums)
    assert corrections(log, 5, (1, 2)) == []


def test_a_log_of_an_earlier_generation_is_no_damage(tmp_path):
    path = tmp_path / "data"

    async def scenario():
        async with opened(path) as store:
            await put_many(store, ALL)
            connection = store._writer._connection
            with armed("storage.before_commit", lambda: connection.execute("PRAGMA wal_checkpoint(RESTART)")):
                await store.put("/later", DRAFT, 0)
            shutil.copytree(path, tmp_path / "copy")

    asyncio.run(scenario())
    assert Log.read(tmp_path / "copy/kapi.db-wal").count > 5
    assert asyncio.run(keys(tmp_path / "copy")) == [*ALL, "/later"]


# -- identity


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_database_that_has_disappeared_is_refused(tmp_path, closed, how):
    path = copy(closed, tmp_path)
    (path / "kapi.db").unlink()
    if how == "emptied":
        (path / "kapi.db").touch()
    message = refused(path)
    assert f"kapi.db is missing or empty, but kapi.mark says that store {read_mark(path).store} was here" in message
    assert f"revision {COUNT}" in message
    assert f"kapi store repair --accept-loss {path}" in message


def test_a_log_that_has_disappeared_is_refused(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    (path / "kapi.db-wal").unlink()
    assert "revision 30 had been acknowledged" in refused(path)


def test_a_database_and_log_that_have_disappeared_are_refused(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    (path / "kapi.db").unlink()
    (path / "kapi.db-wal").unlink()
    assert "kapi.db is missing or empty" in refused(path)


def test_a_log_without_a_database_is_refused(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    (path / "kapi.db").unlink()
    (path / "kapi.mark").unlink()
    assert "is missing, but its log kapi.db-wal is there" in refused(path)


def test_the_database_of_another_store_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    asyncio.run(keys(tmp_path / "other"))
    shutil.copy(tmp_path / "other/kapi.db", path / "kapi.db")
    assert f"belongs to store {read_mark(tmp_path / 'other').store}" in refused(path)


def test_an_older_copy_of_the_database_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    shutil.copy(path / "kapi.db", tmp_path / "older")

    async def scenario():
        async with opened(path) as store:
            await store.put("/later", DRAFT, 0)

    asyncio.run(scenario())
    shutil.copy(tmp_path / "older", path / "kapi.db")
    assert "kapi.db is an older copy" in refused(path)


def test_a_missing_mark_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    (path / "kapi.mark").unlink()
    assert "kapi.mark is missing: without it the end of the data cannot be verified" in refused(path)


def test_a_mark_with_one_damaged_slot_is_used_and_one_with_two_is_refused(tmp_path, closed):
    path = copy(closed, tmp_path)
    flip(path / "kapi.mark", 20)
    assert asyncio.run(keys(path)) == ALL
    flip(path / "kapi.mark", 20)
    flip(path / "kapi.mark", 4096 + 20)
    assert "kapi.mark, offset 0: neither of its two slots is valid" in refused(path)


@pytest.mark.parametrize("point", ["before the database", "before its tables", "before the mark is established"])
def test_a_creation_that_was_interrupted_is_finished_by_the_next_start(tmp_path, point):
    path = tmp_path / "data"
    path.mkdir()
    store = "ab" * 16
    write_mark(path, Mark(store))
    if point == "before its tables":
        sqlite3.connect(path / "kapi.db").execute("PRAGMA journal_mode = WAL").connection.close()
    if point == "before the mark is established":
        asyncio.run(keys(path))
        write_mark(path, read_mark(path)._replace(is_established=False))
    assert asyncio.run(keys(path)) == []
    assert read_mark(path).store == store
    assert read_mark(path).is_established


# -- the mark


def test_the_mark_is_confirmed_for_every_batch_and_reserves_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr("kapi.storage.sqlite.writer.BLOCK", 10)
    monkeypatch.setattr("kapi.storage.sqlite.opening.BLOCK", 10)

    async def scenario():
        async with opened(tmp_path / "data") as store:
            for number in range(40):
                revision = await store.put(f"/{number}", DRAFT, 0)
                mark = read_mark(tmp_path / "data")
                assert mark.confirmed == revision <= mark.reserved

    asyncio.run(scenario())


def test_the_mark_is_synced_once_no_write_comes(tmp_path, monkeypatch):
    synced = asyncio.Event()

    async def scenario():
        loop = asyncio.get_running_loop()
        async with opened(tmp_path / "data") as store:
            await store.put("/a", DRAFT, 0)
            sync = MarkFile.sync

            def observed(file):
                sync(file)
                loop.call_soon_threadsafe(synced.set)

            monkeypatch.setattr(MarkFile, "sync", observed)
            await store.put("/b", DRAFT, 0)
            await asyncio.wait_for(synced.wait(), 30)

    asyncio.run(scenario())


def test_a_mark_that_cannot_be_synced_ends_the_store(tmp_path, monkeypatch):
    async def scenario():
        failure = asyncio.get_running_loop().create_future()
        async with opened(tmp_path / "data") as store:
            store.on_failure = failure.set_result

            def fail(file):
                raise OSError(5, "Input/output error")

            monkeypatch.setattr(MarkFile, "sync", fail)
            await store.put("/b", DRAFT, 0)
            assert isinstance(await asyncio.wait_for(failure, 30), OSError)

    asyncio.run(scenario())


def test_slots_are_written_in_turn(tmp_path):
    write_mark(tmp_path, Mark("cd" * 16, sequence=7))
    file = MarkFile(tmp_path)
    for revision in range(1, 5):
        file.confirm(revision)
        flip(tmp_path / "kapi.mark", (0, 4096)[file.mark.sequence % 2] + 50)
        # The slot before is whole; its reservation may be one block behind.
        assert read_mark(tmp_path).confirmed == revision - 1
        assert read_mark(tmp_path).reserved == BLOCK
        flip(tmp_path / "kapi.mark", (0, 4096)[file.mark.sequence % 2] + 50)
    file.close()
    assert read_mark(tmp_path).confirmed == 4
    assert (tmp_path / "kapi.mark").stat().st_size == sqlite_mark._SIZE


def test_an_empty_directory_has_a_whole_log(tmp_path):
    assert examine(tmp_path, 0).damages == []
    (tmp_path / "kapi.db-wal").write_bytes(bytes(5000))
    assert examine(tmp_path, 0).damages == []


def test_values_that_are_absent_and_empty_have_different_checksums(tmp_path):
    async def scenario():
        async with opened(tmp_path / "data") as store:
            revision = await store.put("/a", Draft(b"", b""), 0)
            assert (await store.get("/a")).value == b"1"
            await store.delete("/a", revision)
            assert await store.get("/a") is None

    asyncio.run(scenario())
