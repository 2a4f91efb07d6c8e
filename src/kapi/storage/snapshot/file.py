"""The format of snapshot files, which `docs/reference/snapshot-format.md` describes for other programs.

    "KapiSnapshot 1", a line feed
    u32 length, u32 checksum, the header as JSON
    u32 length, u32 checksum, record            for each key
    u32 0, u64 number of records, SHA-256 of everything before it

Numbers are big-endian. A record is `u64 revision, u32 length of the key, u32 place of the revision, key, value`: the
value is stored without its revision, whose digits belong at the place. The checksum is the CRC-32 of what follows it
and names the damaged record; the SHA-256 and the number of records at the end show that the file is whole.

A file is complete when it has its name: it is written as FILE.partial, synced, and then linked. Blocks.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import struct
from typing import IO, TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from kapi.base.version import VERSION
from kapi.storage.interface import Draft, StorageDamaged, StorageUnavailable
from kapi.storage.snapshot.record import Header, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FORMAT: Final = 1
_NAME: Final = b"KapiSnapshot "
MAGIC: Final = _NAME + b"%d\n" % FORMAT
_FRAME: Final = struct.Struct(">II")
_RECORD: Final = struct.Struct(">QII")
_COUNT: Final = struct.Struct(">IQ")
_LONGEST: Final = 64 << 20
"""No frame is longer: a length beyond it is damage, and is not allocated."""


class Summary(NamedTuple):
    """What is in a file that is whole."""

    header: Header
    records: int
    created: str


class _Hashed:
    """Writes to, or reads from, a file and hashes what passes."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)

    def read(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise StorageDamaged(f"{self._path} is truncated: it ends at offset {self._file.tell()}, inside its data")
        self._digest.update(data)
        return data

    def frame(self) -> bytes:
        """The content of the next frame; nothing at the end."""
        offset = self._file.tell()
        length = int.from_bytes(self.read(4))
        if not length:
            return b""
        expected = int.from_bytes(self.read(4))
        if length > _LONGEST:
            raise StorageDamaged(f"{self._path} is damaged: the length at offset {offset} cannot be")
        content = self.read(length)
        if crc32(content) != expected:
            raise StorageDamaged(f"{self._path} is damaged: the record at offset {offset} does not match its checksum")
        return content

    def finish(self) -> bytes:
        """The SHA-256 of everything that was written or read."""
        return self._digest.digest()


def write_snapshot(path: Path, header: Header, records: Iterable[Record]) -> int:
    """Write a file that must not exist; returns the number of records. Readable by its owner only: it has Secrets."""
    if path.exists():
        raise FileExistsError(f"{path} exists already; a snapshot is written to a new file")
    try:
        return _write_new(path, header, records)
    except OSError as error:
        # Told here: the store that is being read would take it for an error of its own files.
        raise StorageUnavailable(f"{path}: {error.strerror}; the snapshot was not written") from None


def _write_new(path: Path, header: Header, records: Iterable[Record]) -> int:
    partial = path.with_name(f"{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
            count = _write(_Hashed(file, partial), header, records)
            file.flush()
            os.fsync(file.fileno())
        # Not a rename, which would replace a file that has been made meanwhile.
        os.link(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return count


def _write(file: _Hashed, header: Header, records: Iterable[Record]) -> int:
    count = 0
    created = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    file.write(MAGIC)
    _write_frame(file, json.dumps({**header._asdict(), "created": created, "version": VERSION}).encode())
    for record in records:
        count += 1
        key, (before, after) = record.key.encode(), record.draft
        _write_frame(file, b"%b%b%b%b" % (_RECORD.pack(record.revision, len(key), len(before)), key, before, after))
    file.write(_COUNT.pack(0, count))
    file.write(file.finish())
    return count


def _write_frame(file: _Hashed, content: bytes) -> None:
    file.write(_FRAME.pack(len(content), crc32(content)))
    file.write(content)


def verify_snapshot(path: Path) -> Summary:
    """Read a whole file and compare every checksum; `StorageDamaged` says what is wrong."""
    with path.open("rb", buffering=1 << 20) as raw:
        file = _Hashed(raw, path)
        header, created = _read_header(file, path)
        count = 0
        while content := file.frame():
            count += 1
            if _record(content, path).revision > header.revision:
                raise StorageDamaged(f"{path} is damaged: a record is later than the snapshot")
        stated = int.from_bytes(file.read(8))
        digest = file.finish()
        if file.read(len(digest)) != digest or stated != count:
            raise StorageDamaged(f"{path} is damaged: it does not match the SHA-256 at its end")
        if raw.read(1):
            raise StorageDamaged(f"{path} is damaged: there is data after its end")
    return Summary(header, count, created)


def read_snapshot(path: Path) -> Iterator[Record]:
    """The records of a file that has been verified."""
    with path.open("rb", buffering=1 << 20) as raw:
        file = _Hashed(raw, path)
        _read_header(file, path)
        while content := file.frame():
            yield _record(content, path)


def is_snapshot(path: Path) -> bool:
    """Return True if a file begins as snapshots do, of whatever format."""
    try:
        with path.open("rb") as file:
            return file.read(len(_NAME)) == _NAME
    except OSError:
        return False


def _read_header(file: _Hashed, path: Path) -> tuple[Header, str]:
    if not is_snapshot(path) or file.read(len(_NAME)) != _NAME:
        raise StorageDamaged(f"{path} is not a snapshot of Kapi")
    if (line := file.read(len(MAGIC) - len(_NAME))) != MAGIC[len(_NAME) :]:
        text = line.decode(errors="replace").strip()
        raise StorageDamaged(f"{path} has format {text}; this Kapi reads format {FORMAT}: use the Kapi that wrote it")
    try:
        fields = json.loads(file.frame())
        return Header(int(fields["revision"]), str(fields["store"])), str(fields["created"])
    except (ValueError, KeyError, TypeError):
        raise StorageDamaged(f"{path} is damaged: its header cannot be read") from None


def _record(content: bytes, path: Path) -> Record:
    try:
        revision, key_length, place = _RECORD.unpack_from(content)
        start = _RECORD.size + key_length
        key = content[_RECORD.size : start].decode()
    except (struct.error, UnicodeDecodeError):
        raise StorageDamaged(f"{path} is damaged: a record cannot be read") from None
    if start + place > len(content):
        raise StorageDamaged(f"{path} is damaged: the record of {key} is shorter than it says")
    return Record(key, revision, Draft(content[start : start + place], content[start + place :]))
