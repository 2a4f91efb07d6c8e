"""Field errors of custom resources, with values printed exactly as kube-apiserver prints them.

A message names the offending value: a string in Go's quotes, a number in Go's shortest form, anything else as JSON
with sorted keys. `kapi.api.fielderror` prints the values of built-in kinds, which are simpler; a custom
resource may have any value, so here unusual characters and large numbers matter.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kapi.api.fielderror import FieldError
from kapi.api.go.text import positional, quote, scientific, short_float, shortest_digits

NOWHERE: Final = "<nil>"
"""The field of an error that concerns the whole object."""

canonical: Final = msgspec.json.Encoder(order="sorted").encode
"""JSON that is equal for equal values, whatever the order of their keys, and different for 1, 1.0, "1" and true."""

_ODD_NUMBER: Final = re.compile(r"[0-9](?:\.0|e)").search
# The encoder of kube-apiserver keeps JSON safe inside HTML, and so do the messages it is used for.
_UNSAFE: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def json_text(value: Any) -> str:
    """A value as JSON with sorted keys."""
    text = canonical(value).decode()
    if _ODD_NUMBER(text):
        # Our encoder and kube-apiserver's write round, very large and very small floats differently.
        text = _json(value)
    return text.translate(_UNSAFE)


def _json(value: Any) -> str:
    if type(value) is dict:
        members = []
        for key in sorted(value):
            members.append(f"{_json(key)}:{_json(value[key])}")  # noqa: PERF401 - a comprehension is a frame
        return "{" + ",".join(members) + "}"
    if type(value) is list:
        items = []
        for item in value:
            items.append(_json(item))  # noqa: PERF401 - a comprehension is a frame
        return "[" + ",".join(items) + "]"
    if type(value) is not float:
        return canonical(value).decode()
    minus, digits, power = shortest_digits(value)
    if -6 <= power < 21:
        return minus + positional(digits, power)
    return minus + scientific(digits, power).replace("e-0", "e-")


def show(value: Any) -> str:
    """A value as it appears inside a message."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return short_float(value)
    return json_text(value)


def invalid(name: str, value: Any, detail: str) -> FieldError:
    """A value of the right type that breaks a rule."""
    return FieldError("FieldValueInvalid", name, f"Invalid value: {show(value)}: {detail}")


def wrong_type(name: str, value: str, wanted: str) -> FieldError:
    """A value of another type or format than `wanted`; `value` is the type it has, or the text that does not parse."""
    shown = quote(value)
    return FieldError(
        "FieldValueTypeInvalid", name, f"Invalid value: {shown}: {name} in body must be of type {wanted}: {shown}"
    )


def required(name: str) -> FieldError:
    """A required field that is missing."""
    return FieldError("FieldValueRequired", name, "Required value")


def duplicate(name: str, value: Any) -> FieldError:
    """A value that occurs a second time where it may occur once."""
    return FieldError("FieldValueDuplicate", name, f"Duplicate value: {show(value)}")
