"""Requests to one API server: a path, a query and a body in, a decoded response or an error out.

`RESTClient` knows HTTP and Status and nothing of resources; discovery and the dynamic client are built on it. It owns
the connections, so one per config and event loop is enough, and it must be closed. Retries and the meaning of a
response are decided here; sending and receiving bytes is left to `transport`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode

from kapi.api.errors import ApiError
from kapi.client.auth.credentials import Credentials
from kapi.client.errors import (
    AnswerError,
    ConnectionLost,
    TransportError,
    TransportTimeout,
    error_from_status,
    error_from_text,
)
from kapi.client.transport.observer import following
from kapi.client.transport.proxy import proxy_for
from kapi.client.transport.ratelimit import TokenBucket
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from kapi.base.clock import Clock
    from kapi.client.auth.credentials import Presented
    from kapi.client.config import ClientConfig
    from kapi.client.transport.interface import Reply, Transport
    from kapi.client.transport.observer import Observer

JSON: Final = "application/json"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

RETRIES: Final = 5
MAX_RETRY_SECONDS: Final = 30.0
_READS: Final = frozenset({"GET", "HEAD"})
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_BREAKS: Final = 2
_BREAK_SECONDS: Final = 0.1

_log = logging.getLogger("kapi.client")

E = TypeVar("E", bound=Exception)


class _Request(NamedTuple):
    """A request but for what says who sends it."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json_body(self) -> bytes:
        """The body of an answer that says it is JSON, or does not say what it is; `AnswerError` for another type."""
        _check_type(self.headers, self.body)
        return self.body

    def decoded(self) -> Any:
        """The body as JSON; None when it is empty."""
        return _decode(self.json_body()) if self.body else None


class RESTClient:
    """A connection pool to one server, used as `async with RESTClient(config) as client`.

    An answer that is not a success is raised as the `ApiError` of its Status. What is tried again, and nothing else,
    because only the caller knows what a second try means:

    * after 429 with Retry-After, any request: the server says that it did nothing;
    * after 503 with Retry-After, a request that can be repeated without harm: GET, HEAD, PUT, DELETE;
    * after a connection broke, GET and HEAD a few times, PUT and DELETE once and by the HTTP library: that such a
      write had happened already shows as `Conflict` or `NotFound`;
    * after 401, any request once, when there are other credentials to show by then.

    All tries together stay within the time-out, and a wait that would not is not begun. Redirects are refused: they
    would carry credentials to a server the config does not name.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        on_warning: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.config = config
        self._base = config.server.rstrip("/")
        self._credentials = Credentials(config, clock=clock)
        self._proxy = proxy_for(config)
        self._limit = TokenBucket(config.qps, config.burst, clock=clock) if config.qps > 0 else None
        self._on_warning = on_warning or (lambda text: _log.warning("%s", text))
        self._transport = transport
        self._is_given_transport = transport is not None
        self.observers: tuple[Observer, ...] = ()
        """The observers of requests; see `transport.observer`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; streams that are open end."""
        await self._credentials.close()
        transport = self._transport
        if not self._is_given_transport:
            self._transport = None
        if transport is not None:
            await transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - covers all tries and what is raised is ours
        retries: int = RETRIES,
    ) -> Any:
        """One request; the decoded answer. See `send`."""
        answer = await self.send(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout=timeout,
            retries=retries,
        )
        return answer.decoded()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - covers all tries and what is raised is ours
        retries: int = RETRIES,
    ) -> Answer:
        """One request; the answer as it came.

        `path` is absolute and already escaped. Query values that are None are left out. A body that is not bytes is
        sent as JSON. `timeout` is in seconds, covers every try, and is the config's unless given.
        """
        request = self._prepare(method, path, query, body, content_type, accept)
        async with self._deadline(f"{method} {path}", timeout) as deadline:
            reply = await self._tries(request, deadline, retries, whole=True)
            return Answer(reply.status, reply.headers, reply.content)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - for the opening only
        idle_timeout: float | None = None,
        max_line_bytes: int | None = None,
        retries: int = RETRIES,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET a stream, line by line. Entered once the server has answered with 200; `timeout` covers only that.

        With `idle_timeout` a stream on which nothing arrives for so many seconds ends with `TransportTimeout`: the peer
        may be gone without closing the connection. Bytes count, not lines. A line longer than `max_line_bytes`, or
        the config's `max_event_bytes`, is `AnswerTooLarge`.
        """
        request = self._prepare("GET", path, query, None, JSON, accept)
        async with self._deadline(f"GET {path}", timeout) as deadline:
            reply = await self._tries(request, deadline, retries, whole=False)
        bound = self.config.max_event_bytes if max_line_bytes is None else max_line_bytes
        try:
            if _wants_json(accept):
                _check_type(reply.headers, b"")
            yield reply.lines(bound, idle_timeout)
        finally:
            await reply.abort()

    @contextlib.asynccontextmanager
    async def _deadline(self, what: str, timeout: float | None) -> AsyncIterator[float]:  # noqa: ASYNC109
        seconds = self.config.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                yield asyncio.get_running_loop().time() + seconds
        except TimeoutError:
            raise TransportTimeout(f"{what}: no answer from {self._base} within {seconds:g} s") from None

    def _prepare(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, content_type: str, accept: str
    ) -> _Request:
        headers = [("Accept", accept)]
        data: bytes | None = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.encode(body)
            headers.append(("Content-Type", content_type))
        return _Request(method, self._url(path, query), headers, data)

    async def _tries(self, request: _Request, deadline: float, retries: int, *, whole: bool) -> Reply:
        """Return a successful reply, read to its end if `whole`; see the class for what is retried."""
        failure: ApiError | TransportError
        attempt, may_renew = 0, True
        while True:
            presented = await self._credentials.present()
            if self._limit is not None:
                await self._limit.wait()
            try:
                reply = await self._once(request, presented, whole=whole)
            except ConnectionLost as error:
                failure, delay = error, _after_break(request.method, attempt)
            else:
                if reply.status < 300:
                    self._warn(reply)
                    return reply
                if reply.status == 401 and may_renew and await self._credentials.renew(presented):
                    may_renew = False
                    continue
                failure, delay = _with_retry_after(self._error(reply), reply), _retry_after(request.method, reply)
            if delay is None or attempt >= retries or asyncio.get_running_loop().time() + delay >= deadline:
                raise failure
            attempt += 1
            await asyncio.sleep(delay)

    async def _once(self, request: _Request, presented: Presented, *, whole: bool) -> Reply:
        if self._transport is None:
            # The HTTP library is most of what there is to import, so it waits until there is something to send.
            from kapi.client.transport.httptransport import HTTPTransport

            self._transport = HTTPTransport(self.config, self._proxy)
        headers = [*request.headers, *presented.headers]
        if self.observers:
            with following(self.observers, request.method, request.url, headers) as exchange:
                reply = await self._transport.send(
                    request.method, request.url, headers, request.data, tls=presented.tls, whole=whole
                )
                exchange.status = reply.status
                return reply
        return await self._transport.send(
            request.method, request.url, headers, request.data, tls=presented.tls, whole=whole
        )

    def _url(self, path: str, query: Mapping[str, Any] | None) -> str:
        if not path.startswith("/") or any(character in "?#\\" or character <= " " for character in path):
            raise ValueError(f"{path!r} is not an absolute, escaped path")
        pairs = {key: _query_text(value) for key, value in (query or {}).items() if value is not None}
        return self._base + path + ("?" + urlencode(pairs, quote_via=quote, safe="") if pairs else "")

    def _error(self, reply: Reply) -> ApiError | TransportError:
        if 300 <= reply.status < 400:
            target = reply.headers.get("Location", "nowhere")
            return AnswerError(f"{self._base} answered with a redirect to {target}, which is not followed")
        if reply.content_type == JSON:
            with contextlib.suppress(DecodeError):  # a proxy's idea of JSON; the HTTP status still counts
                status = json.decode(reply.content)
                if isinstance(status, dict) and status.get("kind") == "Status":
                    return error_from_status(status, reply.status)
        return error_from_text(reply.status, reply.content.decode("utf-8", "replace"))

    def _warn(self, reply: Reply) -> None:
        for header in reply.all_of("Warning"):
            text = _warning_text(header)
            if text:
                self._on_warning(text)


def _wants_json(accept: str) -> bool:
    return accept.startswith(JSON)


def _check_type(headers: Mapping[str, str], body: bytes) -> None:
    """Raise `AnswerError` for an answer of another type than JSON: a proxy's page, or a sign-in form."""
    found = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if found and found != JSON and not found.endswith("+json"):
        shown = f": {body[:100].decode('utf-8', 'replace')!r}" if body else ""
        raise AnswerError(f"the server answered with {found[:100]} where {JSON} was asked for{shown}")


def _decode(body: bytes) -> Any:
    try:
        return json.decode(body)
    except DecodeError as error:
        raise AnswerError(f"the answer is not JSON: {error}") from None


def _query_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _retry_after(method: str, reply: Reply) -> float | None:
    """Seconds the server asks us to wait before the request is made again; None when it is not to be made again."""
    seconds = _asked_to_wait(reply)
    may_repeat = reply.status == 429 or (reply.status == 503 and method in _IDEMPOTENT)
    return None if seconds is None or not may_repeat else min(float(seconds), MAX_RETRY_SECONDS)


def _with_retry_after(error: E, reply: Reply) -> E:
    """The error, with the wait that the server's header asks for where its Status asks for none."""
    seconds = _asked_to_wait(reply)
    if seconds and isinstance(error, ApiError) and not error.retry_after:
        error.details = {**(error.details or {}), "retryAfterSeconds": seconds}
    return error


def _asked_to_wait(reply: Reply) -> int | None:
    """Seconds of the Retry-After header; None when there is none, or when it is a date."""
    text = reply.headers.get("Retry-After", "")
    return int(text[:9]) if text.isascii() and text.isdigit() else None


def _after_break(method: str, attempt: int) -> float | None:
    """Seconds until a request whose connection broke is made again; None when it is not.

    The jitter keeps the clients of a server that was down from all reconnecting at the same instant.
    """
    if method not in _READS or attempt >= _BREAKS:
        return None
    return _BREAK_SECONDS * (1 << attempt) * (1 + random.random())  # noqa: S311 - spreads load, hides nothing


def _warning_text(header: str) -> str:
    """Return the text of `299 - "text"`; other warnings are of HTTP caches, and ignored."""
    code, _, rest = header.partition(" ")
    _, _, quoted = rest.partition(" ")
    if code != "299" or not quoted.startswith('"'):
        return ""
    text, characters = "", iter(quoted[1:])
    for character in characters:
        if character == '"':
            break
        text += next(characters, "") if character == "\\" else character
    return text
