"""The issuer of service account tokens: signs the claims of a TokenRequest, and publishes the keys to verify them with.

What a relying party needs (OpenID Connect Discovery 1.0) is served at `/.well-known/openid-configuration` and
`/openid/v1/jwks`, byte for byte as kube-apiserver writes it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kapi.codec import json
from kapi.server.authn.serviceaccounts import Binding, Reference, username

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.base.jwt import KeySet, SigningKey
    from kapi.server.authn.tokens import Audiences

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
EXTENDED_SECONDS: Final = 365 * 24 * 3600
WARNED_SECONDS: Final = 3607
"""The life that Kubernetes' admission asks for in pods: such a token is warned about then and valid for a year."""


class Bound(NamedTuple):
    """The objects that a token is bound to; a pod comes with its node."""

    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class TokenIssuer:
    """Issues tokens of service accounts.

    `maximum` is the longest life of a token in seconds, 0 for no limit; `extend` says whether tokens that admission
    injects into pods are valid for a year.
    """

    def __init__(
        self,
        key: SigningKey,
        keys: KeySet,
        issuer: str,
        audiences: Audiences,
        *,
        maximum: int = 0,
        extend: bool = True,
        keys_url: str = "",
    ) -> None:
        self.audiences = audiences
        self.maximum = maximum
        self._key = key
        self._keys = keys
        self._issuer = issuer
        self._extend = extend
        self._keys_url = keys_url

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        seconds: int,
        now: dt.datetime,
        bound: Bound,
    ) -> tuple[str, str]:
        """Return a token and its id."""
        metadata, token_id, begin = account["metadata"], str(uuid.uuid4()), int(now.timestamp())
        binding = Binding(metadata["namespace"], Reference(metadata["name"], metadata["uid"]), *bound)
        if (
            self._extend
            and bound.pod is not None
            and seconds == WARNED_SECONDS
            and set(audiences) <= set(self.audiences)
        ):
            binding.warnafter = begin + seconds
            seconds = EXTENDED_SECONDS
        claims: dict[str, Any] = {
            "aud": list(audiences),
            "exp": begin + seconds,
            "iat": begin,
            "iss": self._issuer,
            "jti": token_id,
            "kubernetes.io": msgspec.to_builtins(binding),
            "nbf": begin,
            "sub": username(metadata["namespace"], metadata["name"]),
        }
        return self._key.sign(claims), token_id

    def discovery(self, address: str) -> bytes | None:
        """Return the discovery document of a server at an address; None if the issuer is not an https URL."""
        parts = urlsplit(self._issuer)
        if parts.scheme != "https" or parts.query or parts.fragment:
            return None
        return json.encode(
            {
                "issuer": self._issuer,
                "jwks_uri": self._keys_url or f"https://{address}{KEYS_PATH}",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self._keys.keys}),
            }
        )

    def key_set(self) -> bytes:
        """Return the public keys as a JSON Web Key Set."""
        return json.encode({"keys": [key.jwk() for key in self._keys.keys]})
