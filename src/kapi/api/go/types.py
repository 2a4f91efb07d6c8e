"""Names of the types of decoded JSON, and the errors of Go's decoders about them.

A value has two names: the one of its JSON type (`object`), which `encoding/json` uses, and the one of the Go type that
untyped JSON is decoded into (`map[string]interface {}`), which messages with `%T` use.
"""

from __future__ import annotations

from typing import Any, Final

ANY_MAP: Final = "map[string]interface {}"
ANY_LIST: Final = "[]interface {}"
TYPE_META: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
"""The type into which apimachinery reads an object's apiVersion and kind before anything else."""

_JSON_TYPES: Final[dict[type, str]] = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
_GO_TYPES: Final[dict[type, str]] = {
    dict: ANY_MAP,
    list: ANY_LIST,
    str: "string",
    bool: "bool",
    float: "float64",
    type(None): "<nil>",
}

_CONVERTIBLE: Final = {
    "int64": frozenset({"int32", "int64", "float64", "string"}),
    "float64": frozenset({"int32", "int64", "float64"}),
}
"""The kinds of types that Go converts a number of a type to."""


def json_type(value: Any) -> str:
    """Return the JSON type of a value in the words of `encoding/json`: object, array, string, bool, number, null."""
    return _JSON_TYPES.get(type(value), "number")


def type_name(value: Any) -> str:
    """Return the Go type of a decoded value as `%T` prints it; an integer beyond 64 bits is a float64."""
    if type(value) is int:
        return "int64" if -(2**63) <= value < 2**63 else "float64"
    return _GO_TYPES[type(value)]


def kind_name(value: Any) -> str:
    """Return the kind of a decoded value's Go type, as `reflect.Kind` prints it: map, slice, string, int64."""
    if isinstance(value, dict):
        return "map"
    return "slice" if isinstance(value, list) else type_name(value)


def restore_error(value: Any, kind: str, into: str) -> str:
    """Return the error of apimachinery's unstructured converter about a value of the wrong type.

    `kind` is the kind of the Go type, `into` its name. The converter reads the result of a strategic merge patch.
    """
    if kind in ("map", "slice"):
        return f"cannot restore {kind} from {kind_name(value)}"
    if kind == "struct":
        return f"cannot restore struct from: {kind_name(value)}"
    # Go converts between numbers, and an integer to a string: what it could convert is refused by name.
    source = type_name(value)
    if kind in _CONVERTIBLE.get(source, ()):
        return f"cannot convert {source} to {into}"
    return f"unrecognized type: {kind}"


def unmarshal_error(what: str, into: str, *, field: str = "") -> str:
    """Return the decoder's error about a value of the wrong type.

    `what` is its `json_type`, a number perhaps with its digits, `into` the Go type; `field` is the field of a struct as
    the decoder names it, `Pod.metadata.labels`.
    """
    target = f"struct field {field}" if field else "value"
    return f"json: cannot unmarshal {what} into Go {target} of type {into}"
