"""Field errors: what a 422 is made of.

One `FieldError` says which field, which rule (`reason`), which value and what would be right; its text is
exactly what kube-apiserver prints, because people and tests read it. Paths are plain strings built by the
caller: `spec.containers[0].name`, `metadata.labels[app]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapi.api.go.text import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

_encode = msgspec.json.Encoder().encode


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


def show(value: Any) -> str:
    """A value as it appears inside a message: strings quoted, numbers and booleans plain, the rest JSON."""
    return quote(value) if isinstance(value, str) else _encode(value).decode()


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The value is of the right type and wrong."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {show(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """The value is missing."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed, here."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is none of an enumeration."""
    choices = ", ".join(quote(choice) for choice in supported)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {show(value)}: supported values: {choices}")


def duplicate(field: str, value: Any) -> FieldError:
    """The value stands twice where it may stand once."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {show(value)}")


def not_found(field: str, value: Any) -> FieldError:
    """The value names something that is not there."""
    return FieldError("FieldValueNotFound", field, f"Not found: {show(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """More bytes than allowed."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {limit} {unit}")


def too_many(field: str, actual: int, limit: int) -> FieldError:
    """More items than allowed."""
    unit = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {limit} {unit}")


def immutable(field: str, value: Any) -> FieldError:
    """The value may not change once set."""
    return invalid(field, value, "field is immutable")
