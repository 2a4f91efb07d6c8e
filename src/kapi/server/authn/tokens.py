"""Bearer tokens: the sources that know them, and their union."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.user import User


@runtime_checkable
class TokenSource(Protocol):
    """A source of tokens that answers from memory."""

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None when it is not a valid one of this source."""
        ...


class RemoteTokenSource(Protocol):
    """A source of tokens that may wait for an answer from outside this process: OIDC keys, a webhook."""

    async def authenticate_token(self, token: str) -> User | None:
        """Return the user of a token, or None when it is not a valid one of this source."""
        ...


class StaticTokens:
    """A fixed set of tokens, held as digests so that comparing leaks no timing and a memory dump leaks no token."""

    def __init__(self, tokens: dict[str, User]) -> None:
        self._users = {hashlib.sha256(token.encode()).digest(): user for token, user in tokens.items()}

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        digest = hashlib.sha256(token.encode()).digest()
        for known, user in self._users.items():
            if hmac.compare_digest(known, digest):
                return user
        return None


class TokenSources:
    """A union of token sources, asked in order."""

    def __init__(self, *sources: TokenSource | RemoteTokenSource) -> None:
        self._sources: list[tuple[bool, Callable[[str], Any]]] = [
            (True, source.user_of) if isinstance(source, TokenSource) else (False, source.authenticate_token)
            for source in sources
        ]
        self.may_wait = not all(is_local for is_local, _ in self._sources)
        """True if a token may have to be checked outside this process."""

    async def user_of(self, token: str) -> User | None:
        """Return the user by the first source that knows the token, or None."""
        for is_local, ask in self._sources:
            user: User | None = ask(token) if is_local else await ask(token)
            if user is not None:
                return user
        return None
