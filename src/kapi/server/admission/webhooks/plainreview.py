"""The form that most answers of webhooks have, for msgspec, which reads one in a single pass.

`review` says what it means; it is compiled, and msgspec cannot read the types of compiled classes.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

_INT32: Final = msgspec.Meta(ge=-(2**31), le=2**31 - 1)


class PlainListMeta(msgspec.Struct, forbid_unknown_fields=True):
    """The metadata of a Status, which is empty."""


class PlainStatus(msgspec.Struct, forbid_unknown_fields=True):
    """The Status of an answer."""

    metadata: PlainListMeta | None = None
    status: str = ""
    message: str = ""
    reason: str = ""
    code: Annotated[int, _INT32] = 0


class PlainResponse(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The response of a review."""

    uid: str
    allowed: bool
    patch: bytes = b""
    patch_type: str | None = None
    status: PlainStatus | None = None
    audit_annotations: dict[str, str] = {}
    warnings: list[str] = []


class PlainReview(msgspec.Struct, forbid_unknown_fields=True):
    """The whole answer."""

    kind: str
    api_version: str = msgspec.field(name="apiVersion")
    response: PlainResponse


decode_plain = msgspec.json.Decoder(PlainReview).decode
"""Raises msgspec.DecodeError for every other form, and UnicodeDecodeError and RecursionError as msgspec does."""
