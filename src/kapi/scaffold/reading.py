"""Reading definitions as servers read them: typed, with defaults, in today's form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.registry.kinds.apiextensions import v1beta1
from kapi.registry.kinds.apiextensions.definitions import GROUP, DefinitionStrategy
from kapi.schema.builtin.definitionsv1beta1 import definition_schema
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.builtin.typed import kind_schema
from kapi.schema.structural.defaulting import copy_json

if TYPE_CHECKING:
    from kapi.api.meta import Object

_STRATEGY: Final = DefinitionStrategy()


class NotReadable(ValueError):
    """Something that is no definition; the text says why."""


def read(obj: Object) -> Object:
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
