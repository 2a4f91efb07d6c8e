"""Validation of built-in kinds by their schema alone: required fields, and enumerations.

For kinds without validation of their own in the registry. Absence is treated as in kube-apiserver: a missing struct is
an empty one, so the error names the field inside that matters; a missing string is an empty one, and required means not
empty. Missing numbers, booleans and lists have a legal zero value and pass. Each definition becomes one function,
compiled on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror
from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.mergekeys import is_struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.fielderror import FieldError
    from kapi.schema.builtin.definitions import Node

    Check = Callable[[dict[str, Any], str, list[FieldError]], None]
    """Validates an object found at a path and adds its errors."""
    Rule = Callable[[Any, str, list[FieldError]], None]
    """Validates the value of a field, None when it is missing."""

_SHARED = frozenset({"apiVersion", "kind", "metadata", "status"})
"""Fields of a whole object that are validated elsewhere."""


class _Checks(dict[str, "Check"]):
    """The compiled definitions by name."""

    def __missing__(self, name: str) -> Check:
        compiled = self[name] = _struct(name, frozenset())
        return compiled


_checks = _Checks()


def compile_kind(name: str) -> Check:
    """The check of a whole object: everything but its metadata and status."""
    return _struct(name, _SHARED)


def _struct(name: str, skipped: frozenset[str]) -> Check:
    definition = builtin.definition(name)
    rules = [
        (field, "." + field, rule)
        for field, node in definition.properties.items()
        if field not in skipped and (rule := _rule(node, required=field in definition.required))
    ]

    def check(obj: dict[str, Any], path: str, errors: list[FieldError]) -> None:
        for field, suffix, rule in rules:
            rule(obj.get(field), path + suffix, errors)

    return check


def _rule(node: Node, *, required: bool) -> Rule | None:
    """The rule of one field; None when its schema asks for nothing."""
    if is_struct(node):
        return _below(node.ref, required=required)
    if node.type == "string" and (required or node.enum):
        return _text(node.enum, required=required)
    if node.type == "array" and node.items:
        if item := _rule(node.items, required=False):
            return _each_item(item)
    elif node.type == "object" and node.values and (value := _rule(node.values, required=False)):
        return _each_value(value)
    return None


def _below(name: str, *, required: bool) -> Rule:
    def rule(value: Any, path: str, errors: list[FieldError]) -> None:
        if value is not None or required:
            _checks[name](value or {}, path, errors)

    return rule


def _text(allowed: tuple[str, ...], *, required: bool) -> Rule:
    def rule(value: Any, path: str, errors: list[FieldError]) -> None:
        if not value:
            if required:
                errors.append(fielderror.required(path))
        elif allowed and value not in allowed:
            errors.append(fielderror.not_supported(path, value, allowed))

    return rule


def _each_item(item: Rule) -> Rule:
    def rule(value: Any, path: str, errors: list[FieldError]) -> None:
        for index, entry in enumerate(value or ()):
            item(entry, f"{path}[{index}]", errors)

    return rule


def _each_value(item: Rule) -> Rule:
    def rule(value: Any, path: str, errors: list[FieldError]) -> None:
        for key, entry in (value or {}).items():
            item(entry, f"{path}[{key}]", errors)

    return rule
