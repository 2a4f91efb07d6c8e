"""`kapi store snapshot`, `restore` and `copy`: the content is kept, and no revision goes back or is given out twice."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from damaged_files import contents, flip

from kapi.cli.main import run
from kapi.storage.encryption.providers import AesGcm
from kapi.storage.encryption.storage import EncryptedStorage, ResourceProviders
from kapi.storage.interface import Compacted, Delete, Draft, Put, StorageDamaged, StorageUnavailable
from kapi.storage.memory import MemoryStorage
from kapi.storage.snapshot.file import read_snapshot, verify_snapshot
from kapi.storage.snapshot.record import Record, record_of
from kapi.storage.snapshot.shared import check_finished, read_storage, write_storage
from kapi.storage.sqlite.storage import SqliteStorage
from shared_cluster import Cluster

NAMES = [f"/registry/core/configmaps/default/{number}" for number in range(40)]


def value(text: str) -> Draft:
    return Draft(
        b'{"metadata":{"resourceVersion":"', b'","annotations":{"resourceVersion":"7"}},"text":"%b"}' % text.encode()
    )


@contextlib.asynccontextmanager
async def opened(path):
    store = await SqliteStorage.open(path)
    try:
        yield store
    finally:
        await store.close()


async def fill(store) -> None:
    """Objects that were created, replaced, deleted, and written together."""
    revisions = {name: await store.put(name, value("first"), 0) for name in NAMES[:20]}
    for name in NAMES[:10]:
        revisions[name] = await store.put(name, value("second"), revisions[name])
    await store.commit(
        [Put(name, value("together"), 0) for name in NAMES[20:]] + [Delete(NAMES[0], revisions[NAMES[0]])]
    )


async def state(store):
    return [tuple(entry) for entry in (await store.range("/")).entries]


def with_store(path, scenario):
    async def main():
        async with opened(path) as store:
            return await scenario(store)

    return asyncio.run(main())


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    with_store(path, fill)
    return path


def test_a_copy_has_the_same_revisions_and_goes_on_after_them(tmp_path, source, capsys):
    target = tmp_path / "target"
    assert run(["store", "copy", str(source), str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: 39 keys of {source}; revisions go on after 31\n"
    assert with_store(target, state) == with_store(source, state)

    async def write(store):
        with pytest.raises(Compacted):
            await store.follow(30, lambda *_: None)
        return await store.put("/registry/new", value(""), 0)

    assert with_store(target, write) == 32


def test_a_restored_store_has_only_revisions_that_were_never_given_out(tmp_path, source, capsys):
    file, target = tmp_path / "backup", tmp_path / "target"
    assert run(["store", "snapshot", str(source), str(file)]) == 0
    assert run(["store", "restore", str(file), str(target)]) == 0
    before = with_store(source, state)
    moved = [
        (
            key,
            text.replace(
                b'{"metadata":{"resourceVersion":"%d"' % at, b'{"metadata":{"resourceVersion":"%d"' % (at + 10**9)
            ),
            at + 10**9,
        )
        for key, text, at in before
    ]
    assert with_store(target, state) == moved
    assert with_store(target, lambda store: store.put("/registry/new", value(""), 0)) == 10**9 + 32
    assert "39 keys at revision 31" in capsys.readouterr().out


def test_revisions_stay_as_they_are_when_asked_for(tmp_path, source):
    file, target = tmp_path / "backup", tmp_path / "target"
    assert run(["store", "snapshot", str(source), str(file)]) == 0
    assert run(["store", "restore", "--advance-revision=0", str(file), str(target)]) == 0
    assert with_store(target, state) == with_store(source, state)


def test_a_snapshot_of_a_store_in_use_has_one_revision_of_it(tmp_path):
    """Commits write pairs of keys; in every snapshot both keys of a pair are at the same revision."""
    path = tmp_path / "source"
    files = [tmp_path / f"backup-{number}" for number in range(5)]

    async def write(store, stop):
        first = second = 0
        while not stop.is_set():
            first = second = await store.commit(
                [Put("/registry/a", value("a"), first), Put("/registry/b", value("b"), second)]
            )
        return first

    async def main():
        async with opened(path) as store:
            await fill(store)
            stop = asyncio.Event()
            writing = asyncio.ensure_future(write(store, stop))
            for file in files:
                before = store.revision
                assert await asyncio.to_thread(run, ["store", "snapshot", str(path), str(file)]) == 0
                assert verify_snapshot(file).header.revision >= before
            stop.set()
            return await writing

    last = asyncio.run(main())
    for file in files:
        found = {record.key: record.revision for record in read_snapshot(file)}
        assert found.get("/registry/a") == found.get("/registry/b")
        assert max(found.values()) <= verify_snapshot(file).header.revision <= last


def test_a_store_in_use_is_not_copied_and_not_restored_into(tmp_path, source, capsys):
    file = tmp_path / "backup"
    assert run(["store", "snapshot", str(source), str(file)]) == 0

    async def main():
        async with opened(source), opened(tmp_path / "running"):
            assert run(["store", "copy", str(source), str(tmp_path / "copy")]) == 1
            assert "in use by a server; stop it" in capsys.readouterr().err
            assert run(["store", "restore", str(file), str(tmp_path / "running")]) == 1
            assert "is in use by another server" in capsys.readouterr().err

    asyncio.run(main())


def test_a_target_that_has_a_store_is_refused_and_left_as_it_is(tmp_path, source, capsys):
    target = tmp_path / "target"
    with_store(target, lambda store: store.put(NAMES[0], value("other"), 0))
    before = contents(target)
    assert run(["store", "copy", str(source), str(target)]) == 1
    assert "is not empty: it has kapi.db" in capsys.readouterr().err
    assert contents(target) == before


def test_a_damaged_store_is_not_written_to_a_snapshot(tmp_path, source, capsys):
    database = source / "kapi.db"
    flip(database, database.read_bytes().index(b"together"))
    assert run(["store", "snapshot", str(source), str(tmp_path / "backup")]) == 1
    assert "does not match its checksum" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]


def test_every_truncation_and_every_changed_byte_of_a_file_is_noticed(tmp_path, source, capsys):
    file = tmp_path / "backup"
    assert run(["store", "snapshot", str(source), str(file)]) == 0
    whole = file.read_bytes()
    broken = tmp_path / "broken"
    for length in range(0, len(whole), 37):
        broken.write_bytes(whole[:length])
        with pytest.raises(StorageDamaged, match=r"truncated|not a snapshot"):
            verify_snapshot(broken)
    for place in range(0, len(whole), 11):
        broken.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(StorageDamaged):
            verify_snapshot(broken)
    broken.write_bytes(whole + b"x")
    for command in (["restore", str(broken), str(tmp_path / "target")], ["check", str(broken)]):
        assert run(["store", *command]) == 1
        assert "there is data after its end" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()
    assert run(["store", "check", str(file)]) == 0
    assert "the snapshot is whole: 39 keys at revision 31" in capsys.readouterr().out


def test_a_file_that_exists_is_not_replaced(tmp_path, source, capsys):
    file = tmp_path / "backup"
    file.write_bytes(b"precious")
    assert run(["store", "snapshot", str(source), str(file)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert file.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["snapshot", "none", "backup"], "kapi: none does not exist; expected a data directory, or a store in etcd"),
        (["copy", "none", "target"], "kapi: none does not exist; expected a data directory, or a store in etcd"),
        (["restore", "none", "target"], "kapi: none does not exist; expected a snapshot"),
        (["restore", "other/none", "target"], "kapi: other/none does not exist; expected a snapshot"),
        (["snapshot", "source", "other/backup"], "kapi: other/backup: Not a directory; the snapshot was not written"),
        (["restore", "short", "target"], "kapi: short is not a snapshot of Kapi"),
        (["snapshot", ".", "backup"], "has no kapi.db"),
        (["restore", "source", "target"], "is a directory; expected a snapshot"),
        (["restore", "source/kapi.db", "target"], "is not a snapshot of Kapi"),
        (["restore", "other", "target"], "has format 9; this Kapi reads format 1"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(tmp_path, source, capsys, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").write_bytes(b"KapiSnapshot 9\n")
    (tmp_path / "short").write_bytes(b"x\n")
    assert run(["store", *command]) == 1
    assert message in capsys.readouterr().err


def test_a_snapshot_is_readable_by_its_owner_only(tmp_path, source):
    file = tmp_path / "backup"
    assert run(["store", "snapshot", str(source), str(file)]) == 0
    assert file.stat().st_mode & 0o777 == 0o600


def test_encrypted_values_stay_encrypted_and_can_be_read_at_another_revision(tmp_path):
    providers = ResourceProviders([(["*.*"], [AesGcm("k", bytes(32))])])
    file, target = tmp_path / "backup", tmp_path / "target"

    async def write(store):
        await EncryptedStorage(store, providers).put(NAMES[0], value("secret"), 0)

    async def read(store):
        return await EncryptedStorage(store, providers).get(NAMES[0])

    with_store(tmp_path / "source", write)
    assert run(["store", "snapshot", str(tmp_path / "source"), str(file)]) == 0
    assert b"secret" not in file.read_bytes()
    assert run(["store", "restore", str(file), str(target)]) == 0
    entry = with_store(target, read)
    assert (entry.revision, entry.value) == (10**9 + 1, value("secret").render(10**9 + 1))


def test_a_value_that_does_not_hold_its_own_revision_is_refused():
    assert record_of("/a", value("x").render(12), 12) == Record("/a", 12, value("x"))
    for text, revision in (
        (value("x").render(12), 1),
        (value("x").render(1), 12),
        (b"{}", 1),
        (b"k8s:enc:aesgcm:1", 2),
    ):
        with pytest.raises(StorageDamaged, match="does not hold its own revision"):
            record_of("/a", text, revision)


def test_a_shared_store_gets_every_key_at_a_revision_of_its_own():
    async def main():
        memory = MemoryStorage()
        await fill(memory)
        await memory.compact(memory.revision)
        records = [record async for record in read_storage(memory, memory.revision)]
        store = await Cluster().connect()
        assert await write_storage(store, records) == len(records) == 39
        entries = (await store.range("/")).entries
        assert [entry.key for entry in entries] == [record.key for record in records]
        assert [record_of(*entry[:2], entry.revision).draft for entry in entries] == [
            record.draft for record in records
        ]
        assert store.compacted == store.revision
        await check_finished(store)
        with pytest.raises(StorageUnavailable, match="not empty: it has 39 keys, such as /registry/core/configmaps"):
            await write_storage(store, records)
        await store.close()

    asyncio.run(main())


def test_a_shared_store_whose_restore_was_interrupted_is_refused():
    def interrupted():
        yield Record(NAMES[0], 1, value("first"))
        raise KeyboardInterrupt

    async def main():
        store = await Cluster().connect()
        with pytest.raises(KeyboardInterrupt):
            await write_storage(store, interrupted())
        with pytest.raises(StorageUnavailable, match="restored and has a part of its objects only"):
            await check_finished(store)
        await store.close()

    asyncio.run(main())
