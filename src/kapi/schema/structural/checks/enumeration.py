"""Enumerations and uniqueness, both without comparing pairs of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError
from kapi.api.go.text import quote
from kapi.schema.structural.messages import canonical, json_text, show

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_LAST_CHARACTER = 0x10FFFF


def identity(value: Any) -> Hashable:
    """A hashable that is equal for identical values only: 1, 1.0 and true differ."""
    kind = type(value)
    return (kind, canonical(value)) if kind is dict or kind is list else (kind, value)


def has_duplicates(items: list[Any]) -> bool:
    """Return True if two of the items are the same."""
    return len(set(map(identity, items))) < len(items)


class Enumeration:
    """The values of an `enum`. Null is never one of them, even if it is listed: nothing converts to it."""

    __slots__ = ("_known", "_listed", "strings")

    def __init__(self, values: Iterable[Any]) -> None:
        values = tuple(values)
        self._known = frozenset(identity(value) for value in values if value is not None)
        self.strings = frozenset(value for value in values if isinstance(value, str))
        texts = (value if isinstance(value, str) else json_text(value) for value in values)
        self._listed = ", ".join(map(quote, texts))

    def __contains__(self, value: Any) -> bool:
        """Return True if the value is listed, or becomes a listed one as Go converts numbers.

        That means 1 is 1.0, a fraction is cut off, and an integer is the character of its number.
        """
        if value is None:
            return False
        if identity(value) in self._known:
            return True
        if type(value) is int:
            character = chr(value) if 0 <= value <= _LAST_CHARACTER else "\ufffd"
            return (float, float(value)) in self._known or (str, character) in self._known
        return type(value) is float and (int, int(value)) in self._known

    def error(self, value: Any, name: str) -> FieldError:
        """The error of a value that is not listed."""
        return FieldError(
            "FieldValueNotSupported", name, f"Unsupported value: {show(value)}: supported values: {self._listed}"
        )
