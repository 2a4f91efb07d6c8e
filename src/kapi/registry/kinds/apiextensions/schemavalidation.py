"""The schema of one version, or the one that all versions share, validated as a whole.

Puts together what is known about schemas: what may stand in them (`schemafields`), and, from `kapi.schema`, whether
they are structural, whether their defaults fit, and whether their validation rules compile and can be afforded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kapi.api.fielderror import FieldError, forbidden, invalid
from kapi.registry.kinds.apiextensions import schemafields
from kapi.schema.structural.defaultvalues import default_errors
from kapi.schema.structural.model import read
from kapi.schema.structural.violations import unconvertible, violations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.registry.kinds.apiextensions.options import ValidationOptions
    from kapi.schema.structural.defaultvalues import CheckRules

    Props = Mapping[str, Any]


def schema_errors(
    validation: Props | None, path: str, options: ValidationOptions, version: str, *, structural: bool, status: bool
) -> list[FieldError]:
    """Validate what stands in the `schema` of a version. `status`: the kind has a status sub-resource."""
    props = (validation or {}).get("openAPIV3Schema")
    if props is None:
        return []
    where = f"{path}.openAPIV3Schema"
    errors = schemafields.root_errors(props, where) if status else []
    if props.get("nullable"):
        errors.append(forbidden(f"{where}.nullable", "nullable cannot be true at the root"))
    unreadable = unconvertible(props)
    broken = _structure_errors(props, where, options) if structural and unreadable is None else []
    errors += broken if structural else _pattern_errors(props, where)
    parts = schemafields.schema_errors(props, where, options.strictness)
    errors += parts
    if not structural:
        return errors
    if unreadable is None:
        limited = not options.is_unchanged(version, validation)
        errors += _rule_errors(props, where, is_structural=not broken, known=parts, cost_limited=limited)
    # What cannot be read at all has mostly been told in better words by then.
    return [invalid(where, "", unreadable)] if unreadable is not None and not errors else errors


def _structure_errors(props: Props, path: str, options: ValidationOptions) -> list[FieldError]:
    errors = violations(props, path)
    if errors:
        return errors
    check = _check_of_defaults(props)
    errors = default_errors(props, path, check_rules=check)
    if any(map(_is_unpruned, errors)) and not options.needs_pruned_defaults:
        return default_errors(props, path, check_rules=check, require_pruned=False)
    return errors


def _rule_errors(
    props: Props, where: str, *, is_structural: bool, known: list[FieldError], cost_limited: bool
) -> list[FieldError]:
    if not _has_rules(props):
        return []
    # Imported for the first definition with rules: see `CustomSchema`.
    from kapi.schema.rules.checks import check_rules

    return check_rules(read(props), where, is_structural=is_structural, known=known, cost_limited=cost_limited)


def _check_of_defaults(props: Props) -> CheckRules | None:
    """The check of a default by the rules of its schema; None if there are no rules."""
    if not _has_rules(props):
        return None
    from kapi.schema.rules.validator import REQUEST_BUDGET, validate_default

    # All defaults together may cost what one object may.
    count = sum(one.get("default") is not None for one in schemafields.walk(props))
    return partial(validate_default, budget=REQUEST_BUDGET // max(count, 1))


def _has_rules(props: Props) -> bool:
    return any(one.get("x-kubernetes-validations") is not None for one in schemafields.walk(props))


def _is_unpruned(error: FieldError) -> bool:
    return error.body.endswith("must not have unknown fields")


def _pattern_errors(props: Props, path: str) -> list[FieldError]:
    """Patterns must compile even where a schema need not be structural: objects are still matched against them."""
    return [error for error in violations(props, path) if error.field.endswith(".pattern")]
