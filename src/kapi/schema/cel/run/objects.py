"""Objects that expressions construct: `Object{spec: Object.spec{replicas: 1}}`, by the type that declares them.

They behave as protobuf messages do in cel-go. A field that was not given reads as the zero value of its type, and a
scalar field that is zero is not set. Names of fields are used as they are written, without escapes, as Kubernetes does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.run.code import SPENT, Frame, Run
from kapi.schema.cel.run.gotypes import native_type
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    UINT,
    Object,
    Type,
)
from kapi.schema.cel.values import (
    NONE,
    Constructed,
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    Uint,
    is_zero,
    show,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.schema.cel.syntax.ast import StructField

_ZEROS: Final[dict[str, Any]] = {
    BOOL.name: False,
    INT.name: 0,
    UINT.name: Uint(0),
    DOUBLE.name: 0.0,
    STRING.name: "",
    BYTES.name: b"",
    TIMESTAMP.name: Timestamp(0),
    DURATION.name: Duration(0),
    LIST: [],
    MAP: {},
    OPTIONAL: NONE,
}


def object_builder(made: Object, fields: Sequence[StructField], values: Sequence[Run], owed: Sequence[int]) -> Run:
    """The function that constructs an object; `owed` is given back when a value fails, for those not evaluated."""
    if not made.constructible:
        return _fails(f"unknown type '{made.name}'")
    names = [one.name for one in fields]
    optional = [one.optional for one in fields]

    def build(frame: Frame) -> Constructed:
        found: dict[str, Any] = {}
        for place, run in enumerate(values):
            try:
                _initialize(found, names[place], run(frame), is_optional=optional[place])
            except EvaluationError:
                frame[SPENT] -= owed[place]
                raise
        for name, value in found.items():
            _check_type(made, name, value)
        return Constructed(made, found)

    return build


def _fails(text: str) -> Run:
    def fail(frame: Frame) -> Any:
        raise EvaluationError(text)

    return fail


def _initialize(fields: dict[str, Any], name: str, value: Any, *, is_optional: bool) -> None:
    if is_optional:
        if not isinstance(value, Optional):
            raise EvaluationError(f"cannot initialize optional entry '{name}' from non-optional value {show(value)}")
        if not value.present:
            fields.pop(name, None)
            return
        value = value.value
    fields[name] = value


def _check_type(made: Object, name: str, value: Any) -> None:
    """Refuse what the checker could not: a value of type `dyn` that is not of the type of its field."""
    wanted = made.fields.get(name)
    if wanted is None or not wanted.name:
        raise EvaluationError(f"unexpected {made.name}Type field: {name}")
    if wanted.name == DYN.name or type_of(value).name == wanted.name:
        return
    if isinstance(wanted, Object) and (value is None or isinstance(value, dict)):
        return
    raise EvaluationError(f"unexpected type {native_type(value)} for {made.name}Type '{name}' field")


def read_field(value: Constructed, name: str) -> Any:
    """A field, or the zero value of its type when it was not given."""
    found = value.fields.get(name)
    if found is not None:
        return found
    wanted = value.type.fields.get(name)
    if wanted is None or not wanted.name:
        raise EvaluationError(f"unsupported indexer: {name}")
    return _zero(wanted)


def has_field(value: Constructed, name: str) -> bool:
    """Return True if a field was given; a scalar that is zero counts as not given, unless its type is `dyn`."""
    if name not in value.fields:
        return False
    wanted = value.type.fields.get(name, DYN)
    return wanted.name == DYN.name or isinstance(wanted, Object) or not is_zero(value.fields[name])


def _zero(type_: Type) -> Any:
    return Constructed(type_, {}) if isinstance(type_, Object) else _ZEROS.get(type_.name)
