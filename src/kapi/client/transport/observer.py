"""Observers of the requests of a client: metrics and traces.

An observer is told that a request is sent and how it ended, once for each try. It sees the method, the server and the
path; never a body, never a query, never a header, and so nothing that is secret. It may add headers of its own. No I/O.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Ended: TypeAlias = "Callable[[int, BaseException | None], None]"
"""Told once: the HTTP status, or 0 with what was raised instead of an answer. Of a stream, when it has begun."""


class Outgoing(NamedTuple):
    """A request, as observers see it."""

    method: str
    host: str
    """The server, with its port where its address has one."""
    path: str
    is_watch: bool = False


class Observer(Protocol):
    """An observer of requests. Its methods must not fail and must not take long."""

    def begin(self, outgoing: Outgoing, headers: list[tuple[str, str]], /) -> Ended:
        """A request is about to be sent; what is put into `headers` is sent along."""
        ...


class Exchange:
    """One observed try; its sender sets the status of the response."""

    status = 0


@contextlib.contextmanager
def following(
    observers: Iterable[Observer], method: str, url: str, headers: list[tuple[str, str]]
) -> Iterator[Exchange]:
    """Tell observers about the request sent inside the context; they may add to `headers`."""
    parts = urlsplit(url)
    # Credentials in an address come before the @.
    outgoing = Outgoing(method, parts.netloc.rpartition("@")[2], parts.path, "watch=true" in parts.query.split("&"))
    added: list[tuple[str, str]] = []
    ends = [observer.begin(outgoing, added) for observer in observers]
    headers += added
    exchange, failure = Exchange(), None
    try:
        yield exchange
    except BaseException as error:
        failure = error
        raise
    finally:
        for end in reversed(ends):
            end(exchange.status, failure)
