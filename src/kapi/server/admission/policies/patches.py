"""What a mutation makes of an object: JSON patches, and apply configurations, merged as server-side apply merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import InternalError, RequestEntityTooLarge
from kapi.api.ownership.apply import listed
from kapi.api.ownership.merge import merge
from kapi.api.ownership.shape import ANY, ATOMIC_LIST, ATOMIC_MAP, problems
from kapi.api.patch import jsonpatch
from kapi.api.patch.jsonpatch import PatchApplyError, PatchTooDeep
from kapi.registry.encoding import copy_of
from kapi.schema.builtin.typed import TypeMismatch
from kapi.server.admission.policies.mutator import MutationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.api.ownership.shape import Shape
    from kapi.schema.builtin.typed import ObjectSchema

_TEST_FAILED: Final = "test failed"


def json_patched(obj: Object, operations: list[Any], schema: ObjectSchema | None) -> Object:
    """Return the object after a JSON patch; `schema` is that of a built-in kind, and decodes it strictly.

    A test that fails leaves the object as it is.
    """
    try:
        patched = jsonpatch.apply(obj, jsonpatch.decode_operations(operations, typed=False))
    except (PatchApplyError, PatchTooDeep) as error:
        if str(error).endswith(_TEST_FAILED):
            return obj
        raise MutationError(f"JSON Patch: {error}") from None
    except RequestEntityTooLarge as error:
        raise MutationError(f"JSON Patch: {error.message}") from None
    if schema is not None and isinstance(patched, dict):
        patched = copy_of(patched)  # Decoding changes in place, and what did not change is shared.
        try:
            unknown = schema.coerce(patched)
        except TypeMismatch as error:
            raise InternalError.of(str(error)) from None
        if unknown:
            fields = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise InternalError.of(f"strict decoding error: {fields}")
    return patched  # type: ignore[no-any-return]


def apply_configured(obj: Object, configuration: Object, shape: Shape) -> Object:
    """Return the object with an apply configuration merged into it. Atomic fields may not be in a configuration."""
    configuration = {**configuration, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    if wrong := problems(shape, configuration):
        raise MutationError(f"error applying patch: failed to convert patch object to typed object: {listed(wrong)}")
    if atomic := sorted(_atomic_fields(shape, configuration, "")):
        listing = ", ".join(atomic)
        raise MutationError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            + listing
        )
    # Earlier mutations may have added what the schema of a custom kind does not have.
    if wrong := problems(shape, obj, repeats=True):
        raise MutationError(f"error applying patch: failed to convert original object to typed object: {listed(wrong)}")
    return merge(shape, obj, configuration)  # type: ignore[no-any-return]


def _atomic_fields(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of the lists, maps and structs in a configuration that have one owner as a whole."""
    if shape.kind == ANY:
        shape = shape.part(value)
    if isinstance(value, dict):
        if shape.kind == ATOMIC_MAP:
            yield path
        for name, item in value.items():
            known = shape.fields.get(name)
            if known is not None:
                yield from _atomic_fields(known[1], item, f"{path}.{name}")
    elif isinstance(value, list):
        if shape.kind == ATOMIC_LIST:
            yield path
        for index, item in enumerate(value):
            if shape.items is not None:
                yield from _atomic_fields(shape.items, item, f"{path}[{index}]")
