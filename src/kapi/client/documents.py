"""The JSON document of a typed object: what is sent when an instance of a class is created, updated or applied.

Two things make it differ from a plain encoding of the instance:

* An object that was read remembers the document it was read from. What is sent is that document with the program's
  changes in it, so fields that the class does not have stay as they are, and so does everything that was not touched.
* Of an object that the program made, the fields that it set are sent, those that equal their class's defaults as well:
  unset is not default. `Model` notes which fields were set.

No I/O.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

import msgspec

from kapi.api.access import SET_FIELDS
from kapi.client.errors import LossyUpdate
from kapi.codec import json

ORIGINAL: Final = "_kapi_original"
"""The attribute of an object that has the document it was read from."""

_KEYS: Final = ("name", "type", "key", "uid", "id", "ip", "containerPort", "port")
"""Fields by which an element of a list is taken to be the same element as before, the first that it has."""

_SCALARS: Final = (str, int, float, bool, type(None))
_NO_FIELDS: Final[frozenset[str]] = frozenset()


def remember(obj: Any, raw: bytes) -> None:
    """Note the document that an object was read from. Instances of classes without room for it are left alone."""
    attributes = getattr(obj, "__dict__", None)
    if attributes is not None:
        attributes[ORIGINAL] = raw


def original_of(obj: Any) -> bytes | None:
    """Return the document that an object was read from; None for one that was not read, or is a copy."""
    attributes = getattr(obj, "__dict__", None)
    return None if attributes is None else attributes.get(ORIGINAL)


def encode(obj: Any) -> bytes:
    """An object as it is sent: a dictionary as it is, an instance of a class as its document.

    Raises:
        LossyUpdate: changes were made where it cannot be told what fields the class does not have belong to.
    """
    if not isinstance(obj, msgspec.Struct):
        return json.encode(obj)
    raw = original_of(obj)
    if raw is not None:
        return json.encode(_merged(obj, raw))
    return json.encode(_document(obj, is_full=False) if SET_FIELDS in _attributes(obj) else obj)


def encode_patch(patch: Any) -> bytes:
    """A patch as it is sent; instances of classes in it are sent as `encode` sends them."""
    if isinstance(patch, msgspec.Struct):
        return encode(patch)
    return json.encode(_document(patch, is_full=False))


def full_document(obj: Any) -> Any:
    """Return everything that an object's class knows of it, defaults included: to compare two states of an object."""
    return _document(obj, is_full=True)


def _merged(obj: Any, raw: bytes) -> Any:
    before = _document(msgspec.json.decode(raw, type=type(obj)), is_full=True)
    return _merge(json.decode(raw), before, _document(obj, is_full=True), type(obj).__name__, "")


# -- from an instance to a document -----------------------------------------------------------------------------------


class _Field(NamedTuple):
    attribute: str
    name: str
    default: Any
    factory: Any


@functools.cache
def _fields(cls: type[msgspec.Struct]) -> tuple[_Field, ...] | None:
    """The fields of a class; None for one whose instances are not encoded as plain objects."""
    config = cls.__struct_config__
    if config.array_like or config.tag is not None:
        return None
    return tuple(_Field(f.name, f.encode_name, f.default, f.default_factory) for f in msgspec.structs.fields(cls))


def _document(value: Any, *, is_full: bool) -> Any:
    """A value as JSON has it. `is_full`: with fields that have their defaults, but for null."""
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, msgspec.Struct):
        fields = _fields(type(value))
        return msgspec.to_builtins(value) if fields is None else _object(value, fields, is_full=is_full)
    if isinstance(value, list | tuple):
        return [_document(item, is_full=is_full) for item in value]
    if isinstance(value, dict):
        return {msgspec.to_builtins(key): _document(item, is_full=is_full) for key, item in value.items()}
    return json.decode(json.encode(value))


def _object(obj: msgspec.Struct, fields: tuple[_Field, ...], *, is_full: bool) -> dict[str, Any]:
    are_defaults_sent = is_full or not obj.__struct_config__.omit_defaults
    were_set = _attributes(obj).get(SET_FIELDS, _NO_FIELDS)
    document = {}
    for field in fields:
        value = getattr(obj, field.attribute)
        if value is msgspec.UNSET or (value is None and field.default is None):
            continue
        if are_defaults_sent or field.attribute in were_set or not _is_default(value, field):
            document[field.name] = _document(value, is_full=is_full)
    return document


def _is_default(value: Any, field: _Field) -> bool:
    """Return True for what `omit_defaults` leaves out."""
    if field.factory is not msgspec.NODEFAULT:
        if isinstance(value, list | dict | set):
            return not value and field.factory in (list, dict, set)
        # A part with its default may have fields that were set.
        return (
            isinstance(value, msgspec.Struct)
            and not _document(value, is_full=False)
            and not _document(field.factory(), is_full=False)
        )
    return value is field.default or (isinstance(value, _SCALARS) and value == field.default)


def _attributes(obj: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(obj, "__dict__", {})
    return found


# -- changes of a document --------------------------------------------------------------------------------------------


def _merge(original: Any, before: Any, after: Any, cls: str, path: str) -> Any:
    """The original with the changes from `before`, which is all that the class knows of it, to `after`."""
    if before == after:
        return original
    if isinstance(original, dict) and isinstance(before, dict) and isinstance(after, dict):
        merged = {}
        for key, value in original.items():
            if key not in before:
                merged[key] = value
            elif key in after:
                merged[key] = _merge(value, before[key], after[key], cls, f"{path}.{key}")
        for key, value in after.items():
            if key not in original and before.get(key) != value:
                is_part = isinstance(value, dict) and isinstance(before.get(key), dict)
                merged[key] = _merge({}, before[key], value, cls, f"{path}.{key}") if is_part else value
        return merged
    if isinstance(original, list) and isinstance(before, list) and isinstance(after, list):
        return _merge_list(original, before, after, cls, path)
    return after


def _merge_list(original: list[Any], before: list[Any], after: list[Any], cls: str, path: str) -> list[Any]:
    left = dict(enumerate(before))
    found: list[int | None] = []
    for position, element in enumerate(after):
        index = _index_of(element, position, left, is_same_length=len(before) == len(after))
        found.append(index)
        if index is not None:
            del left[index]
    is_ambiguous = any(index is None and _key_of(element) is None for index, element in zip(found, after, strict=True))
    if is_ambiguous and any(_has_unknown(original[index], before[index]) for index in left):
        raise LossyUpdate(
            f"the elements of {path.lstrip('.')} have fields that the class {cls} does not have, and it cannot be told "
            "which of the new elements they belong to; use patch or apply"
        )
    return [
        element if index is None else _merge(original[index], before[index], element, cls, f"{path}[{index}]")
        for index, element in zip(found, after, strict=True)
    ]


def _index_of(element: Any, position: int, left: dict[int, Any], *, is_same_length: bool) -> int | None:
    """Return the index that an element of a list had before."""
    if left.get(position, msgspec.UNSET) == element:
        return position
    for index, old in left.items():
        if old == element:
            return index
    key = _key_of(element)
    if key is not None:
        same = [index for index, old in left.items() if _key_of(old) == key]
        return same[0] if len(same) == 1 else None
    return position if is_same_length and isinstance(element, dict) and position in left else None


def _key_of(element: Any) -> tuple[str, Any] | None:
    """Return the field that identifies an element of a list among the others; None for one that has no such field."""
    if not isinstance(element, dict):
        return None
    return next(((key, element[key]) for key in _KEYS if element.get(key) is not None), None)


def _has_unknown(original: Any, known: Any) -> bool:
    """Return True if a document has fields that the class does not have."""
    if isinstance(original, dict) and isinstance(known, dict):
        return any(
            value is not None if key not in known else _has_unknown(value, known[key])
            for key, value in original.items()
        )
    if isinstance(original, list) and isinstance(known, list):
        return any(_has_unknown(old, new) for old, new in zip(original, known, strict=False))
    return False
