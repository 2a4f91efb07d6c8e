"""The data directory of the SQLite store: its lock, its database file and schema, and why it may not open.

A directory belongs to one server at a time. `kapi.lock` in it is held with `flock` as long as the store is open; the
kernel lets go when the process ends, however it ends, so a killed server never leaves a stale lock. The file
`kapi.db` carries an application id and a format number: a database of another program, or of a newer Kapi, is refused
and left untouched; one of an earlier format is migrated in one transaction.

Everything here blocks and runs on the store's own threads. Errors become `StorageUnavailable`, whose text says what to
do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
from typing import TYPE_CHECKING

from kapi.base.failpoint import failpoint
from kapi.storage.interface import StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATABASE = "kapi.db"
LOCK = "kapi.lock"
APPLICATION_ID = int.from_bytes(b"Kapi")
FORMAT = 2

_BUSY_SECONDS = 10.0
# A log that a burst or its readers have grown is truncated to this when it restarts.
_JOURNAL_LIMIT = 16 << 20
_PRIMARY_CODE = 0xFF

# `history` is the log: each value is stored once, under its position: the revision of its commit and its place within
# the commit, as in etcd (main and sub revision). `versions` finds the versions of a key; it holds all a look-up needs,
# `gone` included, so that ranges and start-up never touch the values. A table key -> latest revision in its place is
# within 10 % of it on writes and cannot answer reads at a revision.
#
# `meta.compacted` is the oldest revision that can be read, `meta.finished` how far old versions have been removed; the
# first is written before the second moves. The last revision is that of the last row or `compacted`: rows after
# `compacted` are never removed, so that needs no counter of its own and cannot fall behind.
_TABLE = "CREATE TABLE history (position INTEGER PRIMARY KEY, key TEXT NOT NULL, gone INTEGER NOT NULL, value BLOB)"
_INDEX = "CREATE UNIQUE INDEX versions ON history (key, position, gone)"
_SCHEMA = (
    _TABLE,
    _INDEX,
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO meta VALUES ('compacted', 0), ('finished', 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

_PLACE_BITS = 10
"""Bits of a position that number the changes of a commit; eight times what `MAX_OPERATIONS` needs."""

# Format 1 had one change per revision, under its revision. Copied in order, which is as fast as the disk; an UPDATE of
# the primary key would move every row twice.
_MIGRATION = (
    "DROP INDEX versions",
    "ALTER TABLE history RENAME TO history_1",
    _TABLE,
    f"INSERT INTO history SELECT revision << {_PLACE_BITS}, key, gone, value FROM history_1 ORDER BY revision",  # noqa: S608
    "DROP TABLE history_1",
    _INDEX,
    "UPDATE meta SET name = 'finished' WHERE name = 'swept'",
    f"PRAGMA user_version = {FORMAT}",
)


def position_of(revision: int, place: int) -> int:
    """The position of a change: the revision of its commit, and its place among the commit's changes."""
    return revision << _PLACE_BITS | place


def last_position(revision: int) -> int:
    """The highest position a change of a revision can have."""
    return ((revision + 1) << _PLACE_BITS) - 1


def revision_at(position: int) -> int:
    """The revision of the change at a position."""
    return position >> _PLACE_BITS


class DirectoryLock:
    """The exclusive lock of a data directory, from construction to `release`."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # flock, not lockf: it also keeps a second store of the same process out.
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StorageUnavailable(
                f"{directory} is in use by another server (process {holder}); stop it or choose another data directory"
            ) from None
        except OSError:
            os.close(self._descriptor)
            raise
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        """Release the lock. The file stays: removing it would let two servers lock two files of one name."""
        os.close(self._descriptor)


def prepare_directory(directory: Path) -> None:
    """Create the data directory, private to its owner, if it is missing; its parent must exist."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        _sync_directory(directory.parent)
    if not directory.is_dir():
        raise StorageUnavailable(f"{directory} is not a directory; choose another data directory")


def open_database(directory: Path) -> sqlite3.Connection:
    """The writer's connection, on a database that is ours and can be written."""
    # Created here rather than by SQLite, for the mode: the -wal and -shm files inherit it, and all hold secrets.
    os.close(os.open(directory / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = _connect(directory)
    try:
        _check_owner(connection, directory)
        _configure(connection, directory)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(directory: Path) -> sqlite3.Connection:
    """A connection that cannot write. One thread uses it at a time, another may close it."""
    connection = _connect(directory, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(directory: Path, *, check_same_thread: bool = True) -> sqlite3.Connection:
    # isolation_level None: transactions begin where the code says, never implicitly.
    return sqlite3.connect(
        directory / DATABASE, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=check_same_thread
    )


def _check_owner(connection: sqlite3.Connection, directory: Path) -> None:
    """Refuse a database that is not ours, before anything in it is changed; create the tables in an empty one."""
    application = pragma(connection, "application_id")
    version = pragma(connection, "user_version")
    if application == APPLICATION_ID:
        if version > FORMAT:
            raise StorageUnavailable(
                f"{directory / DATABASE} has format {version}, written by a newer Kapi;"
                f" this one knows up to {FORMAT}: upgrade Kapi"
            )
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StorageUnavailable(f"{directory / DATABASE} is not a Kapi database; choose another data directory")
    # Makes it possible to shorten the file, see `maintenance`. Cannot be changed later without a VACUUM; costs a page
    # in 800, and no speed that could be measured.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    _run(connection, _SCHEMA)
    _sync_directory(directory)


def _run(connection: sqlite3.Connection, statements: tuple[str, ...]) -> None:
    """All statements in one transaction: a crash leaves the database as it was before."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in statements:
        connection.execute(statement)
    connection.execute("COMMIT")


def _configure(connection: sqlite3.Connection, directory: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageUnavailable(
            f"{directory} cannot hold a write-ahead log (a network file system?); use a local disk"
        )
    # FULL: every commit is on disk before it is acknowledged. NORMAL loses acknowledged writes in a power cut.
    connection.execute("PRAGMA synchronous = FULL")
    # The writer checkpoints after it has answered, and checks the result; SQLite's own checkpoint ignores errors.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
    connection.execute("PRAGMA secure_delete = FAST")
    connection.execute("PRAGMA cache_size = -8000")
    # Takes and releases the write lock: fails now, not at the first write, if the file is read-only or locked.
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring a database of an earlier format to this one; the file may double, its free pages are returned later."""
    if pragma(connection, "user_version") < FORMAT:
        failpoint("storage.before_migration")
        _run(connection, _MIGRATION)
        failpoint("storage.after_migration")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The number that a pragma returns."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _sync_directory(directory: Path) -> None:
    """Put the names in a directory on disk; a synced file without its name is lost all the same."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn the errors of the system and of SQLite into `StorageUnavailable` with what to do about it."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(_explain_system(error, directory)) from error
    except sqlite3.Error as error:
        raise StorageUnavailable(_explain_database(error, directory)) from error


def _explain_system(error: OSError, directory: Path) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"{directory.parent} does not exist; create it or choose another data directory"
        case errno.ENOTDIR:
            return f"{directory} lies inside something that is not a directory; choose another data directory"
        case errno.EACCES | errno.EPERM:
            return f"no permission to write in {directory}; fix its owner or mode, or choose another data directory"
        case errno.EROFS:
            return f"{directory} is on a read-only file system; choose another data directory"
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk that holds {directory} is full; free some space and start again"
        case _:
            return f"cannot use {directory} as data directory: {error.strerror or error}"


def _explain_database(error: sqlite3.Error, directory: Path) -> str:
    path = directory / DATABASE
    match getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE:
        case sqlite3.SQLITE_NOTADB:
            return f"{path} is not a database; move it away or choose another data directory"
        case sqlite3.SQLITE_CORRUPT:
            return f"{path} is damaged ({error}); restore it from a backup"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"no permission to write {path}; fix its owner or mode, or choose another data directory"
        case sqlite3.SQLITE_FULL:
            return f"the disk that holds {path} is full; free some space and start again"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"{path} is locked by another program; close it and start again"
        case _:
            return f"cannot open {path}: {error}"
