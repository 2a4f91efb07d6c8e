"""JSON Web Tokens (RFC 7519): signed with one key, verified with a set of public keys.

A token can be read by every client that has it; only the holder of a private key can sign one. Each key stands for one
algorithm, and a token that names another is refused: so `none` verifies nothing, and a public key is never used as the
secret of an HMAC. The package behind it is heavy, so it is imported with the first token.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from kapi.base.tls import ensure_private_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey
    PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
"""The algorithms with a private and a public key."""
MAX_LENGTH: Final = 64 * 1024
"""Longer texts are not looked at."""

_CURVES: Final = {"secp256r1": ("ES256", "P-256"), "secp384r1": ("ES384", "P-384"), "secp521r1": ("ES512", "P-521")}
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class InvalidSignature(Exception):
    """No key has signed the text, or it is no token."""


class UnknownKey(InvalidSignature):
    """The token names a key that is not there."""


class VerificationKey:
    """A public key: RSA, or an elliptic curve of 256, 384 or 521 bits; `ValueError` for any other."""

    def __init__(self, key: PublicKey) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self.key = key
        if isinstance(key, rsa.RSAPublicKey):
            self.algorithm = "RS256"
        elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
            self.algorithm = _CURVES[key.curve.name][0]
        else:
            raise ValueError("neither an RSA key nor an elliptic curve key of 256, 384 or 521 bits")
        data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = _encode(hashlib.sha256(data).digest())
        """A digest of the key, by which a verifier can tell which of several keys is meant."""

    def jwk(self) -> dict[str, str]:
        """Return the key as a JSON Web Key (RFC 7517)."""
        from cryptography.hazmat.primitives.asymmetric import ec

        if isinstance(self.key, ec.EllipticCurvePublicKey):
            point, size = self.key.public_numbers(), (self.key.curve.key_size + 7) // 8
            head = {"use": "sig", "kty": "EC", "kid": self.id, "crv": _CURVES[self.key.curve.name][1]}
            x, y = (_encode(number.to_bytes(size, "big")) for number in (point.x, point.y))
            return {**head, "alg": self.algorithm, "x": x, "y": y}
        numbers = self.key.public_numbers()
        n, e = (_encode(one.to_bytes((one.bit_length() + 7) // 8, "big")) for one in (numbers.n, numbers.e))
        return {"use": "sig", "kty": "RSA", "kid": self.id, "alg": self.algorithm, "n": n, "e": e}


class SigningKey:
    """A private key in a PEM file. Without a file one is made (P-256) when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded: tuple[PrivateKey, VerificationKey] | None = None

    @property
    def public(self) -> VerificationKey:
        """The key that verifies what this one signs; `ValueError` if the file has no key that can be used."""
        return self._load()[1]

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a token that says this."""
        import jwt

        key, public = self._load()
        payload = json.dumps(claims, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        return jwt.PyJWS().encode(payload, key, public.algorithm, {"kid": public.id, "typ": ""})

    def _load(self) -> tuple[PrivateKey, VerificationKey]:
        if self._loaded is None:
            key = ensure_private_key(self._path)
            try:
                self._loaded = key, VerificationKey(key.public_key())
            except ValueError as error:
                raise ValueError(f"{self._path}: {error}") from None
        return self._loaded


class KeySet:
    """Public keys, of which a token names one by its id."""

    def __init__(self, keys: Iterable[VerificationKey]) -> None:
        self.keys: Sequence[VerificationKey] = tuple(keys)

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that one of the keys has signed; raises `InvalidSignature`.

        Times, issuer and audience are the caller's to check.
        """
        import jwt

        try:
            if len(token) > MAX_LENGTH or not token.isascii():
                raise InvalidSignature("invalid signature")
            key_id = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            raise InvalidSignature("invalid signature") from None
        keys = [key for key in self.keys if not key_id or key.id == key_id]
        if not keys:
            raise UnknownKey("invalid signature, no keys found")
        for key in keys:
            with contextlib.suppress(jwt.PyJWTError):
                claims = _claims(jwt.PyJWS().decode(token, key.key, [key.algorithm]))
                if claims is not None:
                    return claims
        raise InvalidSignature("invalid signature")


class PublishedKeys:
    """The keys of a JSON Web Key Set (RFC 7517) that another server publishes; keys it cannot use are left out."""

    def __init__(self, document: dict[str, Any]) -> None:
        import jwt

        self._keys: list[tuple[str, Any]] = []
        for entry in document["keys"]:
            if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
                continue
            with contextlib.suppress(jwt.PyJWTError, ValueError, TypeError):
                key = jwt.PyJWK(entry)
                self._keys.append((str(entry.get("kid", "")), key.key))

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that one of the keys has signed; raises `InvalidSignature`."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise InvalidSignature("invalid signature") from None
        algorithm, key_id = header.get("alg", ""), header.get("kid", "")
        for known, key in self._keys:
            if (key_id and known != key_id) or not _fits(algorithm, key):
                continue
            with contextlib.suppress(jwt.PyJWTError):
                claims = _claims(jwt.PyJWS().decode(token, key, [algorithm]))
                if claims is not None:
                    return claims
        raise InvalidSignature("invalid signature")


def _fits(algorithm: str, key: Any) -> bool:
    """Return True if a public key is one of an algorithm; the secret of an HMAC never is."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if algorithm not in ALGORITHMS:
        return False
    if algorithm.startswith("ES"):
        return isinstance(key, ec.EllipticCurvePublicKey) and _CURVES.get(key.curve.name, ("",))[0] == algorithm
    return isinstance(key, rsa.RSAPublicKey)


def token_algorithm(token: str) -> str:
    """Return the algorithm that a token names; empty if it names none."""
    import jwt

    try:
        algorithm = jwt.get_unverified_header(token).get("alg", "")
    except jwt.PyJWTError:
        return ""
    return algorithm if isinstance(algorithm, str) else ""


def unverified_claims(token: str) -> dict[str, Any] | None:
    """Return what a token says, by whatever key; None for a text that is no token. Trust nothing of it."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_LENGTH:
        return None
    try:
        return _claims(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError):
        return None


def read_public_keys(path: Path) -> list[VerificationKey]:
    """Return the keys of a PEM file: public ones, those of private ones, and those of certificates.

    `ValueError` if it has none, or one that cannot be used.
    """
    keys = []
    for number, block in enumerate(_BLOCK.finditer(path.read_bytes()), 1):
        label = block.group(1).decode()
        # Written by OpenSSL in front of elliptic curve keys; the key repeats them.
        if label == "EC PARAMETERS":
            continue
        try:
            keys.append(VerificationKey(_public_key(label, block.group(0))))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: PEM block {number} ({label}) cannot be used: {error}") from None
    if not keys:
        raise ValueError(f"{path}: no keys in PEM: expected a public key, a private key or a certificate")
    return keys


def _public_key(label: str, pem: bytes) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    if label == "CERTIFICATE":
        return x509.load_pem_x509_certificate(pem).public_key()
    if label.endswith("PRIVATE KEY"):
        private: Any = load_pem_private_key(pem, password=None)
        return private.public_key()
    return load_pem_public_key(pem)


def _claims(payload: bytes) -> dict[str, Any] | None:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
