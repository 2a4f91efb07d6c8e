"""The data directory of the SQLite store: its lock, its database file, and why it may not open.

A directory belongs to one server at a time. `kapi.lock` in it is held with `flock` as long as the store is open; the
kernel lets go when the process ends, however it ends, so a killed server never leaves a stale lock. The file
`kapi.db` carries an application id and a format number: a database of another program, or of a newer Kapi, is refused
and left untouched. `opening` decides about the rest.

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

from kapi.storage.interface import StorageUnavailable
from kapi.storage.sqlite.mark import sync_directory
from kapi.storage.sqlite.schema import APPLICATION_ID, FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from sqlite3 import _Parameters

DATABASE = "kapi.db"
LOCK = "kapi.lock"

_BUSY_SECONDS = 10.0
# A log that a burst or its readers have grown is truncated to this when it restarts.
_JOURNAL_LIMIT = 16 << 20
_PRIMARY_CODE = 0xFF


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
        sync_directory(directory.parent)
    if not directory.is_dir():
        raise StorageUnavailable(f"{directory} is not a directory; choose another data directory")


def is_empty(directory: Path) -> bool:
    """True if there is no database, or a file without content."""
    path = directory / DATABASE
    return not path.exists() or path.stat().st_size == 0


def create_file(directory: Path) -> None:
    """Create the database file if it is missing.

    Here rather than by SQLite, for the mode: the -wal and -shm files inherit it, and all hold secrets.
    """
    os.close(os.open(directory / DATABASE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync_directory(directory)


def open_reader(directory: Path) -> sqlite3.Connection:
    """A connection that cannot write. One thread uses it at a time, another may close it."""
    connection = connect(directory, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


class OneCursorConnection(sqlite3.Connection):
    """A connection that executes all statements with one cursor: each ends the one before, so read its rows first.

    The sqlite3 module makes a cursor for each statement, and keeps a weak reference to it until 200 more were made.
    Small objects that are kept, and were made one by one during a burst of requests, hold the memory of that burst.
    """

    _cursor: sqlite3.Cursor | None = None

    def execute(self, sql: str, parameters: _Parameters = (), /) -> sqlite3.Cursor:
        """Execute a statement; the cursor returns its rows until the next one is executed."""
        if self._cursor is None:
            self._cursor = self.cursor()
        return self._cursor.execute(sql, parameters)

    def close(self) -> None:
        """Close the connection, and break the reference cycle with its cursor."""
        self._cursor = None
        super().close()


def connect(directory: Path, *, check_same_thread: bool = True) -> sqlite3.Connection:
    """A connection to the database of a directory."""
    return sqlite3.connect(
        directory / DATABASE,
        timeout=_BUSY_SECONDS,
        isolation_level=None,  # Transactions begin where the code says, never implicitly.
        check_same_thread=check_same_thread,
        factory=OneCursorConnection,
    )


def check_owner(connection: sqlite3.Connection, directory: Path) -> int:
    """The format of a database, 0 for one that is empty; one that is not ours is refused and left as it is."""
    application = pragma(connection, "application_id")
    version = pragma(connection, "user_version")
    if application == APPLICATION_ID:
        if version > FORMAT:
            raise StorageUnavailable(
                f"{directory / DATABASE} has format {version}, written by a newer Kapi;"
                f" this one knows up to {FORMAT}: upgrade Kapi"
            )
        return version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StorageUnavailable(f"{directory / DATABASE} is not a Kapi database; choose another data directory")
    return 0


def configure(connection: sqlite3.Connection, directory: Path) -> None:
    """Set up the writer's connection, on a database that must be writable."""
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


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """The number that a pragma returns."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


@contextlib.contextmanager
def explained(directory: Path) -> Iterator[None]:
    """Turn the errors of the system and of SQLite into `StorageUnavailable` with what to do about it."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailable(_explain_system(error, directory)) from error
    except sqlite3.Error as error:
        raise StorageUnavailable(_explain_database(error, directory)) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged schema in its error, and the module cannot decode that.
        raise StorageUnavailable(f"{directory / DATABASE} is damaged; restore it from a backup") from error


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
