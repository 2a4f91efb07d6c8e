"""CustomResourceDefinitions as kube-apiserver reads, defaults and validates them: from classes or manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.crd import UnsupportedType, definition, naming_of
from kapi.api.objectmeta import validate_object_meta
from kapi.registry.kinds.apiextensions import conditions, v1beta1, validation
from kapi.registry.kinds.apiextensions.definitions import GROUP, DefinitionStrategy
from kapi.schema.builtin.definitionsv1beta1 import definition_schema
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.builtin.typed import kind_schema
from kapi.schema.structural.defaulting import copy_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.crd import CustomResource
    from kapi.api.meta import GroupKind, Object

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
    """Return the validation errors of a new definition, in kube-apiserver's words."""
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


class NotReadable(ValueError):
    """A manifest is no valid definition; the message says why."""


def read_definition(obj: Object) -> Object:
    """A definition in the form of `apiextensions.k8s.io/v1`, from this or the older form; unknown fields are dropped.

    Raises:
        NotReadable: it is of another version, its fields are of wrong types, or it does not even name its kind.
    """
    obj = copy_json(obj)
    name = (obj.get("metadata") or {}).get("name", "")
    is_old = obj["apiVersion"] == v1beta1.V1BETA1
    if not is_old and obj["apiVersion"] != v1beta1.V1:
        raise NotReadable(
            f"{name}: {obj['apiVersion']} is not known; definitions are {v1beta1.V1} or {v1beta1.V1BETA1}"
        )
    schema = definition_schema() if is_old else kind_schema(GROUP, "v1", "CustomResourceDefinition")
    try:
        schema.coerce(obj)
    except TypeMismatch as error:
        raise NotReadable(f"{name}: {error}") from None
    if is_old:
        obj = v1beta1.to_v1(obj)
        v1beta1.unmark(obj)
    _STRATEGY.default(obj)
    spec = obj.get("spec") or {}
    for where, value in (("group", spec.get("group")), ("names.kind", (spec.get("names") or {}).get("kind"))):
        if not value:
            raise NotReadable(f"{name}: spec.{where} is not set")
    return obj
