"""Bootstrap tokens: Secrets of type bootstrap.kubernetes.io/token in kube-system, with which nodes join a cluster.

A token is `ID.SECRET`; its Secret is `bootstrap-token-ID`. It is looked up each time, so that a change counts at once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import TYPE_CHECKING, Final

import structlog

from kapi.api.meta import is_deleting, parse_time
from kapi.api.user import User
from kapi.server.authn.tokens import UserTokens

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.registry.strategy import Lookup
    from kapi.server.authn.tokens import Audiences

TYPE: Final = "bootstrap.kubernetes.io/token"
NAMESPACE: Final = "kube-system"
GROUP: Final = "system:bootstrappers"

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")

_log = structlog.get_logger("kapi.authentication")


class BootstrapTokens(UserTokens):
    """A `TokenSource` of bootstrap tokens."""

    def __init__(self, lookup: Lookup, own: Audiences, clock: Clock) -> None:
        super().__init__(own)
        self._lookup = lookup
        self._clock = clock

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        token_id, secret = parts.groups()
        found = self._lookup.get("secrets", NAMESPACE, f"bootstrap-token-{token_id}")
        if found is None or is_deleting(found) or found.get("type") != TYPE:
            return None
        if not hmac.compare_digest(_text(found, "token-secret").encode(), secret.encode()):
            return None
        if problem := self._problem(found, token_id):
            _log.debug("a bootstrap token is not valid", secret=f"bootstrap-token-{token_id}", error=problem)
            return None
        return User(f"system:bootstrap:{token_id}", _groups(found) or ())

    def _problem(self, secret: Object, token_id: str) -> str:
        """Return why the Secret of a token that matches does not authenticate; empty if it does."""
        if _text(secret, "token-id") != token_id:
            return "token-id is not the one in the Secret's name"
        if (expiration := _text(secret, "expiration")) and not self._is_future(expiration):
            return "it has expired, or its expiration is not a time of RFC 3339"
        if _text(secret, "usage-bootstrap-authentication") != "true":
            return "usage-bootstrap-authentication is not true"
        if _groups(secret) is None:
            return f"auth-extra-groups has a group that does not begin with {GROUP}:"
        return ""

    def _is_future(self, text: str) -> bool:
        moment = parse_time(text)
        return moment is not None and moment > self._clock.now()


def _groups(secret: Object) -> tuple[str, ...] | None:
    """Return the groups of a token; None if one is not valid."""
    text = _text(secret, "auth-extra-groups")
    extra = set(text.split(",")) if text else set()
    if not all(_GROUP.fullmatch(one) for one in extra):
        return None
    return tuple(sorted({GROUP, *extra}))


def _text(secret: Object, key: str) -> str:
    try:
        return base64.b64decode(secret.get("data", {}).get(key, "")).decode()
    except (binascii.Error, ValueError):
        return ""
