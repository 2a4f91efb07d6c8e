"""Bearer tokens: the sources that know them, and their union."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.api.user import User

Audiences = tuple[str, ...]
"""The names of the servers that a token is for."""

MAX_TOKEN: Final = 64 * 1024
"""Longer tokens are not looked at."""
INVALID: Final = "invalid bearer token"


class InvalidToken(Exception):
    """A source knows the token and refuses it; the text says why, and has nothing of the token in it."""


class Authenticated(NamedTuple):
    """The user of a token, and which of the audiences that were asked for the token is for."""

    user: User
    audiences: Audiences


@runtime_checkable
class TokenSource(Protocol):
    """A source of tokens that answers from memory."""

    def find(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the user of a token, or None when it is not one of this source; `InvalidToken` if it is not valid."""
        ...


class RemoteTokenSource(Protocol):
    """A source of tokens that may wait for an answer from outside this process: OIDC keys, a webhook."""

    async def authenticate_token(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the user of a token, or None when it is not one of this source; `InvalidToken` if it is not valid."""
        ...


class UserTokens:
    """A `TokenSource` of tokens that are for all audiences of this server, whatever they are for."""

    def __init__(self, own: Audiences) -> None:
        self._own = own

    def find(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the user of a token if this server is asked on its own account."""
        common = intersection(self._own, audiences)
        if not common:
            return None
        user = self.user_of(token)
        return None if user is None else Authenticated(user, common)

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        raise NotImplementedError


class StaticTokens(UserTokens):
    """A set of tokens, held as digests so that comparing leaks no timing and a memory dump leaks no token."""

    def __init__(self, tokens: Mapping[str, User], own: Audiences) -> None:
        super().__init__(own)
        self._users: dict[bytes, User] = {}
        self.replace(tokens)

    def replace(self, tokens: Mapping[str, User]) -> None:
        """Know these tokens and no others from now on."""
        self._users = {_digest(token): user for token, user in tokens.items()}

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        # A look-up by digest: how much of a digest is equal says nothing about how much of a token is.
        return self._users.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def intersection(first: Audiences, second: Audiences) -> Audiences:
    """Return the audiences that are in both, in the order of the first."""
    return first if first is second else tuple(one for one in first if one in second)


class TokenSources:
    """A union of token sources, asked in order. One that refuses a token does not keep later ones from knowing it."""

    def __init__(self, audiences: Audiences, *sources: TokenSource | RemoteTokenSource) -> None:
        self.audiences = audiences
        self._sources: list[tuple[bool, Callable[[str, Audiences], Any]]] = [
            (True, source.find) if isinstance(source, TokenSource) else (False, source.authenticate_token)
            for source in sources
        ]
        self.may_wait = not all(is_local for is_local, _ in self._sources)
        """True if a token may have to be checked outside this process."""

    def known(self, token: str) -> Authenticated | None:
        """Return the user of a token for this server by the local sources that come first, None if they know it not."""
        if len(token) > MAX_TOKEN:
            return None
        for is_local, ask in self._sources:
            if not is_local:
                return None
            found: Authenticated | None = ask(token, self.audiences)
            if found is not None:
                return found
        return None

    async def authenticate(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the user by the first source that knows the token, or None; `InvalidToken` has all reasons."""
        reasons: list[str] = []
        for is_local, ask in self._sources:
            try:
                found: Authenticated | None = ask(token, audiences) if is_local else await ask(token, audiences)
            except InvalidToken as error:
                reasons.append(str(error))
                continue
            if found is not None:
                return found
        if reasons:
            raise InvalidToken(aggregate([INVALID, *reasons]))
        return None


def aggregate(reasons: list[str]) -> str:
    """Return several errors in one text, as Kubernetes writes them."""
    distinct = list(dict.fromkeys(reasons))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
