"""Protobuf request bodies, decoded into the plain objects that JSON would have given.

Typed Go clients send `application/vnd.kubernetes.protobuf` by default and cannot be talked out of it, so the
server has to read it, and never to write it. A body is four magic bytes and an envelope that names the kind
and holds the message, whose fields `protobuf_table` knows. What comes out is what Go would print as JSON
after reading the same bytes, except that nulls are absent.

Malformed input raises `DecodeError` and nothing else. Depth and number of fields are bounded, and every byte
is looked at once. A Pod takes some 100 µs; callers on an event loop hand bodies over
`limits.OFF_LOOP_BYTES` to a thread.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import struct
from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.durations import format_duration
from kapi.api.limits import PROTOBUF_DEPTH, PROTOBUF_FIELDS
from kapi.codec import json
from kapi.codec.errors import DecodeError, UnknownMessage
from kapi.codec.protobuf_table import BYTES, FIXED32, FIXED64, VARINT, Field, Form, Message, message, message_of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAGIC: Final = b"k8s\x00"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ZERO_TIME: Final = -62135596800
_STRING, _MESSAGE, _VALUE, _INLINE, _LIST = Form.STRING, Form.MESSAGE, Form.VALUE, Form.INLINE, Form.LIST
_TOO_MANY: Final = f"the body has more than {PROTOBUF_FIELDS} fields"
_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
_double = struct.Struct("<d").unpack_from


def decode(data: bytes, *, api_version: str = "", kind: str = "") -> dict[str, Any]:
    """Read a body; `api_version` and `kind` are used where the body does not say its own.

    Raises:
        UnknownMessage: the kind has no protobuf form here.
        DecodeError: the body is malformed, or breaks a limit.
    """
    if not data.startswith(MAGIC):
        if not data:
            raise DecodeError("empty data")
        raise DecodeError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(data) == len(MAGIC):
        raise DecodeError("empty body")
    try:
        return _Reader(data).envelope(len(MAGIC), len(data), 1, api_version, kind)
    except UnicodeDecodeError:
        raise DecodeError("proto: invalid UTF-8 in string") from None


class _Reader:
    """Reads one body by offsets into it; `fields` counts what has been read, over all messages."""

    __slots__ = ("data", "fields")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fields = 0

    def envelope(self, start: int, end: int, depth: int, api_version: str = "", kind: str = "") -> dict[str, Any]:
        """The object in a `runtime.Unknown`: type, raw message, content encoding, content type."""
        raw = (start, start)
        for number, wire_type, low, high in self.scan(start, end):
            if wire_type != BYTES:
                continue
            if number == 1:
                names = {found: self.text(*at) for found, wire, *at in self.scan(low, high) if wire == BYTES}
                api_version, kind = names.get(1) or api_version, names.get(2) or kind
            elif number == 2:
                raw = (low, high)
            elif number == 3 and low != high:
                raise DecodeError(f"content encoding {self.text(low, high)!r} is not supported")
        if not kind:
            raise DecodeError("Object 'Kind' is missing in the protobuf envelope")
        if not api_version:
            raise DecodeError("Object 'apiVersion' is missing in the protobuf envelope")
        spec = message_of_kind(api_version, kind)
        if spec is None:
            raise UnknownMessage(api_version, kind)
        return self.message(spec, *raw, {"apiVersion": api_version, "kind": kind}, depth)

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A varint that starts at `at`, and where the next thing starts."""
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise DecodeError("unexpected EOF")
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, at
        raise DecodeError("proto: integer overflow")

    def skip(self, at: int, end: int, wire_type: int) -> tuple[int, int, int]:
        """The start and end of a field's content, and where the next field starts."""
        start = at
        if wire_type == BYTES:
            length, start = self.varint(at, end)
            at = stop = start + length
        elif wire_type == VARINT:
            _, at = self.varint(at, end)
            stop = at
        elif wire_type in (FIXED64, FIXED32):
            at = stop = at + (8 if wire_type == FIXED64 else 4)
        else:
            raise DecodeError(f"proto: illegal wireType {wire_type}")
        if at > end:
            raise DecodeError("unexpected EOF")
        return start, stop, at

    def scan(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """The fields of a small message as number, wire type, start and end of the content."""
        while at < end:
            self.count(1)
            tag, at = self.varint(at, end)
            low, high, at = self.skip(at, end, tag & 7)
            yield tag >> 3, tag & 7, low, high

    def count(self, fields: int) -> None:
        """Add to the number of fields read."""
        self.fields += fields
        if self.fields > PROTOBUF_FIELDS:
            raise DecodeError(_TOO_MANY)

    def message(  # noqa: PLR0912 - one loop on purpose, see below
        self, spec: Message, at: int, end: int, into: dict[str, Any], depth: int
    ) -> dict[str, Any]:
        """Read a message into an object. A field that comes twice is merged or overwritten, as protobuf has it.

        This is the loop all the time goes into, so the two usual wire types and single bytes are dealt with in place.
        """
        if depth > PROTOBUF_DEPTH:
            raise DecodeError("exceeded max depth")
        data, fields = self.data, spec.fields
        while at < end:
            self.fields += 1
            if self.fields > PROTOBUF_FIELDS:
                raise DecodeError(_TOO_MANY)
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at = self.varint(at - 1, end)
            wire_type = tag & 7
            if wire_type == BYTES and at < end and data[at] < 0x80:
                start = at + 1
                at = stop = start + data[at]
                if at > end:
                    raise DecodeError("unexpected EOF")
            elif wire_type == VARINT and at < end and data[at] < 0x80:
                start = at
                at = stop = at + 1
            else:
                start, stop, at = self.skip(at, end, wire_type)
            field = fields.get(tag)
            if field is None:
                self._unknown(spec, tag)
                continue
            form, name, kind, omit_zero = field
            if form is _STRING:
                if start != stop or not omit_zero:
                    into[name] = str(data[start:stop], "utf-8")
                else:
                    into.pop(name, None)
            elif form is _MESSAGE:
                self._object(name, message(kind), start, stop, into, depth)
            elif form is _VALUE:
                value = _READERS[kind](self, start, stop, depth)
                if value is None or (omit_zero and not value):
                    into.pop(name, None)
                else:
                    into[name] = value
            elif form is _INLINE:
                self.message(message(kind), start, stop, into, depth + 1)
            elif form is _LIST:
                self._append(field, wire_type, start, stop, into, depth)
            else:
                self._entry(kind, start, stop, into.setdefault(name, {}), depth)
        return into

    def _object(self, name: str, spec: Message, start: int, stop: int, into: dict[str, Any], depth: int) -> None:
        """A message that is a field: an object, or the bare list it stands for."""
        if spec.is_list:
            into[name] = self.message(spec, start, stop, {}, depth + 1).get("*", [])
        else:
            into[name] = self.message(spec, start, stop, into.get(name, {}), depth + 1)

    def _unknown(self, spec: Message, tag: int) -> None:
        """A field from the future is ignored; one that is not what the table says is an error."""
        if tag >> 3 in spec.numbers:
            raise DecodeError(f"proto: wrong wireType = {tag & 7} for field {tag >> 3} of {spec.name}")
        if not tag >> 3:
            raise DecodeError(f"proto: {spec.name}: illegal tag 0 (wire type {tag & 7})")

    def _append(self, field: Field, wire_type: int, start: int, stop: int, into: dict[str, Any], depth: int) -> None:
        items = into.setdefault(field.name, [])
        if wire_type != BYTES or field.type not in ("bool", "int32", "int64"):
            items.append(self.value(field.type, start, stop, depth))
            return
        while start < stop:  # packed
            self.count(1)
            _, after = self.varint(start, stop)
            items.append(self.value(field.type, start, after, depth))
            start = after

    def _entry(self, kind: str, start: int, stop: int, into: dict[str, Any], depth: int) -> None:
        """One entry of a map: a message of key and value, either of which may be missing."""
        data, middle = self.data, start + 2
        if stop - start > 3 and data[start] == 0x0A:  # the usual: a short key, then a short value, and that is all
            middle += data[start + 1]
            if (
                middle + 1 < stop
                and data[middle] == 0x12
                and middle + 2 + data[middle + 1] == stop
                and stop - start < 0x80
            ):
                self.count(2)
                into[str(data[start + 2 : middle], "utf-8")] = self.value(kind, middle + 2, stop, depth)
                return
        key, value = "", _ABSENT
        for number, wire_type, low, high in self.scan(start, stop):
            if number == 1 and wire_type == BYTES:
                key = self.text(low, high)
            elif number == 2 and wire_type == BYTES:
                value = self.value(kind, low, high, depth)
        into[key] = self.value(kind, stop, stop, depth) if value is _ABSENT else value

    def value(self, kind: str, start: int, stop: int, depth: int) -> Any:
        """One element of a list or map; None stands for JSON's null."""
        if kind == "string":
            return self.text(start, stop)
        read = _READERS.get(kind)
        if read is not None:
            return read(self, start, stop, depth)
        spec = message(kind)
        element = self.message(spec, start, stop, {}, depth + 1)
        return element.get("*", []) if spec.is_list else element

    def text(self, start: int, stop: int) -> str:
        """A string; `decode` turns the error of one that is not UTF-8 into its own."""
        return str(self.data[start:stop], "utf-8")

    def signed(self, start: int, stop: int, bits: int = 64) -> int:
        """A varint as a signed integer of that many bits."""
        value = self.varint(start, stop)[0] & (1 << bits) - 1
        return value - (1 << bits) if value >> bits - 1 else value

    def numbers(self, start: int, stop: int) -> dict[int, int]:
        """The varint fields of a small message."""
        return {number: self.signed(low, high) for number, wire, low, high in self.scan(start, stop) if wire == VARINT}

    def only(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of field 1 in a message that has no other; an empty range when it is missing."""
        if start < stop - 1 and self.data[start] == 0x0A and start + 2 + self.data[start + 1] == stop < start + 0x80:
            self.count(1)
            return start + 2, stop
        return self.pieces(start, stop).get(1, (stop, stop))

    def pieces(self, start: int, stop: int) -> dict[int, tuple[int, int]]:
        """Return the ranges of the strings and messages of a small message; of repeated ones, the last."""
        return {number: (low, high) for number, wire, low, high in self.scan(start, stop) if wire == BYTES}


_ABSENT: Final[Any] = object()


def _bytes(reader: _Reader, start: int, stop: int, depth: int) -> str:
    return base64.b64encode(reader.data[start:stop]).decode()


def _float(reader: _Reader, start: int, stop: int, depth: int) -> float:
    value: float = _double(reader.data, start)[0]
    if not math.isfinite(value):
        raise DecodeError("json: unsupported value: not a finite number")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


def _moment(reader: _Reader, start: int, stop: int) -> tuple[dt.datetime, int] | None:
    """A time and its nanoseconds; None for Go's zero time, which is written as nothing at all."""
    if start == stop:
        return None
    numbers = reader.numbers(start, stop)
    seconds = numbers.get(1, 0)
    if seconds == _ZERO_TIME:
        return None
    try:
        return _EPOCH + dt.timedelta(seconds=seconds), numbers.get(2, 0)
    except OverflowError:
        raise DecodeError("proto: time is outside the years 1 to 9999") from None


def _time(reader: _Reader, start: int, stop: int, depth: int) -> str | None:
    moment = _moment(reader, start, stop)
    return moment and f"{moment[0]:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")


def _microtime(reader: _Reader, start: int, stop: int, depth: int) -> str | None:
    moment = _moment(reader, start, stop)
    if moment is None:
        return None
    if not 0 <= moment[1] < 1_000_000_000:
        raise DecodeError("proto: nanoseconds are outside a second")
    return f"{moment[0]:%Y-%m-%dT%H:%M:%S}.{moment[1] // 1000:06d}Z".rjust(27, "0")


def _duration(reader: _Reader, start: int, stop: int, depth: int) -> str:
    return format_duration(reader.numbers(start, stop).get(1, 0))


def _quantity(reader: _Reader, start: int, stop: int, depth: int) -> str:
    return reader.text(*reader.only(start, stop)) or "0"


def _int_or_string(reader: _Reader, start: int, stop: int, depth: int) -> int | str:
    numbers, pieces = reader.numbers(start, stop), reader.pieces(start, stop)
    which = numbers.get(1, 0)
    if which == 0:
        return numbers.get(2, 0)
    if which == 1:
        return reader.text(*pieces[3]) if 3 in pieces else ""
    raise DecodeError("impossible IntOrString.Type")


def _raw(reader: _Reader, start: int, stop: int, depth: int) -> Any:
    """JSON inside protobuf; or, inside a List, protobuf again."""
    low, high = reader.only(start, stop)
    if low == high:
        return None
    if reader.data.startswith(MAGIC, low, high):
        if depth >= PROTOBUF_DEPTH:
            raise DecodeError("exceeded max depth")
        return reader.envelope(low + len(MAGIC), high, depth + 1)
    return json.decode(reader.data[low:high])


def _schema(reader: _Reader, at: tuple[int, int], depth: int) -> dict[str, Any]:
    return reader.message(message(_SCHEMA), *at, {}, depth + 1)


def _schema_or_list(reader: _Reader, start: int, stop: int, depth: int) -> Any:
    items = [(low, high) for number, wire, low, high in reader.scan(start, stop) if number == 2 and wire == BYTES]
    if items:
        return [_schema(reader, at, depth) for at in items]
    return _schema_or_none(reader, start, stop, depth)


def _schema_or_strings(reader: _Reader, start: int, stop: int, depth: int) -> Any:
    items = [(low, high) for number, wire, low, high in reader.scan(start, stop) if number == 2 and wire == BYTES]
    if items:
        return [reader.text(*at) for at in items]
    return _schema_or_none(reader, start, stop, depth)


def _schema_or_none(reader: _Reader, start: int, stop: int, depth: int) -> Any:
    at = reader.pieces(start, stop).get(1)
    return _schema(reader, at, depth) if at else None


def _schema_or_bool(reader: _Reader, start: int, stop: int, depth: int) -> Any:
    at = reader.pieces(start, stop).get(2)
    return _schema(reader, at, depth) if at else bool(reader.numbers(start, stop).get(1))


_READERS: Final[dict[str, Callable[[_Reader, int, int, int], Any]]] = {
    "bool": lambda reader, start, stop, depth: bool(reader.varint(start, stop)[0]),
    "int32": lambda reader, start, stop, depth: reader.signed(start, stop, 32),
    "int64": lambda reader, start, stop, depth: reader.signed(start, stop),
    "double": _float,
    "bytes": _bytes,
    "@time": _time,
    "@microtime": _microtime,
    "@duration": _duration,
    "@quantity": _quantity,
    "@intorstring": _int_or_string,
    "@raw": _raw,
    "@schemaorlist": _schema_or_list,
    "@schemaorstrings": _schema_or_strings,
    "@schemaorbool": _schema_or_bool,
}
