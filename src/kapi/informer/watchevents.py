"""The events of a watch, line by line: changes of objects, bookmarks, and errors.

Apart from the reflector, which decides what follows. A busy watch spends most of its time here, so a change in the
usual form is parsed in one pass over its bytes. No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from kapi.client.errors import AnswerError, error_from_status
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from kapi.informer.cached import Cached, Intake

T = TypeVar("T")


class Event(msgspec.Struct, gc=False):
    """Any event; its object is still bytes."""

    type: str
    object: msgspec.Raw


class MarkMetadata(msgspec.Struct):
    """The metadata of a bookmark."""

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct):
    metadata: MarkMetadata = msgspec.field(default_factory=MarkMetadata)


_OPENINGS: Final = {
    kind[:1].encode(): (kind, b'{"type":"%b","object":' % kind.encode()) for kind in ("ADDED", "MODIFIED", "DELETED")
}
"""The usual beginnings of an event's line, by the first letter of its type."""
_LETTER: Final = slice(9, 10)

_decode_event = msgspec.json.Decoder(Event).decode
_decode_mark = msgspec.json.Decoder(_Mark).decode


def read_change(line: bytes, intake: Intake[T]) -> tuple[str, Cached[T]] | None:
    """The change in a line that is written as servers write them; None for one that must be looked at closely.

    Whatever is one object between such an opening and such an end makes the line an event, so reading the object is
    enough, and the event around it need not be read as well.
    """
    found = _OPENINGS.get(line[_LETTER])
    if found is None or not line.startswith(found[1]) or not line.endswith(b"}"):
        return None
    kind, opening = found
    try:
        return kind, intake.cached(line[len(opening) : -1])
    except DecodeError:
        return None


def read_event(line: bytes) -> Event:
    """An event; an ERROR is raised as the error it carries."""
    try:
        event = _decode_event(line)
        if event.type == "ERROR":
            status: Any = msgspec.json.decode(event.object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"not an event: {error}") from None
    if event.type == "ERROR":
        raise error_from_status(status if isinstance(status, dict) else {})
    return event


def read_mark(event: Event) -> MarkMetadata:
    """Return the metadata of a bookmark."""
    try:
        return _decode_mark(event.object).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"not a bookmark: {error}") from None
