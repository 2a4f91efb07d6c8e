"""Who is asking: client certificate, bearer token, or nobody.

Credentials that are present and wrong are refused, whatever else is allowed; no credentials at all is
`system:anonymous`, and it is for authorisation to say what that user may see.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapi.api.errors import Unauthorized
from kapi.api.user import ANONYMOUS, User
from kapi.base.clock import SystemClock
from kapi.server.authn.certificate import user_of_certificate

if TYPE_CHECKING:
    import datetime as dt

    from kapi.base.clock import Clock
    from kapi.server.transport.message import Request

AUTHENTICATED = "system:authenticated"


class TokenSource(Protocol):
    """Knows the bearer of some tokens."""

    def user_of(self, token: str) -> User | None:
        """The bearer, or None when the token is not one of ours."""
        ...


class StaticTokens:
    """A fixed set of tokens, kept as digests so that comparing leaks no timing and a dump leaks no token."""

    def __init__(self, tokens: dict[str, User]) -> None:
        self._users = {hashlib.sha256(token.encode()).digest(): user for token, user in tokens.items()}

    def user_of(self, token: str) -> User | None:
        """The bearer, or None."""
        digest = hashlib.sha256(token.encode()).digest()
        for known, user in self._users.items():
            if hmac.compare_digest(known, digest):
                return user
        return None


class TokenSources:
    """Several sources, asked in order."""

    def __init__(self, *sources: TokenSource) -> None:
        self._sources = sources

    def user_of(self, token: str) -> User | None:
        """The bearer by the first source that knows one."""
        for source in self._sources:
            user = source.user_of(token)
            if user is not None:
                return user
        return None


class _Known(NamedTuple):
    """What a connection's certificate says, read once; until when it may be believed."""

    user: User
    until: dt.datetime | None


class Authenticator:
    """Tells the user of a request, or raises Unauthorized."""

    def __init__(self, tokens: TokenSource, clock: Clock | None = None) -> None:
        self._tokens = tokens
        self._clock = clock or SystemClock()

    def authenticate(self, request: Request) -> User:
        """The user; `system:anonymous` when nothing was presented."""
        peer = request.peer
        known = peer.identity
        if known is None and (peer.local is not None or peer.certificate is not None):
            known = peer.identity = self._of_connection(request)
        if isinstance(known, _Known):
            if known.until is not None and known.until < self._clock.now():
                raise Unauthorized
            return known.user
        header = request.headers.get("authorization")
        return ANONYMOUS if header is None else self._of_token(header)

    def review(self, token: str) -> User | None:
        """The bearer of a token, for TokenReview."""
        user = self._tokens.user_of(token)
        return None if user is None else _authenticated(user)

    def _of_token(self, header: str) -> User:
        scheme, _, token = header.partition(" ")
        user = self._tokens.user_of(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
        if user is None:
            raise Unauthorized
        return _authenticated(user)

    def _of_connection(self, request: Request) -> _Known:
        peer = request.peer
        if peer.local is not None:
            name, groups = peer.local
            return _Known(_authenticated(User(name, groups)), None)
        assert peer.certificate is not None
        user, until = user_of_certificate(peer.certificate)
        return _Known(_authenticated(user), until)


def _authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
