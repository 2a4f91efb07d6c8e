"""Reading and writing snapshots through the storage contract, for stores that several servers share.

A store that allocates revisions itself gives each value a new one, after the revision at which the store begins. When
all are written it is compacted to its last revision, so that clients list again. A key says that this is not finished
yet: a store whose restore was interrupted has a part of its objects, and is not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.storage.interface import Draft, Put, StorageUnavailable
from kapi.storage.keys import ROOT, reservation_key
from kapi.storage.snapshot.record import record_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from kapi.storage.interface import Storage
    from kapi.storage.snapshot.record import Record

_PAGE: Final = 500
_OPERATIONS: Final = 100
_BYTES: Final = 1 << 20
"""Bounds of one commit; etcd allows 128 operations and 1.5 MiB."""
_UNFINISHED: Final = reservation_key("restore", "unfinished")


async def read_storage(storage: Storage, revision: int) -> AsyncIterator[Record]:
    """Every key of a store as it was at a revision."""
    start = ""
    while True:
        page = await storage.range(ROOT, start=start, limit=_PAGE, revision=revision)
        for entry in page.entries:
            yield record_of(entry.key, entry.value, entry.revision)
        if not page.more:
            return
        start = page.entries[-1].key + "\0"


async def write_storage(storage: Storage, records: Iterable[Record]) -> int:
    """Write records to a store without keys; returns their number."""
    page = await storage.range(ROOT, limit=1)
    if page.entries:
        count = page.more + 1
        raise StorageUnavailable(f"the store is not empty: it has {count} keys, such as {page.entries[0].key}")
    begun = await storage.put(_UNFINISHED, Draft(b"", b""), 0)
    count = 0
    for batch in _batches(records):
        await storage.commit([Put(record.key, record.draft, 0) for record in batch])
        count += len(batch)
    await storage.compact(await storage.delete(_UNFINISHED, begun))
    return count


async def check_finished(storage: Storage) -> None:
    """Refuse a store whose restore was interrupted."""
    if await storage.get(_UNFINISHED) is not None:
        raise StorageUnavailable(
            "the store was being restored and has a part of its objects only; delete all of it, and restore it again"
        )


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        length = len(record.key) + len(record.draft.before) + len(record.draft.after)
        if batch and (len(batch) == _OPERATIONS or size + length > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch
