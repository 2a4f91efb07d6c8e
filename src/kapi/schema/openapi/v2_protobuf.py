"""The OpenAPI 2.0 document as protobuf, which kubectl before 1.27 asks for.

The bytes are gnostic's `openapi.v2.Document`. That format spells every map out as a list of named values and every
choice as a wrapper message, so the tables below say, per message, which JSON key is encoded into which field and how.
Of schemas they list all that the format has, of the rest what our documents contain; any other key raises KeyError.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgspec

from kapi.schema.openapi import v2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Encoder = Callable[[int, Any], bytes]
    """Writes a value into the field of that number; a list into a repeated field."""
    Fields = Mapping[str, tuple[int, Encoder]]

_json = msgspec.json.Encoder().encode


def entries(part: v2.Part) -> v2.Entries:
    """Pack a part of a document."""
    return v2.Entries(
        b"".join(_entry(2, name, _message(_PATH_ITEM, item)) for name, item in part.paths.items()),
        b"".join(_entry(1, name, _schema(schema)) for name, schema in part.definitions.items()),
    )


def join(parts: Iterable[v2.Entries]) -> bytes:
    """Put a document together from its packed parts."""
    parts = list(parts)
    paths, definitions = b"".join(part.paths for part in parts), b"".join(part.definitions for part in parts)
    return b"".join((_message(_FRAME, v2.frame()), _delimited(8, paths), _delimited(9, definitions)))


# -- the wire ---------------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _delimited(field: int, content: bytes) -> bytes:
    """A string or message in its field."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _message(fields: Fields, value: dict[str, Any]) -> bytes:
    """A message; keys that start with `x-` all go into its field for vendor extensions."""
    out = []
    for key, entry in value.items():
        field, encoder = fields["x-" if key.startswith("x-") else key]
        out.append(_delimited(field, _named(key, _any(entry))) if key.startswith("x-") else encoder(field, entry))
    return b"".join(out)


def _named(name: str, content: bytes) -> bytes:
    """An entry of a map."""
    return _delimited(1, name.encode()) + _delimited(2, content)


def _entry(field: int, name: str, content: bytes) -> bytes:
    """An entry of a map, in the map's field for entries."""
    return _delimited(field, _named(name, content))


def _any(value: Any) -> bytes:
    """A value of any shape travels as YAML; JSON is YAML."""
    return _delimited(2, _json(value) + b"\n")


# -- kinds of fields --------------------------------------------------------------------------------------------------


def _flag(field: int, value: bool) -> bytes:
    return _varint(field << 3) + (b"\x01" if value else b"\x00")


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _text(field: int, value: str) -> bytes:
    return _delimited(field, value.encode())


def _texts(field: int, value: list[str]) -> bytes:
    return b"".join(_delimited(field, entry.encode()) for entry in value)


def _one_any(field: int, value: Any) -> bytes:
    return _delimited(field, _any(value))


def _anys(field: int, value: list[Any]) -> bytes:
    return b"".join(_delimited(field, _any(entry)) for entry in value)


def _one(fields: Fields) -> Encoder:
    """A message of its own."""
    return lambda field, value: _delimited(field, _message(fields, value))


def _map(content: Callable[[Any], bytes]) -> Encoder:
    """A map message."""

    def encoder(field: int, value: dict[str, Any]) -> bytes:
        return _delimited(field, b"".join(_entry(1, name, content(entry)) for name, entry in value.items()))

    return encoder


def _type(field: int, value: str) -> bytes:
    return _delimited(field, _delimited(1, value.encode()))


def _schema(value: dict[str, Any]) -> bytes:
    return _message(_SCHEMA, value)


def _schemas(field: int, value: list[dict[str, Any]]) -> bytes:
    return b"".join(_delimited(field, _schema(entry)) for entry in value)


def _wrapped_schema(field: int, value: dict[str, Any]) -> bytes:
    return _delimited(field, _delimited(1, _schema(value)))


def _schema_or_flag(field: int, value: dict[str, Any] | bool) -> bytes:
    return _delimited(field, _flag(2, value) if isinstance(value, bool) else _delimited(1, _schema(value)))


def _parameters(field: int, value: list[dict[str, Any]]) -> bytes:
    return b"".join(
        _delimited(
            field, _delimited(2, _text(1, entry["$ref"])) if "$ref" in entry else _delimited(1, _parameter(entry))
        )
        for entry in value
    )


def _parameter(value: dict[str, Any]) -> bytes:
    if value["in"] == "body":
        return _delimited(1, _message(_BODY_PARAMETER, value))
    field, fields = (3, _QUERY_PARAMETER) if value["in"] == "query" else (4, _PATH_PARAMETER)
    return _delimited(2, _delimited(field, _message(fields, value)))


def _requirements(field: int, value: list[dict[str, list[str]]]) -> bytes:
    scopes = _map(lambda names: _texts(1, names))
    return b"".join(scopes(field, entry) for entry in value)


# -- the messages -----------------------------------------------------------------------------------------------------

_VENDOR: Encoder = _one_any
"""Placeholder for vendor extensions, which `_message` encodes itself."""

_SCHEMA: Fields = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _one_any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _schema_or_flag),
    "type": (22, _type),
    "items": (23, _wrapped_schema),
    "allOf": (24, _schemas),
    "properties": (25, _map(_schema)),
    "readOnly": (27, _flag),
    "externalDocs": (29, _one({"description": (1, _text), "url": (2, _text)})),
    "example": (30, _one_any),
    "x-": (31, _VENDOR),
}
_BODY_PARAMETER: Fields = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, lambda field, value: _delimited(field, _schema(value))),
}
_QUERY_PARAMETER: Fields = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "uniqueItems": (20, _flag),
}
_PATH_PARAMETER: Fields = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "uniqueItems": (19, _flag),
}
_RESPONSE: Fields = {"description": (1, _text), "schema": (2, _wrapped_schema)}
_OPERATION: Fields = {
    "tags": (1, _texts),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _map(lambda value: _delimited(1, _message(_RESPONSE, value)))),
    "schemes": (10, _texts),
    "x-": (13, _VENDOR),
}
_PATH_ITEM: Fields = {
    "get": (2, _one(_OPERATION)),
    "put": (3, _one(_OPERATION)),
    "post": (4, _one(_OPERATION)),
    "delete": (5, _one(_OPERATION)),
    "patch": (8, _one(_OPERATION)),
    "parameters": (9, _parameters),
}
_API_KEY: Fields = {"type": (1, _text), "name": (2, _text), "in": (3, _text), "description": (4, _text)}
_FRAME: Fields = {
    "swagger": (1, _text),
    "info": (2, _one({"title": (1, _text), "version": (2, _text)})),
    "parameters": (10, _map(_parameter)),
    "security": (12, _requirements),
    "securityDefinitions": (13, _map(lambda value: _delimited(2, _message(_API_KEY, value)))),
}
