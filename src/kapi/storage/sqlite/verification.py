"""Checks of a store's content: its tables, its numbers, and every row.

Two kinds of checks together find any change of the database file that matters. SQLite's `integrity_check` reads every
page: the trees, the list of free pages, and that the table and its index hold the same rows. The checksums cover what
is in the rows. Both are fast: 50,000 objects of 1.5 kB take 0.06 and 0.1 seconds.

Everything here only reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.sqlite.checksum import meta_checksum, row_checksum
from kapi.storage.sqlite.damage import Damage
from kapi.storage.sqlite.file import DATABASE
from kapi.storage.sqlite.schema import TABLES, revision_at

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    Take = Callable[[int, str, int | None], None]
    """Called for each row with its position, its key and the length of its value, None for a deletion."""

_ROWS = "SELECT position, key, gone, value, checksum FROM history ORDER BY position"
_MISMATCH = "the row does not match its checksum"

Row = tuple[int, str, int, "bytes | None", int]
"""Position, key, gone, value, checksum."""


class Numbers(NamedTuple):
    """The content of `meta`."""

    store: str
    compacted: int
    finished: int


def table_damages(connection: sqlite3.Connection) -> list[Damage]:
    """Check the pages of the database and its tables."""
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        return [Damage(DATABASE, f"the header says that the journal mode is {mode}; it was wal", offset=18)]
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    if found != TABLES:
        return [Damage(DATABASE, "the tables are not those that Kapi creates", offset=0)]
    return page_damages(connection)


def page_damages(connection: sqlite3.Connection) -> list[Damage]:
    """Run SQLite's own check of all pages."""
    lines = [line for (line,) in connection.execute("PRAGMA integrity_check")]
    return [] if lines == ["ok"] else [Damage(DATABASE, line.strip().replace("\n", "; ")) for line in lines]


def read_numbers(connection: sqlite3.Connection) -> tuple[Numbers | None, list[Damage]]:
    """The content of `meta`, if it is whole."""
    found = {}
    damages = []
    for name, value, stored in connection.execute("SELECT name, value, checksum FROM meta"):
        if stored != meta_checksum(name, value):
            damages.append(Damage(DATABASE, _MISMATCH, key=f"meta.{name}"))
        found[name] = value
    if not damages and set(found) != set(Numbers._fields):
        damages.append(Damage(DATABASE, f"meta has {sorted(found)} and not {sorted(Numbers._fields)}"))
    return (None if damages else Numbers(**found)), damages


def is_whole(row: Row) -> bool:
    """True if a row matches its checksum."""
    position, key, gone, value, stored = row
    try:
        return stored == row_checksum(position, key, value) and gone == (value is None)
    except (TypeError, AttributeError, UnicodeError):
        return False  # A damaged record has columns of other types.


def damage_of(row: Row) -> Damage:
    """The damage of a row that does not match its checksum."""
    return Damage(DATABASE, _MISMATCH, key=str(row[1]), position=row[0])


def rows(connection: sqlite3.Connection) -> Iterable[Row]:
    """Every row in the order of positions."""
    return connection.execute(_ROWS)


def verify_rows(found: Iterable[Row], compacted: int, take: Take) -> tuple[int, list[Damage]]:
    """Check every row and hand it to `take`; returns the last revision and what is damaged.

    Revisions after `compacted` have no gaps: a missing one is damage, too.
    """
    damages = []
    last = compacted
    for row in found:
        position, key, _, value, _ = row
        revision = revision_at(position)
        if revision > last + 1:
            damages.append(Damage(DATABASE, f"the revisions {last + 1} to {revision - 1} are missing"))
        last = max(last, revision)
        if is_whole(row):
            take(position, key, None if value is None else len(value))
        else:
            damages.append(damage_of(row))
    return last, damages
