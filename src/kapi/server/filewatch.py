"""Files that are re-read when they change: certificates, keys, tokens, configuration.

A changed file is noticed by its inode, size and modification time, a second later at most; that also holds for
mounted Secrets, whose files are links that are replaced. What else was considered: notifications of the kernel, which
do not reach network file systems and need another dependency. A file that cannot be used is reported in the log and in
a metric, and what was read before stays in use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from prometheus_client import Counter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry

INTERVAL: Final = 1.0

_State = tuple[tuple[int, int, int] | None, ...]

_log = structlog.get_logger("kapi.controlplane")


class _Watched(NamedTuple):
    name: str
    paths: Sequence[Path]
    reload: Callable[[], None]


class FileWatch:
    """Calls a function when one of its files has changed. `add` everything before `run`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._watched: dict[_Watched, _State] = {}
        self._reloads = Counter(
            "kapi_file_reloads", "Files that were read again after a change.", ("file", "status"), registry=registry
        )

    def add(self, name: str, paths: Sequence[Path], reload: Callable[[], None]) -> None:
        """Call `reload` when one of the files has changed; it raises `OSError` or `ValueError` for a bad file."""
        watched = _Watched(name, tuple(paths), reload)
        self._watched[watched] = _state(watched.paths)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            # In a thread: a file system that hangs must not stop the server.
            for watched in await asyncio.to_thread(self._changed):
                self._reload(watched)

    def check(self) -> None:
        """Look for changes once."""
        for watched in self._changed():
            self._reload(watched)

    def _changed(self) -> list[_Watched]:
        changed = []
        for watched, before in self._watched.items():
            now = _state(watched.paths)
            if now != before:
                self._watched[watched] = now
                changed.append(watched)
        return changed

    def _reload(self, watched: _Watched) -> None:
        files = ", ".join(map(str, watched.paths))
        try:
            watched.reload()
        except (OSError, ValueError) as error:
            self._reloads.labels(watched.name, "failure").inc()
            _log.error("a changed file cannot be used, the previous content stays in use", file=files, error=str(error))
        else:
            self._reloads.labels(watched.name, "success").inc()
            _log.info("a changed file was read again", file=files)


def _state(paths: Sequence[Path]) -> _State:
    return tuple(map(_signature, paths))


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
