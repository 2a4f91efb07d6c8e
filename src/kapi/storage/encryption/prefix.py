"""How an encrypted value is told from a plain one."""

from __future__ import annotations

from typing import Final

PREFIX: Final = b"k8s:enc:"
"""What every encrypted value begins with; no JSON does."""


class NotDecryptedError(ValueError):
    """A value that is encrypted, in a server that was started without --encryption-provider-config."""


def require_plain(value: bytes) -> None:
    """Raise `NotDecryptedError` for a value that is encrypted."""
    if value.startswith(PREFIX):
        raise NotDecryptedError
