"""The JSON patch of a webhook's answer, applied to the object in the version that the webhook saw."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api.errors import InternalError, RequestEntityTooLarge
from kapi.api.limits import OFF_LOOP_BYTES
from kapi.api.patch import jsonpatch
from kapi.api.patch.jsonpatch import PatchApplyError, PatchDecodeError, PatchTooDeep
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.registry.encoding import copy_of
from kapi.server.admission.versions import decoded

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.admission.matching import ResourceMatch


class UndecodablePatch(Exception):
    """The bytes are no JSON patch; the text says why."""


class Patched(NamedTuple):
    """An object after a patch."""

    obj: Object
    changed: bool


class PatchOperations(NamedTuple):
    """The operations of a patch, as the webhook sent them and as they are applied."""

    sent: list[Any]
    decoded: list[jsonpatch.Operation]


def decode_patch(patch: bytes) -> PatchOperations:
    """Return the operations of a patch; none for an empty list, or null."""
    try:
        operations = json.decode(patch)
        return PatchOperations(operations or [], jsonpatch.decode_operations(operations, typed=False))
    except (DecodeError, PatchDecodeError) as error:
        raise UndecodablePatch(str(error)) from None
    except RequestEntityTooLarge as error:
        raise UndecodablePatch(error.message) from None


async def apply_patch(obj: Object, operations: list[jsonpatch.Operation], match: ResourceMatch, size: int) -> Patched:
    """Return an object of a matched kind after a patch, decoded as a request is; the object is not changed.

    Work on much, by the size of object and patch, is done in a thread.

    Raises:
        InternalError: the patch does not fit, or makes something else of the object than its kind.
    """
    if size < OFF_LOOP_BYTES:
        return _apply(obj, operations, match)
    return await asyncio.to_thread(_apply, obj, operations, match)


def _apply(obj: Object, operations: list[jsonpatch.Operation], match: ResourceMatch) -> Patched:
    try:
        patched = jsonpatch.apply(obj, operations)
    except (PatchApplyError, PatchTooDeep) as error:
        raise InternalError.of(str(error)) from None
    except RequestEntityTooLarge as error:
        raise InternalError.of(error.message) from None
    # What did not change is shared with the object, and decoding changes in place.
    patched = decoded(copy_of(patched), match.resource, match.kind)
    return Patched(patched, patched != obj)
