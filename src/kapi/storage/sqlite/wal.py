"""The write-ahead log as a file: is its end a transaction that was being written, or damage?

SQLite reads a log up to the first frame that does not match its checksum and drops the rest without a word. After a
crash that is right: the last transaction may have been written in part. It is wrong when a frame in the middle has been
damaged, because then acknowledged transactions are dropped. This module tells the two apart.

A log is a header and frames; a frame is a page with a header of its own: the page number, the size of the database if
the frame ends a transaction (a commit frame), the salts of the log, and a checksum that continues the one of the frame
before. The salts change whenever the log starts over, so frames of the present log are told from older ones in the same
file. The store syncs the log at the end of every transaction and before the next one begins. So of the transactions
whose frames are found, **only the last one can be incomplete**, and the rest of the log after the frames that SQLite
can read is:

* nothing with the salts of this log: the log is whole;
* readable frames without a commit frame: a transaction that was not finished. It was not acknowledged;
* a frame that cannot be read, and **after it** a commit frame that is followed by more frames: the transaction of that
  commit frame had been synced when the next one began. Damage. (A frame after the unreadable one is verified with the
  checksum that the frame before it has in its header.)
* frames that cannot be read in what may be the last transaction, each of which would be readable with one other byte:
  damage to a transaction that may have been acknowledged, or (rarely) an interrupted one, if the sector that is missing
  differs in one byte from what was there before. Either way the transaction is known: it is corrected
  (`is_correctable`);
* any other frame that cannot be read: a transaction that was being written when the power failed. Whether it had been
  acknowledged is then told by the mark (`mark.confirmed`). Power that fails within some milliseconds of an
  acknowledgement, before the mark is synced, together with more than one damaged byte in a frame of that very
  transaction is the one case that cannot be told apart; the store then goes on after the reserved revisions
  (`is_torn`), so that at least no revision is given out twice. While the machine has not been started again the mark is
  exact, and there is no doubt.

The store empties the log whenever it is opened, so frames of an interrupted transaction never lie behind later ones.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.sqlite.damage import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = "kapi.db-wal"
INDEX = "kapi.db-shm"
HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24

_VERSION = 3007000
_HEADER = struct.Struct(">IIII8s8s")
_FRAME_HEADER = struct.Struct(">II8s8s")
_SECTOR = 512
MAX_FIXES = 256
"""Ways to correct a log that are considered."""
_WORD = 1 << 32
_MASK = _WORD - 1

Sums = tuple[int, int]


class LogHeader(NamedTuple):
    """The header of a log."""

    order: str
    """The byte order of the checksum, `<` or `>`."""
    page_size: int
    salts: bytes
    sums: Sums
    """The checksum of the header, which the first frame continues."""


class Frame(NamedTuple):
    """One frame, as it is in the file."""

    number: int
    """From 1."""
    page: int
    size: int
    """The pages of the database after the transaction, in a commit frame; otherwise 0."""
    salts: bytes
    sums: Sums
    offset: int
    data: bytes
    """What the checksum covers: the first eight bytes of the header, and the page."""


class Tail(NamedTuple):
    """What is in a log after the frames that SQLite can read."""

    damages: list[Damage]
    is_torn: bool = False
    """True if there is a transaction that was being written when the power failed."""
    is_correctable: bool = False
    """True if the last transaction cannot be read, and could be with other bytes in a few places (`fixes`)."""
    unreadable: int = -1
    """The first frame that cannot be read (0: the header), if there is one."""


def checksum(order: str, data: bytes, sums: Sums) -> Sums:
    """SQLite's checksum of a log, continued over some data."""
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second


def read_header(data: bytes) -> LogHeader | None:
    """The header of a log; None if it is not valid, as SQLite decides it."""
    if len(data) < HEADER_BYTES:
        return None
    magic, version, page_size, _, salts, stored = _HEADER.unpack(data[:HEADER_BYTES])
    if magic & ~1 != 0x377F0682 or version != _VERSION or page_size < _SECTOR or page_size & (page_size - 1):
        return None
    order = ">" if magic & 1 else "<"
    sums = checksum(order, data[:24], (0, 0))
    return LogHeader(order, page_size, salts, sums) if struct.pack(">II", *sums) == stored else None


class Log:
    """The frames of a log file, read one at a time."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.header = read_header(content)

    @classmethod
    def read(cls, path: Path) -> Log:
        """The log in a file; an empty one if there is no file."""
        return cls(path.read_bytes() if path.exists() else b"")

    @property
    def frame_bytes(self) -> int:
        """The bytes of a frame with its header."""
        assert self.header is not None
        return FRAME_HEADER_BYTES + self.header.page_size

    @property
    def count(self) -> int:
        """The frames in the file, of this log or an earlier one."""
        return max(0, len(self.content) - HEADER_BYTES) // self.frame_bytes if self.header else 0

    def salts_at(self, number: int) -> bytes:
        """The salts of a frame."""
        start = HEADER_BYTES + (number - 1) * self.frame_bytes + 8
        return self.content[start : start + 8]

    def frame(self, number: int) -> Frame:
        """A frame by its number, from 1."""
        offset = HEADER_BYTES + (number - 1) * self.frame_bytes
        page, size, salts, sums = _FRAME_HEADER.unpack(self.content[offset : offset + FRAME_HEADER_BYTES])
        body = offset + FRAME_HEADER_BYTES
        data = self.content[offset : offset + 8] + self.content[body : offset + self.frame_bytes]
        return Frame(number, page, size, salts, struct.unpack(">II", sums), offset, data)

    def sums_before(self, number: int) -> Sums:
        """The checksum that a frame continues, as the frame before it (or the header) has it."""
        assert self.header is not None
        return self.frame(number - 1).sums if number > 1 else self.header.sums

    def is_valid(self, frame: Frame, before: Sums) -> bool:
        """True if a frame belongs to this log and continues a checksum."""
        assert self.header is not None
        return frame.salts == self.header.salts and checksum(self.header.order, frame.data, before) == frame.sums


def examine(directory: Path, readable: int) -> Tail:
    """Examine what a log has after the first `readable` frames, which SQLite has read."""
    log = Log.read(directory / LOG)
    if log.header is None:
        if not any(log.content[HEADER_BYTES:]):
            return Tail([])  # Empty, or a header that was being written: it is synced before any frame is.
        return Tail([Damage(LOG, "the header of the write-ahead log is not valid", offset=0)], unreadable=0)
    salts = log.header.salts
    rest = [number for number in range(readable + 1, log.count + 1) if log.salts_at(number) == salts]
    number, sums = readable + 1, log.sums_before(readable + 1)
    while number in rest and log.is_valid(frame := log.frame(number), sums):
        if frame.size:
            return Tail([Damage(LOG, f"SQLite does not read the transaction that frame {number} ends", offset=0)])
        number, sums = number + 1, frame.sums
    if number > log.count:
        return Tail([])
    later = [other for other in rest if other >= number]
    frame = log.frame(number)
    if _was_synced(log, frame, later):
        text = f"frame {number} (page {frame.page}) of the write-ahead log is damaged"
        return Tail([Damage(LOG, text, offset=frame.offset)], unreadable=number)
    is_correctable = next(fixes(log, number), None) is not None
    return Tail([], is_torn=bool(later), is_correctable=is_correctable, unreadable=number)


def header_fixes(log: Log) -> Iterator[dict[int, bytes]]:
    """The ways to make the header of a log valid, and the first frame continue it, by changing one byte."""
    found = log.content[:HEADER_BYTES]
    for place in range(len(found)):
        for byte in range(256):
            data = found[:place] + bytes([byte]) + found[place + 1 :]
            if byte != found[place] and (header := read_header(data)) is not None:
                other = Log(data + log.content[HEADER_BYTES:])
                if other.count and other.is_valid(other.frame(1), header.sums):
                    yield {0: data}


def fixes(log: Log, number: int) -> Iterator[dict[int, bytes]]:
    """The ways to make a log readable from a frame on: other bytes for some frames, by their numbers.

    What remains unreadable then is after the end of a transaction: one that was being written.
    """
    assert log.header is not None
    salts = log.header.salts
    last = max((other for other in range(number, log.count + 1) if log.salts_at(other) == salts), default=number)
    return (fix for fix in _fixes(log, number, log.sums_before(number), last) if fix)


def _fixes(log: Log, number: int, sums: Sums, last: int, *, is_boundary: bool = False) -> Iterator[dict[int, bytes]]:
    """As `fixes`; `is_boundary` says that the frame before ends a transaction."""
    while number <= last and log.is_valid(frame := log.frame(number), sums):
        number, sums, is_boundary = number + 1, frame.sums, bool(frame.size)
    if number > last:
        yield {}
        return
    # How the log goes on depends on the checksum in the frame and on whether it ends a transaction, which are the same
    # for most ways to correct it. The ways that need the fewest other corrections come first.
    rest: dict[tuple[bytes, bool], list[dict[int, bytes]]] = {}
    found = [(data, (data[16:FRAME_HEADER_BYTES], any(data[4:8]))) for data in corrections(log, number, sums)]
    for after, is_end in {outcome for _, outcome in found}:
        first, second = struct.unpack(">II", after)
        others = sorted(_fixes(log, number + 1, (first, second), last, is_boundary=is_end), key=len)[:MAX_FIXES]
        if others:
            rest[after, is_end] = others
    found = [(data, outcome) for data, outcome in found if outcome in rest]
    for data, outcome in sorted(found, key=lambda one: len(rest[one[1]][0])):
        yield from ({number: data, **others} for others in rest[outcome])
    if is_boundary and not found:
        yield {}


def _was_synced(log: Log, bad: Frame, later: list[int]) -> bool:
    """True if a transaction that ends at or after the unreadable frame was synced: frames of another one follow it."""
    # A header within one sector was written whole or not at all, so the salts vouch for the rest of it.
    is_whole = bad.offset // _SECTOR == (bad.offset + FRAME_HEADER_BYTES - 1) // _SECTOR
    if not later:
        return False
    if bad.number in later and bad.size and is_whole and later[-1] > bad.number:
        return True
    for number in later:
        if bad.number < number < later[-1]:
            frame = log.frame(number)
            if frame.size and log.is_valid(frame, log.sums_before(number)):
                return True
    return False


def corrections(log: Log, number: int, before: Sums) -> list[bytes]:
    """The frames that differ from an unreadable one in one byte and are readable.

    There may be many: an error in the highest bits of a word has the same checksum at every third place, and an error
    in the last word looks like one in the checksum. Those in the header of the frame come first.
    """
    assert log.header is not None
    frame = log.frame(number)
    sums = checksum(log.header.order, frame.data, before)
    if sums == frame.sums:
        return [_packed(frame.data, log.header.salts, sums)] if _differing(frame.salts, log.header.salts) == 1 else []
    if frame.salts != log.header.salts:
        return []
    data = sorted(
        _correct_data(log.header.order, frame.data, sums, frame.sums), key=lambda data: data[:8] == frame.data[:8]
    )
    found = [_packed(one, frame.salts, frame.sums) for one in data]
    if _differing(struct.pack(">II", *sums), struct.pack(">II", *frame.sums)) == 1:
        found.append(_packed(frame.data, frame.salts, sums))
    return found


def _packed(data: bytes, salts: bytes, sums: Sums) -> bytes:
    """A frame as it is in the file."""
    return data[:8] + salts + struct.pack(">II", *sums) + data[8:]


def _differing(one: bytes, other: bytes) -> int:
    """In how many bytes two strings of the same length differ."""
    return sum(a != b for a, b in zip(one, other, strict=True))


def _correct_data(order: str, data: bytes, sums: Sums, wanted: Sums) -> Iterator[bytes]:
    """The data with one byte changed so that its checksum is the wanted one, in every possible way.

    The checksum is linear: a word that is larger by `e` makes the sums larger by `e` times a factor that depends on
    its place only, and of the two factors of a place one is odd. So `e` can be computed for each place.
    """
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    missing = ((wanted[0] - sums[0]) & _MASK, (wanted[1] - sums[1]) & _MASK)
    # The factors of the last pair of words; a pair before it has them multiplied by the step of the checksum.
    even, odd = (1, 1), (0, 1)
    for start in range(len(words) - 2, -1, -2):
        for place, factors in ((start, even), (start + 1, odd)):
            which = 0 if factors[0] & 1 else 1
            error = missing[which] * pow(factors[which], -1, _WORD) & _MASK
            if error * factors[1 - which] & _MASK != missing[1 - which]:
                continue
            word = (words[place] + error) & _MASK
            if _differing(struct.pack(">I", word), struct.pack(">I", words[place])) == 1:
                yield data[: 4 * place] + struct.pack(f"{order}I", word) + data[4 * place + 4 :]
        even = ((even[0] + even[1]) & _MASK, (even[0] + 2 * even[1]) & _MASK)
        odd = ((odd[0] + odd[1]) & _MASK, (odd[0] + 2 * odd[1]) & _MASK)
