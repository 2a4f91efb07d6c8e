"""One HTTP/1.1 connection: it reads requests, calls the handler for one after the other, and writes the responses.

This is the hot path of the server. A single task serves all requests of a connection, so none is created per request,
and a single timer covers all of its time-outs. What is a request is decided in `framing`, what is answered by the
handler.
"""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, cast

from kapi.api.errors import BadRequest
from kapi.base.deadline import Deadline
from kapi.base.tls import client_certificates
from kapi.server.transport import wire
from kapi.server.transport.arrival import Arrival
from kapi.server.transport.framing import BODY, HEAD, IDLE, Refusal, RequestReader
from kapi.server.transport.limits import KIB
from kapi.server.transport.memory import REQUEST, peer_name
from kapi.server.transport.message import Body, Peer, Response, StreamResponse, UpgradeResponse
from kapi.server.transport.outgoing import SEND_BUFFER, STREAM_BUFFER, Outgoing, WholeBody
from kapi.server.transport.stream import ConnectionStream, ConnectionTunnel

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.transport.framing import Incoming
    from kapi.server.transport.limits import Limits
    from kapi.server.transport.memory import Hold, MemoryAccount
    from kapi.server.transport.message import Handler, Request
    from kapi.server.transport.readturns import ReadTurns

log = logging.getLogger(__name__)

_WHOLE: Final = 64 * KIB
"""A body up to this size is sent together with its head in one write."""


class Owner(Protocol):
    """The part of a server that its connections use."""

    @property
    def handler(self) -> Handler:
        """Answers the requests."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of a connection."""
        ...

    @property
    def memory(self) -> MemoryAccount:
        """The bytes held for peers."""
        ...

    @property
    def reads(self) -> ReadTurns:
        """Whose turn it is to be read."""
        ...

    @property
    def draining(self) -> bool:
        """True if the server is shutting down."""
        ...

    @property
    def retiring(self) -> bool:
        """True if every connection is closed with its next response."""
        ...

    def admit(self, connection: Connection, address: str) -> bool:
        """Register a connection from an address; returns False if there are too many."""
        ...

    def forget(self, connection: Connection) -> None:
        """The connection is gone and no handler works for it any more."""
        ...


class Connection(asyncio.Protocol):
    """A peer's connection.

    Requests are answered in the order they came. A handler that has begun is left to finish even if the peer
    disconnects, so that a write is never half done; only its answer is dropped. A stream is told through `closed`.

    There is at most one deadline at a time: while waiting for a request it is for the peer to send it, while writing
    for the peer to take the bytes, and while the handler works there is none.

    Reading stops while enough requests wait, so a peer can only queue a bounded amount. During a stream input is
    always read, because that is how a peer's leaving is noticed; too much of it ends the connection.
    """

    __slots__ = (
        "_arrival",
        "_closing",
        "_deadline",
        "_eof",
        "_full",
        "_handled",
        "_hold",
        "_loop",
        "_lost",
        "_owner",
        "_payer",
        "_peer",
        "_phase",
        "_phase_since",
        "_reader",
        "_reading",
        "_served",
        "_stream",
        "_surplus",
        "_task",
        "_tls",
        "_transport",
        "_waiter",
        "_waits_for_turn",
        "_writers",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._deadline = Deadline(self._loop, self._expired)
        self._waiter: asyncio.Future[None] | None = None
        """The task waits here while there is no request."""
        self._writers: list[asyncio.Future[None]] = []
        """Futures of writers that wait for space in the send buffer."""
        self._stream: ConnectionStream | None = None
        self._phase = (0, IDLE)
        """Which request we wait for, and which part of it; the deadline is counted from the start of this."""
        self._phase_since = 0.0
        self._arrival: Arrival | None = None
        """The arrival of the last request that was handed over before it was whole."""
        self._handled: Request | None = None
        self._hold: Hold | None = None
        """What the account holds against this connection for its requests; None while that is next to nothing."""
        self._surplus = 0
        """Bytes that came when no request was wanted."""
        self._full = False
        self._reading = True
        """False while input is not wanted; what `ReadTurns` has paused is wanted."""
        self._waits_for_turn = False
        self._eof = False
        self._lost = False
        self._closing = False
        self._served = False
        """The task is done."""

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer has connected (and TLS is agreed on, where there is TLS)."""
        self._transport = cast("asyncio.Transport", transport)
        tls = transport.get_extra_info("ssl_object")
        self._tls = tls is not None
        self._transport.set_write_buffer_limits(high=SEND_BUFFER)
        address = transport.get_extra_info("peername")
        certificates = client_certificates(tls) if tls is not None else ()
        peer = Peer(address[0] if isinstance(address, tuple) else "unix", certificates)
        self._peer = peer
        self._payer = peer_name(None, peer.address)
        self._reader = RequestReader(peer, self._owner.limits)
        if not self._owner.admit(self, peer.address):
            self._reader.refuse(Refusal(503, "the server takes no more connections", "ServiceUnavailable"))
        self._task: asyncio.Task[None] = self._loop.create_task(self._serve())
        self._task.add_done_callback(self._done)

    def data_received(self, data: bytes) -> None:
        """Input from the peer."""
        reader = self._reader
        if reader.ended or self._stream is not None:
            if isinstance(self._stream, ConnectionTunnel):
                self._stream.on_data(data)
                return
            self._count_surplus(len(data))
        reader.feed(data)
        if reader.state != IDLE or reader.body_size > self._owner.limits.free:
            self._keep(len(data))
        if reader.held and self._reading and self._stream is None:
            self._reading = False
            self._transport.pause_reading()
        if self._waiter is not None:
            if reader.queue:
                self._wake()
            elif not reader.ended:
                self._await_rest()

    def eof_received(self) -> bool:
        """The peer will send no more. It may still read the answer it waits for, but nothing is streamed to it."""
        self._eof = True
        self._abandon_body()
        if self._stream is not None:
            self._stream.end()
            return False
        idle = self._waiter is not None and not self._reader.queue
        return not (idle or self._closing or self._tls)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        self._lost = True
        if self._peer.lost is not None:
            self._peer.lost()
        self._deadline.cancel()
        self._abandon_body()
        self.resume_writing()
        self._wake()
        if self._stream is not None:
            self._stream.end()
            self._loop.call_later(self._owner.limits.stream_stop, self._task.cancel)
        if self._served:
            self._release()

    def pause_writing(self) -> None:
        """The send buffer is full."""
        self._full = True

    def resume_writing(self) -> None:
        """The send buffer has space again."""
        self._full = False
        self.release_writers()

    # What the server calls.

    @property
    def idle_since(self) -> float | None:
        """The loop's time since when the connection waits for a request to begin; None while it is in use."""
        return self._phase_since if self._waiter is not None and self._reader.state == IDLE else None

    def drain(self) -> None:
        """Close: now if idle, else with the response to the last request that has begun."""
        if self._stream is not None:
            self._stream.end()
        elif self._reader.state == IDLE:
            self._wake()

    def abort(self) -> None:
        """Close now, whatever is going on."""
        self._transport.abort()
        self._task.cancel()

    # The task: one request after the other.

    async def _serve(self) -> None:
        queue = self._reader.queue
        usable = True
        while usable and (queue or await self._request_arrives()):
            item = queue.popleft()
            if isinstance(item, Refusal):
                body = item.body()
                self._transport.write(wire.head(item.code, wire.JSON, len(body), close=True) + body)
                self._finish(midway=True)
                return
            if not self._reading:
                self._read_on()
            usable = await self._answer(item)
        self._finish(midway=self._reader.state != IDLE)

    async def _request_arrives(self) -> bool:
        """Wait for the next request; False if there will be none."""
        reader = self._reader
        if self._lost or self._eof or (self._owner.draining and reader.state == IDLE):
            return False
        self._phase_since = 0.0
        self._await_rest()
        waiter = self._waiter = self._loop.create_future()
        await waiter
        self._waiter = None
        self._deadline.at = inf
        return bool(reader.queue)

    async def _answer(self, item: Incoming) -> bool:
        """Have one request answered; returns whether the connection can be used again."""
        request, usable, modern = item
        owner = self._owner
        self._handled = request
        try:
            response = await owner.handler(request)
        except Exception:
            log.exception("handling %s %s failed", request.method, request.path)
            response = wire.failure()
            usable = False
        self._handled = None
        if self._hold is not None:
            self._charge()
        if request.arrival is not None:
            usable = usable and request.arrival.is_whole and not request.oversized
        try:
            if self.is_gone:
                if isinstance(response, Response) and isinstance(response.body, Body):
                    response.body.drop()
                return False
            if self._eof or owner.retiring:
                # Requests pipelined behind this one have been accepted; the last response closes the connection.
                usable = usable and bool(self._reader.queue)
            if isinstance(response, UpgradeResponse):
                return await self._switch(response)
            if isinstance(response, StreamResponse):
                return await self._send_stream(response, request, usable=usable, chunked=modern)
            return await self._send(response, request, usable=usable, modern=modern)
        except ConnectionError as error:
            log.info("the response to %s %s breaks off: %s", request.method, request.path, error)
            self._transport.abort()
            return False
        except Exception:
            log.exception("sending the response to %s %s failed", request.method, request.path)
            self._transport.abort()
            return False
        finally:
            if isinstance(response, StreamResponse):
                response.end()

    def _finish(self, *, midway: bool) -> None:
        """Close, with the answer flushed.

        `midway` says that the peer may still be sending. Closing right away would reset the connection and could take
        the answer with it, so we go on reading for a moment.
        """
        self._closing = True
        self._reader.stop()
        if self._hold is not None:
            self._hold.release()
        if self.is_gone:
            return
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        limits = self._owner.limits
        if not midway:
            self._transport.close()
            self._deadline.set(self._loop.time() + limits.write_timeout)
            return
        if not self._tls:
            try:
                self._transport.write_eof()
            except OSError:  # The peer has reset the connection, and the loop has not told us yet.
                self._transport.abort()
                return
        self._deadline.set(self._loop.time() + limits.linger)

    @property
    def is_full(self) -> bool:
        """True while the send buffer is full."""
        return self._full

    @property
    def is_gone(self) -> bool:
        """True if nothing can be written any more, even if `connection_lost` was not called yet."""
        return self._lost or self._transport.is_closing()

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("connection failed", exc_info=task.exception())
        self._served = True
        if self._lost:
            self._release()
        elif not self._closing:
            self._transport.abort()

    def _release(self) -> None:
        """Break the reference cycles of a connection that is lost and whose task is done; called once.

        A TLS transport holds half a megabyte of buffers. The garbage collector runs rarely in this process, so
        reference counting has to free them.
        """
        self._owner.forget(self)
        if self._hold is not None:
            self._hold.release()
        self._reader.close()
        self._deadline.close()
        self._arrival = None
        # A task that was cancelled keeps the error, whose traceback refers to the frames of this connection.
        del self._transport, self._task

    # Reading.

    def _await_rest(self) -> None:
        """Set the deadline for what is still missing of the next request."""
        reader = self._reader
        limits = self._owner.limits
        phase = (reader.begun, reader.state)
        if phase != self._phase or not self._phase_since:
            self._phase = phase
            self._phase_since = self._loop.time()
        if reader.state == BODY:
            whole = self._phase_since + limits.body_timeout + reader.body_size / limits.body_rate
            self._deadline.set(min(whole, self._loop.time() + limits.body_stall))
        else:
            allowed = limits.head_timeout if reader.state == HEAD else limits.idle_timeout
            self._deadline.set(self._phase_since + allowed)

    def _keep(self, size: int) -> None:
        """Account for a request that is not whole, or large; one with a long body is handed over before it is whole.

        `size` is that of the last read.
        """
        reader = self._reader
        if reader.early and reader.state == BODY:
            self._arrival = Arrival(self)
            reader.hand_over(self._arrival)
            # It is read on when the handler wants the body. What follows a stream is bounded, and read to see its end.
            if self._reading and self._stream is None:
                self._reading = False
                self._transport.pause_reading()
        self._charge()
        if self._arrival is not None and self._arrival.is_awaited and not self._reader.ended:
            self._await_rest()
        if self._reading and self._stream is None and self._owner.reads.count(self, size):
            self._waits_for_turn = True
            self._transport.pause_reading()

    def read_again(self) -> None:
        """It is this connection's turn to be read."""
        self._waits_for_turn = False
        if self._reading and not self.is_gone:
            self._transport.resume_reading()

    def receive_body(self, user: User) -> None:
        """Read the body of the request that is being handled, on the account of this user."""
        reader, memory = self._reader, self._owner.memory
        assert self._handled is not None
        payer = peer_name(user, self._handled.peer.address)
        if payer != self._payer:
            self._payer = payer
            if self._hold is not None:
                self._hold.release()
        memory.check(payer, max(int(self._handled.headers.get("content-length", 0)) - reader.body_size, 0))
        if reader.continue_due:
            reader.continue_due = False
            self._transport.write(wire.CONTINUE)
        self._phase_since = 0.0
        self._read_on()
        self._charge()
        if reader.state == BODY and not reader.ended:
            self._await_rest()

    def body_received(self) -> None:
        """The handler no longer waits for a body."""
        self._deadline.at = inf

    def _charge(self) -> None:
        """Charge the account with what this connection keeps of requests."""
        reader, handled = self._reader, self._handled
        size = reader.unfinished_size + (len(handled.body) if handled is not None else 0)
        for item in reader.queue:
            if not isinstance(item, Refusal):
                size += len(item[0].body)
        hold = self._hold
        if size <= self._owner.limits.free:
            if hold is not None:
                hold.release()
                self._hold = None
            return
        if hold is None or not hold.is_open:
            hold = self._hold = self._owner.memory.open(REQUEST, self._payer, self._refuse_slow)
        if reader.state == IDLE or not self._reading:
            hold.pin()
        else:
            hold.unpin()
        hold.resize(size, progressed=True)

    def _refuse_slow(self, _reason: str) -> None:
        """The memory account wants the bytes back: end the request that is not whole yet."""
        self._hold = None
        if self._reader.state != IDLE:
            self._reader.refuse(
                Refusal(408, "the request arrived too slowly: the server holds too many unfinished requests", "Timeout")
            )
            self._wake()

    def _abandon_body(self) -> None:
        """The peer will not send the rest of a body."""
        if self._arrival is not None:
            self._arrival.fail(BadRequest("the connection ended before the request was whole"))

    def _read_on(self) -> None:
        """Parse what was held back, and resume reading if the queue has space for more."""
        self._reader.resume()
        unwanted = self._arrival is not None and self._arrival.is_unwanted
        if self._stream is not None or not (self._reader.held or unwanted):
            self._reading = True
            if not self._waits_for_turn:
                self._transport.resume_reading()

    def _count_surplus(self, size: int) -> None:
        """Bound what is read for no use: it must neither keep us busy nor fill memory."""
        self._surplus += size
        limits = self._owner.limits
        if self._stream is not None:
            if self._surplus > limits.stream_input:
                self._stream.abort()
        elif self._surplus > limits.discard and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _expired(self) -> None:
        """The peer took too long."""
        if self._closing and not self._transport.is_closing():
            self._transport.close()
            self._deadline.set(self._loop.time() + self._owner.limits.write_timeout)
        elif self._waiter is not None or (self._arrival is not None and self._arrival.is_awaited):
            if self._reader.state != IDLE:
                self._reader.refuse(Refusal(408, "the request did not arrive in time", "Timeout"))
            self._wake()
        else:
            self._transport.abort()

    # Writing.

    async def _send(self, response: Response, request: Request, *, usable: bool, modern: bool) -> bool:
        body = response.body
        if isinstance(body, bytes):
            length = len(body)
        elif isinstance(body, Body):
            return await self._send_body(response, body, request, usable=usable, modern=modern)
        else:
            length = sum(map(len, body))
        silent = wire.bodiless(response.status)
        head = wire.head(response.status, response.headers, None if silent else length, close=not usable)
        if silent or length == 0 or request.method == "HEAD":
            self._transport.write(head)
        elif length <= _WHOLE:
            self._transport.write(head + body if isinstance(body, bytes) else b"".join((head, *body)))
        else:
            whole = WholeBody(head, (body,) if isinstance(body, bytes) else body)
            return await self._send_pieces(whole, response, request, chunked=False) and usable
        if self._full:
            await self.wait_for_space()
        return usable

    async def _send_body(self, response: Response, body: Body, request: Request, *, usable: bool, modern: bool) -> bool:
        chunked = body.length is None and modern
        usable = usable and (chunked or body.length is not None)
        self._transport.write(
            wire.head(response.status, response.headers, body.length, chunked=chunked, close=not usable)
        )
        if request.method == "HEAD":
            return usable
        if not await self._send_pieces(body, response, request, chunked=chunked):
            return False
        if chunked:
            self._transport.write(wire.LAST_CHUNK)
        return usable

    async def _send_pieces(self, body: Body, response: Response, request: Request, *, chunked: bool) -> bool:
        """Write a long body, on the account of the user; returns False if the peer is gone."""
        owner = self._owner
        payer = peer_name(response.user, request.peer.address)
        return await Outgoing(self, self._transport, owner.limits).send(body, owner.memory, payer, chunked=chunked)

    async def _send_stream(self, response: StreamResponse, request: Request, *, usable: bool, chunked: bool) -> bool:
        self._transport.write(
            wire.head(response.status, response.headers, None, chunked=chunked, close=not usable),
        )
        if request.method == "HEAD":
            return usable
        stream = self._stream = ConnectionStream(self, self._transport, self._loop.create_future(), chunked=chunked)
        if self._eof or self._owner.draining:
            stream.end()
        if not self._reading:
            self._read_on()
        self._transport.set_write_buffer_limits(high=STREAM_BUFFER)
        try:
            await response.run(stream)
        finally:
            self._stream = None
            stream.end()
            if not self.is_gone:
                self._transport.set_write_buffer_limits(high=SEND_BUFFER)
        if self._eof or self.is_gone:
            return False
        if chunked:
            self._transport.write(wire.LAST_CHUNK)
        await self.wait_for_space()
        return usable and not self._owner.draining

    async def _switch(self, response: UpgradeResponse) -> bool:
        """End HTTP on this connection: what comes from now on is for the response; returns False."""
        reader = self._reader
        if reader.state != IDLE or reader.queue or reader.held:
            refusal = Refusal(
                400, "a request that asks for an upgrade must not be followed by anything before the answer"
            )
            body = refusal.body()
            self._transport.write(wire.head(refusal.code, wire.JSON, len(body), close=True) + body)
            return False
        reader.stop()
        self._transport.write(wire.head(response.status, response.headers, None, close=False))
        tunnel = ConnectionTunnel(self, self._transport, self._loop.create_future(), chunked=False)
        self._stream = tunnel
        if self._eof or self._owner.draining:
            tunnel.end()
        try:
            await response.run(tunnel)
        finally:
            # What is still read has no reader: it is counted and thrown away, and never taken for a request.
            self._stream = None
            tunnel.end()
        return False

    def set_reading(self, wanted: bool) -> None:
        """Read from the peer, or let it wait."""
        if wanted is not self._reading and not self.is_gone:
            self._reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    async def wait_for_space(self) -> None:
        """Wait until the send buffer has space or the peer is gone; a peer that takes too long is dropped."""
        if not self._full or self._lost:
            return
        self._deadline.set(self._loop.time() + self._owner.limits.write_timeout)
        writer = self._loop.create_future()
        self._writers.append(writer)
        try:
            await writer
        finally:
            self._deadline.at = inf

    def release_writers(self) -> None:
        """Wake the writers that wait for space in the send buffer."""
        for writer in self._writers:
            if not writer.done():
                writer.set_result(None)
        self._writers.clear()
