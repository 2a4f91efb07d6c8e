"""Recognises tracebacks that were logged before, so that a failure that repeats does not fill the log.

Two errors have the same traceback when they are of the same class and were raised at the same lines; their texts may
differ, and are logged each time. No I/O.
"""

from __future__ import annotations

from typing import Final

KNOWN: Final = 256
"""Tracebacks that are remembered; the one that was seen longest ago is forgotten, and then logged whole again."""


class Tracebacks:
    """Counts how often each traceback came."""

    def __init__(self) -> None:
        self._counts: dict[object, int] = {}

    def count(self, error: BaseException) -> int:
        """Return how often the traceback of an error came before; 0 for the first time."""
        key = _key(error)
        before = self._counts.pop(key, 0)
        self._counts[key] = before + 1
        if len(self._counts) > KNOWN:
            del self._counts[next(iter(self._counts))]
        return before


def _key(error: BaseException | None) -> tuple[object, ...]:
    """The class of an error and the lines it came through, and those of the errors that caused it."""
    key: list[object] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        key.append(type(error))
        frame = error.__traceback__
        while frame is not None:
            key.append((frame.tb_frame.f_code, frame.tb_lineno))
            frame = frame.tb_next
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return tuple(key)
