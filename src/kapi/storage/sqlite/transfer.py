"""Reading a SQLite store into a snapshot, and writing a new store from one.

A store in use is read through a connection of its own, in one transaction: it sees one state of the file, and the
server goes on writing. The write-ahead log is not shortened meanwhile. A commit is visible to other connections after
it is on disk, so nothing is in a snapshot that a power cut could undo. A store that is not in use is verified first, as
at a start.

A new store is made under another name and gets its own when it is complete. Its mark is written last: should the
process end before that, the directory is refused by a start, and by the next restore. Blocks.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.interface import StorageUnavailable
from kapi.storage.snapshot.record import Header, record_of
from kapi.storage.sqlite.checksum import row_checksum
from kapi.storage.sqlite.damage import Damage, RowDamaged, StoreDamaged
from kapi.storage.sqlite.file import (
    DATABASE,
    LOCK,
    DirectoryLock,
    check_owner,
    explained,
    is_empty,
    prepare_directory,
)
from kapi.storage.sqlite.mark import BLOCK, MARK, Mark, MarkDamaged, read_mark, sync_directory, write_mark
from kapi.storage.sqlite.opening import reading, verify
from kapi.storage.sqlite.schema import FORMAT, create, position_of, revision_at, set_meta
from kapi.storage.sqlite.verification import damage_of, is_whole, read_numbers
from kapi.storage.sqlite.wal import INDEX, LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kapi.storage.snapshot.record import Record
    from kapi.storage.sqlite.verification import Row

# The flag of a deletion rides in the lowest bit, as in `reader`.
_LATEST = (
    "SELECT position, key, gone, value, checksum FROM history WHERE position IN"
    " (SELECT max(2 * position + gone) >> 1 FROM history GROUP BY key HAVING NOT (max(2 * position + gone) & 1))"
)
_LAST = "SELECT coalesce(max(position), 0) FROM history"


class State(NamedTuple):
    """A store that is being read."""

    header: Header
    records: Iterator[Record]
    is_in_use: bool


@contextmanager
def read_store(directory: Path) -> Iterator[State]:
    """The latest version of every key of a store, which a server may be using; damage is refused."""
    with explained(directory), _lock_if_free(directory) as is_in_use:
        mark = _mark(directory)
        revision = 0 if is_in_use else _verified(directory, mark)
        with reading(directory) as connection:
            if check_owner(connection, directory) != FORMAT:
                raise StorageUnavailable(
                    f"{directory / DATABASE} has an earlier format; start this Kapi on it once, which migrates it"
                )
            connection.execute("BEGIN")
            numbers, damages = read_numbers(connection)
            if numbers is None:
                raise StoreDamaged(directory, damages)
            (last,) = connection.execute(_LAST).fetchone()
            revision = max(revision, revision_at(last), numbers.compacted)
            yield State(Header(revision, numbers.store), _records(connection), is_in_use)


@contextmanager
def _lock_if_free(directory: Path) -> Iterator[bool]:
    """Keep servers out of a directory while it is read; yields True if one is there already."""
    if not directory.is_dir():
        raise StorageUnavailable(f"{directory} is not a directory")
    if is_empty(directory):
        raise StorageUnavailable(f"{directory} has no {DATABASE}; expected the data directory of a server")
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield True
        else:
            yield False
    finally:
        os.close(descriptor)


def _mark(directory: Path) -> Mark:
    try:
        mark = read_mark(directory)
    except MarkDamaged as error:
        raise StoreDamaged(directory, [Damage(MARK, str(error), offset=0)]) from None
    if mark is None:
        raise StoreDamaged(directory, [Damage(MARK, "the file is missing: what was acknowledged is not known")])
    return mark


def _verified(directory: Path, mark: Mark) -> int:
    """The revision after which a store that is whole goes on."""
    content = verify(directory, mark, lambda *_: None)
    damages = content.damages
    if content.is_correctable:
        damages = [Damage(LOG, f"frame {content.unreadable} of the write-ahead log is damaged; a start corrects it")]
    if damages:
        raise StoreDamaged(directory, damages)
    return max(content.revision, mark.reserved) if content.is_torn else content.revision


def _records(connection: sqlite3.Connection) -> Iterator[Record]:
    for row in connection.execute(_LATEST):
        if not is_whole(row):
            raise RowDamaged(damage_of(row))
        position, key, _, value, _ = row
        yield record_of(key, value, revision_at(position))


def create_store(directory: Path, records: Iterable[Record], revision: int, *, advance: int = 0) -> int:
    """Make the store of a directory that has none; returns the number of its keys.

    Every revision is moved forward by `advance`. The store goes on after `revision + advance`, and is compacted to
    there: a client that wants events from before lists again.
    """
    with explained(directory):
        prepare_directory(directory)
        lock = DirectoryLock(directory)
        try:
            for name in (DATABASE, LOG, MARK):
                if (directory / name).exists():
                    raise StorageUnavailable(
                        f"{directory} is not empty: it has {name}; choose a directory without a store"
                    )
            return _create(directory, records, revision, advance)
        finally:
            lock.release()


def _create(directory: Path, records: Iterable[Record], revision: int, advance: int) -> int:
    store = secrets.token_hex(16)
    last = revision + advance
    rows = _Rows(advance)
    write_database(directory, store, rows.of(records), compacted=last, finished=last)
    mark = Mark(store, reserved=last + BLOCK, confirmed=last, is_established=True)
    content = verify(directory, mark, lambda *_: None)
    if content.damages:
        raise StoreDamaged(directory, content.damages)
    write_mark(directory, mark)
    return rows.count


class _Rows:
    """The rows of a new store, made of records."""

    def __init__(self, advance: int) -> None:
        self._advance = advance
        self._places: dict[int, int] = {}
        """How many keys each revision has so far."""
        self.count = 0

    def of(self, records: Iterable[Record]) -> Iterator[Row]:
        """The row of each record."""
        for key, before, draft in records:
            revision = before + self._advance
            place = self._places.get(revision, 0)
            self._places[revision] = place + 1
            position, value = position_of(revision, place), draft.render(revision)
            self.count += 1
            yield position, key, 0, value, row_checksum(position, key, value)


def write_database(directory: Path, store: str, rows: Iterable[Row], *, compacted: int, finished: int) -> None:
    """Write rows to a new database, which takes the place of the one in the directory, if there is one."""
    new = directory / f"{DATABASE}.new"
    _remove(new, directory / f"{new.name}-wal", directory / f"{new.name}-shm")
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        create(connection, store)
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?)", rows)
        set_meta(connection, "compacted", compacted)
        set_meta(connection, "finished", finished)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # A log that is there belongs to the database that is replaced.
    _remove(directory / LOG, directory / INDEX)
    new.rename(directory / DATABASE)
    sync_directory(directory)


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
