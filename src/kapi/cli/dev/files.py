"""The files of a project, and the wait for a change of one of them.

The tree is read again and again: the standard library has no notification of changes, and one that works on every
platform, on network disks and in containers reads the tree, too. Reading takes at most a tenth of the time, however
large the tree is.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL: Final = 0.25
"""The time between two looks at the files, in seconds. A change counts when two looks after it found the same."""

_SUFFIXES: Final = (".py", ".yaml", ".yml", ".json", ".toml")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "build", "dist"})

Stamp = tuple[int, int, int]
"""The time of the last change, the size, and the inode, which is another one when an editor replaces a file."""


class ProjectFiles:
    """The sources and manifests below a folder; hidden folders and virtual environments do not count."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known = self._scan()

    async def changed(self, *, interval: float = INTERVAL) -> list[Path]:
        """Wait until files were changed, added or deleted since the last call, and are at rest; returns them, sorted.

        An editor that saves several files, or a checkout, is one change.
        """
        loop = asyncio.get_running_loop()
        before = self._known
        while True:
            started = loop.time()
            now = await asyncio.to_thread(self._scan)
            if now == before != self._known:
                changes = {path for path, _ in now.items() ^ self._known.items()}
                self._known = now
                return sorted(Path(path) for path in changes)
            before = now
            await asyncio.sleep(max(interval, 9 * (loop.time() - started)))

    def _scan(self) -> dict[str, Stamp]:
        return dict(_files(str(self._root)))


def _files(folder: str) -> Iterator[tuple[str, Stamp]]:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except OSError:
        return  # deleted meanwhile, or not ours to read
    if any(entry.name == "pyvenv.cfg" for entry in found):
        return
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _SKIPPED:
                yield from _files(entry.path)
        elif entry.name.endswith(_SUFFIXES) and (stamp := _stamp(entry)):
            yield entry.path, stamp


def _stamp(entry: os.DirEntry[str]) -> Stamp | None:
    try:
        status = entry.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
