"""Decoding of custom objects, from a request or from the store, with its steps in kube-apiserver's order.

Metadata is read as a typed field, unknown fields are pruned, nulls that mean nothing are removed, and embedded objects
are read; defaults are filled in afterwards (`defaulting`). The order shows in what is refused first and in how unknown
fields are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.schema.structural.defaulting import compile_null_removal
from kapi.schema.structural.metadata import coerce_object_meta, compile_coerce
from kapi.schema.structural.pruning import MOST_UNKNOWN, compile_prune

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.structural.model import Schema


def compile_reader(
    schema: Schema, *, preserve: bool = False, drop_malformed: bool = False
) -> Callable[[dict[str, Any]], list[str]]:
    """A function that prunes and coerces a decoded object in place, and returns the paths of unknown fields.

    `preserve` is `spec.preserveUnknownFields` of an old definition: nothing is pruned, and nulls stay. Raises
    `TypeMismatch` for metadata that cannot be read; with `drop_malformed`, for objects from the store, that is dropped.
    """
    prune = None if preserve else compile_prune(schema)
    remove_nulls = None if preserve else compile_null_removal(schema)
    coerce = compile_coerce(schema, root=False, drop_malformed=drop_malformed)

    def read(obj: dict[str, Any]) -> list[str]:
        unknown = coerce_object_meta(obj, drop_malformed=drop_malformed) or []
        if prune is not None:
            unknown += prune(obj) or ()
        if remove_nulls is not None:
            remove_nulls(obj)
        if coerce is not None:
            unknown += coerce(obj) or ()
        return unknown[:MOST_UNKNOWN]

    return read
