"""`kapi store snapshot`, `restore` and `copy` between SQLite, etcd and files."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kapi.cli.main import run
from kapi.storage.etcd.address import parse_address
from kapi.storage.etcd.storage import EtcdStorage
from kapi.storage.interface import Compacted, Draft, Put
from kapi.storage.snapshot.file import read_snapshot, verify_snapshot
from kapi.storage.sqlite.storage import SqliteStorage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from etcd_cluster import EtcdCluster
    from kapi.storage.interface import Storage

NAMES = [f"/registry/core/configmaps/default/{number:04}" for number in range(700)]
_prefixes = itertools.count()


def value(text: str) -> Draft:
    return Draft(b'{"metadata":{"resourceVersion":"', b'"},"text":"%b"}' % text.encode())


@pytest.fixture
def address(etcd: EtcdCluster, tmp_path: Path) -> str:
    return f"etcd://{etcd.endpoints}/store{tmp_path}-{next(_prefixes)}"


def with_etcd(address: str, work: Callable[[EtcdStorage], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        store = await EtcdStorage.open(parse_address(address))
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


def with_sqlite(path: Path, work: Callable[[Storage], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        store = await SqliteStorage.open(path)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())


async def fill(store: Storage) -> None:
    for start in range(0, len(NAMES), 100):
        await store.commit([Put(name, value(name), 0) for name in NAMES[start : start + 100]])
    for name in NAMES[:5]:
        entry = await store.get(name)
        assert entry is not None
        await store.put(name, value("second"), entry.revision)


async def content(store: Storage) -> list[tuple[str, int]]:
    """The keys and their revisions; every value has its revision in it, and what was written."""
    page = await store.range("/registry/")
    for entry in page.entries:
        text = "second" if entry.key in NAMES[:5] else entry.key
        assert entry.value == value(text).render(entry.revision)
    return [(entry.key, entry.revision) for entry in page.entries]


def test_a_store_moves_from_sqlite_to_etcd_and_back_and_no_revision_goes_back(tmp_path: Path, address: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with_sqlite(first, fill)
    before = dict(with_sqlite(first, content))
    assert run(["store", "copy", str(first), address]) == 0
    moved = dict(with_etcd(address, content))
    assert list(moved) == NAMES
    assert min(moved.values()) > max(before.values())
    assert run(["store", "check", address]) == 0
    assert run(["store", "copy", address, str(second)]) == 0
    # SQLite keeps the revisions that etcd gave.
    assert dict(with_sqlite(second, content)) == moved


def test_a_restored_store_in_etcd_goes_on_after_all_revisions_that_were_given_out(tmp_path: Path, address: str) -> None:
    file, restored = tmp_path / "backup", f"{address}-restored"
    with_etcd(address, fill)
    assert run(["store", "snapshot", address, str(file)]) == 0
    revision = verify_snapshot(file).header.revision
    assert run(["store", "restore", str(file), restored]) == 0

    async def after(store: EtcdStorage) -> int:
        assert min(at for _, at in await content(store)) > 10**9 + revision
        with pytest.raises(Compacted):
            await store.follow(10**9 + revision, lambda *_: None)
        return await store.put("/registry/new", value(""), 0)

    assert with_etcd(restored, after) > 10**9 + revision + len(NAMES) // 100


def test_a_snapshot_of_a_store_in_use_is_of_one_revision(tmp_path: Path, address: str) -> None:
    """Commits write pairs of keys; in every snapshot both are at the same revision."""
    files = [tmp_path / f"backup-{number}" for number in range(3)]

    async def write(store: EtcdStorage, stop: asyncio.Event) -> None:
        revision = 0
        while not stop.is_set():
            pair = [Put(f"/registry/{place}/pair", value(place), revision) for place in ("a", "zz")]
            revision = await store.commit(pair)

    async def work(store: EtcdStorage) -> None:
        await fill(store)
        stop = asyncio.Event()
        writing = asyncio.ensure_future(write(store, stop))
        for file in files:
            before = store.revision
            # gRPC is used on one event loop in a process.
            command = (sys.executable, "-m", "kapi", "store", "snapshot", address, str(file))
            assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
            assert verify_snapshot(file).header.revision >= before
        stop.set()
        await writing

    with_etcd(address, work)
    for file in files:
        found = {record.key: record.revision for record in read_snapshot(file)}
        assert found.get("/registry/a/pair") == found.get("/registry/zz/pair")
        assert max(found.values()) <= verify_snapshot(file).header.revision


def test_what_cannot_be_done_is_refused_in_words(
    tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*command: str) -> str:
        assert run(["store", *command]) == 1
        return capsys.readouterr().err

    file = tmp_path / "backup"
    assert "there is no store of Kapi at etcd://" in refused("snapshot", address, str(file))
    with_etcd(address, lambda store: store.put(NAMES[0], value(NAMES[0]), 0))
    assert run(["store", "snapshot", address, str(file)]) == 0
    assert "there is a store at etcd://" in refused("restore", str(file), address)
    assert "expected an address such as etcd://" in refused("restore", str(file), "etcd://#")
    broken = tmp_path / "broken"
    broken.write_bytes(file.read_bytes()[:-5])
    assert "is truncated" in refused("restore", str(broken), f"{address}-other")
    assert "there is no store of Kapi" in refused("check", f"{address}-other")
