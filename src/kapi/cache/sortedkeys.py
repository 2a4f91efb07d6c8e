"""Keys in order, in chunks: adding or removing one moves a bounded number of others, however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK: Final = 1024
"""A chunk with twice as many keys is split."""


class SortedKeys:
    """A set of keys that is read in order. A key is added once, and removed only if it is there."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        """Begin with these keys, which are in order."""
        self._chunks = [list(keys[at : at + CHUNK]) for at in range(0, len(keys), CHUNK)]
        self._firsts = [chunk[0] for chunk in self._chunks]
        """The first key of each chunk. No chunk is empty."""

    def add(self, key: str) -> None:
        """Add a key that is not there."""
        at = bisect_right(self._firsts, key) - 1
        if at < 0:
            if not self._chunks:
                self._chunks.append([key])
                self._firsts.append(key)
                return
            at = 0
            self._firsts[0] = key
        chunk = self._chunks[at]
        insort(chunk, key)
        if len(chunk) >= 2 * CHUNK:
            rest = chunk[CHUNK:]
            del chunk[CHUNK:]
            self._chunks.insert(at + 1, rest)
            self._firsts.insert(at + 1, rest[0])

    def remove(self, key: str) -> None:
        """Remove a key that is there."""
        at = bisect_right(self._firsts, key) - 1
        chunk = self._chunks[at]
        index = bisect_left(chunk, key)
        del chunk[index]
        if not chunk:
            del self._chunks[at], self._firsts[at]
        elif not index:
            self._firsts[at] = chunk[0]

    def between(self, start: str, end: str | None, limit: int | None = None) -> tuple[list[str], int]:
        """At most `limit` keys from `start` on and before `end`, and how many of those follow them."""
        first, last = self._locate(start), None if end is None else self._locate(end)
        parts = self._parts(first, last)
        if limit is None:
            return [key for part in parts for key in part], 0
        found: list[str] = []
        rest = 0
        for part in parts:
            free = limit - len(found)
            found += part[:free] if free < len(part) else part
            rest += max(len(part) - free, 0)
        return found, rest

    def _locate(self, key: str) -> tuple[int, int]:
        """The chunk and the index in it of the first key that is not before this one."""
        at = max(bisect_right(self._firsts, key) - 1, 0)
        return (at, bisect_left(self._chunks[at], key)) if self._chunks else (0, 0)

    def _parts(self, first: tuple[int, int], last: tuple[int, int] | None) -> list[list[str]]:
        at, index = first
        if last is None:
            return [self._chunks[at][index:], *self._chunks[at + 1 :]] if self._chunks else []
        until, end = last
        if at == until:
            return [self._chunks[at][index:end]] if self._chunks else []
        if at > until:
            return []
        return [self._chunks[at][index:], *self._chunks[at + 1 : until], self._chunks[until][:end]]
