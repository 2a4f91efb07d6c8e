"""Correction of a write-ahead log in which single bytes are damaged.

The frames of a log have checksums that allow to find the one byte of a frame that is wrong (`wal.corrections`). There
may be several ways to do that, so each is tried on the file and the whole store is verified; the first that leaves no
damage stays. The log as it was found is kept under another name meanwhile: when the process ends in between, the next
start puts it back (`restore_log`) and begins again.
"""

from __future__ import annotations

import os
import shutil
from itertools import islice
from typing import TYPE_CHECKING

from kapi.storage.sqlite.mark import sync_directory
from kapi.storage.sqlite.wal import HEADER_BYTES, LOG, MAX_FIXES, Log, fixes, header_fixes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FOUND = f"{LOG}.found"


def restore_log(directory: Path) -> None:
    """Put back the log of a correction that was interrupted."""
    found = directory / _FOUND
    if found.exists():
        found.rename(directory / LOG)
        sync_directory(directory)


def correct_log(directory: Path, number: int, is_whole: Callable[[], bool]) -> bool:
    """Correct a log from a frame on (0: its header) so that `is_whole` returns True; otherwise leave it as it was."""
    path, found = directory / LOG, directory / _FOUND
    temporary = directory / f"{_FOUND}.new"
    shutil.copy2(path, temporary)
    _sync(temporary)
    temporary.rename(found)
    sync_directory(directory)
    log = Log.read(path)
    for fix in islice(fixes(log, number) if number else header_fixes(log), MAX_FIXES):
        _write(path, log, fix)
        if is_whole():
            found.unlink()
            sync_directory(directory)
            return True
    restore_log(directory)
    return False


def _write(path: Path, log: Log, fix: dict[int, bytes]) -> None:
    """Write a log with other bytes for some frames; number 0 is the header."""
    content = bytearray(log.content)
    for number, data in fix.items():
        offset = HEADER_BYTES + (number - 1) * len(data) if number else 0
        content[offset : offset + len(data)] = data
    path.write_bytes(content)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
