"""The bodies of lists, made while they are sent.

A short list is one piece of bytes. A long one is never in memory as a whole: a list of stored bytes refers to the items
of the watch cache and copies one piece at a time; everything else (Table, metadata, conversion, indentation, YAML) is
made item by item, in turns of the event loop, as the client reads. Either way the items are those of one moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.cache.snapshot import Snapshot
from kapi.codec import json, yaml
from kapi.server.transport.message import Body
from kapi.server.turns import PIECE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from kapi.cache.watchcache import WatchCache
    from kapi.registry.store import ReadyItem
    from kapi.server.handlers.views import ListFrame, ListMeta, View
    from kapi.server.turns import Turns

QUICK: Final = 128 * 1024
"""Stored bytes of a list that is made without waiting for a turn: it takes a millisecond at most."""
SHORT: Final = 256 * 1024
"""A body that has to be made is made at once up to this size, and sent with its length."""
SHORT_STORED: Final = 1024 * 1024
"""A list of stored bytes up to this size is joined, because that is faster than to send it in pieces."""
_BATCH: Final = 16 * 1024
"""Stored bytes of the items of a list that are processed in one step."""
_NODE_BYTES: Final = 100
"""Memory of a decoded value, beyond its bytes."""
_DEFLATE_BYTES: Final = 300 * 1024
"""Memory of a compressor."""
_GZIP: Final = 16 + zlib.MAX_WBITS

_decode = msgspec.json.Decoder().decode


class StoredList(Body):
    """A list of bytes that the cache holds anyway. Its length is known, and only a piece of it is copied at a time."""

    def __init__(self, frame: ListFrame, snapshot: Snapshot[ReadyItem], bodies: list[bytes], size: int) -> None:
        self._frame = frame
        self._snapshot = snapshot
        self._bodies = bodies
        self._count = max(PIECE * len(bodies) // size, 1)
        self.length = len(frame.before) + size + len(bodies) * (len(frame.start) + 1) - 1 + len(frame.after)

    @property
    def held(self) -> int:
        """Items that have been replaced since."""
        return self._snapshot.held

    async def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield groups of items of about `PIECE` bytes, and larger ones in pieces of themselves."""
        with self._snapshot as snapshot:
            snapshot.grown = self.grown
            opening = self._frame.before + self._frame.start
            separator = b"," + self._frame.start
            first = 0
            while first < len(self._bodies):
                group = self._group(first)
                first += len(group)
                closing = self._frame.after if first == len(self._bodies) else b""
                if len(group[0]) > PIECE:
                    for piece in _cut(opening, group[0], closing):
                        yield piece
                else:
                    yield b"".join((opening, separator.join(group), closing))
                opening = separator

    def _group(self, first: int) -> list[bytes]:
        """The bodies of the next piece: as many as it has on average, fewer if they are larger."""
        group = self._bodies[first : first + self._count]
        while len(group) > 1 and sum(map(len, group)) > 2 * PIECE:
            group = group[: len(group) // 2]
        return group


def _cut(opening: bytes, body: bytes, closing: bytes) -> Iterator[bytes | memoryview]:
    """Yield a large body in pieces, the first with an opening and the last with a closing."""
    view = memoryview(body)
    last = (len(view) - 1) // PIECE * PIECE
    yield opening + view[:PIECE]
    for at in range(PIECE, last, PIECE):
        yield view[at : at + PIECE]
    yield bytes(view[last:]) + closing


class ComputedBody(Body):
    """A body that is made in steps."""

    def __init__(self, turns: Turns, steps: Steps) -> None:
        self._steps = steps
        self._pieces = turns.pieces(steps)
        self._first: list[bytes] = []

    @property
    def held(self) -> int:
        """What the steps keep in memory, and the first pieces."""
        return self._steps.held + sum(map(len, self._first))

    async def whole(self) -> bytes | None:
        """The body, if it is a short one; else None, and the body is to be sent in pieces."""
        size = 0
        async for piece in self._pieces:
            self._first.append(piece)
            size += len(piece)
            if size > SHORT:
                return None
        return b"".join(self._first)

    async def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield what `whole` has made, and the rest."""
        async with contextlib.aclosing(self._pieces):
            with self._steps.snapshot as snapshot:
                snapshot.grown = self.grown
                while self._first:
                    yield self._first.pop(0)
                async for piece in self._pieces:
                    yield piece


class CompressedBody(Body):
    """A body in gzip, compressed in a thread piece by piece."""

    def __init__(self, body: Body) -> None:
        self._body = body

    @property
    def held(self) -> int:
        """What the body keeps, and the compressor."""
        return self._body.held + _DEFLATE_BYTES

    async def pieces(self) -> AsyncGenerator[bytes | memoryview, None]:
        """Yield the compressed body."""
        self._body.grown = self.grown
        compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        async with contextlib.aclosing(self._body.pieces()) as pieces:
            async for piece in pieces:
                yield await asyncio.to_thread(compressor.compress, piece)
        yield compressor.flush()


class Steps:
    """The steps in which a body is made: an iterator of bytes, some of them empty.

    They do not refer to this object: a reference cycle would keep a response that is not sent in memory.
    """

    def __init__(self, steps: Iterator[bytes], at_hand: _AtHand, snapshot: Snapshot[ReadyItem]) -> None:
        self._steps = steps
        self._at_hand = at_hand
        self.snapshot = snapshot

    @property
    def held(self) -> int:
        """Bytes in memory for these steps alone: the object at hand, and items that have been replaced since."""
        return self._at_hand.cost + self.snapshot.held

    def __iter__(self) -> Iterator[bytes]:
        return self._steps


class _AtHand:
    """The object that is being written."""

    def __init__(self, cost: int = 0) -> None:
        self.cost = cost
        """Bytes that are in memory because of it."""


def object_steps(encoded: bytes, form: Form) -> Steps:
    """The steps of one object."""
    return Steps(form.one(encoded), _AtHand(form.cost([encoded])), Snapshot(None, (), 0))


def list_steps(view: View, cache: WatchCache | None, items: Sequence[ReadyItem], meta: ListMeta, form: Form) -> Steps:
    """The steps of a list."""
    frame, at_hand, snapshot = view.list_frame(meta), _AtHand(), Snapshot(cache, items, meta.revision)

    def batches() -> Iterator[list[bytes]]:
        shown, entry = view.arrange(items), view.entry
        ends = list(accumulate([len(item.body) for item in shown]))
        first = 0
        while first < len(shown):
            end = max(bisect_right(ends, (ends[first - 1] if first else 0) + _BATCH, first), first + 1)
            batch = [entry(item) for item in shown[first:end]]
            at_hand.cost = form.cost(batch)
            yield batch
            first = end

    return Steps(form.many(frame, batches()), at_hand, snapshot)


class Form:
    """A way of writing JSON that is already encoded: as it is."""

    def one(self, encoded: bytes) -> Iterator[bytes]:
        """An object."""
        yield encoded
        yield b"\n"

    def many(self, frame: ListFrame, batches: Iterable[list[bytes]]) -> Iterator[bytes]:
        """A list, of entries in batches."""
        separator = b"," + frame.start
        opening = frame.before + frame.start
        for batch in batches:
            yield opening
            yield separator.join(batch)
            opening = separator
        yield frame.after if opening is separator else frame.before + frame.after

    def cost(self, encoded: list[bytes]) -> int:
        """Bytes in memory while objects are written."""
        return sum(map(len, encoded))


class Pretty(Form):
    """JSON with indentation."""

    def one(self, encoded: bytes) -> Iterator[bytes]:
        """An object."""
        return json.pretty_pieces(encoded)

    def many(self, frame: ListFrame, batches: Iterable[list[bytes]]) -> Iterator[bytes]:
        """A list, of entries in batches."""
        return json.pretty_list_pieces(frame.before + frame.after, _elements(frame.start, batches))

    def cost(self, encoded: list[bytes]) -> int:
        """Bytes in memory while objects are written: mostly their indented text."""
        return 2 * super().cost(encoded)


class Yaml(Form):
    """YAML."""

    def one(self, encoded: bytes) -> Iterator[bytes]:
        """An object."""
        return yaml.encode_pieces(_decode(encoded))

    def many(self, frame: ListFrame, batches: Iterable[list[bytes]]) -> Iterator[bytes]:
        """A list, of entries in batches."""
        outer: dict[str, Any] = _decode(frame.before + frame.after)
        outer[next(reversed(outer))] = map(_decode, _elements(frame.start, batches))
        return yaml.encode_pieces(outer)

    def cost(self, encoded: list[bytes]) -> int:
        """Bytes in memory while objects are written: they are decoded."""
        nodes = sum(one.count(b",") + one.count(b"[") + one.count(b"{") for one in encoded)
        return 2 * super().cost(encoded) + _NODE_BYTES * nodes


def _elements(start: bytes, batches: Iterable[list[bytes]]) -> Iterator[bytes]:
    for batch in batches:
        for entry in batch:
            yield start + entry


def form_of(*, is_yaml: bool, is_pretty: bool) -> Form:
    """The way of writing that a client asked for."""
    if is_yaml:
        return _YAML
    return _PRETTY if is_pretty else _COMPACT


_COMPACT: Final = Form()
_PRETTY: Final = Pretty()
_YAML: Final = Yaml()


def joined(frame: ListFrame, bodies: Sequence[bytes]) -> list[bytes]:
    """A short list, in parts."""
    if not bodies:
        return [frame.before, frame.after]
    return [frame.before, frame.start, (b"," + frame.start).join(bodies), frame.after]
