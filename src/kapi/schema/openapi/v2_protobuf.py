"""The OpenAPI 2.0 document as protobuf, which kubectl before 1.27 asks for.

The bytes are gnostic's `openapi.v2.Document`. That format spells every map out as a list of named values and every
choice as a wrapper message, so the tables below say, per message, which JSON key goes into which field and how. Only
what our documents contain is listed; a key that is not is a mistake and raises KeyError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Encoder = Callable[[Any], Iterable[bytes]]
    """The contents of one field, or of each of a repeated field."""
    Fields = Mapping[str, tuple[int, Encoder]]

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What the answer calls itself; requests also say `v2@v1.0`."""

_json = msgspec.json.Encoder().encode


def encode(document: dict[str, Any]) -> bytes:
    """Pack a document made by `v2.document`."""
    return _message(_DOCUMENT, document)


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
        if key.startswith("x-"):
            out.append(_delimited(fields["x-"][0], _named(key, _any(entry))))
            continue
        field, encoder = fields[key]
        if encoder is _flag:
            if entry:
                out.append(_varint(field << 3) + b"\x01")
        else:
            out.extend(_delimited(field, content) for content in encoder(entry))
    return b"".join(out)


def _named(name: str, content: bytes) -> bytes:
    """An entry of a map."""
    return _delimited(1, name.encode()) + _delimited(2, content)


def _any(value: Any) -> bytes:
    """A value of any shape travels as YAML; JSON is YAML."""
    return _delimited(2, _json(value) + b"\n")


# -- kinds of fields --------------------------------------------------------------------------------------------------


def _flag(value: Any) -> Iterable[bytes]:
    """A boolean; `_message` writes it, since it is no length-delimited content."""
    raise AssertionError


def _text(value: str) -> Iterable[bytes]:
    return (value.encode(),)


def _texts(value: list[str]) -> Iterable[bytes]:
    return (entry.encode() for entry in value)


def _one_any(value: Any) -> Iterable[bytes]:
    return (_any(value),)


def _anys(value: list[Any]) -> Iterable[bytes]:
    return (_any(entry) for entry in value)


def _one(fields: Fields) -> Encoder:
    return lambda value: (_message(fields, value),)


def _map(content: Callable[[Any], bytes], field: int = 1) -> Encoder:
    """A map message: named values in its field."""
    return lambda value: (b"".join(_delimited(field, _named(name, content(entry))) for name, entry in value.items()),)


def _type(value: str) -> Iterable[bytes]:
    return (_delimited(1, value.encode()),)


def _schema(value: dict[str, Any]) -> bytes:
    return _message(_SCHEMA, value)


def _schemas(value: list[dict[str, Any]]) -> Iterable[bytes]:
    return (_schema(entry) for entry in value)


def _wrapped_schema(value: dict[str, Any]) -> Iterable[bytes]:
    return (_delimited(1, _schema(value)),)


def _schema_or_flag(value: dict[str, Any] | bool) -> Iterable[bytes]:
    if isinstance(value, bool):
        return (_varint(2 << 3) + (b"\x01" if value else b"\x00"),)
    return _wrapped_schema(value)


def _parameters(value: list[dict[str, Any]]) -> Iterable[bytes]:
    return (_delimited(1, _parameter(entry)) for entry in value)


def _parameter(value: dict[str, Any]) -> bytes:
    if value["in"] == "body":
        return _delimited(1, _message(_BODY_PARAMETER, value))
    field, fields = (3, _QUERY_PARAMETER) if value["in"] == "query" else (4, _PATH_PARAMETER)
    return _delimited(2, _delimited(field, _message(fields, value)))


def _requirements(value: list[dict[str, list[str]]]) -> Iterable[bytes]:
    scopes = _map(lambda names: b"".join(_delimited(1, name.encode()) for name in names))
    return (content for entry in value for content in scopes(entry))


# -- the messages -----------------------------------------------------------------------------------------------------

_VENDOR: Encoder = _one_any
"""The encoder beside a vendor-extension field; `_message` looks at the field number only."""

_SCHEMA: Fields = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _one_any),
    "pattern": (13, _text),
    "uniqueItems": (16, _flag),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _schema_or_flag),
    "type": (22, _type),
    "items": (23, _wrapped_schema),
    "allOf": (24, _schemas),
    "properties": (25, _map(_schema)),
    "example": (30, _one_any),
    "x-": (31, _VENDOR),
}
_BODY_PARAMETER: Fields = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, lambda value: (_schema(value),)),
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
_DOCUMENT: Fields = {
    "swagger": (1, _text),
    "info": (2, _one({"title": (1, _text), "version": (2, _text)})),
    "paths": (8, _map(lambda value: _message(_PATH_ITEM, value), field=2)),
    "definitions": (9, _map(_schema)),
    "security": (12, _requirements),
    "securityDefinitions": (13, _map(lambda value: _delimited(2, _message(_API_KEY, value)))),
}
