"""The tables of the SQLite store: how they are created, and how those of earlier formats are migrated.

`history` is the log: each value is stored once, under its position: the revision of its commit and its place within the
commit, as in etcd (main and sub revision). `versions` finds the versions of a key; it holds all a look-up needs, `gone`
included, so that ranges never touch the values they do not return. A table key -> latest revision in its place is
within 10 % of it on writes and cannot answer reads at a revision.

`meta.compacted` is the oldest revision that can be read, `meta.finished` how far old versions have been removed; the
first is written before the second moves. The last revision is that of the last row or `compacted`: rows after
`compacted` are never removed, so that needs no counter of its own and cannot fall behind. `meta.store` is the identity
of the store, see `mark`.

Every row has a checksum (`checksum`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.base.failpoint import failpoint
from kapi.storage.sqlite.checksum import meta_checksum, row_checksum

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = int.from_bytes(b"Kapi")
FORMAT = 3

_TABLE = (
    "CREATE TABLE history (position INTEGER PRIMARY KEY, key TEXT NOT NULL, gone INTEGER NOT NULL, value BLOB,"
    " checksum INTEGER NOT NULL)"
)
INDEX = "CREATE UNIQUE INDEX versions ON history (key, position, gone)"
_META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID"
TABLES = {"history": _TABLE, "versions": INDEX, "meta": _META}
"""The schema as SQLite stores it, by name."""

SET_META = "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)"

_PLACE_BITS = 10
"""Bits of a position that number the changes of a commit; eight times what `MAX_OPERATIONS` needs."""

# Format 1 had one change per revision, under its revision. Format 2 had positions and no checksums. Rows are copied in
# order, which is as fast as the disk; an UPDATE of the primary key would move every row twice.
_ROWS_OF = {
    1: f"SELECT revision << {_PLACE_BITS} AS position, key, gone, value FROM history_old ORDER BY revision",  # noqa: S608
    2: "SELECT position, key, gone, value FROM history_old ORDER BY position",
}


def position_of(revision: int, place: int) -> int:
    """The position of a change: the revision of its commit, and its place among the commit's changes."""
    return revision << _PLACE_BITS | place


def last_position(revision: int) -> int:
    """The highest position a change of a revision can have."""
    return ((revision + 1) << _PLACE_BITS) - 1


def revision_at(position: int) -> int:
    """The revision of the change at a position."""
    return position >> _PLACE_BITS


def set_meta(connection: sqlite3.Connection, name: str, value: int | str) -> None:
    """Write one row of `meta`."""
    connection.execute(SET_META, (name, value, meta_checksum(name, value)))


def create(connection: sqlite3.Connection, store: str) -> None:
    """Create the tables of a new store in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    _finish(connection, store, {"compacted": 0, "finished": 0})
    connection.execute("COMMIT")


def migrate(connection: sqlite3.Connection, store: str, version: int) -> None:
    """Bring a database of an earlier format to this one; the file may double, its free pages are returned later."""
    failpoint("storage.before_migration")
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    numbers = {"compacted": meta["compacted"], "finished": meta["swept" if version == 1 else "finished"]}
    connection.create_function("row_checksum", 3, row_checksum, deterministic=True)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DROP INDEX versions")
    connection.execute("DROP TABLE meta")
    connection.execute("ALTER TABLE history RENAME TO history_old")
    _finish(connection, store, numbers, _ROWS_OF[version])
    connection.execute("DROP TABLE history_old")
    connection.execute("COMMIT")
    connection.create_function("row_checksum", 3, None)
    failpoint("storage.after_migration")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _finish(connection: sqlite3.Connection, store: str, numbers: dict[str, int], rows: str = "") -> None:
    """Create the tables, with the rows of the query `rows`, inside a transaction."""
    connection.execute(_TABLE)
    if rows:
        connection.execute(
            f"INSERT INTO history SELECT position, key, gone, value, row_checksum(position, key, value) FROM ({rows})"  # noqa: S608
        )
    connection.execute(INDEX)
    connection.execute(_META)
    set_meta(connection, "store", store)
    for name, value in numbers.items():
        set_meta(connection, name, value)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
