"""The schema of a built-in kind, with its operations: decode, validate, merge.

`kind_schema` is the entry point of this package. Schemas are compiled piece by piece
as objects need them, and definitions that kinds share are compiled once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

from kapi.schema.builtin import decoder, mergekeys, requirements, shapes
from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin.scalars import TypeMismatch
from kapi.schema.builtin.zerovalues import zero_values

if TYPE_CHECKING:
    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.api.ownership.shape import Shape
    from kapi.schema.builtin.mergekeys import MergeNode

__all__ = ["KindSchema", "ObjectSchema", "TypeMismatch", "kind_schema"]


class ObjectSchema(Protocol):
    """The interface of schemas, built-in or custom, that handlers use."""

    def coerce(self, obj: Object) -> list[str]:
        """Make `obj`, in place, what its kind keeps; returns the paths of what was unknown. Raises `TypeMismatch`."""
        ...

    def reset_status(self, obj: Object) -> None:
        """Make the status of `obj`, in place, that of a new object."""
        ...

    def validate(self, obj: Object) -> list[FieldError]:
        """The errors of a coerced object."""
        ...

    @property
    def merge(self) -> MergeNode:
        """The rules of strategic merge patches; only for kinds that have them."""
        ...

    @property
    def shape(self) -> Shape:
        """The shape of objects for server-side apply."""
        ...


class KindSchema:
    """The compiled schema of one kind. Safe to share between threads."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The full name of the definition."""
        self._coerce = decoder.structs[name]

    def coerce(self, obj: Object) -> list[str]:
        """Make `obj`, in place, what the typed decoder would keep; returns the paths of the unknown fields it removed.

        Paths read as in `unknown field "spec.containers[0].foo"` and come in the order of the document. Raises
        `TypeMismatch` at the first value of a wrong type, and `obj` is then half done. Coercing twice changes nothing.
        """
        try:
            unknown = self._coerce(obj)
        except RecursionError:
            raise TypeMismatch("exceeded max depth") from None
        return [path[1:] for path in unknown[: decoder.MOST_UNKNOWN]] if unknown else []

    def reset_status(self, obj: Object) -> None:
        """Make the status of `obj`, in place, that of a new object: the fields that are always written, if any."""
        obj.pop("status", None)
        zero = zero_values(self.name).get("status")
        if zero is not None:
            obj["status"] = decoder.empty_struct(zero.struct)

    def validate(self, obj: Object) -> list[FieldError]:
        """The errors of a coerced object by its schema alone, without metadata and status."""
        errors: list[FieldError] = []
        self._check(obj, "", errors)
        return [error._replace(field=error.field[1:]) for error in errors]

    @functools.cached_property
    def _check(self) -> requirements.Check:
        return requirements.compile_kind(self.name)

    @functools.cached_property
    def merge(self) -> MergeNode:
        """The merge rules of the whole object, to be walked by field."""
        return mergekeys.root(self.name)

    @functools.cached_property
    def shape(self) -> Shape:
        """The shape of objects for server-side apply."""
        return shapes.kind_shape(self.name)


@functools.cache
def kind_schema(group: str, version: str, kind: str) -> KindSchema:
    """The schema of a built-in kind. Raises KeyError when there is none of that name."""
    name = builtin.definition_name(group, version, kind)
    if name is None:
        raise KeyError(f"no built-in kind {kind} in {group or 'core'}/{version}")
    return KindSchema(name)
