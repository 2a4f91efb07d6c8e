"""Which field of a protobuf message is which field of the JSON object: facts, read from a table when first needed.

`protobuf_table.json` is made by `tools/distil_protobuf.py` from the published modules of the compatibility
target. It has

* `kinds`: apiVersion → the package of its messages, then the kinds it has;
* `messages`: name → a list of `[number, JSON name, type]`.

A JSON name of `""` means that the message's fields belong to the parent, `*` that the message stands for a
bare list. A type is `string`, `bytes`, `bool`, `int32`, `int64`, `double`, the name of a message, or `@` and
a form with JSON rules of its own; `[]` before it makes a list, `{}` a map by string, and `?` after it says
that the zero value is left out.

Loading takes about 2 ms and half a MiB; a process that never sees a protobuf body never pays.
"""

from __future__ import annotations

import enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5

_WIRE_TYPES = {"bool": VARINT, "int32": VARINT, "int64": VARINT, "double": FIXED64}
_META = "meta.k8s.io/v1"


class Form(enum.IntEnum):
    """The way a field is put into the object."""

    STRING = 0
    """A single string: by far the most common."""
    MESSAGE = 1
    """A single message, an object of its own."""
    VALUE = 2
    """Any other single value."""
    INLINE = 3
    """A message whose fields belong to the parent."""
    LIST = 4
    MAP = 5


class Field(NamedTuple):
    """One field; `type` is that of an element in lists and maps, `omit_zero` says that a zero value is not written."""

    form: Form
    name: str
    type: str
    omit_zero: bool


class Message:
    """A message: its fields by wire tag (number and wire type in one), and the numbers it knows."""

    __slots__ = ("fields", "is_list", "name", "numbers")

    def __init__(self, name: str, rows: list[tuple[int, str, str]]) -> None:
        self.name = name
        self.fields: dict[int, Field] = {}
        self.numbers = frozenset(number for number, _, _ in rows)
        self.is_list = bool(rows) and rows[0][1] == "*"
        for number, json_name, spelt in rows:
            shape = spelt[:2] if spelt[:2] in ("[]", "{}") else ""
            plain = spelt.removeprefix(shape).removesuffix("?")
            field = Field(_form(json_name, shape, plain), json_name, plain, spelt.endswith("?"))
            wire_type = _WIRE_TYPES.get(plain, BYTES)
            self.fields[number << 3 | wire_type] = field
            if shape == "[]" and wire_type != BYTES:  # numbers in a list may also come packed
                self.fields[number << 3 | BYTES] = field


def _form(name: str, shape: str, plain: str) -> Form:
    if shape:
        return Form.LIST if shape == "[]" else Form.MAP
    if plain == "string":
        return Form.STRING
    if not name:
        return Form.INLINE
    return Form.MESSAGE if "/" in plain else Form.VALUE


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, list[str]]
    messages: dict[str, list[tuple[int, str, str]]]


@cache
def _table() -> _Table:
    data = Path(__file__).with_name("protobuf_table.json").read_bytes()
    return msgspec.json.decode(data, type=_Table)


@cache
def message(name: str) -> Message:
    """The message of that name, which must be in the table."""
    return Message(name, _table().messages[name])


def message_of_kind(api_version: str, kind: str) -> Message | None:
    """The message of a kind, or None. Options kinds of the meta group belong to every version."""
    kinds = _table().kinds
    for version in (api_version, _META):
        if kind in kinds.get(version, ())[1:]:
            return message(f"{kinds[version][0]}.{kind}")
    return None
