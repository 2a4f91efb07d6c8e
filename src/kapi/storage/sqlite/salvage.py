"""What can be read of a damaged store: its rows, and precisely which are lost.

Rows carry checksums, so one that is found whole is right, wherever it is found. Every version is also in the index,
with its key and whether it is a deletion. So a row that cannot be read is known by its key, and a deletion needs no row
to be known. A row in which one bit is wrong is corrected: the checksum says which.

Rows on pages that no tree leads to are taken only if the index has them: pages that were freed still hold versions of
objects that were deleted since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

from kapi.storage.sqlite.checksum import meta_checksum, row_checksum
from kapi.storage.sqlite.damage import Damage
from kapi.storage.sqlite.file import DATABASE
from kapi.storage.sqlite.pages import TABLE_LEAF, Cell, Pages, Tree, Unreadable, read_page
from kapi.storage.sqlite.schema import TABLES, revision_at
from kapi.storage.sqlite.verification import Numbers, is_whole

if TYPE_CHECKING:
    from pathlib import Path

    from kapi.storage.sqlite.verification import Row

_ROOTS = {"history": 3, "versions": 4, "meta": 5}
"""Where a new store has its tables, for one whose first page cannot be read."""


@dataclass
class Salvage:
    """The content of a store as far as it can be read."""

    rows: dict[int, Row] = field(default_factory=dict)
    """Every whole row by its position."""
    lost: dict[int, str] = field(default_factory=dict)
    """The keys of the rows that are lost, by position; those of later versions of the same key are among `rows`."""
    damages: list[Damage] = field(default_factory=list)
    corrected: list[Damage] = field(default_factory=list)
    """Rows in which one bit was wrong; they are among `rows`."""
    numbers: Numbers | None = None
    """The content of `meta`, if it is whole."""
    last_commit: int = 0
    """The last frame of the write-ahead log that was used."""
    is_certain: bool = True
    """False if neither the table nor its index could be read whole: rows may be lost of which nothing is known. Or if a
    row is not in the index, and one of the two is older than the other: it may be new, or have been removed since."""

    @property
    def latest(self) -> dict[str, Row]:
        """The latest whole version of every key that is not deleted."""
        found = {row[1]: row for _, row in sorted(self.rows.items())}
        return {key: row for key, row in sorted(found.items()) if row[3] is not None}

    @property
    def lost_objects(self) -> dict[str, int]:
        """The keys whose latest version is lost, with its position."""
        newest = {row[1]: position for position, row in sorted(self.rows.items())}
        latest_lost = {key: position for position, key in sorted(self.lost.items())}
        return {key: position for key, position in sorted(latest_lost.items()) if position > newest.get(key, 0)}

    @property
    def revision(self) -> int:
        """The revision of the last row that is whole."""
        return revision_at(max(self.rows, default=0))


def salvage(directory: Path) -> Salvage:
    """Read what can be read of the store in a directory."""
    pages = Pages(directory)
    found = Salvage(last_commit=pages.last_commit)
    roots = _roots(pages, found)
    table, index = Tree(pages, roots["history"]), Tree(pages, roots["versions"])
    found.numbers = _numbers(Tree(pages, roots["meta"]), found)
    found.damages += [*table.damages, *index.damages]
    found.is_certain = not table.damages or not index.damages
    entries = _entries(index)
    unreadable = {cell.rowid: cell for cell in table.cells if not _take(found, cell, entries)}
    missing = {position for position in entries if position not in found.rows}
    if missing - unreadable.keys():
        _take_orphans(pages, table.visited, found, entries)
    for position, cell in unreadable.items():
        if position not in found.rows:
            _lose(found, cell, entries)
    if pages.may_be_older and not found.rows.keys() <= entries.keys():
        found.is_certain = False
    _compare(found, entries)
    return found


def _roots(pages: Pages, found: Salvage) -> dict[str, int]:
    schema = Tree(pages, 1)
    found.damages += schema.damages
    roots = dict(_ROOTS)
    for cell in schema.cells:
        if len(cell.record) == 5 and cell.record[1] in TABLES and isinstance(cell.record[3], int):
            roots[str(cell.record[1])] = cell.record[3]
    return roots


def _numbers(tree: Tree, found: Salvage) -> Numbers | None:
    values = {}
    for cell in tree.cells:
        match cell.record:
            case [str(name), (int() | str()) as value, int(stored)] if stored == meta_checksum(name, value):
                values[name] = value
            case _:
                found.damages.append(Damage(cell.file, "a row of meta does not match its checksum", offset=cell.offset))
    found.damages += tree.damages
    try:
        return Numbers(**values)  # type: ignore[arg-type]
    except TypeError:
        return None


def _entries(index: Tree) -> dict[int, tuple[str, int]]:
    """The key of every version, and whether it is a deletion, by position."""
    entries = {}
    for cell in index.cells:
        match cell.record:
            # SQLite appends the rowid, which is the position again.
            case [str(key), int(position), int(gone), int(rowid)] if position == rowid:
                entries[position] = (key, gone)
    return entries


def _row_of(cell: Cell) -> Row | None:
    match cell.record:
        # The position is the rowid; its column is empty.
        case [None, str(key), int(gone), (bytes() | None) as value, int(stored)]:
            return cell.rowid, key, gone, value, stored
    return None


def _take(found: Salvage, cell: Cell, entries: dict[int, tuple[str, int]]) -> bool:
    """Take a row, if it is whole or can be corrected."""
    row = _row_of(cell)
    if row is None:
        return False
    if not is_whole(row):
        key, gone = entries.get(cell.rowid, (row[1], row[2]))
        row = corrected_row((row[0], key, gone, row[3], row[4])) or corrected_row(row)
        if row is None:
            return False
        text = "one bit of the row was wrong, and is corrected"
        found.corrected.append(Damage(cell.file, text, key=row[1], position=row[0], offset=cell.offset))
    found.rows[row[0]] = row
    return True


def _take_orphans(pages: Pages, visited: set[int], found: Salvage, entries: dict[int, tuple[str, int]]) -> None:
    """Take rows from pages that no tree leads to, if the index has them."""
    for number in range(2, pages.count + 1):
        try:
            if number in visited or pages.page(number)[0] != TABLE_LEAF:
                continue
            cells, _ = read_page(pages, number, [])
        except Unreadable:
            continue
        for cell in cells:
            row = _row_of(cell)
            is_wanted = row is not None and cell.rowid in entries and cell.rowid not in found.rows
            if row is not None and is_wanted and is_whole(row):
                found.rows[cell.rowid] = row


def _lose(found: Salvage, cell: Cell, entries: dict[int, tuple[str, int]]) -> None:
    key, _ = entries.get(cell.rowid, (str(cell.record[1]) if len(cell.record) > 1 else "", 0))
    text = "the row does not match its checksum"
    found.damages.append(Damage(cell.file, text, key=key, position=cell.rowid, offset=cell.offset))
    found.lost[cell.rowid] = key


def _compare(found: Salvage, entries: dict[int, tuple[str, int]]) -> None:
    """Compare the rows with the index: a deletion is known from it, any other version that has no row is lost."""
    unindexed = {row[1] for position, row in found.rows.items() if position not in entries}
    for position, (key, gone) in entries.items():
        if position in found.rows:
            continue
        if gone == 1:
            found.lost.pop(position, None)
            found.rows[position] = (position, key, 1, None, row_checksum(position, key, None))
        elif position not in found.lost and key not in unindexed:
            # With an unindexed row of the same key, the position in the index is what is damaged.
            found.damages.append(Damage(DATABASE, "the row is missing", key=key, position=position))
            found.lost[position] = key


def corrected_row(row: Row) -> Row | None:
    """The row with the one bit of its key, value or checksum corrected that is wrong; None if there is none.

    CRC-32 is linear, so the difference of the checksums depends only on which bit is wrong and how far from the end it
    is. It is followed back from the end until it is the difference that a single bit makes.
    """
    position, key, gone, value, stored = row
    wrong = stored ^ row_checksum(position, key, value)
    if gone != (value is None) or stored >> 32:
        return None
    if wrong.bit_count() == 1:
        return position, key, gone, value, stored ^ wrong
    content = key.encode("utf-8", "surrogateescape") + b"\0+" + (value or b"")
    place = len(content) - 1
    while place >= 0:
        if wrong in _ONE_BIT:
            return _with_bit(row, place, _ONE_BIT[wrong])
        wrong = _before(wrong)
        place -= 1
    return None


def _with_bit(row: Row, place: int, bit: int) -> Row | None:
    position, key, gone, value, stored = row
    data = bytearray(key.encode() if place < len(key.encode()) else value or b"")
    inside = place if place < len(key.encode()) else place - len(key.encode()) - 2
    if inside < 0:
        return None
    data[inside] ^= bit
    if place >= len(key.encode()):
        return position, key, gone, bytes(data), stored
    try:
        return position, data.decode(), gone, value, stored
    except UnicodeDecodeError:
        return None


def _differences() -> list[int]:
    """The difference that each value of the last byte makes to a checksum."""
    return [crc32(bytes([byte])) ^ crc32(b"\0") for byte in range(256)]


_TABLE = _differences()
_ONE_BIT = {_TABLE[1 << bit]: 1 << bit for bit in range(8)}
_BY_TOP = {difference >> 24: byte for byte, difference in enumerate(_TABLE)}


def _before(difference: int) -> int:
    """The difference one byte earlier: the inverse of what a further byte does to it."""
    byte = _BY_TOP[difference >> 24]
    return (difference ^ _TABLE[byte]) << 8 & 0xFFFFFFFF | byte
