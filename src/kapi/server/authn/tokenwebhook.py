"""The token review webhook: another server is asked for the user of a token, with a TokenReview.

Answers are remembered for a while, the good and the bad; a call that brought no answer is not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog

from kapi.api.user import User
from kapi.base.http import OutboundError
from kapi.server.authn.tokens import Authenticated, InvalidToken, intersection

if TYPE_CHECKING:
    from kapi.base.clock import Clock
    from kapi.base.http import Endpoint, Outbound
    from kapi.base.httpconnection import Answer
    from kapi.server.authn.tokens import Audiences

KNOWN: Final = 4096
CALL_SECONDS: Final = 10.0
ANSWER_BYTES: Final = 1024 * 1024
ATTEMPTS: Final = 5
FIRST_BACKOFF: Final = 0.5
BACKOFF_FACTOR: Final = 1.5

_RETRIED: Final = frozenset({429, 500, 502, 503, 504})

_log = structlog.get_logger("kapi.authentication")


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)
    audiences: list[str] | None = None
    error: str = ""


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _Known(NamedTuple):
    found: Authenticated | None
    until: float


class TokenWebhook:
    """A `RemoteTokenSource` that asks a webhook. `ttl` is the time in seconds for which an answer is remembered."""

    def __init__(
        self, endpoint: Endpoint, outbound: Outbound, own: Audiences, clock: Clock, *, version: str, ttl: float
    ) -> None:
        self._endpoint = endpoint
        self._outbound = outbound
        self._own = own
        self._clock = clock
        self._version = version
        self._ttl = ttl
        self._known: OrderedDict[tuple[bytes, Audiences], _Known] = OrderedDict()

    async def authenticate_token(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the user of a token, None if the webhook knows none; `InvalidToken` says why."""
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), audiences
        known = self._known.get(key)
        if known is not None and known.until > self._clock.monotonic():
            return known.found
        found = self._read(await self._ask(token, audiences), audiences)
        self._known[key] = _Known(found, self._clock.monotonic() + self._ttl)
        self._known.move_to_end(key)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return found

    def _read(self, body: bytes, audiences: Audiences) -> Authenticated | None:
        try:
            status = msgspec.json.decode(body, type=_Review).status
        except msgspec.MsgspecError as error:
            raise InvalidToken(f"the answer of the token webhook cannot be read: {error}") from None
        common = intersection(audiences, tuple(status.audiences or self._own))
        if audiences and not common:
            return None
        if not status.authenticated:
            if status.error:
                raise InvalidToken(status.error)
            return None
        user = status.user
        return Authenticated(User(user.username, tuple(user.groups or ()), user.uid, user.extra), common)

    async def _ask(self, token: str, audiences: Audiences) -> bytes:
        review: dict[str, Any] = {
            "kind": "TokenReview",
            "apiVersion": f"authentication.k8s.io/{self._version}",
            "metadata": {},
            "spec": {"token": token, "audiences": list(audiences)},
            "status": {"user": {}},
        }
        body, backoff = json.dumps(review).encode(), FIRST_BACKOFF
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(backoff)
                backoff *= BACKOFF_FACTOR
            try:
                answer = await self._outbound.post(self._endpoint, body, seconds=CALL_SECONDS, limit=ANSWER_BYTES)
            except OutboundError as error:
                reason = str(error)
                continue
            if answer.status in (200, 201):
                return answer.body
            reason = _refusal(answer)
            if answer.status not in _RETRIED:
                break
        _log.warning("the token webhook brought no answer", error=reason)
        raise InvalidToken(reason)


def _refusal(answer: Answer) -> str:
    return f"the token webhook answered with status {answer.status}"
