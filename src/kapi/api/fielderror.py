"""Field errors: what a 422 is made of.

One `FieldError` says which field, which rule (`reason`), which value and what would be right; its text is
exactly what kube-apiserver prints, because people and tests read it. Paths are plain strings built by the
caller: `spec.containers[0].name`, `metadata.labels[app]`.

A megabyte of wrong keys would make hundreds of megabytes of errors. So large objects are validated through `bounded`:
once the errors take more than a client would read, the functions below return `OMITTED` in place of another one.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import msgspec

from kapi.api.go.text import quote
from kapi.api.limits import ERROR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_encode = msgspec.json.Encoder().encode

P = ParamSpec("P")


class FieldError(NamedTuple):
    """One broken rule. `body` is the text without the field; `reason` the machine-readable class."""

    reason: str
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    def cause(self) -> dict[str, str]:
        """The entry of `details.causes`."""
        return {"reason": self.reason, "message": self.body, "field": self.field}


OMITTED = FieldError("FieldValueInvalid", "", "one of the errors that are counted and not described")
"""Stands for an error that was found after too many others; it is counted, and has no text of its own."""

_OVERHEAD = 200
"""The bytes that an error takes besides its text."""


class _Allowance:
    """The bytes that the errors of one object may still take."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = ERROR_BYTES


_allowance: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


def bounded(validate: Callable[[], list[FieldError]]) -> list[FieldError]:
    """The errors of a validation, of which those beyond `ERROR_BYTES` are `OMITTED`."""
    token = _allowance.set(_Allowance())
    try:
        return validate()
    finally:
        _allowance.reset(token)


def _counted(describe: Callable[P, FieldError]) -> Callable[P, FieldError]:
    """The function within the allowance of the validation that calls it, if that has one."""

    @wraps(describe)
    def counted(*arguments: P.args, **named: P.kwargs) -> FieldError:
        allowance = _allowance.get()
        if allowance is None:
            return describe(*arguments, **named)
        if allowance.left < 0:
            return OMITTED
        error = describe(*arguments, **named)
        allowance.left -= _OVERHEAD + len(error.field) + len(error.body)
        return error

    return counted


def show(value: Any) -> str:
    """A value as it appears inside a message: strings quoted, numbers and booleans plain, the rest JSON."""
    return quote(value) if isinstance(value, str) else _encode(value).decode()


@_counted
def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The value is of the right type and wrong."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


@_counted
def required(field: str, detail: str = "") -> FieldError:
    """The value is missing."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


@_counted
def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed, here."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


@_counted
def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is none of an enumeration."""
    choices = ", ".join(quote(choice) for choice in supported)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {choices}")


@_counted
def duplicate(field: str, value: Any) -> FieldError:
    """The value stands twice where it may stand once."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


@_counted
def not_found(field: str, value: Any) -> FieldError:
    """The value names something that is not there."""
    return FieldError("FieldValueNotFound", field, f"Not found: {show(value)}")


@_counted
def too_long(field: str, limit: int) -> FieldError:
    """More bytes than allowed."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} {unit}")


@_counted
def too_many(field: str, actual: int, limit: int) -> FieldError:
    """More items than allowed."""
    unit = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {limit} {unit}")


def immutable(field: str, value: Any) -> FieldError:
    """The value may not change once set."""
    return invalid(field, value, "field is immutable")
