"""The guard of a paged list: it notices pages that do not lead to the end of the list.

A server with a fault, or a proxy that drops the query, may answer every request with the same page, or with the same
continue token, or with tokens without end. Each of these would make a client send requests for ever. No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.client.errors import EndlessList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.client.config import ClientConfig

TOKEN_CHARACTERS: Final = 16 * 1024
"""The longest continue token that is sent back. It is part of a URL, and servers refuse longer ones."""

EMPTY_PAGES: Final = 100
"""Pages without an object, one after the other, after which a list counts as endless.

kube-apiserver sends none, but a server that filters after it has cut the page may send a few.
"""


class PageGuard:
    """Checks the pages of one list. `max_pages` and `max_bytes` bound them; zero is no bound."""

    def __init__(self, max_pages: int, max_bytes: int = 0) -> None:
        self._max_pages = max_pages
        self._max_bytes = max_bytes
        self._pages = 0
        self._empty = 0
        self._bytes = 0
        # Hashes, because a server chooses how long its tokens are.
        self._tokens: set[int] = set()
        self._ends: tuple[object, object] | None = None

    @classmethod
    def of(cls, config: ClientConfig, *, keeps_pages: bool) -> PageGuard:
        """The guard with the bounds of a config; bytes count only for a caller that keeps all pages in memory."""
        return cls(config.max_pages, config.max_list_bytes if keeps_pages else 0)

    def take(self, items: Sequence[object], token: str, size: int = 0) -> None:
        """Check one page: its objects, the token of the next one, and its bytes.

        Raises:
            EndlessList: this page shows no progress, or there are too many.
        """
        self._pages += 1
        self.count(size)
        if not token:
            return
        if len(token) > TOKEN_CHARACTERS:
            raise EndlessList(f"the continue token has {len(token)} characters; at most {TOKEN_CHARACTERS} are sent")
        if hash(token) in self._tokens:
            raise EndlessList(f"the continue token of page {self._pages} is that of an earlier page")
        self._tokens.add(hash(token))
        if self._pages >= self._max_pages > 0:
            raise EndlessList(f"the list has more than {self._max_pages} pages (max_pages)")
        self._empty = 0 if items else self._empty + 1
        if self._empty >= EMPTY_PAGES:
            raise EndlessList(f"{EMPTY_PAGES} pages in a row have no objects")
        # The first and the last object stand for the page: a list is sorted, so that no object comes twice.
        ends = (items[0], items[-1]) if items else None
        if ends is not None and ends == self._ends:
            raise EndlessList(f"page {self._pages} has the objects of the page before it")
        self._ends = ends

    def count(self, size: int) -> None:
        """Add to the bytes of the list.

        Raises:
            EndlessList: they are more than `max_bytes`.
        """
        self._bytes += size
        if self._bytes > self._max_bytes > 0:
            raise EndlessList(f"the list is larger than {self._max_bytes} bytes (max_list_bytes)")
