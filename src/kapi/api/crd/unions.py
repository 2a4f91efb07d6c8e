"""Tagged unions as one object: a structural schema has one type in every place and cannot say "this or that".

The object has the fields of all members; which of them must be there depends on the tag. Rules of a member are asked
of objects with its tag only.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    Schema = dict[str, Any]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RULES = "x-kubernetes-validations"
_RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
    "let", "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip


class Member(NamedTuple):
    """A class of a union: its tag, and the schema it has by itself."""

    tag: str | int | None
    schema: Schema


class Disagreement(Exception):
    """Two members describe the same field differently; `field` is its name."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def united(tag_field: str, tag: Schema, members: Sequence[Member]) -> Schema:
    """The schema of a union whose members are told apart by `tag_field`, which has the schema `tag`."""
    schema: Schema = {"type": "object", "properties": {tag_field: tag} | _properties(tag_field, members)}
    schema["required"] = [tag_field]
    schema["oneOf"] = [
        {
            "properties": {tag_field: {"enum": [member.tag]}},
            "required": [tag_field, *(name for name in member.schema.get("required", ()) if name != tag_field)],
        }
        for member in members
    ]
    rules = [_guarded(rule, tag_field, member.tag) for member in members for rule in member.schema.get(_RULES, ())]
    return schema | ({_RULES: rules} if rules else {})


def _properties(tag_field: str, members: Sequence[Member]) -> Schema:
    found: dict[str, list[Schema]] = {}
    for member in members:
        for name, schema in member.schema.get("properties", {}).items():
            if name != tag_field:
                found.setdefault(name, []).append(schema)
    return {name: _agreed(name, schemas, everywhere=len(schemas) == len(members)) for name, schemas in found.items()}


def _agreed(name: str, schemas: list[Schema], *, everywhere: bool) -> Schema:
    """Return the schema of a field that some members have. A default is kept only if all members have it."""
    first = schemas[0]
    if any(_without(schema, "description") != _without(first, "description") for schema in schemas):
        raise Disagreement(name)
    return first if everywhere else _without(first, "default")


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _guarded(rule: Schema, tag_field: str, tag: str | int | None) -> Schema:
    return rule | {"rule": f"self.{_selected(tag_field)} != {json.dumps(tag)} || ({rule['rule']})"}


def _selected(name: str) -> str:
    """A field's name as rules write it."""
    if name in _RESERVED:
        return f"__{name}__"
    if _PLAIN_NAME.match(name) and "__" not in name:
        return name
    escapes = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
    for text, escape in escapes:
        name = name.replace(text, escape)
    return name
