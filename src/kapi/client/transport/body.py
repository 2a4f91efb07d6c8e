"""The body of a response: read in pieces, decompressed in pieces, and never beyond a bound.

aiohttp could decompress by itself, but it has no bound on what comes out: a few kilobytes of gzip become gigabytes. So
responses arrive here as they were sent, and the only encoding that was asked for, gzip, is undone in pieces of at most
`PIECE_BYTES`. Bounds count decompressed bytes and are the same whatever the ratio of compression.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Final

from kapi.client.errors import AnswerError, AnswerTooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

ACCEPTED_ENCODING: Final = "gzip"
PIECE_BYTES: Final = 256 * 1024
"""The most that is decompressed at once, before the event loop gets its turn."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_IDENTITY: Final = frozenset({"", "identity"})
_GZIP_NAMES: Final = frozenset({"gzip", "x-gzip"})


class Body:
    """The decoded body of one response from `base`, whose raw bytes `receive` returns; empty bytes are its end."""

    def __init__(self, receive: Callable[[], Awaitable[bytes]], encoding: str, base: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in _IDENTITY | _GZIP_NAMES:
            raise AnswerError(f"{base} sent the content encoding {encoding[:64]!r}, which was not asked for")
        self.is_compressed = encoding in _GZIP_NAMES
        self._receive = receive
        self._base = base

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces, none of them empty."""
        gzip = _Gzip(self._base) if self.is_compressed else None
        while received := await self._receive():
            if gzip is None:
                yield received
                continue
            for piece in gzip.feed(received):
                yield piece
                if len(piece) == PIECE_BYTES:
                    await asyncio.sleep(0)
        if gzip is not None:
            gzip.finish()

    async def read(self, max_bytes: int) -> bytes:
        """The whole body.

        Raises:
            AnswerTooLarge: it is longer than `max_bytes`, where that is not zero.
        """
        pieces: list[bytes] = []
        size = 0
        async for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes > 0:
                raise too_large(self._base, max_bytes)
        return b"".join(pieces)

    async def beginning(self, max_bytes: int) -> bytes:
        """The first `max_bytes` of the body, for which nothing more than that is read."""
        beginning = bytearray()
        async for piece in self.pieces():
            beginning += piece
            if len(beginning) > max_bytes:
                break
        return bytes(beginning[:max_bytes])


def too_large(base: str, max_bytes: int) -> AnswerTooLarge:
    """Return the error of an answer that is longer than the bound on it."""
    return AnswerTooLarge(
        f"the answer of {base} is larger than {max_bytes} bytes (max_response_bytes); "
        "ask for pages of fewer objects (limit), or raise the bound"
    )


class _Gzip:
    """Decompresses gzip, member by member."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._member = zlib.decompressobj(_GZIP)
        self._is_fed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed bytes of `data`, in pieces of at most `PIECE_BYTES`."""
        while data:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            self._is_fed = True
            try:
                piece = self._member.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise AnswerError(f"{self._base} sent gzip that cannot be read: {error}") from None
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> None:
        """Check that the compressed data is complete."""
        if self._is_fed and not self._member.eof:
            raise AnswerError(f"{self._base} ended the answer in the middle of compressed data")
