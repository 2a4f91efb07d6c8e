"""Checksums of what the SQLite store writes: one for each row of the log and one for each number in `meta`.

SQLite checks the shape of its pages, not what is in them: a bit that flips inside a value is read back as if it had
been written. CRC-32 finds every change of up to 32 adjacent bits and misses one in four billion of the others; a longer
checksum would cost more and find nothing that a failing disk does. The position and the key are covered too, so a row
that is found in the place of another one is noticed. Pure functions.
"""

from __future__ import annotations

from zlib import crc32


def row_checksum(position: int, key: str, value: bytes | None) -> int:
    """The checksum of a row of the log; `value` is None for a deletion."""
    if value is None:
        return crc32(b"%d\0%b\0-" % (position, key.encode()))
    return crc32(value, crc32(b"%d\0%b\0+" % (position, key.encode())))


def meta_checksum(name: str, value: int | str) -> int:
    """The checksum of a row of `meta`."""
    return crc32(f"{name}\0{value}".encode())
