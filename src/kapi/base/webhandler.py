"""The request and the response of a web server's handler, and the server's limits.

Apart from `kapi.base.webserver`, so that a module that only declares handlers does not load aiohttp.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple


class Request(NamedTuple):
    """A request. Names of headers are not case-sensitive. Of a parameter that is repeated, `query` has the first."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str] = MappingProxyType({})


class Response(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; times are in seconds."""

    body_bytes: int = 10 * 1024 * 1024
    connections: int = 128
    """Connections beyond these are closed when they are established."""
    idle: float = 90.0
    """For the head of a request to arrive whole, from the start of the connection or from the last response."""
    read: float = 30.0
    """For the body of a request to arrive."""
    answer: float = 30.0
    """For a request to be answered, and for the answer to be sent."""
    linger: float = 2.0
    """For the rest of a refused body to be read and dropped; a client that is still sending might miss the answer."""
    handshake: float = 10.0
