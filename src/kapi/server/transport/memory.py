"""The memory account: the bytes that a server holds for its peers, within a budget for each peer and one for all.

What a peer can make the server hold (the body it is sending, the response it does not read, the watch events it does
not take) is charged here as it grows and released as it shrinks. When a budget is exceeded, the hold that has made no
progress for the longest is closed: of that peer when the peer is over its own budget, of all peers when the total is.
So a peer that keeps up is not closed because of one that does not, and no number of slow peers costs more than the
total.

    hold = account.open(RESPONSE, peer, close)      # charges nothing yet; `close(reason)` ends the response
    hold.resize(stream.pending, progressed=False)   # grows: may close the slowest, perhaps this one (`hold.is_open`)
    hold.resize(stream.pending, progressed=True)    # the peer took bytes: now the last in line to be closed
    hold.release()                                  # always, also after `close`; or `with account.open(…) as hold:`

* `peer` names who is charged: `user:NAME` once the request is authenticated, else `address:IP` (see `peer_name`).
* `progressed` says that the peer did its part since the last call: it sent bytes (of a request), or took some (of a
  response or watch). Holds of no bytes are never closed; one that grows from nothing begins as having made progress.
* A hold that waits for the server and not for its peer is pinned (`pin`, `unpin`): a request that has arrived and is
  being handled. It counts, and is not closed for others. If everything else is pinned, the hold that grows is closed,
  pinned or not; `check` refuses a new request with 429 before it comes to that.
* `close` is called once at most, after the hold was released. It ends what holds the bytes and must not wait.

One event loop uses an account, so it has integers and no locks; a call takes constant time, however many holds there
are.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Self

from kapi.api.errors import TooManyRequests
from kapi.api.user import ANONYMOUS
from kapi.server.transport.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from kapi.api.user import User

REQUEST: Final = "request"
"""Requests: bodies, and heads that are unusually long."""
RESPONSE: Final = "response"
"""Responses of a known length that the peer has not taken yet."""
WATCH_BACKLOG: Final = "watch-backlog"
"""Watch events that the peer has not taken yet."""
KINDS: Final = (REQUEST, RESPONSE, WATCH_BACKLOG)

OVER_PEER_BUDGET: Final = "peer-budget"
"""The reason of a closure: the peer holds more than one peer may."""
OVER_TOTAL_BUDGET: Final = "total-budget"
"""The reason of a closure: all peers together hold more than they may."""

_RETRY_SECONDS: Final = 1

log = logging.getLogger(__name__)


def peer_name(user: User | None, address: str) -> str:
    """Return the name under which a peer is charged: its user, or its address while that is not known."""
    return f"address:{address}" if user is None or user.name == ANONYMOUS.name else f"user:{user.name}"


class Hold:
    """The bytes held for one request, response or watch. Made by `MemoryAccount.open`."""

    __slots__ = ("_account", "_close", "is_open", "is_pinned", "kind", "peer", "size")

    def __init__(self, account: MemoryAccount, kind: str, peer: PeerTotal, close: Callable[[str], None]) -> None:
        self._account = account
        self._close = close
        self.peer = peer
        self.kind = kind
        self.size = 0
        self.is_pinned = False
        self.is_open = True
        """False once it was released or closed; every call is without effect from then on."""

    def resize(self, size: int, *, progressed: bool) -> None:
        """Charge or release the difference to the present size; this may close the slowest holds."""
        if not self.is_open:
            return
        before = self.size
        self.size = size
        self._add(size - before)
        if not self.is_pinned:
            if size == 0:
                self._leave()
            elif before == 0 or progressed:
                self._enter()
        if size > before:
            self._account.make_space(self)

    def pin(self) -> None:
        """Exempt the hold from being closed for others: it waits for the server."""
        if self.is_open and not self.is_pinned:
            self.is_pinned = True
            self._add_pinned(self.size)
            self._leave()

    def unpin(self) -> None:
        """End `pin`; the hold begins as having made progress."""
        if self.is_open and self.is_pinned:
            self.is_pinned = False
            self._add_pinned(-self.size)
            if self.size:
                self._enter()

    def release(self) -> None:
        """Release all bytes for good. It may be called more than once."""
        if self.is_open:
            self.unpin()
            self.resize(0, progressed=True)
            self.is_open = False
            self._account.forget(self.peer)
            del self._close

    def close(self, reason: str) -> None:
        """Release all bytes and end what held them."""
        close = self._close
        self.release()
        try:
            close(reason)
        except Exception:
            log.exception("closing a %s for its memory failed", self.kind)

    def _add(self, change: int) -> None:
        account = self._account
        account.used += change
        account.by_kind[self.kind] += change
        self.peer.used += change
        if self.is_pinned:
            self._add_pinned(change)

    def _add_pinned(self, change: int) -> None:
        self._account.pinned += change
        self.peer.pinned += change

    def _enter(self) -> None:
        """Become the last in line to be closed."""
        for line in (self._account.line, self.peer.line):
            line[self] = None
            line.move_to_end(self)

    def _leave(self) -> None:
        self._account.line.pop(self, None)
        self.peer.line.pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class PeerTotal:
    """What one peer holds; exists as long as it has a hold."""

    __slots__ = ("holds", "line", "name", "pinned", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds = 0
        self.used = 0
        self.pinned = 0
        self.line: OrderedDict[Hold, None] = OrderedDict()
        """Its holds that may be closed, the one without progress for the longest first."""


class MemoryAccount:
    """The bytes held for all peers of a server."""

    def __init__(self, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.total = limits.held
        """The budget of all peers together."""
        self.per_peer = limits.held_per_peer
        """The budget of one peer."""
        self.used = 0
        self.pinned = 0
        """The part of `used` that waits for the server and cannot be freed by closing a hold."""
        self.by_kind = dict.fromkeys(KINDS, 0)
        self.closures: dict[tuple[str, str], int] = {
            (kind, reason): 0 for kind in KINDS for reason in (OVER_PEER_BUDGET, OVER_TOTAL_BUDGET)
        }
        """The number of holds that were closed, by kind and reason."""
        self.refusals = 0
        """The number of requests that `check` refused."""
        self.line: OrderedDict[Hold, None] = OrderedDict()
        """The holds that may be closed, the one without progress for the longest first."""
        self._peers: dict[str, PeerTotal] = {}

    @property
    def peers(self) -> int:
        """The number of peers that have a hold."""
        return len(self._peers)

    def open(self, kind: str, peer: str, close: Callable[[str], None]) -> Hold:
        """Return a hold of no bytes; `close` is called with a reason when its bytes are wanted back."""
        total = self._peers.get(peer)
        if total is None:
            total = self._peers[peer] = PeerTotal(peer)
        total.holds += 1
        return Hold(self, kind, total, close)

    def check(self, peer: str, size: int = 0) -> None:
        """Refuse a request of `size` bytes with 429 if closing holds could not free enough for it."""
        known = self._peers.get(peer)
        of_peer = known.pinned if known is not None else 0
        if of_peer + size > self.per_peer or self.pinned + size > self.total:
            self.refusals += 1
            raise TooManyRequests(
                "the server is handling too many large requests, please try again later",
                details={"retryAfterSeconds": _RETRY_SECONDS},
            )

    # Called by holds.

    def make_space(self, growing: Hold) -> None:
        """Close holds until the budgets are kept; the one that grows when no other can be closed."""
        peer = growing.peer
        while peer.used > self.per_peer and growing.is_open:
            self._close_first(peer.line, growing, OVER_PEER_BUDGET)
        while self.used > self.total and growing.is_open:
            self._close_first(self.line, growing, OVER_TOTAL_BUDGET)

    def _close_first(self, line: OrderedDict[Hold, None], growing: Hold, reason: str) -> None:
        hold = next(iter(line), growing)
        self.closures[hold.kind, reason] += 1
        hold.close(reason)

    def forget(self, peer: PeerTotal) -> None:
        """A hold of the peer was released."""
        peer.holds -= 1
        if peer.holds == 0:
            del self._peers[peer.name]
