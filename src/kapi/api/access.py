"""Reading what all objects have, whether they are dictionaries or classes.

A controller that handles a custom class and a queue that handles anything both ask for a name, a uid, an owner. These
functions answer for both forms, with plain values: never None where a string, a mapping or a list is meant. Nothing is
changed here, and what is handed out is the object's own: copy it before changing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AnyObject: TypeAlias = dict[str, Any] | msgspec.Struct
"""An object in either form: decoded JSON, or an instance of a class of its kind."""


SET_FIELDS: Final = "_kapi_set_fields"
"""The attribute of an instance of `crd.Model` that has the names of the fields which the program has set."""


class OwnerReference(NamedTuple):
    """An owner reference. `controller` marks the one owner that manages the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool
    block_owner_deletion: bool


class Condition(NamedTuple):
    """One aspect of an object's state. `observed_generation` is None where the condition does not say."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int | None


def _read(part: Any, wire_name: str, attribute: str) -> Any:
    """A field of a dictionary or of a struct; None when either lacks it."""
    if isinstance(part, dict):
        return part.get(wire_name)
    return getattr(part, attribute, None)


def metadata_of(obj: AnyObject) -> Any:
    """The metadata as it is: a dictionary, a struct, or None."""
    return _read(obj, "metadata", "metadata")


def _text(obj: AnyObject, wire_name: str, attribute: str) -> str:
    return _read(metadata_of(obj), wire_name, attribute) or ""


def name_of(obj: AnyObject) -> str:
    """`metadata.name`, or nothing."""
    return _text(obj, "name", "name")


def namespace_of(obj: AnyObject) -> str:
    """`metadata.namespace`, or nothing."""
    return _text(obj, "namespace", "namespace")


def uid_of(obj: AnyObject) -> str:
    """`metadata.uid`, or nothing."""
    return _text(obj, "uid", "uid")


def resource_version_of(obj: AnyObject) -> str:
    """`metadata.resourceVersion`, or nothing."""
    return _text(obj, "resourceVersion", "resource_version")


def deletion_timestamp_of(obj: AnyObject) -> str:
    """`metadata.deletionTimestamp`, or nothing."""
    return _text(obj, "deletionTimestamp", "deletion_timestamp")


def is_deleting(obj: AnyObject) -> bool:
    """Return True once the object has a deletion timestamp."""
    return bool(deletion_timestamp_of(obj))


def generation_of(obj: AnyObject) -> int:
    """`metadata.generation`; 0 for kinds that do not count."""
    return _read(metadata_of(obj), "generation", "generation") or 0


def labels_of(obj: AnyObject) -> Mapping[str, str]:
    """The labels; empty when there are none."""
    return _read(metadata_of(obj), "labels", "labels") or {}


def annotations_of(obj: AnyObject) -> Mapping[str, str]:
    """The annotations; empty when there are none."""
    return _read(metadata_of(obj), "annotations", "annotations") or {}


def finalizers_of(obj: AnyObject) -> Sequence[str]:
    """`metadata.finalizers`: all must be removed before the object is deleted."""
    return _read(metadata_of(obj), "finalizers", "finalizers") or ()


def owner_references_of(obj: AnyObject) -> list[OwnerReference]:
    """Whom the object belongs to, in the order it says so."""
    return [
        OwnerReference(
            api_version=_read(owner, "apiVersion", "api_version") or "",
            kind=_read(owner, "kind", "kind") or "",
            name=_read(owner, "name", "name") or "",
            uid=_read(owner, "uid", "uid") or "",
            controller=bool(_read(owner, "controller", "controller")),
            block_owner_deletion=bool(_read(owner, "blockOwnerDeletion", "block_owner_deletion")),
        )
        for owner in _read(metadata_of(obj), "ownerReferences", "owner_references") or ()
    ]


def controller_of(obj: AnyObject) -> OwnerReference | None:
    """The owner that manages the object, if one does."""
    return next((owner for owner in owner_references_of(obj) if owner.controller), None)


def conditions_of(obj: AnyObject) -> list[Condition]:
    """`status.conditions`; empty for objects without."""
    return [
        Condition(
            type=_read(condition, "type", "type") or "",
            status=_read(condition, "status", "status") or "",
            reason=_read(condition, "reason", "reason") or "",
            message=_read(condition, "message", "message") or "",
            observed_generation=_read(condition, "observedGeneration", "observed_generation"),
        )
        for condition in _read(_read(obj, "status", "status"), "conditions", "conditions") or ()
    ]
