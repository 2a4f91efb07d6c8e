"""The frames of a watch: one JSON object a line, made of bytes that are already encoded.

An event is encoded once for all its watchers; nothing here decodes or copies the object more than once.
"""

from __future__ import annotations

from typing import Final

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"

_HEADS: Final = {
    event_type: b'{"type":"' + event_type.encode() + b'","object":'
    for event_type in (ADDED, MODIFIED, DELETED, BOOKMARK, ERROR)
}


def frame(event_type: str, encoded: bytes) -> bytes:
    """Return one event as it is sent; `encoded` is the object in JSON."""
    return b"".join((_HEADS[event_type], encoded, b"}\n"))


def frame_parts(event_type: str) -> tuple[bytes, bytes]:
    """Return what comes before and after the object in an event."""
    return _HEADS[event_type], b"}\n"
