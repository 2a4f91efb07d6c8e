"""Names of Go types in the errors of cel-go, for run-time values."""

from __future__ import annotations

from typing import Any, Final

from kapi.schema.cel.values import Constructed, Duration, Optional, Timestamp, Uint, is_list, type_of

_VALUE_TYPES: Final[dict[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    Uint: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Timestamp: "types.Timestamp",
    Duration: "types.Duration",
    Optional: "*types.Optional",
}
_NATIVE_TYPES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int64",
    Uint: "uint64",
    float: "float64",
    str: "string",
    bytes: "[]uint8",
    dict: "map[ref.Val]ref.Val",
    Constructed: "map[string]interface {}",
    type(None): "structpb.NullValue",
    Timestamp: "time.Time",
    Duration: "time.Duration",
}


def value_type(value: Any) -> str:
    """The Go type of a value of the interpreter; used for values that are neither lists nor maps."""
    return _VALUE_TYPES.get(type(value), "*types.Type")


def native_type(value: Any) -> str:
    """The Go type that a value is converted to outside of the interpreter."""
    return "[]ref.Val" if is_list(value) else _NATIVE_TYPES.get(type(value), type_of(value).name)
