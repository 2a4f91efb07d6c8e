"""The errors of decoding. The decoders of this package raise nothing else, whatever the bytes are.

    ValueError
    └── DecodeError          the bytes are not a document of that format, or break a limit: 400
        └── UnknownMessage   a protobuf body of a kind that has no table here: 415

Handlers turn them into Status errors, since only they know which kind was expected.
"""

from __future__ import annotations


class DecodeError(ValueError):
    """The body cannot be decoded; `message` is the text that follows `json parse error: ` and the like."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnknownMessage(DecodeError):
    """A protobuf body whose kind we have no table for; the message says how to send JSON instead."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(
            f"{kind} in version {api_version!r} cannot be decoded from protobuf here; "
            "send it as Content-Type: application/json (in client-go set rest.Config.ContentType)"
        )
        self.api_version = api_version
        self.kind = kind
