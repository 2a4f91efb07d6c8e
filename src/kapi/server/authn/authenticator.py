"""Authentication of a request: the first authenticator that recognizes its credentials names the user.

They are asked in the order of kube-apiserver: front proxy, client certificate, bearer token. Credentials that are
present and wrong are refused with 401, unless a later authenticator recognizes others. A request without credentials
is `system:anonymous` where that is allowed, and authorization decides what that user may do.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

import structlog

from kapi.api.errors import Unauthorized
from kapi.api.user import ANONYMOUS, User
from kapi.server.authn.tokens import INVALID, MAX_TOKEN, Audiences, Authenticated, InvalidToken

if TYPE_CHECKING:
    from kapi.server.authn.tokens import TokenSources
    from kapi.server.transport.message import Request

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"

_log = structlog.get_logger("kapi.authentication")


@runtime_checkable
class LocalAuthenticator(Protocol):
    """An authenticator that answers from memory."""

    def identify(self, request: Request) -> User | None:
        """Return the user, or None for a request without this kind of credentials; Unauthorized for wrong ones."""
        ...


class RemoteAuthenticator(Protocol):
    """An authenticator that may wait for an answer from outside this process."""

    async def authenticate(self, request: Request) -> User | None:
        """Return the user, or None for a request without this kind of credentials; Unauthorized for wrong ones."""
        ...


class Anonymous:
    """Requests without credentials: allowed everywhere, at some paths only, or nowhere."""

    def __init__(self, paths: frozenset[str] | None = None, *, enabled: bool = True) -> None:
        self._paths = paths
        self._enabled = enabled

    def user_at(self, path: str) -> User | None:
        """Return the anonymous user if a request to a path may be one of it."""
        if self._enabled and (self._paths is None or path in self._paths):
            return ANONYMOUS
        return None


class Authenticator:
    """A union of authenticators, asked in order, and after them the bearer token.

    Most requests are recognized by the local members that come first. `identify` asks those alone, so that such a
    request does not pay for a coroutine; `authenticate` asks all.
    """

    def __init__(
        self,
        tokens: TokenSources,
        *members: LocalAuthenticator | RemoteAuthenticator,
        anonymous: Anonymous | None = None,
    ) -> None:
        self._tokens = tokens
        self._members = members
        self.anonymous = anonymous or Anonymous()
        local = itertools.takewhile(lambda member: isinstance(member, LocalAuthenticator), members)
        self._first = [cast("LocalAuthenticator", member).identify for member in local]
        self._all_first = len(self._first) == len(members)

    @property
    def may_wait(self) -> bool:
        """True if a request may have to wait for an answer from outside this process."""
        return self._tokens.may_wait or not self._all_first

    @property
    def audiences(self) -> Audiences:
        """The audiences of this server, which tokens must be for."""
        return self._tokens.audiences

    def identify(self, request: Request) -> User | None:
        """Return the user by what comes first and is known locally; None when that does not recognize the request."""
        for ask in self._first:
            try:
                user = ask(request)
            except Unauthorized:
                # Other members may recognize it.
                continue
            if user is not None:
                return user if AUTHENTICATED in user.groups else authenticated(user)
        if self._all_first and (token := bearer_token(request.headers.get("authorization"))):
            try:
                found = self._tokens.known(token)
            except InvalidToken:
                return None
            return None if found is None else authenticated(found.user)
        return None

    async def authenticate(self, request: Request) -> User:
        """Return the user of a request, `system:anonymous` without credentials; Unauthorized for wrong ones.

        Wrong credentials of one kind do not stop a request that has right ones of another.
        """
        refused = False
        for member in self._members:
            try:
                if isinstance(member, LocalAuthenticator):
                    user = member.identify(request)
                else:
                    user = await member.authenticate(request)
            except Unauthorized:
                refused = True
                continue
            if user is not None:
                return authenticated(user)
        token = bearer_token(request.headers.get("authorization"))
        if token:
            try:
                return authenticated((await self._authenticate_token(token, self.audiences)).user)
            except InvalidToken as error:
                # Of a token that no source knows there is nothing to say.
                if str(error) != INVALID:
                    _log.debug("a bearer token is not valid", address=request.peer.address, error=str(error))
                raise Unauthorized from None
        anonymous = None if refused else self.anonymous.user_at(request.path)
        if anonymous is None:
            raise Unauthorized
        return anonymous

    async def review(self, token: str, audiences: Audiences) -> Authenticated:
        """Return the user of a bearer token, and which of the audiences it is for; `InvalidToken` if there is none.

        The question of a TokenReview, whose token is read as if it came in a header.
        """
        token = bearer_token(f"Bearer {token}")
        if not token:
            anonymous = self.anonymous.user_at("")
            if anonymous is None:
                raise InvalidToken(INVALID)
            return Authenticated(anonymous, audiences)
        user, found = await self._authenticate_token(token, audiences)
        return Authenticated(authenticated(user), found)

    async def _authenticate_token(self, token: str, audiences: Audiences) -> Authenticated:
        if len(token) > MAX_TOKEN:
            raise InvalidToken(INVALID)
        found = await self._tokens.authenticate(token, audiences)
        if found is None:
            raise InvalidToken(INVALID)
        return found


def bearer_token(header: str | None) -> str:
    """Return the token of an Authorization header; empty for none, and for credentials of another kind."""
    if header is None:
        return ""
    scheme, _, rest = header.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def authenticated(user: User) -> User:
    """Return the user as a member of `system:authenticated`."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
