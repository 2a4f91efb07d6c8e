"""Authentication of a request: the first authenticator that recognizes its credentials names the user.

Credentials that are present and wrong are refused with 401, whatever else is allowed. A request without credentials
is `system:anonymous`, and authorization decides what that user may do.

A new kind of credential (a front proxy's headers, OIDC, a webhook) is one more member of the union.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from kapi.api.errors import Unauthorized
from kapi.api.user import ANONYMOUS, User

if TYPE_CHECKING:
    from kapi.server.authn.tokens import TokenSources
    from kapi.server.transport.message import Request

AUTHENTICATED = "system:authenticated"


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


class Authenticator:
    """A union of authenticators, asked in order, and after them the bearer token.

    Most requests are recognized by the local members that come first. `identify` asks those alone, so that such a
    request does not pay for a coroutine; `authenticate` asks all.
    """

    def __init__(self, tokens: TokenSources, *members: LocalAuthenticator | RemoteAuthenticator) -> None:
        self._tokens = tokens
        self._members = members
        local = itertools.takewhile(lambda member: isinstance(member, LocalAuthenticator), members)
        self._first = [cast("LocalAuthenticator", member).identify for member in local]
        self.may_wait = tokens.may_wait or len(self._first) < len(members)
        """True if a request may have to wait for an answer from outside this process."""

    def identify(self, request: Request) -> User | None:
        """Return the user by the local members that come first, None when they do not recognize the request."""
        try:
            for ask in self._first:
                user = ask(request)
                if user is not None:
                    return user if AUTHENTICATED in user.groups else authenticated(user)
        except Unauthorized:
            # Other members may recognize it.
            return None
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
        header = request.headers.get("authorization")
        if header is not None:
            return authenticated(await self._bearer(header))
        if refused:
            raise Unauthorized
        return ANONYMOUS

    async def review(self, token: str) -> User | None:
        """Return the user of a bearer token, or None: the question of a TokenReview."""
        user = await self._tokens.user_of(token)
        return None if user is None else authenticated(user)

    async def _bearer(self, header: str) -> User:
        scheme, _, token = header.partition(" ")
        token = token.strip()
        user = await self._tokens.user_of(token) if scheme.lower() == "bearer" and token else None
        if user is None:
            raise Unauthorized
        return user


def authenticated(user: User) -> User:
    """Return the user as a member of `system:authenticated`."""
    if AUTHENTICATED in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
