"""The connection to an etcd cluster: one to each member, failover between them, deadlines, authentication.

Calls go to one member until it fails; then to the next. Every call has a deadline, for a member that accepts
connections may answer nothing (stopped, cut off, a full disk). Every call says that it needs a leader (`hasleader`), so
that a member that has lost its cluster refuses at once instead of keeping the caller waiting.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import structlog

from kapi.storage.etcd import messages
from kapi.storage.etcd.http2 import Connection, connect
from kapi.storage.etcd.streams import CallError, Code
from kapi.storage.interface import StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kapi.storage.etcd.address import Address
    from kapi.storage.etcd.streams import Stream

RANGE: Final = "/etcdserverpb.KV/Range"
TXN: Final = "/etcdserverpb.KV/Txn"
COMPACT: Final = "/etcdserverpb.KV/Compact"
WATCH: Final = "/etcdserverpb.Watch/Watch"
STATUS: Final = "/etcdserverpb.Maintenance/Status"
ALARM: Final = "/etcdserverpb.Maintenance/Alarm"
_AUTHENTICATE: Final = "/etcdserverpb.Auth/Authenticate"

ATTEMPT_SECONDS: Final = 2.0
"""The deadline of the first attempt of a call; each further one has twice as long.

A request that a follower forwarded to a leader that died is never answered, so a long deadline would be waited for in
full after every failover. Attempts are safe to repeat: reads change nothing and commits compare."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
_LOG_SECONDS: Final = 10.0
"""Calls go round the members while none of them answers; that is logged no more often than this."""

Metadata = tuple[tuple[str, str], ...]
"""What accompanies a call, by name."""
_NEEDS_LEADER: Final[Metadata] = (("hasleader", "true"),)

_log = structlog.get_logger("kapi.storage.etcd")


class EtcdError(Exception):
    """An answer of etcd that is an error, or no answer."""

    def __init__(self, code: Code, details: str, endpoint: str) -> None:
        super().__init__(f"{endpoint}: {details or code.name}")
        self.code = code
        self.details = details
        self.endpoint = endpoint

    @property
    def is_transient(self) -> bool:
        """True if another member, or the same one a little later, may answer otherwise."""
        return self.code in _TRANSIENT or any(text in self.details for text in _TRANSIENT_DETAILS)

    @property
    def was_not_sent(self) -> bool:
        """True if the request has certainly not reached a leader: nothing of it will ever happen."""
        return self.details.startswith(_NOT_SENT)

    @property
    def is_forbidden(self) -> bool:
        """True if the user may not do this, or there is none."""
        # A call without a token is an invalid argument, "user name is empty".
        return self.code is Code.PERMISSION_DENIED or "user name is empty" in self.details

    @property
    def is_compacted(self) -> bool:
        """True if a revision was asked for that has been compacted."""
        return self.code is Code.OUT_OF_RANGE and "has been compacted" in self.details

    @property
    def is_future(self) -> bool:
        """True if a revision was asked for that has not happened yet."""
        return self.code is Code.OUT_OF_RANGE and "future revision" in self.details


_TRANSIENT: Final = {
    Code.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED,
    Code.CANCELLED,
    Code.INTERNAL,
    # The token has expired, or the member has forgotten it.
    Code.UNAUTHENTICATED,
}
_TRANSIENT_DETAILS: Final = ("raft proposal dropped", "rpc not supported for learner")
_NOT_SENT: Final = ("etcdserver: no leader", "failed to connect", "etcdserver: rpc not supported for learner")


class Unanswered(Exception):
    """No member gave an answer in time; `may_have_happened` if one of them may have been given the request."""

    def __init__(self, error: EtcdError, *, may_have_happened: bool) -> None:
        super().__init__(f"no answer in time; the last error: {error}")
        self.may_have_happened = may_have_happened


class Member:
    """The connection to one member, made when it is needed."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None) -> None:
        self.endpoint = endpoint
        self._tls = tls
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection] | None = None

    async def call(self, path: str, request: bytes, metadata: Metadata, seconds: float) -> bytes:
        """Send a request and return the answer, or raise `CallError`."""
        connection = self._connection
        if connection is None or not connection.is_usable:
            connection = await self._connect()
        return await connection.call(path, request, metadata, seconds)

    def begin(
        self, path: str, request: bytes, metadata: Metadata, seconds: float, done: Callable[[bytes | CallError], None]
    ) -> bool:
        """Send a request whose answer is given to a function; False, and nothing is sent, if there is no connection."""
        connection = self._connection
        if connection is None or not connection.is_usable:
            return False
        connection.begin(path, request, metadata, seconds, done)
        return True

    async def stream(
        self,
        path: str,
        metadata: Metadata,
        on_message: Callable[[bytes], None],
        on_end: Callable[[CallError | None], None],
    ) -> Stream:
        """Begin a stream of messages, or raise `CallError`."""
        connection = self._connection
        if connection is None or not connection.is_usable:
            connection = await self._connect()
        return connection.open(path, metadata, on_message, on_end)

    async def _connect(self) -> Connection:
        """Connect once for all who wait."""
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._connecting)

    async def _open(self) -> Connection:
        host, _, port = self.endpoint.rpartition(":")
        try:
            self._connection = await connect(host.strip("[]"), int(port), self.endpoint, self._tls)
        finally:
            self._connecting = None
        return self._connection

    async def close(self) -> None:
        """Close the connection."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()


class Cluster:
    """The members of one etcd cluster, used on one event loop."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._loop = asyncio.get_running_loop()
        tls, self._password = _read_files(address)
        self.members = [Member(endpoint, tls) for endpoint in address.endpoints]
        self._current = 0
        self._logged = -_LOG_SECONDS
        self.metadata: Metadata = _NEEDS_LEADER
        self._authentication: asyncio.Task[None] | None = None
        self.moved = asyncio.Event()
        """Set when calls have gone over to another member; the live feed clears it."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls by method and code."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Seconds that calls took, by method."""

    @property
    def member(self) -> Member:
        """The member that calls go to."""
        return self.members[self._current]

    async def close(self) -> None:
        """Close all connections."""
        if self._authentication is not None:
            self._authentication.cancel()
        await asyncio.gather(*(member.close() for member in self.members))

    # -- calls

    async def call(self, path: str, request: bytes, *, seconds: float = 0.0) -> bytes:
        """Send a request until a member answers it; what is sent may be carried out more than once.

        Raises:
            EtcdError: the answer is an error that no other member would answer otherwise.
            Unanswered: there was none in time.
        """
        deadline = self._loop.time() + (seconds or self.address.timeout)
        try:
            return await self.attempt(self.member, path, request, min(ATTEMPT_SECONDS, seconds or self.address.timeout))
        except EtcdError as error:
            failure = error
        try:
            return await self.retry(path, request, failure, deadline)
        finally:
            del failure  # its traceback refers to this frame

    async def retry(self, path: str, request: bytes, error: EtcdError, deadline: float) -> bytes:
        """Go on with a request whose first attempt failed, until a time of the event loop; raises as `call` does."""
        if not error.is_transient:
            raise error
        attempt, pause = ATTEMPT_SECONDS, _FIRST_PAUSE
        may_have_happened = not error.was_not_sent
        while True:
            if error.code is Code.UNAUTHENTICATED:
                await self._authenticate_again(error)
            else:
                self.leave(error.endpoint)
            # Not all servers at once, and not all members in one go while they elect a leader.
            pause = min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311
            remaining = deadline - self._loop.time()
            if remaining <= 0:
                raise Unanswered(error, may_have_happened=may_have_happened)
            attempt = min(2 * attempt, remaining)
            try:
                return await self.attempt(self.member, path, request, attempt)
            except EtcdError as again:
                if not again.is_transient:
                    raise
                error = again
                may_have_happened = may_have_happened or not error.was_not_sent

    async def attempt(self, member: Member, path: str, request: bytes, seconds: float) -> bytes:
        """Send a request to a member once."""
        started = time.perf_counter()
        code = "OK"
        try:
            return await member.call(path, request, self.metadata, seconds)
        except CallError as error:
            code = error.code.name
            raise EtcdError(error.code, error.details, member.endpoint) from None
        finally:
            self.calls[path, code] += 1
            self.seconds[path] += time.perf_counter() - started

    def begin(self, path: str, request: bytes, done: Callable[[bytes | EtcdError], None]) -> bool:
        """Send a request to the current member once, and have a function called with its answer, or why there is none.

        It is `attempt` without a coroutine that waits. Returns False, and sends nothing, while there is no connection.
        """
        member, started = self.member, time.perf_counter()

        def answered(answer: bytes | CallError) -> None:
            self.seconds[path] += time.perf_counter() - started
            if isinstance(answer, CallError):
                self.calls[path, answer.code.name] += 1
                done(EtcdError(answer.code, answer.details, member.endpoint))
            else:
                self.calls[path, "OK"] += 1
                done(answer)

        seconds = min(ATTEMPT_SECONDS, self.address.timeout)
        return member.begin(path, request, self.metadata, seconds, answered)

    def leave(self, endpoint: str) -> None:
        """Send further calls to another member than this one, if it is the current one."""
        if len(self.members) > 1 and self.member.endpoint == endpoint:
            self._current = (self._current + 1) % len(self.members)
            self.moved.set()
            if self._loop.time() > self._logged + _LOG_SECONDS:
                self._logged = self._loop.time()
                _log.warning("calls go to another member of etcd", endpoint=self.member.endpoint, left=endpoint)

    # -- authentication

    async def authenticate(self) -> None:
        """Get a token for the user of the address, if it has one."""
        if not self.address.user:
            return
        self.metadata = _NEEDS_LEADER
        request = messages.authenticate_request(self.address.user, self._password)
        token = messages.read_token(await self.call(_AUTHENTICATE, request))
        self.metadata = (*_NEEDS_LEADER, ("token", token))

    async def _authenticate_again(self, error: EtcdError) -> None:
        """Get another token: they expire, and members forget them when they restart. One call serves all."""
        if not self.address.user:
            raise error
        if self._authentication is None or self._authentication.done():
            self._authentication = asyncio.ensure_future(self.authenticate())
        await asyncio.shield(self._authentication)


def _read_files(address: Address) -> tuple[ssl.SSLContext | None, str]:
    password = "" if address.password_file is None else _read(address.password_file).decode().strip()
    if address.ca_file is None:
        return None, password
    for path in (address.cert_file, address.key_file):
        if path is not None:
            _read(path)
    try:
        context = ssl.create_default_context(cadata=_read(address.ca_file).decode())
        if address.cert_file is not None:
            context.load_cert_chain(address.cert_file, address.key_file)
    except (ssl.SSLError, ValueError) as error:
        raise StorageUnavailable(f"the certificates of the etcd store cannot be used: {error}") from None
    context.set_alpn_protocols(["h2"])
    return context, password


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageUnavailable(f"{path}: {error.strerror}; the address of the etcd store names it") from None
