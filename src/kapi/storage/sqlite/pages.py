"""The pages of a database file, read without SQLite.

SQLite stops at the first page of a tree that makes no sense; what lies beyond it may still be whole. This module reads
the trees as far as they can be read and says where in which file each row is. It knows the file format of SQLite
(https://sqlite.org/fileformat2.html) as far as Kapi's tables use it, and only reads.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.sqlite.damage import Damage
from kapi.storage.sqlite.file import DATABASE
from kapi.storage.sqlite.wal import FRAME_HEADER_BYTES, LOG, Log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = 4096
TABLE_LEAF, TABLE_INNER, INDEX_LEAF, INDEX_INNER = 13, 5, 10, 2
_INNER = {TABLE_INNER, INDEX_INNER}
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_TABLE_LOCAL = PAGE - 35
_INDEX_LOCAL = (PAGE - 12) * 64 // 255 - 23
_LEAST_LOCAL = (PAGE - 12) * 32 // 255 - 23

Value = int | str | bytes | float | None


class Unreadable(Exception):
    """A page or a cell that makes no sense."""


class Cell(NamedTuple):
    """An entry of a table or an index, and where it is."""

    rowid: int
    """0 in an index."""
    record: list[Value]
    file: str
    offset: int


class Pages:
    """The pages of a store: each from the newest readable frame of the log, or from the database."""

    def __init__(self, directory: Path) -> None:
        path = directory / DATABASE
        self._database = path.read_bytes() if path.exists() else b""
        self._log = Log.read(directory / LOG)
        self._frames: dict[int, int] = {}
        self.last_commit = 0
        """The last frame of the log that is used."""
        self.may_be_older = False
        """True if a frame is missing between those that are used: its page is read as it was before."""
        self._take_frames()
        self.count = max(len(self._database) // PAGE, max(self._frames, default=0))

    def _take_frames(self) -> None:
        """Find the newest whole frame of each page in the transactions that were synced.

        Frames after a damaged one are verified with the checksum in the header of the frame before. A transaction that
        lacks a frame was synced if frames of another one follow; otherwise it may have been interrupted.
        """
        log = self._log
        if log.header is None or log.header.page_size != PAGE:
            return
        waiting: dict[int, int] = {}
        incomplete: dict[int, int] = {}
        end = 0
        is_whole = True
        for number in range(1, log.count + 1):
            frame = log.frame(number)
            if frame.salts == log.header.salts and incomplete:
                self._frames |= incomplete
                self.last_commit, incomplete = end, {}
                self.may_be_older = True
            if not log.is_valid(frame, log.sums_before(number)):
                is_whole = False
                continue
            waiting[frame.page] = frame.offset + FRAME_HEADER_BYTES
            if frame.size:
                if is_whole:
                    self._frames |= waiting
                    self.last_commit = number
                else:
                    incomplete, end = waiting, number
                waiting, is_whole = {}, True

    def place(self, number: int) -> tuple[str, int]:
        """The file and the offset of a page."""
        if number in self._frames:
            return LOG, self._frames[number]
        return DATABASE, (number - 1) * PAGE

    def page(self, number: int) -> bytes:
        """The content of a page."""
        file, offset = self.place(number)
        data = (self._log.content if file == LOG else self._database)[offset : offset + PAGE]
        if number < 1 or len(data) < PAGE:
            raise Unreadable(f"page {number} does not exist")
        return data


class Tree:
    """One tree of a database: `cells` are those that can be read, `damages` says what cannot."""

    def __init__(self, pages: Pages, root: int) -> None:
        self._pages = pages
        self.damages: list[Damage] = []
        self.visited: set[int] = set()
        self.cells = list(self._walk(root))

    def _walk(self, root: int) -> Iterator[Cell]:
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number in self.visited:
                continue
            self.visited.add(number)
            try:
                found, children = read_page(self._pages, number, self.damages)
            except (Unreadable, struct.error, IndexError) as error:
                file, offset = self._pages.place(number)
                self.damages.append(Damage(file, f"page {number} cannot be read: {error}", offset=offset))
                continue
            yield from found
            waiting.extend(reversed(children))


def read_page(pages: Pages, number: int, damages: list[Damage]) -> tuple[list[Cell], list[int]]:
    """The cells of a page of a tree, and the pages below it; cells that cannot be read are added to `damages`."""
    data = pages.page(number)
    file, base = pages.place(number)
    start = 100 if number == 1 else 0
    kind = data[start]
    if kind not in {TABLE_LEAF, TABLE_INNER, INDEX_LEAF, INDEX_INNER}:
        raise Unreadable(f"{kind} is no type of page")
    (count,) = struct.unpack_from(">H", data, start + 3)
    is_inner = kind in _INNER
    first = start + (12 if is_inner else 8)
    if first + 2 * count > PAGE:
        raise Unreadable(f"{count} cells do not fit into a page")
    cells, children = [], []
    for offset in struct.unpack_from(f">{count}H", data, first):
        try:
            if is_inner:
                children.append(struct.unpack_from(">I", data, offset)[0])
            if kind != TABLE_INNER:
                cells.append(_read_cell(pages, data, kind, offset)._replace(file=file, offset=base + offset))
        except (Unreadable, struct.error, IndexError, UnicodeError) as error:
            damages.append(Damage(file, f"an entry of page {number} cannot be read: {error}", offset=base + offset))
    if is_inner:
        children.append(struct.unpack_from(">I", data, start + 8)[0])
    return cells, children


def _read_cell(pages: Pages, data: bytes, kind: int, offset: int) -> Cell:
    at = offset + (4 if kind == INDEX_INNER else 0)
    length, at = _varint(data, at)
    rowid = 0
    if kind == TABLE_LEAF:
        rowid, at = _varint(data, at)
    local = _local_bytes(length, _TABLE_LOCAL if kind == TABLE_LEAF else _INDEX_LOCAL)
    payload = data[at : at + local]
    if local < length:
        (following,) = struct.unpack_from(">I", data, at + local)
        payload += _overflow(pages, following, length - local)
    return Cell(rowid, _record(payload), "", 0)


def _local_bytes(length: int, most: int) -> int:
    """The bytes of a record that are in the page of its tree; the others are in overflow pages."""
    if length <= most:
        return length
    local = _LEAST_LOCAL + (length - _LEAST_LOCAL) % (PAGE - 4)
    return local if local <= most else _LEAST_LOCAL


def _overflow(pages: Pages, number: int, length: int) -> bytes:
    parts = []
    if length > pages.count * PAGE:
        raise Unreadable(f"a record of {length} bytes is longer than the file")
    while length > 0:
        data = pages.page(number)
        parts.append(data[4 : 4 + length])
        length -= PAGE - 4
        (number,) = struct.unpack_from(">I", data)
    return b"".join(parts)


def _record(payload: bytes) -> list[Value]:
    size, at = _varint(payload, 0)
    values: list[Value] = []
    body = size
    while at < size:
        kind, at = _varint(payload, at)
        value, body = _column(payload, kind, body)
        values.append(value)
    if at != size or body != len(payload):
        raise Unreadable("its columns do not fill the record")
    return values


def _column(payload: bytes, kind: int, at: int) -> tuple[Value, int]:
    """One column of a record, and where the next one begins."""
    if kind == 0:
        return None, at
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], signed=True), end
    if kind in {8, 9}:
        return kind - 8, at
    if kind >= 12:
        end = at + (kind - 12) // 2
        data = payload[at:end]
        return (data.decode("utf-8", "backslashreplace") if kind % 2 else data), end
    raise Unreadable(f"{kind} is no type of a column")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    value = value << 8 | data[at + 8]
    return (value - (1 << 64) if value >> 63 else value), at + 9
