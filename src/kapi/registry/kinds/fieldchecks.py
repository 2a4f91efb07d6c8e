"""The handful of checks that every pod and workload rule is made of.

Each appends to a list of field errors rather than returning one: a pod spec runs hundreds of them, nearly all with
nothing to say. No state, no I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.fielderror import FieldError

Errors = list["FieldError"]

NOT_NEGATIVE = "must be greater than or equal to 0"
FIELD_IS_IMMUTABLE = "field is immutable"
MAX_INT32 = 2**31 - 1


def check_sentences(errors: Errors, path: str, value: Any, sentences: Iterable[str]) -> None:
    """One `Invalid value` per sentence a name rule had to say."""
    errors.extend(fielderror.invalid(path, value, sentence) for sentence in sentences)


def check_nonnegative(errors: Errors, path: str, value: int | None) -> None:
    """A count, which may be zero or absent."""
    if value is not None and value < 0:
        errors.append(fielderror.invalid(path, value, NOT_NEGATIVE))


def check_positive(errors: Errors, path: str, value: int) -> None:
    """A count that may not be zero."""
    if value <= 0:
        errors.append(fielderror.invalid(path, value, "must be greater than zero"))


def check_choice(errors: Errors, path: str, value: str, choices: tuple[str, ...]) -> None:
    """One of an enumeration; absent is an error of its own."""
    if value in choices:
        return
    if value:
        errors.append(fielderror.not_supported(path, value, choices))
    else:
        errors.append(fielderror.required(path))


def check_labels(errors: Errors, path: str, labels: Mapping[str, str]) -> None:
    """Keys and values of labels. The path has no key in it, as in the reference."""
    for key, value in labels.items():
        check_sentences(errors, path, key, names.qualified_name(key))
        check_sentences(errors, path, value, names.label_value(value))


def check_dns_label(errors: Errors, path: str, value: str) -> None:
    """A required DNS label."""
    if value:
        check_sentences(errors, path, value, names.dns_label(value))
    else:
        errors.append(fielderror.required(path))


def invalid_without_value(path: str, detail: str) -> FieldError:
    """An `Invalid value` that does not repeat the value."""
    return fielderror.FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")
