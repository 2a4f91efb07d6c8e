"""Bearer tokens of service accounts: those of TokenRequests, and those kept in Secrets.

A token of a TokenRequest expires and may be bound to an object. A token in a Secret of the type
kubernetes.io/service-account-token does neither. Both are valid as long as the account they were made for exists, and
the Secret, Pod or Node they are bound to: all is looked up each time, so that deleting any of them revokes a token.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapi.api.go.text import quote
from kapi.api.meta import is_deleting, parse_time
from kapi.api.user import CREDENTIAL_ID, User
from kapi.base.jwt import InvalidSignature, KeySet, unverified_claims
from kapi.server.authn.tokens import Audiences, Authenticated, InvalidToken, intersection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Item
    from kapi.registry.catalog import Catalog

LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
"""A label that makes the token of a Secret invalid."""
LEEWAY: Final = dt.timedelta(minutes=1)
"""The difference of clocks that is tolerated; an object counts as deleted that long after its deletionTimestamp."""
KNOWN: Final = 1024
"""Tokens whose signature was verified, remembered by digest: verifying one takes longer than most requests."""

_LEGACY: Final = "kubernetes.io/serviceaccount/"
_EXTRA: Final = "authentication.kubernetes.io/"


class Reference(msgspec.Struct, omit_defaults=True):
    """An object that a token names."""

    name: str = ""
    uid: str = ""


class Binding(msgspec.Struct, omit_defaults=True):
    """The claim `kubernetes.io` of a token."""

    namespace: str = ""
    serviceaccount: Reference = msgspec.field(default_factory=Reference)
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None
    warnafter: float = 0


class _Claims(msgspec.Struct):
    """The claims of a token that are checked."""

    iss: str = ""
    sub: str = ""
    aud: list[str] | str = []
    jti: str = ""
    exp: float | None = None
    nbf: float | None = None
    iat: float | None = None
    kubernetes: Binding = msgspec.field(default_factory=Binding, name="kubernetes.io")


class _Known:
    """A token whose signature is valid."""

    __slots__ = ("audiences", "claims", "legacy", "seen", "user")

    def __init__(self, claims: _Claims, legacy: dict[str, str] | None) -> None:
        self.claims = claims
        self.audiences = (claims.aud,) if isinstance(claims.aud, str) else tuple(claims.aud)
        self.legacy = legacy
        """The parts of a token that is kept in a Secret."""
        self.user: User | None = None
        """The user, as long as the objects in `seen` have not changed."""
        self.seen: Sequence[_Seen] = ()


class _Seen(NamedTuple):
    """An object that a token depends on, as it was when the token was found to be valid."""

    get: Callable[[str], Item | None]
    key: str
    item: Item


def username(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def secret_claims(account: Object, secret: Object) -> dict[str, Any]:
    """Return the claims of the token in a Secret for the service account it is for."""
    metadata = account["metadata"]
    return {
        "iss": LEGACY_ISSUER,
        _LEGACY + "namespace": metadata["namespace"],
        _LEGACY + "secret.name": secret["metadata"]["name"],
        _LEGACY + "service-account.name": metadata["name"],
        _LEGACY + "service-account.uid": metadata["uid"],
        "sub": username(metadata["namespace"], metadata["name"]),
    }


class ServiceAccountTokens:
    """A `TokenSource` of service account tokens.

    `used` is called with the Secret that keeps a token, when that token is used.
    """

    def __init__(
        self,
        keys: KeySet,
        catalog: Catalog,
        issuers: Sequence[str],
        own: Audiences,
        clock: Clock,
        *,
        used: Callable[[Object], None] | None = None,
    ) -> None:
        self._keys = keys
        self._catalog = catalog
        self._issuers = frozenset(issuers)
        self._own = own
        self._clock = clock
        self._used = used
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def find(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the service account as a user, None for a token of another issuer; `InvalidToken` says why not."""
        known = self._verified(token)
        if known is None:
            return None
        meant = known.audiences or self._own
        common = intersection(meant, audiences)
        if not common:
            said, wanted = _quoted(meant), _quoted(audiences)
            raise InvalidToken(f"token audiences {said} is invalid for the target audiences {wanted}")
        if known.legacy is not None:
            return Authenticated(self._legacy_user(token, known.claims, known.legacy), common)
        return Authenticated(self._user(known), common)

    def _verified(self, token: str) -> _Known | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._known.get(digest)
        if known is not None:
            return known
        said = unverified_claims(token)
        issuer = None if said is None else said.get("iss")
        if not isinstance(issuer, str) or (issuer != LEGACY_ISSUER and issuer not in self._issuers):
            return None
        try:
            raw = self._keys.verify(token)
            claims = msgspec.convert(raw, _Claims)
        except InvalidSignature as error:
            raise InvalidToken(str(error)) from None
        except msgspec.ValidationError as error:
            raise InvalidToken(f"the claims of the token cannot be read: {error}") from None
        known = self._known[digest] = _Known(claims, _legacy(raw) if issuer == LEGACY_ISSUER else None)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return known

    # -- tokens of TokenRequests ------------------------------------------------------------------------------------

    def _user(self, known: _Known) -> User:
        now = self._clock.now()
        _check_times(known.claims, now.timestamp())
        if known.user is not None and all(one.get(one.key) is one.item for one in known.seen):
            return known.user
        known.user = None
        seen: list[_Seen] = []
        user, is_final = self._checked_user(known.claims, now, seen)
        if is_final:
            known.user, known.seen = user, seen
        return user

    def _checked_user(self, claims: _Claims, now: dt.datetime, seen: list[_Seen]) -> tuple[User, bool]:
        """Return the user, and True if only a change of an object in `seen` can make the token invalid."""
        bound = claims.kubernetes
        namespace, account = bound.namespace, bound.serviceaccount
        found = self._get("serviceaccounts", namespace, account.name, seen)
        if found is None:
            raise InvalidToken(f'serviceaccounts "{account.name}" not found')
        if found["metadata"]["uid"] != account.uid:
            raise InvalidToken(f"service account UID ({found['metadata']['uid']}) does not match claim ({account.uid})")
        if _was_deleted(found, now):
            raise InvalidToken(f"service account {namespace}/{account.name} has been deleted")
        objects = [found]
        if bound.secret is not None:
            objects.append(self._bound("secret", "secrets", namespace, bound.secret, now, seen))
        if bound.pod is not None:
            objects.append(self._bound("pod", "pods", namespace, bound.pod, now, seen))
        elif bound.node is not None:
            objects.append(self._bound("node", "nodes", "", bound.node, now, seen))
        return _account_user(namespace, account, _extra(claims)), not any(map(is_deleting, objects))

    def _bound(
        self, kind: str, resource: str, namespace: str, bound: Reference, now: dt.datetime, seen: list[_Seen]
    ) -> Object:
        found = self._get(resource, namespace, bound.name, seen)
        if found is None:
            raise InvalidToken("service account token has been invalidated")
        uid = found["metadata"]["uid"]
        if uid != bound.uid:
            raise InvalidToken(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({bound.uid})")
        if _was_deleted(found, now):
            raise InvalidToken("service account token has been invalidated")
        return found

    def _get(self, resource: str, namespace: str, name: str, seen: list[_Seen]) -> Object | None:
        """Return the current state of an object, and note it in `seen`."""
        store = self._catalog.store(resource)
        item = store.find(namespace, name)
        if item is None:
            return None
        seen.append(_Seen(store.cache.get, item.key, item))
        return store.decode(item)

    # -- tokens in Secrets ------------------------------------------------------------------------------------------

    def _legacy_user(self, token: str, claims: _Claims, parts: dict[str, str]) -> User:
        if not claims.sub:
            raise InvalidToken("sub claim is missing")
        for part, name in _LEGACY_PARTS.items():
            if not parts[part]:
                raise InvalidToken(f"{name} claim is missing")
        namespace, name = parts["namespace"], parts["service-account.name"]
        if claims.sub != username(namespace, name):
            raise InvalidToken("sub claim is invalid")
        secret = self._catalog.get("secrets", namespace, parts["secret.name"])
        if secret is None or is_deleting(secret):
            raise InvalidToken("Token has been invalidated")
        if not hmac.compare_digest(_kept_token(secret), token.encode()):
            raise InvalidToken("Token does not match server's copy")
        account = self._catalog.get("serviceaccounts", namespace, name)
        if account is None:
            raise InvalidToken(f'serviceaccounts "{name}" not found')
        metadata = account["metadata"]
        if is_deleting(account):
            raise InvalidToken(f"ServiceAccount {namespace}/{name} has been deleted")
        if metadata["uid"] != parts["service-account.uid"]:
            raise InvalidToken(
                f"ServiceAccount UID ({metadata['uid']}) does not match claim ({parts['service-account.uid']})"
            )
        if self._used is not None:
            self._used(secret)
        if secret["metadata"].get("labels", {}).get(INVALID_SINCE):
            where = f"{namespace}/{parts['secret.name']} for service account {namespace}/{name}"
            raise InvalidToken(
                f"the token in secret {where} has been marked invalid. Use tokens from the TokenRequest API or "
                f"manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to "
                "temporarily allow use of this token"
            )
        return _account_user(namespace, Reference(name, metadata["uid"]), {})


_LEGACY_PARTS: Final = {
    "namespace": "namespace",
    "secret.name": "secretName",
    "service-account.name": "serviceAccountName",
    "service-account.uid": "serviceAccountUID",
}


def _legacy(claims: dict[str, Any]) -> dict[str, str]:
    found = {part: claims.get(_LEGACY + part) for part in _LEGACY_PARTS}
    return {part: value if isinstance(value, str) else "" for part, value in found.items()}


def _check_times(claims: _Claims, now: float) -> None:
    leeway = LEEWAY.total_seconds()
    if claims.nbf is not None and now + leeway < claims.nbf:
        raise InvalidToken("service account token is not valid yet")
    if claims.exp is not None and now - leeway > claims.exp:
        raise InvalidToken("service account token has expired")
    if claims.iat is not None and now + leeway < claims.iat:
        raise InvalidToken("service account token is issued in the future")


def _was_deleted(obj: Object, now: dt.datetime) -> bool:
    deleted = parse_time(obj["metadata"].get("deletionTimestamp") or "")
    return deleted is not None and deleted < now - LEEWAY


def _account_user(namespace: str, account: Reference, extra: dict[str, list[str]]) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(username(namespace, account.name), groups, account.uid, extra)


def _extra(claims: _Claims) -> dict[str, list[str]]:
    """Return what a token says of the pod and node it is for, and the id of the token."""
    extra: dict[str, list[str]] = {}
    pod, node = claims.kubernetes.pod, claims.kubernetes.node
    if pod is not None and pod.name and pod.uid:
        extra |= {f"{_EXTRA}pod-name": [pod.name], f"{_EXTRA}pod-uid": [pod.uid]}
    if claims.jti:
        extra[CREDENTIAL_ID] = [f"JTI={claims.jti}"]
    if node is not None and node.name:
        extra[f"{_EXTRA}node-name"] = [node.name]
        if node.uid:
            extra[f"{_EXTRA}node-uid"] = [node.uid]
    return extra


def _kept_token(secret: Object) -> bytes:
    try:
        return base64.b64decode(secret.get("data", {}).get("token", ""))
    except (binascii.Error, ValueError):
        return b""


def _quoted(audiences: Audiences) -> str:
    """Return audiences as Go prints a slice of quoted strings."""
    return f"[{' '.join(map(quote, audiences))}]"
