"""The scrub: reads a running store again and again, slowly, and compares every row with its checksum.

Objects are served from memory, so a row that is damaged on disk could go unnoticed until the next start, which it
prevents. The scrub finds it while the object is still known. It is reported (`/readyz/store-integrity`, a metric, the
log), and nothing is changed: the copy in memory was read when the row was whole and is still served, the row itself is
not (`StorageDamaged`). Any write to the object stores a new version and makes the damaged one history; when compaction
has removed that, the report ends. Writing the row again from memory by itself was considered: it would hide a failing
disk, and put bytes under a revision that nothing verified.

A pass reads the table in the order of positions and then through its index, which finds rows that one of them lost. The
kernel is told first to forget what it has of the file, so that the disk is read and not memory. The pace is
`SLICE_ROWS` each `TICK_SECONDS`: some milliseconds of a reader thread per second at most, and no transaction stays open
between two slices.
"""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.interface import StorageFailed
from kapi.storage.sqlite.damage import Damage
from kapi.storage.sqlite.file import DATABASE
from kapi.storage.sqlite.verification import damage_of, is_whole

if TYPE_CHECKING:
    from kapi.base.clock import Clock
    from kapi.storage.sqlite.storage import SqliteStorage
    from kapi.storage.sqlite.verification import Row

TICK_SECONDS = 1.0
SLICE_ROWS = 128
SLICE_BYTES = 1 << 20
PASS_SECONDS = 3600.0
"""From the start of a pass to the start of the next one."""

_SHOWN = 10

_COLUMNS = "SELECT position, key, gone, value, checksum FROM history"
_BY_POSITION = f"{_COLUMNS} WHERE position > :position ORDER BY position"
_BY_KEY = f"{_COLUMNS} INDEXED BY versions WHERE (key, position) > (:key, :position) ORDER BY key, position"
_ORDERS = (_BY_POSITION, _BY_KEY)
_ROW = f"{_COLUMNS} WHERE position = ?"
_INDEXED = f"{_COLUMNS} INDEXED BY versions WHERE key = ? AND position = ?"


class Cursor(NamedTuple):
    """How far a pass has come: which order it reads in, and the last row."""

    order: int = 0
    key: str = ""
    position: int = 0


class Slice(NamedTuple):
    """The result of reading some rows; `cursor` is None at the end of the pass."""

    rows: int
    damages: list[Damage]
    cursor: Cursor | None


def read_slice(connection: sqlite3.Connection, cursor: Cursor) -> Slice:
    """Read and compare some rows. Blocks; on a connection of its own, whose cache is emptied afterwards."""
    try:
        return _read_slice(connection, cursor)
    except (sqlite3.OperationalError, sqlite3.ProgrammingError):
        raise  # The second is a mistake of the program, such as a closed connection, and says nothing of the file.
    except sqlite3.DatabaseError as error:
        return Slice(0, [Damage(DATABASE, f"SQLite cannot read it: {error}")], None)


def _read_slice(connection: sqlite3.Connection, cursor: Cursor) -> Slice:
    rows = size = 0
    damages = []
    key, position = cursor.key, cursor.position
    for row in connection.execute(_ORDERS[cursor.order], {"key": key, "position": position}):
        position, key, _, value, _ = row
        rows += 1
        size += len(value or b"")
        if not is_whole(row):
            damages.append(damage_of(row))
        if rows >= SLICE_ROWS or size >= SLICE_BYTES:
            connection.execute("PRAGMA shrink_memory")
            return Slice(rows, damages, Cursor(cursor.order, key, position))
    following = Cursor(cursor.order + 1) if cursor.order + 1 < len(_ORDERS) else None
    connection.execute("PRAGMA shrink_memory")
    return Slice(rows, damages, following)


def is_still_damaged(connection: sqlite3.Connection, damage: Damage) -> bool:
    """True if a row that was found damaged still is, in the table or as its index shows it."""
    if not damage.position:
        return True
    try:
        row: Row | None = connection.execute(_ROW, (damage.position,)).fetchone()
        if row is None:
            return False
        indexed: Row | None = connection.execute(_INDEXED, (row[1], row[0])).fetchone()
    except sqlite3.DatabaseError:
        return True
    finally:
        connection.execute("PRAGMA shrink_memory")
    return not is_whole(row) or indexed is None or not is_whole(indexed)


class Scrub:
    """The scrub of one store: `run` never ends, `check` is its health check."""

    def __init__(self, storage: SqliteStorage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._cursor: Cursor | None = Cursor()
        self._started = clock.monotonic()
        self.rows = 0
        """Rows that were compared since the start."""
        self.passes = 0
        """Passes that reached their end."""

    @property
    def damages(self) -> list[Damage]:
        """What is damaged now."""
        return list(self._storage.damages.values())

    def check(self) -> str | None:
        """The failure message of the health check; None while no damage is known."""
        damages = self.damages
        if not damages:
            return None
        shown = "; ".join(map(str, damages[:_SHOWN]))
        more = f" and {len(damages) - _SHOWN} more" if len(damages) > _SHOWN else ""
        return f"the store is damaged: {shown}{more}. Write these objects again, or see kapi store check"

    async def run(self) -> None:
        """Scrub until cancelled, or until the store fails."""
        try:
            while True:
                await self.step()
                await asyncio.sleep(TICK_SECONDS)
        except StorageFailed:
            await asyncio.Event().wait()  # The server is about to end; there is nothing to restart.

    async def step(self) -> None:
        """Verify the files, what is known to be damaged, and one slice of the pass."""
        await self._storage.verify_files()
        for damage in self.damages:
            if not await self._storage.scrub(partial(is_still_damaged, damage=damage)):
                del self._storage.damages[damage.position]
        if self._cursor is None:
            if self._clock.monotonic() - self._started < PASS_SECONDS:
                return
            self._cursor, self._started = Cursor(), self._clock.monotonic()
        if self._cursor == Cursor():
            await self._storage.scrub(lambda _: self._storage.forget_cached_pages())
        self._take(await self._storage.scrub(partial(read_slice, cursor=self._cursor)))

    def _take(self, read: Slice) -> None:
        self.rows += read.rows
        self._cursor = read.cursor
        self.passes += read.cursor is None
        for damage in read.damages:
            self._storage.record_damage(damage)
