"""Tokens of OpenID Connect issuers, as an AuthenticationConfiguration lists them.

The keys of an issuer are found by its discovery document, fetched with the first token, and fetched again when a token
names a key that is not there; never more often than every few seconds, whatever tokens arrive.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from kapi.api.go.text import quote
from kapi.base.http import Endpoint, OutboundError
from kapi.base.jwt import ALGORITHMS, InvalidSignature, PublishedKeys, token_algorithm, unverified_claims
from kapi.server.authn.claims import ClaimMapper
from kapi.server.authn.tokens import Authenticated, InvalidToken, intersection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.api.user import User
    from kapi.base.clock import Clock
    from kapi.base.http import Outbound
    from kapi.server.authn.tokens import Audiences

FETCH_INTERVAL: Final = 5.0
"""The least time between two attempts to fetch the keys of an issuer, in seconds."""
FETCH_SECONDS: Final = 10.0
FETCH_BYTES: Final = 1024 * 1024
NOT_BEFORE_LEEWAY: Final = dt.timedelta(minutes=5)
KNOWN_SECONDS: Final = 10.0
"""The time for which the user of a token is remembered."""
KNOWN: Final = 1024

_log = structlog.get_logger("kapi.authentication")


class Issuer:
    """One issuer: its keys, and the users its tokens stand for."""

    def __init__(self, config: Mapping[str, Any], outbound: Outbound, clock: Clock, algorithms: Sequence[str]) -> None:
        self.config = config
        issuer = config["issuer"]
        self.url: str = issuer["url"]
        self._discovery_url = issuer.get("discoveryURL") or f"{self.url.rstrip('/')}/.well-known/openid-configuration"
        self._authority = (issuer.get("certificateAuthority") or "").encode()
        self._audiences = frozenset(issuer["audiences"])
        self._mapper = ClaimMapper(config)
        self._outbound = outbound
        self._clock = clock
        self._algorithms = tuple(algorithms)
        self._keys: PublishedKeys | None = None
        self._fetching = asyncio.Lock()
        self._fetched = -FETCH_INTERVAL

    async def user_of(self, token: str, claims: Mapping[str, Any]) -> User:
        """Return the user of a token that says it is of this issuer; raises `InvalidToken`."""
        self._check(token, claims)
        verified = await self._verified(token)
        return self._mapper.user_of(verified)

    def _check(self, token: str, claims: Mapping[str, Any]) -> None:
        """Refuse what can be told without a key."""
        said = claims.get("aud")
        audiences = [said] if isinstance(said, str) else said
        if not isinstance(audiences, list) or not any(
            one in self._audiences for one in audiences if isinstance(one, str)
        ):
            wanted = " ".join(map(quote, sorted(self._audiences)))
            raise InvalidToken(f"oidc: verify token: oidc: expected audience in [{wanted}] got {_shown(audiences)}")
        now = self._clock.now()
        expires, begins = _time(claims.get("exp")), _time(claims.get("nbf"))
        if expires is None or expires < now:
            raise InvalidToken("oidc: verify token: oidc: token is expired")
        if begins is not None and now + NOT_BEFORE_LEEWAY < begins:
            raise InvalidToken("oidc: verify token: oidc: current time before the nbf (not before) time")
        algorithm = token_algorithm(token)
        if algorithm not in self._algorithms:
            expected = " ".join(map(quote, self._algorithms))
            raise InvalidToken(
                "oidc: verify token: oidc: id token signed with unsupported algorithm, "
                f"expected [{expected}] got {quote(algorithm)}"
            )

    async def _verified(self, token: str) -> dict[str, Any]:
        before = self._keys
        if before is not None:
            try:
                return before.verify(token)
            except InvalidSignature:
                # The key may be a new one.
                pass
        keys = await self._fetch_after(before)
        if keys is None:
            raise InvalidToken("oidc: authenticator not initialized")
        try:
            return keys.verify(token)
        except InvalidSignature:
            raise InvalidToken(
                "oidc: verify token: failed to verify signature: failed to verify id token signature"
            ) from None

    async def _fetch_after(self, before: PublishedKeys | None) -> PublishedKeys | None:
        """Return newer keys than those, if they could be fetched, or the ones there are."""
        async with self._fetching:
            due = self._clock.monotonic() - self._fetched >= FETCH_INTERVAL
            if self._keys is before and due:
                self._fetched = self._clock.monotonic()
                try:
                    self._keys = await self._fetch()
                except (OutboundError, ValueError, LookupError, TypeError) as error:
                    _log.warning("the keys of an issuer cannot be fetched", issuer=self.url, error=str(error))
            return self._keys

    async def _fetch(self) -> PublishedKeys:
        document = await self._get(self._discovery_url)
        if document.get("issuer") != self.url:
            raise ValueError(f"the discovery document is of the issuer {document.get('issuer')!r}, not of {self.url!r}")
        keys_url = document.get("jwks_uri")
        if not isinstance(keys_url, str) or not keys_url.startswith("https://"):
            raise ValueError("jwks_uri of the discovery document is not an https URL")
        return PublishedKeys(await self._get(keys_url))

    async def _get(self, url: str) -> dict[str, Any]:
        endpoint = Endpoint(url, self._authority)
        answer = await self._outbound.get(endpoint, seconds=FETCH_SECONDS, limit=FETCH_BYTES)
        if answer.status != 200:
            raise ValueError(f"{url}: status {answer.status}")
        document = json.loads(answer.body)
        if not isinstance(document, dict):
            raise TypeError(f"{url}: expected a JSON object")
        return document


class _Known(NamedTuple):
    user: User
    until: float


class OidcTokens:
    """A `RemoteTokenSource` of the tokens of several issuers."""

    def __init__(self, own: Audiences, outbound: Outbound, clock: Clock) -> None:
        self._own = own
        self._outbound = outbound
        self._clock = clock
        self._issuers: dict[str, Issuer] = {}
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def configure(self, issuers: Sequence[Mapping[str, Any]], algorithms: Sequence[str] = ALGORITHMS) -> None:
        """Accept the tokens of these issuers and no others from now on; one that has not changed keeps its keys."""
        before = self._issuers
        self._issuers = {}
        for config in issuers:
            url = config["issuer"]["url"]
            old = before.get(url)
            unchanged = old is not None and old.config == config
            self._issuers[url] = old if unchanged and old else Issuer(config, self._outbound, self._clock, algorithms)
        self._known.clear()

    async def authenticate_token(self, token: str, audiences: Audiences) -> Authenticated | None:
        """Return the user of a token, None if it is of no issuer here; `InvalidToken` if it is not valid."""
        common = intersection(self._own, audiences)
        if not common:
            return None
        digest, now = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.monotonic()
        known = self._known.get(digest)
        if known is not None and known.until > now:
            return Authenticated(known.user, common)
        claims = unverified_claims(token)
        url = None if claims is None else claims.get("iss")
        issuer = self._issuers.get(url) if isinstance(url, str) else None
        if issuer is None or claims is None:
            return None
        user = await issuer.user_of(token, claims)
        self._known[digest] = _Known(user, now + self._seconds_left(claims))
        self._known.move_to_end(digest)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return Authenticated(user, common)

    def _seconds_left(self, claims: Mapping[str, Any]) -> float:
        expires = _time(claims.get("exp"))
        left = 0.0 if expires is None else (expires - self._clock.now()).total_seconds()
        return min(KNOWN_SECONDS, left)


def _time(value: Any) -> dt.datetime | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return dt.datetime.fromtimestamp(value, dt.UTC)
    except (OverflowError, OSError, ValueError):
        return dt.datetime.max.replace(tzinfo=dt.UTC) if value > 0 else None


def _shown(audiences: object) -> str:
    if not isinstance(audiences, list):
        return "[]"
    return f"[{' '.join(quote(one) for one in audiences if isinstance(one, str))}]"
