"""The JSON patch of a webhook's answer, applied to the object in the version that the webhook saw."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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

SHORT_PATCH: Final = 4096
"""The size of patches up to which their decoded form is remembered."""


_METADATA: Final = {"metadata"}
_TYPE_META: Final = {"kind", "apiVersion"}
_TEXT_MAPS: Final = ("labels", "annotations")


class UndecodablePatch(Exception):
    """The bytes are no JSON patch; the text says why."""


class Patched(NamedTuple):
    """An object after a patch."""

    obj: Object
    changed: bool


class PatchOperations(NamedTuple):
    """The operations of a patch, as they are shown and as they are applied."""

    shown: bytes
    """JSON of them without those that are empty, the fields of each in order."""
    decoded: list[jsonpatch.Operation]


def decode_patch(patch: bytes) -> PatchOperations:
    """Return the operations of a patch; none for an empty list, or null.

    A webhook that adds a label sends the same patch again and again, so short ones are remembered. They are not changed
    by being applied.
    """
    return _remembered(patch) if len(patch) <= SHORT_PATCH else _decode_patch(patch)


def _decode_patch(patch: bytes) -> PatchOperations:
    try:
        operations = json.decode(patch)
        found = jsonpatch.decode_operations(operations, typed=False)
        shown = json.encode([dict(sorted(one.items())) for one in operations or () if one])
        return PatchOperations(shown, found)
    except (DecodeError, PatchDecodeError) as error:
        raise UndecodablePatch(str(error)) from None
    except RequestEntityTooLarge as error:
        raise UndecodablePatch(error.message) from None


_remembered = lru_cache(maxsize=256)(_decode_patch)


async def apply_patch(
    obj: Object, operations: list[jsonpatch.Operation], match: ResourceMatch, size: int, *, is_decoded: bool
) -> Patched:
    """Return an object of a matched kind after a patch, decoded as a request is.

    The object is not changed. If it `is_decoded` in that version already, parts that the patch has not touched are
    shared with it. Work on much, by the size of object and patch, is done in a thread.

    Raises:
        InternalError: the patch does not fit, or makes something else of the object than its kind.
    """
    if size < OFF_LOOP_BYTES:
        return _apply(obj, operations, match, is_decoded=is_decoded)
    return await asyncio.to_thread(_apply, obj, operations, match, is_decoded=is_decoded)


def _apply(obj: Object, operations: list[jsonpatch.Operation], match: ResourceMatch, *, is_decoded: bool) -> Patched:
    try:
        patched = jsonpatch.apply(obj, operations)
    except (PatchApplyError, PatchTooDeep) as error:
        raise InternalError.of(str(error)) from None
    except RequestEntityTooLarge as error:
        raise InternalError.of(error.message) from None
    is_plain = match.resource.custom is None and match.kind == match.resource.gvk
    if is_decoded and is_plain and isinstance(patched, dict) and isinstance(patched.get("metadata"), dict):
        patched = _decode_touched(patched, obj, match)
    else:
        # What did not change is shared with the object, and decoding changes in place.
        patched = decoded(copy_of(patched), match.resource, match.kind)
    return Patched(patched, patched != obj)


def _decode_touched(patched: Object, obj: Object, match: ResourceMatch) -> Object:
    """Decode those fields of an object, and of its metadata, that a patch has touched.

    The others, which it shares with the object, have been decoded with the request: a label would else cost as much as
    the largest field. Labels and annotations, which are what most patches touch, need not be decoded to be known to be
    what decoding makes of them.
    """
    before = obj.get("metadata") or {}
    metadata = _touched(patched["metadata"], before)
    touched = _touched(patched, obj)
    # Decoding puts back some of the fields that were removed.
    is_whole = patched.keys() == obj.keys() >= _TYPE_META and patched["metadata"].keys() >= before.keys()
    if is_whole and touched.keys() == _METADATA and all(map(_is_text_map, metadata.items())):
        # Copied, because a value of the patch may be among them, which is remembered.
        copied = {key: value.copy() for key, value in metadata.items()}
        joined = {**patched["metadata"], **copied}
        return {"kind": patched["kind"], "apiVersion": patched["apiVersion"], **patched, "metadata": joined}
    part = {**touched, "metadata": metadata}
    part |= {key: patched[key] for key in ("kind", "apiVersion") if key in patched}
    found = decoded(copy_of(part), match.resource, match.kind)
    found["metadata"] = _joined(patched["metadata"], metadata, found["metadata"])
    # The head of an encoded object is these two, in this order.
    return {"kind": found["kind"], "apiVersion": found["apiVersion"], **_joined(patched, part, found)}


def _is_text_map(field: tuple[str, Any]) -> bool:
    """Return True if a field of metadata is a map of strings, and is one that decoding leaves as it is."""
    key, value = field
    if key not in _TEXT_MAPS or type(value) is not dict or not value:
        return False
    for one in value.values():  # noqa: SIM110 (compiled code makes a list of a generator)
        if type(one) is not str:
            return False
    return True


def _touched(patched: Object, obj: Object) -> Object:
    # Decoding removes what is empty.
    return {key: value for key, value in patched.items() if not value or obj.get(key) is not value}


def _joined(patched: Object, touched: Object, found: Object) -> Object:
    """Return a patched map with the fields that were touched as decoding has left them, if it has."""
    joined = {
        key: found[key] if key in touched else value
        for key, value in patched.items()
        if key in found or key not in touched
    }
    for key, value in found.items():
        joined.setdefault(key, value)
    return joined
