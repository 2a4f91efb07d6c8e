"""The files of an open store: are they still the ones in the data directory?

A process goes on writing to a file that was deleted, or replaced by another one, and every fsync succeeds; what it
acknowledges then is lost when it ends. So the inodes at the paths are compared with those of the open files: by the
writer once a second before it answers and before each checkpoint, and by the scrub while there are no writes. A
difference is a failure of the store, like a failed fsync: nothing is acknowledged any more and the process exits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.storage.sqlite.file import DATABASE, LOCK
from kapi.storage.sqlite.mark import MARK
from kapi.storage.sqlite.wal import LOG

if TYPE_CHECKING:
    from pathlib import Path


class FilesReplaced(Exception):
    """The files in the data directory are not those that the store has open; the text says which."""


class OpenFiles:
    """The files of a store, with the inodes they had when it was opened; any thread may use it."""

    def __init__(self, directory: Path) -> None:
        # Not opened: closing a file of SQLite's would release the locks that SQLite has on it.
        self._inodes = {path: _inode(path) for path in (directory / name for name in (DATABASE, LOG, MARK, LOCK))}

    def verify(self) -> None:
        """Raise `FilesReplaced` if a file was deleted or replaced."""
        for path, inode in self._inodes.items():
            try:
                found = _inode(path)
            except FileNotFoundError:
                raise FilesReplaced(f"{path} was deleted while the store was open; nothing can be stored") from None
            if found != inode:
                raise FilesReplaced(f"{path} was replaced by another file while the store was open")


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
