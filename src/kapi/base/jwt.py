"""JSON Web Tokens signed with one P-256 key (ES256) that is kept in a file.

A token can be read by every client that has it; only the holder of the key can sign one. The package behind it is heavy
and most servers never see such a token, so it is imported, and the key is read, with the first one.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kapi.base.tls import ensure_private_key

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric import ec

ALGORITHM: Final = "ES256"
MAX_LENGTH: Final = 64 * 1024
"""Longer texts are not looked at."""


class SigningKey:
    """A key in a file, made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sign(self, claims: dict[str, Any]) -> str:
        """A token that says this."""
        import jwt

        return jwt.encode(claims, self._key, ALGORITHM, {"kid": self._id})

    def verify(self, token: str, issuer: str) -> dict[str, Any] | None:
        """Return the claims of an unexpired token that this key signed for an issuer; None for any other text."""
        import jwt

        if len(token) > MAX_LENGTH:
            return None
        try:
            # The audience is checked by the caller.
            return jwt.decode(token, self._public, [ALGORITHM], {"verify_aud": False}, issuer=issuer)
        except jwt.PyJWTError:
            return None

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        return ensure_private_key(self._path)

    @cached_property
    def _public(self) -> ec.EllipticCurvePublicKey:
        return self._key.public_key()

    @cached_property
    def _id(self) -> str:
        """A digest of the public key, by which a verifier can tell which of several keys is meant."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        data = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
