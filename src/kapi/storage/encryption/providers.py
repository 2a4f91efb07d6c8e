"""Ciphers by which values are stored, in the formats of Kubernetes: `k8s:enc:<provider>:v1:<key name>:<data>`.

The key of the object is authenticated together with its value (aesgcm), so that what is stored under one key cannot be
moved to another. aescbc has no authentication and is there for compatibility; use secretbox or aesgcm.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from kapi.storage.encryption.prefix import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK_BITS: Final = 128
_IV_BYTES: Final = 16
_GCM_NONCE_BYTES: Final = 12
_SECRETBOX_NONCE_BYTES: Final = 24


class DecryptionError(ValueError):
    """Stored bytes that cannot be decrypted with any key of the configuration."""


class MissingLibrary(ValueError):
    """A provider whose library is not installed."""


class Provider(Protocol):
    """One key of one cipher."""

    prefix: bytes
    """What the stored bytes begin with; empty for values that are not encrypted."""

    def encrypt(self, key: str, plain: bytes) -> bytes:
        """Return the bytes to store under a key."""
        ...

    def decrypt(self, key: str, stored: bytes) -> bytes:
        """Return the value of bytes that begin with `prefix`. Raises `DecryptionError`."""
        ...


class Identity:
    """No encryption."""

    prefix = b""

    def encrypt(self, key: str, plain: bytes) -> bytes:
        """Return the value."""
        return plain

    def decrypt(self, key: str, stored: bytes) -> bytes:
        """Return the value; what is encrypted is not for this provider."""
        if stored.startswith(PREFIX):
            raise DecryptionError("identity transformer tried to read encrypted data")
        return stored


class AesCbc:
    """AES in CBC mode with PKCS#7 padding and a random initialization vector."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.prefix = _prefix("aescbc", name)
        self._cipher = AES(secret)

    def encrypt(self, key: str, plain: bytes) -> bytes:
        """Encrypt a value."""
        vector = os.urandom(_IV_BYTES)
        padder = padding.PKCS7(_BLOCK_BITS).padder()
        encryptor = Cipher(self._cipher, CBC(vector)).encryptor()
        padded = padder.update(plain) + padder.finalize()
        return self.prefix + vector + encryptor.update(padded) + encryptor.finalize()

    def decrypt(self, key: str, stored: bytes) -> bytes:
        """Decrypt a value."""
        data = stored[len(self.prefix) :]
        vector, data = data[:_IV_BYTES], data[_IV_BYTES:]
        try:
            decryptor = Cipher(self._cipher, CBC(vector)).decryptor()
            padded = decryptor.update(data) + decryptor.finalize()
            unpadder = padding.PKCS7(_BLOCK_BITS).unpadder()
            return unpadder.update(padded) + unpadder.finalize()
        except ValueError:
            raise DecryptionError("the stored data is not valid for aescbc with this key") from None


class AesGcm:
    """AES in Galois/Counter mode with a random nonce; the object's key is authenticated, too."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.prefix = _prefix("aesgcm", name)
        self._cipher = AESGCM(secret)

    def encrypt(self, key: str, plain: bytes) -> bytes:
        """Encrypt a value."""
        nonce = os.urandom(_GCM_NONCE_BYTES)
        return self.prefix + nonce + self._cipher.encrypt(nonce, plain, key.encode())

    def decrypt(self, key: str, stored: bytes) -> bytes:
        """Decrypt a value."""
        start = len(self.prefix) + _GCM_NONCE_BYTES
        try:
            return self._cipher.decrypt(stored[len(self.prefix) : start], stored[start:], key.encode())
        except (InvalidTag, ValueError):
            raise DecryptionError("the stored data is not valid for aesgcm with this key") from None


class SecretBox:
    """XSalsa20 and Poly1305, by PyNaCl, which is an optional dependency."""

    def __init__(self, name: str, secret: bytes) -> None:
        try:
            from nacl.exceptions import CryptoError
            from nacl.secret import SecretBox as Box
        except ImportError:
            raise MissingLibrary("secretbox needs the package PyNaCl: pip install 'kapi[secretbox]'") from None
        self.prefix = _prefix("secretbox", name)
        self._box: Any = Box(secret)
        self._failure: type[Exception] = CryptoError

    def encrypt(self, key: str, plain: bytes) -> bytes:
        """Encrypt a value."""
        return self.prefix + bytes(self._box.encrypt(plain, os.urandom(_SECRETBOX_NONCE_BYTES)))

    def decrypt(self, key: str, stored: bytes) -> bytes:
        """Decrypt a value."""
        try:
            return bytes(self._box.decrypt(stored[len(self.prefix) :]))
        except (self._failure, ValueError):
            raise DecryptionError("the stored data is not valid for secretbox with this key") from None


CIPHERS: Final[dict[str, tuple[Callable[[str, bytes], Provider], tuple[int, ...]]]] = {
    "aescbc": (AesCbc, (16, 24, 32)),
    "aesgcm": (AesGcm, (16, 24, 32)),
    "secretbox": (SecretBox, (32,)),
}
"""The ciphers by their names in a configuration, each with the lengths of its keys in bytes."""


def _prefix(provider: str, name: str) -> bytes:
    return b"%b%b:v1:%b:" % (PREFIX, provider.encode(), name.encode())
