"""From classes to definitions that a server would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.crd import UnsupportedType, definition, naming_of
from kapi.api.objectmeta import validate_object_meta
from kapi.registry.kinds.apiextensions import conditions, validation
from kapi.registry.kinds.apiextensions.definitions import GROUP, DefinitionStrategy
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.builtin.typed import kind_schema
from kapi.schema.structural.defaulting import copy_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.crd import CustomResource
    from kapi.api.errors import GroupKind
    from kapi.api.meta import Object

_STRATEGY = DefinitionStrategy()


class BadDefinition(ValueError):
    """Classes that make no definition, or one that servers refuse; the text says why, a line for each reason."""


def definitions_of(classes: Iterable[type[CustomResource]]) -> list[Object]:
    """The definitions of the kinds of some classes, all versions of a kind in one, in the order of their first classes.

    Raises:
        BadDefinition: one of them cannot be made, or a server would refuse it.
    """
    kinds: dict[GroupKind, list[type[CustomResource]]] = {}
    for cls in classes:
        found = kinds.setdefault(naming_of(cls).gvk.group_kind, [])
        if cls not in found:
            found.append(cls)
    return [_checked(found) for found in kinds.values()]


def _checked(classes: list[type[CustomResource]]) -> Object:
    try:
        made = definition(*classes)
    except (UnsupportedType, ValueError) as error:
        raise BadDefinition(str(error)) from None
    reasons = problems(made)
    if reasons:
        name = made["metadata"]["name"]
        raise BadDefinition("\n".join(f"{name}: {reason}" for reason in reasons))
    return made


def problems(made: Object) -> list[str]:
    """Why a server would refuse a new definition, in its words; empty when it would not."""
    obj = copy_json(made)
    try:
        unknown = kind_schema(GROUP, "v1", "CustomResourceDefinition").coerce(obj)
    except TypeMismatch as error:
        return [str(error)]
    if unknown:
        return [f'unknown field "{path}"' for path in unknown]
    _STRATEGY.default(obj)
    conditions.record_storage_version(obj)
    errors = validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=_STRATEGY.validate_name, path="metadata"
    ) + validation.create_errors(obj, legacy=False)
    return [str(error) for error in errors]
