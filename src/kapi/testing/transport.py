"""The transport of an environment's clients: records what is sent and answered, and injects faults."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from kapi.client.errors import ConnectError, ConnectionLost
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.controller.controller import reconcile_id
from kapi.testing.record import is_unrecorded, shorten
from kapi.testing.target import target_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from kapi.api.errors import ApiError
    from kapi.client.transport.interface import Reply, Transport
    from kapi.testing.faults import Fault, Faults
    from kapi.testing.record import History
    from kapi.testing.target import Target

_JSON: Final = "application/json"


class ObservedTransport:
    """Sends requests by another transport. `user` names the client in the history."""

    def __init__(self, inner: Transport, user: str, history: History, faults: Faults) -> None:
        self._inner = inner
        self._user = user
        self._history = history
        self._faults = faults
        self._is_closed = False

    async def close(self) -> None:
        """Close the connections; what is still sent by a task that was left behind is refused."""
        self._is_closed = True
        await self._inner.close()

    async def send(
        self,
        method: str,
        url: str,
        headers: list[tuple[str, str]],
        data: bytes | None,
        *,
        tls: ssl.SSLContext | None,
        whole: bool,
    ) -> Reply:
        """Send one request, unless a fault prevents it, and return the reply."""
        if self._is_closed:
            raise ConnectError("the environment has been closed")
        target = target_of(method, url, _decoded(data) if method == "POST" else None)
        if is_unrecorded() or not target.is_resource:
            return await self._inner.send(method, url, headers, data, tls=tls, whole=whole)
        entry = self._history.add("request", self._user, target, reconcile=reconcile_id())
        fault = self._faults.take(target, self._user)
        try:
            if fault is not None and (refused := await self._before(fault, target)) is not None:
                self._history.end(entry, status=refused.status, result=f"{refused.status} {fault.then} (injected)")
                return refused
            reply = await self._inner.send(method, url, headers, data, tls=tls, whole=whole)
            if fault is not None and fault.then == "lose_response":
                await reply.abort()
                raise ConnectionLost(f"the connection broke after {method} (injected: {fault.then})")
        except BaseException as error:
            self._history.end(entry, result=shorten(f"{type(error).__name__}: {error}"))
            raise
        self._history.end(entry, status=reply.status, result=_result(reply, target))
        if target.verb == "watch" and reply.status < 300:
            cut = fault if fault is not None and fault.then == "cut_watch" else None
            return _ObservedStream(reply, target, self._user, self._history, self._faults, cut)
        return reply

    async def _before(self, fault: Fault, target: Target) -> _Refusal | None:
        """Do what happens before a request is sent; returns the answer if it is not sent."""
        if fault.then == "delay":
            await asyncio.sleep(fault.seconds)
        if fault.then == "drop":
            raise ConnectionLost(f"the connection broke before {target.verb} {target.kind} was sent (injected: drop)")
        error = fault.refusal(target)
        return None if error is None else _Refusal(error)


class _Refusal:
    """The reply with the Status of an error."""

    def __init__(self, error: ApiError) -> None:
        self.status = error.code
        self.content = json.encode(error.status())
        self.content_type = _JSON
        wait = (error.details or {}).get("retryAfterSeconds")
        self.headers: Mapping[str, str] = {"Content-Type": _JSON, **({"Retry-After": str(wait)} if wait else {})}

    def all_of(self, header: str) -> list[str]:
        """Every value of a header."""
        return [self.headers[header]] if header in self.headers else []

    async def lines(self, max_bytes: int, idle_timeout: float | None) -> AsyncIterator[bytes]:
        """The content, which is no stream."""
        yield self.content

    async def abort(self) -> None:
        """Do nothing: there is no connection."""


class _ObservedStream:
    """The reply to a watch: records its events, and ends when a fault says so."""

    def __init__(
        self, reply: Reply, target: Target, user: str, history: History, faults: Faults, cut: Fault | None
    ) -> None:
        self._reply = reply
        self._target = target
        self._user = user
        self._history = history
        self._faults = faults
        self._fault: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()
        if cut is not None:
            self._fault.set_result(cut)
        self.status = reply.status
        self.headers = reply.headers
        self.content_type = reply.content_type
        self.content = reply.content

    def all_of(self, header: str) -> list[str]:
        """Every value of a header."""
        return self._reply.all_of(header)

    async def abort(self) -> None:
        """Drop the stream."""
        await self._reply.abort()

    def _look(self) -> None:
        """End the stream if a rule that was just added is for it."""
        if not self._fault.done() and (fault := self._faults.take_for_open_watch(self._target, self._user)):
            self._fault.set_result(fault)

    async def lines(self, max_bytes: int, idle_timeout: float | None) -> AsyncIterator[bytes]:
        """The lines of the stream, until a fault ends it."""
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self._faults.watching(self._look))
            lines = self._reply.lines(max_bytes, idle_timeout)
            while True:
                line = await self._next(lines)
                if line is None:
                    break
                await self._received(line)
                yield line
            if self._fault.done():
                fault = self._fault.result()
                self._history.add("fault", self._user, self._target, result=f"{fault.then} (injected)")
                error = fault.refusal(self._target)
                if error is None:
                    raise ConnectionLost("the connection of the watch broke (injected: cut_watch)")
                yield json.encode({"type": "ERROR", "object": error.status()})

    async def _next(self, lines: AsyncIterator[bytes]) -> bytes | None:
        """The next line; None at the end of the stream, or when a fault ends it."""
        if self._fault.done():
            return None
        task = asyncio.ensure_future(_line(lines))
        waiting: list[asyncio.Future[Any]] = [task, self._fault]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _received(self, line: bytes) -> None:
        """Record an event, when it arrives."""
        event = _decoded(line)
        if not isinstance(event, dict) or event.get("type") == "BOOKMARK":
            return
        metadata = (event.get("object") or {}).get("metadata") or {}
        target = self._target._replace(namespace=metadata.get("namespace", ""), name=metadata.get("name", ""))
        seconds = self._faults.watch_delay(target, self._user)
        if seconds:
            await asyncio.sleep(seconds)
        late = f", {seconds:g} s late (injected)" if seconds else ""
        result = f"rv {metadata.get('resourceVersion', '?')}{late}"
        self._history.add("event", self._user, target._replace(verb=str(event.get("type", ""))), result=result)


async def _line(lines: AsyncIterator[bytes]) -> bytes | None:
    return await anext(lines, None)


def _decoded(data: bytes | None) -> Any:
    if not data:
        return None
    try:
        return json.decode(data)
    except DecodeError:
        return None


def _result(reply: Reply, target: Target) -> str:
    """What a story tells of an answer: the status, and the resourceVersion or the reason."""
    body = _decoded(reply.content) if target.name or reply.status >= 300 else None
    if not isinstance(body, dict):
        return str(reply.status)
    if body.get("kind") == "Status" and body.get("status") == "Failure":
        return f"{reply.status} {body.get('reason', '')}: {shorten(body.get('message', ''), 80)}"
    version = (body.get("metadata") or {}).get("resourceVersion")
    return f"{reply.status} rv {version}" if version else str(reply.status)
