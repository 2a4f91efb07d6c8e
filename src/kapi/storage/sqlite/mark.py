"""The mark of a store, `kapi.mark`: its identity and its revisions, outside the database and its log.

A database cannot tell that its newest part is missing: SQLite drops the rest of a write-ahead log from the first frame
on that it cannot read, and a file that was deleted leaves nothing at all. The mark says what must be there:

* `store` is the identity of the store, which the database has too (`meta.store`). A database that is missing, empty or
  another one is noticed.
* `confirmed` is the last revision that is known to be on disk. A database that ends before it has lost acknowledged
  writes.
* `reserved` is at least as large as any revision that was ever given out. A store that has lost writes goes on after
  it, so no revision is given out twice.

What is written when:

* `reserve` is synced before the first revision of a block is used: one fsync for `BLOCK` revisions.
* `confirm` is called for every batch after its fsync and before its answers. It changes memory that is mapped to the
  file: no system call, and it survives the end of the process. It is not synced: a second fsync for each batch would
  double the latency of a lone writer. `sync` is called when no write came for a moment, before every checkpoint and at
  the end. A power cut between an answer and that sync leaves an older number; the write-ahead log itself then tells a
  damaged transaction from one that was being written (`wal`). `boot` says whether that can have happened: while the
  machine runs, the number is exact.

There are two slots in different sectors, written in turn, each with a checksum: a write that is interrupted leaves the
other one.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

MARK = "kapi.mark"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
BLOCK = 1 << 16
"""Revisions that are reserved at a time."""

_MAGIC = b"KapiMark"
_SLOT = struct.Struct(">8s32sQQQ?36s")
_CHECKSUM = struct.Struct(">I")
_SLOTS = (0, 4096)
_SIZE = 8192
_datasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync.


class Mark(NamedTuple):
    """The content of one slot; the one with the higher `sequence` is valid."""

    store: str
    """32 hexadecimal digits."""
    sequence: int = 0
    reserved: int = 0
    confirmed: int = 0
    is_established: bool = False
    """True once the database exists; before that, its absence is no damage."""
    boot: str = ""
    """The boot of the machine in which the store was opened last."""

    @property
    def is_exact(self) -> bool:
        """True if the machine has not been started since: then `confirmed` is what was acknowledged last."""
        return bool(self.boot) and self.boot == boot_id()


class MarkDamaged(Exception):
    """The mark cannot be read; its text says why."""


def _pack(mark: Mark) -> bytes:
    content = _SLOT.pack(
        _MAGIC,
        mark.store.encode(),
        mark.sequence,
        mark.reserved,
        mark.confirmed,
        mark.is_established,
        mark.boot.encode(),
    )
    return content + _CHECKSUM.pack(crc32(content))


def _unpack(data: bytes) -> Mark | None:
    """The mark in a slot; None if the slot is damaged."""
    content = data[: _SLOT.size]
    if len(data) < _SLOT.size + _CHECKSUM.size or data[_SLOT.size :][: _CHECKSUM.size] != _CHECKSUM.pack(
        crc32(content)
    ):
        return None
    magic, store, *rest, boot = _SLOT.unpack(content)
    sequence, reserved, confirmed, is_established = rest
    if magic != _MAGIC:
        return None
    return Mark(store.decode(), sequence, reserved, confirmed, is_established, boot.rstrip(b"\0").decode())


def boot_id() -> str:
    """The identity of the present boot of the machine; empty if the system has none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def read_mark(directory: Path) -> Mark | None:
    """The mark of a data directory; None if there is none, `MarkDamaged` if it cannot be read.

    One damaged slot is no error: the other one is at most one write older, so `reserved` may be one block too low.
    """
    try:
        data = (directory / MARK).read_bytes()
    except FileNotFoundError:
        return None
    found = [_unpack(data[start : start + _SLOTS[1]]) for start in _SLOTS]
    valid = [mark for mark in found if mark is not None]
    if not valid:
        raise MarkDamaged("neither of its two slots is valid")
    newest = max(valid, key=lambda mark: mark.sequence)
    return newest if len(valid) == len(_SLOTS) else newest._replace(reserved=newest.reserved + BLOCK)


def write_mark(directory: Path, mark: Mark) -> None:
    """Replace the mark of a data directory; both slots have it when this returns."""
    temporary = directory / f"{MARK}.new"
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        content = bytearray(_SIZE)
        first = mark.sequence + mark.sequence % 2
        for place, start in enumerate(_SLOTS):
            slot = _pack(mark._replace(sequence=first + place))
            content[start : start + len(slot)] = slot
        os.pwrite(descriptor, content, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.rename(directory / MARK)
    sync_directory(directory)


def sync_directory(directory: Path) -> None:
    """Put the names in a directory on disk; a synced file without its name is lost all the same."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class MarkFile:
    """The mark of an open store; one thread uses it."""

    def __init__(self, directory: Path) -> None:
        self.mark = read_mark(directory) or _missing(directory)
        self._descriptor = os.open(directory / MARK, os.O_RDWR | os.O_CLOEXEC)
        self._map = mmap.mmap(self._descriptor, _SIZE)
        self.is_synced = False
        # A slot that is damaged is replaced.
        for _ in _SLOTS:
            self._put(self.mark._replace(sequence=self.mark.sequence + 1, boot=boot_id()))

    def confirm(self, revision: int) -> None:
        """Record that a revision is on disk. Not durable before `sync`, but survives the end of the process."""
        # Not `_replace`, which takes longer than all the rest.
        store, sequence, reserved, _, is_established, boot = self.mark
        self._put(Mark(store, sequence + 1, reserved, revision, is_established, boot))

    def reserve(self, revision: int) -> None:
        """Reserve the revisions up to this one; durable when this returns."""
        reserved = max(revision, self.mark.reserved)
        self._put(self.mark._replace(sequence=self.mark.sequence + 1, reserved=reserved))
        self.sync()

    def _put(self, mark: Mark) -> None:
        self.mark = mark
        slot = _pack(mark)
        start = _SLOTS[mark.sequence % 2]
        self._map[start : start + len(slot)] = slot
        self.is_synced = False

    def sync(self) -> None:
        """Make the mark durable."""
        # The same bytes again, as a write: what was stored through the mapping alone would not show in a trace of the
        # system calls, from which the tests simulate power cuts.
        os.pwrite(self._descriptor, _pack(self.mark), _SLOTS[self.mark.sequence % 2])
        _datasync(self._descriptor)
        self.is_synced = True

    def close(self) -> None:
        """Release the file."""
        self._map.close()
        os.close(self._descriptor)


def _missing(directory: Path) -> Mark:
    raise MarkDamaged(f"{directory / MARK} is missing")
