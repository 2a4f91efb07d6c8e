"""Opening a store: it is new, migrated, or verified; what is damaged, missing or another store is refused.

A directory has a database with its log, and a mark (`mark`). The mark is written first and says with `is_established`
that the database exists, so a crash at any instant of the creation is told from a database that has disappeared:

| mark | database | |
|---|---|---|
| none | none, or empty | a new store |
| none | of an earlier format | migrated |
| none | of this format | refused: what was acknowledged is not known |
| not established | any | the creation or migration is finished |
| established | none, or empty | refused: the data is missing |
| established | of another identity | refused: another store |
| established | its own | verified |

Verification reads everything once, on a connection that cannot write: nothing is changed in a store that is refused.
`kapi store repair` is the way out; it does what can be done without loss, and with `--accept-loss` the rest.

Blocks; runs on the writer thread.
"""

from __future__ import annotations

import secrets
import sqlite3
import struct
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import structlog

from kapi.storage.interface import StorageUnavailable
from kapi.storage.sqlite.damage import Damage, StoreDamaged
from kapi.storage.sqlite.file import (
    DATABASE,
    check_owner,
    configure,
    connect,
    create_file,
    is_empty,
)
from kapi.storage.sqlite.logcorrection import correct_log, restore_log
from kapi.storage.sqlite.mark import BLOCK, MARK, Mark, MarkDamaged, MarkFile, read_mark, write_mark
from kapi.storage.sqlite.schema import FORMAT, create, migrate, set_meta
from kapi.storage.sqlite.verification import page_damages, read_numbers, rows, table_damages, verify_rows
from kapi.storage.sqlite.wal import INDEX, LOG, Tail, examine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kapi.storage.sqlite.verification import Numbers, Take

_WAL_INDEX = struct.Struct("=12xB3xI")
"""The beginning of `kapi.db-shm`: whether it is valid, and how many frames of the log SQLite has found readable."""


_log = structlog.get_logger("kapi.storage")


class Content(NamedTuple):
    """What the verification of a store found."""

    damages: list[Damage]
    revision: int = 0
    is_torn: bool = False
    """True if the end of the log may have held acknowledged writes; that is not known."""
    is_correctable: bool = False
    """True if the end of the log has to be corrected first; nothing else was looked at then."""
    unreadable: int = -1
    """The first frame of the log that cannot be read (0: its header), if there is one."""


def open_store(directory: Path, take: Take) -> tuple[sqlite3.Connection, MarkFile]:
    """Open or create the store of a directory and hand every row to `take`; refuse one that is not whole."""
    mark = _mark_of(directory)
    if mark is None or not mark.is_established:
        mark = _establish(directory, mark)
    elif is_empty(directory):
        raise _missing_data(directory, mark)
    content = _verify_and_correct(directory, mark, take)
    if content.damages:
        raise StoreDamaged(directory, content.damages)
    connection = connect(directory)
    try:
        configure(connection, directory)
        file = MarkFile(directory)
        _go_on(connection, file, content)
    except BaseException:
        connection.close()
        raise
    return connection, file


def _verify_and_correct(directory: Path, mark: Mark, take: Take) -> Content:
    """Verify a store; a last transaction in which single bytes are damaged is corrected."""
    restore_log(directory)
    content = verify(directory, mark, take)
    if not content.is_correctable:
        return content
    number = content.unreadable
    if not correct_log(directory, number, lambda: not verify(directory, mark, _ignore, is_corrected=True).damages):
        return Content([Damage(LOG, f"frame {number} of the write-ahead log is damaged")])
    _log.warning("corrected a damaged frame of the write-ahead log", file=LOG, frame=number)
    return verify(directory, mark, take, is_corrected=True)


def _ignore(position: int, key: str, length: int | None) -> None:
    pass


def _go_on(connection: sqlite3.Connection, file: MarkFile, content: Content) -> None:
    """Reserve revisions, and empty the log, so that its next frames are the only ones in it."""
    reserved = file.mark.reserved
    revision = max(content.revision, reserved) if content.is_torn else content.revision
    if reserved < revision + BLOCK // 2:
        file.reserve(revision + BLOCK)
    if content.is_torn:
        # What the interrupted transaction held is not known, so its revisions are not used again. Compacting to the
        # new revision makes clients that may have seen them list again.
        set_meta(connection, "compacted", revision)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _mark_of(directory: Path) -> Mark | None:
    try:
        return read_mark(directory)
    except MarkDamaged as error:
        raise StoreDamaged(directory, [Damage(MARK, str(error), offset=0)]) from None


def _establish(directory: Path, mark: Mark | None) -> Mark:
    """Create the database of a new store, or migrate an older one; returns the mark, which is written then."""
    if is_empty(directory) and (directory / LOG).exists() and (directory / LOG).stat().st_size:
        raise StorageUnavailable(
            f"{directory / DATABASE} is missing, but its log {LOG} is there; put the database back,"
            " or choose another data directory"
        )
    create_file(directory)
    with closing(connect(directory)) as connection:
        version = check_owner(connection, directory)
        if version == FORMAT and mark is None:
            raise _missing_mark(directory)
        if 0 < version < FORMAT and (damages := page_damages(connection)):
            raise StoreDamaged(directory, damages)
        if mark is None:
            mark = Mark(secrets.token_hex(16))
            write_mark(directory, mark)
        if version == 0:
            # Makes it possible to shorten the file, see `maintenance`. Cannot be changed later without a VACUUM; costs
            # a page in 800, and no speed that could be measured.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        configure(connection, directory)
        if version == 0:
            create(connection, mark.store)
        elif version < FORMAT:
            migrate(connection, mark.store, version)
        mark = mark._replace(is_established=True)
        write_mark(directory, mark)
    return mark


def verify(directory: Path, mark: Mark, take: Take, *, is_corrected: bool = False) -> Content:
    """Read a whole store without changing it, and compare it with its mark; one without an identity fits any."""
    try:
        with reading(directory) as connection:
            readable = _readable_frames(connection, directory)
            tail = examine(directory, readable)
            # A log that SQLite reads in part makes the database look damaged in many places: say what is behind it.
            if tail.damages or (tail.is_correctable and not is_corrected):
                return Content(tail.damages, is_correctable=tail.is_correctable, unreadable=tail.unreadable)
            return _verify_content(connection, directory, mark, tail, take)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
            raise
        return Content([Damage(DATABASE, f"SQLite cannot read it: {error}")])
    except UnicodeDecodeError:
        # SQLite quotes a damaged schema in its error, and the module cannot decode that.
        return Content([Damage(DATABASE, "SQLite cannot read its tables", offset=0)])


def _verify_content(connection: sqlite3.Connection, directory: Path, mark: Mark, tail: Tail, take: Take) -> Content:
    version = check_owner(connection, directory)
    if version != FORMAT:
        return Content([Damage(DATABASE, f"the header says that the format is {version}; it was {FORMAT}", offset=60)])
    with (directory / DATABASE).open("rb") as file:
        if file.read(20)[18:] != b"\2\2":
            # SQLite reads such a file, and refuses the first write.
            return Content([Damage(DATABASE, "the header says that the file cannot be written", offset=18)])
    if damages := table_damages(connection):
        return Content(damages)
    numbers, damages = read_numbers(connection)
    if numbers is None:
        return Content(damages)
    if mark.store and numbers.store != mark.store:
        raise _other_store(directory, mark, numbers)
    revision, damages = verify_rows(rows(connection), numbers.compacted, take)
    if revision < mark.confirmed:
        text = (
            f"the data ends at revision {revision}, but revision {mark.confirmed} had been acknowledged:"
            f" the end of {LOG} is missing, or {DATABASE} is an older copy"
        )
        damages.append(Damage(DATABASE, text))
    return Content(damages, revision, tail.is_torn and not mark.is_exact)


@contextmanager
def reading(directory: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write: neither does SQLite copy the log into the database when it is closed."""
    path = f"file:{quote(str((directory / DATABASE).absolute()))}"
    with closing(sqlite3.connect(f"{path}?mode=ro", uri=True, isolation_level=None)) as connection:
        # What is damaged may not be text any more, and is still to be named.
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        yield connection


def _readable_frames(connection: sqlite3.Connection, directory: Path) -> int:
    """How many frames of the log SQLite can read. It looks when the first page is read, and notes it in its index."""
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    try:
        with (directory / INDEX).open("rb") as file:
            data = file.read(_WAL_INDEX.size)
    except FileNotFoundError:
        return 0
    if len(data) < _WAL_INDEX.size:
        return 0
    is_valid, frames = _WAL_INDEX.unpack(data)
    return int(frames) if is_valid else 0


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """True for an error that a damaged schema or header causes, and not the system."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_ERROR


def _missing_data(directory: Path, mark: Mark) -> StorageUnavailable:
    return StorageUnavailable(
        f"{directory / DATABASE} is missing or empty, but {MARK} says that store {mark.store} was here, with data up to"
        f" revision {mark.confirmed} at least. Put the file back with its log {LOG}, restore a backup, or begin with an"
        f" empty store: kapi store repair --accept-loss {directory}"
    )


def _missing_mark(directory: Path) -> StorageUnavailable:
    return StorageUnavailable(
        f"{directory / MARK} is missing: without it the end of the data cannot be verified. Put the file back (it is"
        f" copied together with {DATABASE} and {LOG}), or accept the data as it is: kapi store repair --accept-loss"
        f" {directory}"
    )


def _other_store(directory: Path, mark: Mark, numbers: Numbers) -> StorageUnavailable:
    return StorageUnavailable(
        f"{directory / DATABASE} belongs to store {numbers.store}, but {MARK} says that store {mark.store} was here."
        f" Put the right files together, or accept this database: kapi store repair --accept-loss {directory}"
    )
