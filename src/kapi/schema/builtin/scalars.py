"""Readers for the values at the leaves of a typed object, with the errors of kube-apiserver's JSON decoder.

A reader takes a decoded JSON value (never null) and returns what is kept, which is the same object in the common case.
What it cannot take it refuses with `TypeMismatch`, whose text is the one Go's decoder would give: type errors name the
struct and the path of the field, which the enclosing readers add on the way out.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

from kapi.api.go.times import BadTime, canonical_micro_time, canonical_time
from kapi.api.go.types import json_type, restore_error, unmarshal_error
from kapi.api.values import canonical_quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[Any], Any]

QUANTITY_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


class TypeMismatch(ValueError):
    """A value that the kind's type cannot hold. `message` is that of kube-apiserver."""

    def __init__(
        self, text: str = "", *, value: Any = None, shown: str = "", go_type: str = "", kind: str = ""
    ) -> None:
        super().__init__()
        self._text = text
        self._value = value
        self._shown = shown
        self._go_type = go_type
        self._kind = kind
        self._struct = ""
        self._path: list[str] = []

    @classmethod
    def of(cls, value: Any, go_type: str, kind: str = "") -> TypeMismatch:
        """The JSON type of `value` is not one that `go_type` is read from.

        `kind` is the kind of that Go type (struct, map, slice, string, int32 …), empty if it has a decoder of its own.
        """
        return cls(value=value, shown=json_type(value), go_type=go_type, kind=kind)

    def enclose(self, struct: str, field: str) -> None:
        """Add the struct and field around the value. Called from the inside out; the innermost struct is named."""
        self._struct = self._struct or struct
        self._path.append(field)

    @property
    def message(self) -> str:
        """The text, complete once `enclose` was called for every enclosing struct."""
        if self._text:
            return self._text
        path = ".".join(reversed(self._path))
        return unmarshal_error(self._shown, self._go_type, field=f"{self._struct}.{path}" if self._struct else "")

    @property
    def conversion_message(self) -> str:
        """The text about an object that was not decoded from JSON but converted from a map: a merged patch."""
        if self._text:
            return self._text
        if not self._kind:
            return unmarshal_error(self._shown, self._go_type)
        return restore_error(self._value, self._kind, self._go_type)

    def __str__(self) -> str:
        return self.message


def integer(go_type: str, bits: int, *, kind: str | None = None) -> Reader:
    """A whole number of that many bits. `1.0` is not one: the decoder looks at the text, not at the value."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    go_kind = f"int{bits}" if kind is None else kind

    def read(value: Any) -> Any:
        if type(value) is int:
            if low <= value <= high:
                return value
        elif type(value) is not float:
            raise TypeMismatch.of(value, go_type, go_kind)
        raise TypeMismatch(value=value, shown=f"number {value}", go_type=go_type, kind=go_kind)

    return read


def floating(value: Any) -> Any:
    """A float64, written without a fraction when it has none, as kube-apiserver does."""
    if type(value) is int:
        return value
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    raise TypeMismatch.of(value, "float64", "float64")


_int32 = integer("int32", 32, kind="")


def int_or_string(value: Any) -> Any:
    """A string as it is, or an int32."""
    return value if type(value) is str else _int32(value)


def quantity(value: Any) -> Any:
    """A quantity in its canonical form."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeMismatch(QUANTITY_FORMAT)
    try:
        return canonical_quantity(value)
    except ValueError as error:
        raise TypeMismatch(str(error)) from None


def time(value: Any) -> Any:
    """A `metav1.Time`; None when it is the zero time."""
    return _time(value, canonical_time)


def micro_time(value: Any) -> Any:
    """A `metav1.MicroTime`; None when it is the zero time."""
    return _time(value, canonical_micro_time)


def _time(value: Any, canonical: Callable[[str], str | None]) -> Any:
    if type(value) is not str:
        raise TypeMismatch.of(value, "string")
    try:
        return canonical(value)
    except BadTime as error:
        raise TypeMismatch(str(error)) from None


def base64(value: Any) -> Any:
    """Bytes as base64, line breaks removed and unused bits cleared, as decoding and encoding them again does."""
    if type(value) is not str:
        raise TypeMismatch.of(value, "[]uint8", "slice")
    packed = value.replace("\r", "").replace("\n", "")
    try:
        raw = binascii.a2b_base64(packed, strict_mode=True)
    except ValueError:
        raise TypeMismatch(f"illegal base64 data at input byte {_illegal_base64(value)}") from None
    canonical = binascii.b2a_base64(raw, newline=False).decode("ascii")
    if len(canonical) != len(packed):  # the library overlooks padding after a complete group
        raise TypeMismatch(f"illegal base64 data at input byte {_illegal_base64(value)}")
    return value if canonical == value else canonical


def _illegal_base64(text: str) -> int:
    """The offset where Go's decoder stops: the first illegal byte, or the start of an incomplete group."""
    data = text.encode(errors="surrogatepass")
    filled = 0
    for place, byte in enumerate(data):
        if byte in b"\r\n":
            continue
        if byte == ord("="):
            return _illegal_padding(data, place, filled)
        if byte not in _BASE64:
            return place
        filled = (filled + 1) % 4
    return len(data) - filled


def _illegal_padding(data: bytes, place: int, filled: int) -> int:
    """Padding may only complete the last group: two or three characters, then nothing but line breaks."""
    if filled < 2:
        return place
    after = place + 1
    if filled == 2:
        while after < len(data) and data[after] in b"\r\n":
            after += 1
        if after == len(data):
            return len(data)
        if data[after] != ord("="):
            return after - 1
        after += 1
    while after < len(data) and data[after] in b"\r\n":
        after += 1
    return after
