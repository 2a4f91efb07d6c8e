"""The types and functions of MutatingAdmissionPolicy: `Object{...}`, `JSONPatch{...}` and `jsonpatch.escapeKey`.

`Object` and the types below it, such as `Object.spec.template`, take any field of any type, since policies are compiled
without the schemas of the objects they apply to. Use with `Environment(...).extend(types=TYPES, libraries=[LIBRARY])`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.calls import rewrite_argument
from kapi.schema.cel.cost.prices import reads
from kapi.schema.cel.library import Library
from kapi.schema.cel.times import format_timestamp
from kapi.schema.cel.types import DYN, STRING, Object, Overload, Type
from kapi.schema.cel.values import Constructed, Duration, EvaluationError, Optional, Timestamp, is_list, show, type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

OBJECT: Final = "Object"
JSON_PATCH: Final = "JSONPatch"

_NO_TYPE: Final = Type("")
"""The type of other fields of a JSONPatch, as Kubernetes declares it: no value has it, and messages show it empty."""


class _Fields(Mapping[str, Type]):
    """Fields of known types, and any other field of one type."""

    __slots__ = ("_known", "_other")

    def __init__(self, known: Mapping[str, Type], other: Type) -> None:
        self._known = known
        self._other = other

    def __getitem__(self, name: str) -> Type:
        return self._known.get(name, self._other)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


_ANY_FIELD: Final = _Fields({}, DYN)
_PATCH: Final = Object(
    JSON_PATCH,
    fields=_Fields({"op": STRING, "path": STRING, "from": STRING, "value": DYN}, _NO_TYPE),
    constructible=True,
)


class _Types(Mapping[str, Object]):
    """`JSONPatch`, `Object`, and every type whose name starts with `Object.`."""

    def __getitem__(self, name: str) -> Object:
        if name == JSON_PATCH:
            return _PATCH
        if name == OBJECT or name.startswith(f"{OBJECT}."):
            return Object(name, fields=_ANY_FIELD, constructible=True)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((OBJECT, JSON_PATCH))

    def __len__(self) -> int:
        return 2


TYPES: Final[Mapping[str, Object]] = _Types()


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


LIBRARY: Final = Library(
    name="kubernetes.jsonpatch",
    functions={"jsonpatch.escapeKey": (Overload("string_jsonpatch_escapeKey_string", (STRING,), STRING),)},
    implementations={"string_jsonpatch_escapeKey_string": _escape_key},
    prices={"jsonpatch.escapeKey": reads()},
    estimates={"jsonpatch.escapeKey": rewrite_argument},
)


def to_json(value: Any) -> Any:
    """The JSON of a value that an expression made, objects included. Raises EvaluationError where there is none."""
    if isinstance(value, Constructed):
        return {name: to_json(item) for name, item in value.fields.items()}
    if isinstance(value, dict):
        return {_key(key): to_json(item) for key, item in value.items()}
    if is_list(value):
        return [to_json(item) for item in value]
    if isinstance(value, Optional):
        return to_json(value.value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return format_timestamp(value)
    if isinstance(value, Duration):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise EvaluationError(f"type conversion error from '{type_of(value).name}' to JSON")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise EvaluationError(f"map key {show(key)} is of type {type_of(key).name}, not string")
    return key


def type_name_errors(value: Constructed) -> list[str]:
    """The errors of objects whose type names are not the path of fields that leads to them.

    The checker cannot find these: `Object{spec: Object.status{}}` is well typed, because every field is `dyn`.
    """
    return _type_name_errors(value, (value.type.name,))


def _type_name_errors(value: Any, path: Sequence[str]) -> list[str]:
    errors: list[str] = []
    if isinstance(value, Constructed) and value.type.name != JSON_PATCH:
        expected = ".".join(path)
        if value.type.name != expected:
            reason = f'expected "{expected}", which matches field name path from root Object type'
            errors.append(f'unexpected type name "{value.type.name}", {reason}')
        for name, item in value.fields.items():
            errors += _type_name_errors(item, (*path, name))
    elif isinstance(value, dict) or is_list(value):
        for item in value.values() if isinstance(value, dict) else value:
            errors += _type_name_errors(item, path)
    return errors
