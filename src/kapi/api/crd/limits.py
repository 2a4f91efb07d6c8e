"""From `msgspec.Meta` and markers to the keywords of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapi.api.crd.markers import Marker

if TYPE_CHECKING:
    from collections.abc import Iterable

    Schema = dict[str, Any]

BASE64: Final = "byte"
_PLAIN: Final = {
    "ge": "minimum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
}
_EXCLUSIVE: Final = (("gt", "minimum", "exclusiveMinimum"), ("lt", "maximum", "exclusiveMaximum"))
_COUNTED: Final = {"array": "Items", "object": "Properties"}


def annotate(schema: Schema, notes: Iterable[Any], kind: str) -> None:
    """Write what was noted about a type of the JSON type `kind` into its schema. Strangers' notes mean nothing here."""
    for note in notes:
        if isinstance(note, msgspec.Meta):
            _limit(schema, note, kind)
        elif isinstance(note, Marker):
            note.apply(schema)


def merge(schema: Schema, extra: Iterable[tuple[str, Any]]) -> None:
    """Write keywords into a schema as they are; a null takes one away."""
    for key, value in extra:
        if value is None:
            schema.pop(key, None)
        else:
            schema[key] = value


def _limit(schema: Schema, meta: msgspec.Meta, kind: str) -> None:
    for attribute, key in _PLAIN.items():
        value = getattr(meta, attribute)
        if value is not None:
            schema[key] = value
    for attribute, key, flag in _EXCLUSIVE:
        value = getattr(meta, attribute)
        if value is not None:
            schema[key], schema[flag] = value, True
    unit = _COUNTED.get(kind, "Length")
    for attribute, key in (("min_length", f"min{unit}"), ("max_length", f"max{unit}")):
        value = getattr(meta, attribute)
        if value is not None:
            # msgspec counts bytes, a schema the letters of base64 that stand for them.
            schema[key] = (value + 2) // 3 * 4 if kind == BASE64 else value
    merge(schema, (meta.extra_json_schema or {}).items())
