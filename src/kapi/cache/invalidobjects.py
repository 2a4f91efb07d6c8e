"""Stored objects that a part of this server could not process.

Everything that follows the commit log runs within a commit: an exception there would stop the store, and the same
object would stop the next start. So the cache and its listeners are called through here. An object that makes one of
them raise is logged, counted (`/metrics`), told by key in `/readyz`, and skipped; the next write to its key, or its
deletion, clears the record. Neither its value nor the text of the exception, which may quote the value, is logged.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_KEYS = 1000
"""Keys that are remembered; any further ones are logged and counted."""
SHOWN_KEYS = 10

_log = structlog.get_logger("kapi.cache")


class InvalidObjects:
    """The keys that are skipped now, with the part of the server that could not process them."""

    def __init__(self) -> None:
        self.total = 0
        """How often an object could not be processed since the start."""
        self.parts: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.parts)

    def record(self, key: str, part: str, error: Exception) -> None:
        """Log and count an object that `part` could not process."""
        self.total += 1
        if key in self.parts or len(self.parts) < MAX_KEYS:
            self.parts[key] = part
        _log.error(
            "a stored object could not be processed and is skipped",
            key=key,
            part=part,
            error=type(error).__name__,
            at=_place(error),
        )

    def clear(self, key: str) -> None:
        """Forget a key that has been written again or deleted."""
        self.parts.pop(key, None)

    @contextlib.contextmanager
    def guard(self, key: str, part: str) -> Iterator[None]:
        """Record any exception of the block instead of raising it."""
        try:
            yield
        except Exception as error:
            self.record(key, part, error)

    def check(self) -> str | None:
        """The failure message of the health check; None when every stored object could be processed."""
        if not self.parts:
            return None
        shown = [f"{key} ({part})" for key, part in list(self.parts.items())[:SHOWN_KEYS]]
        more = len(self.parts) - len(shown)
        return f"stored objects that cannot be processed: {', '.join(shown)}" + (f" and {more} more" if more else "")


def _place(error: Exception) -> str:
    """The file and line where an exception was raised."""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        place = f"{Path(frame.f_code.co_filename).name}:{line}"
    return place
