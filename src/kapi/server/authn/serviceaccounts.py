"""Bearer tokens of service accounts: those kept in Secrets of the type kubernetes.io/service-account-token.

Such a token does not expire. It is valid as long as its Secret exists and still holds it, and as long as the account it
was made for exists; both are looked up each time, so that deleting either revokes it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from kapi.api.meta import is_deleting
from kapi.api.user import User
from kapi.server.authn.tokens import Audiences, UserTokens

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.base.jwt import SigningKey
    from kapi.registry.strategy import Lookup

ISSUER: Final = "kubernetes/serviceaccount"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
"""A label that makes the token of a Secret invalid."""
KNOWN: Final = 1024
"""Tokens whose signature was verified, remembered by digest: verifying one takes longer than most requests."""

_PREFIX: Final = "kubernetes.io/serviceaccount/"


def secret_claims(account: Object, secret: Object) -> dict[str, Any]:
    """Return the claims of the token in a Secret for the service account it is for."""
    metadata = account["metadata"]
    return {
        "iss": ISSUER,
        _PREFIX + "namespace": metadata["namespace"],
        _PREFIX + "secret.name": secret["metadata"]["name"],
        _PREFIX + "service-account.name": metadata["name"],
        _PREFIX + "service-account.uid": metadata["uid"],
        "sub": username(metadata["namespace"], metadata["name"]),
    }


def username(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


class ServiceAccountTokens(UserTokens):
    """A `TokenSource` of service account tokens."""

    def __init__(self, key: SigningKey, lookup: Lookup, own: Audiences) -> None:
        super().__init__(own)
        self._key = key
        self._lookup = lookup
        self._known: OrderedDict[bytes, dict[str, Any]] = OrderedDict()

    def user_of(self, token: str) -> User | None:
        """Return the service account as a user, None when the token is not one of them or no longer valid."""
        if token.count(".") != 2 or not token.isascii():
            return None
        claims = self._claims(token)
        if claims is None:
            return None
        account = self._account(token, claims)
        if account is None:
            return None
        metadata = account["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return User(username(namespace, name), groups, metadata["uid"])

    def _claims(self, token: str) -> dict[str, Any] | None:
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._known.get(digest)
        if claims is None:
            claims = self._key.verify(token, ISSUER)
            if claims is None:
                return None
            self._known[digest] = claims
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return claims

    def _account(self, token: str, claims: dict[str, Any]) -> Object | None:
        """Return the service account that a token is valid for now."""
        said = [claims.get(_PREFIX + part) for part in ("namespace", "secret.name", "service-account.name")]
        parts = [part for part in said if isinstance(part, str) and part]
        if len(parts) != len(said):
            return None
        namespace, secret_name, name = parts
        if claims.get("sub") != username(namespace, name):
            return None
        secret = self._lookup.get("secrets", namespace, secret_name)
        if secret is None or is_deleting(secret) or not _holds(secret, token):
            return None
        account = self._lookup.get("serviceaccounts", namespace, name)
        if account is None or is_deleting(account):
            return None
        return account if account["metadata"]["uid"] == claims.get(_PREFIX + "service-account.uid") else None


def _holds(secret: Object, token: str) -> bool:
    if secret["metadata"].get("labels", {}).get(INVALID_SINCE):
        return False
    try:
        kept = base64.b64decode(secret.get("data", {}).get("token", ""))
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(kept, token.encode())
