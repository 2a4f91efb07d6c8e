"""Owner references: which objects belong to which, for controllers and for the garbage collector.

Objects are dictionaries or instances of classes; they are changed in place. Nothing is sent anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.access import controller_of, metadata_of, name_of, namespace_of, owner_references_of, uid_of
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.builtin.meta_v1 import OwnerReference as OwnerReferenceClass
from kapi.api.meta import GroupVersion
from kapi.api.scheme import SCHEME

if TYPE_CHECKING:
    from kapi.api.access import AnyObject, OwnerReference


class AlreadyOwnedError(ValueError):
    """The object has a controller already, and it is another."""

    def __init__(self, obj: AnyObject, owner: OwnerReference) -> None:
        super().__init__(f"{name_of(obj)} is already controlled by {owner.kind} {owner.name} (uid {owner.uid})")
        self.owner = owner


def set_controller_reference(owner: AnyObject, obj: AnyObject, *, block_owner_deletion: bool = True) -> None:
    """Make `owner` the controller of `obj`. Raises `AlreadyOwnedError` when another one is."""
    current = controller_of(obj)
    if current is not None and current.uid != uid_of(owner):
        raise AlreadyOwnedError(obj, current)
    _set(owner, obj, controller=True, block=block_owner_deletion)


def set_owner_reference(owner: AnyObject, obj: AnyObject, *, block_owner_deletion: bool = False) -> None:
    """Make `owner` one of the owners of `obj`."""
    _set(owner, obj, controller=False, block=block_owner_deletion)


def remove_owner_reference(owner: AnyObject, obj: AnyObject) -> bool:
    """Remove the owner reference of `obj` to `owner`; returns True if there was one."""
    uid = uid_of(owner)
    kept = [one for one in _raw(obj) if _uid(one) != uid]
    changed = len(kept) != len(_raw(obj))
    if changed:
        _store(obj, kept)
    return changed


def is_controlled_by(obj: AnyObject, owner: AnyObject) -> bool:
    """Return True if `owner` is the controller of `obj`."""
    current = controller_of(obj)
    return current is not None and current.uid == uid_of(owner)


def is_owned_by(obj: AnyObject, owner: AnyObject) -> bool:
    """Return True if `owner` is one of the owners of `obj`."""
    return any(one.uid == uid_of(owner) for one in owner_references_of(obj))


def _set(owner: AnyObject, obj: AnyObject, *, controller: bool, block: bool) -> None:
    _check_scope(owner, obj)
    gvk = SCHEME.gvk_of(owner)
    if not uid_of(owner):
        raise ValueError(f"{gvk.kind} {name_of(owner)} has no uid: it must have been read from the server")
    fields: dict[str, Any] = {
        "apiVersion": str(GroupVersion(gvk.group, gvk.version)),
        "kind": gvk.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
    }
    if controller:
        fields["controller"] = True
    if block:
        fields["blockOwnerDeletion"] = True
    made: Any = fields
    if not isinstance(obj, dict):
        made = OwnerReferenceClass(
            api_version=fields["apiVersion"],
            kind=fields["kind"],
            name=fields["name"],
            uid=fields["uid"],
            controller=controller or None,
            block_owner_deletion=block or None,
        )
    references = list(_raw(obj))
    for index, one in enumerate(references):
        if _uid(one) == fields["uid"]:
            references[index] = made
            break
    else:
        references.append(made)
    _store(obj, references)


def _check_scope(owner: AnyObject, obj: AnyObject) -> None:
    """Raise ValueError for an owner in another namespace: the garbage collector would delete the object."""
    mine, theirs = namespace_of(obj), namespace_of(owner)
    if theirs and not mine:
        raise ValueError(f"{name_of(obj)} has no namespace; its owner {name_of(owner)}, in {theirs}, cannot own it")
    if theirs and mine != theirs:
        raise ValueError(f"{name_of(obj)} in {mine} cannot be owned by {name_of(owner)} in {theirs}")


def _raw(obj: AnyObject) -> list[Any]:
    metadata = metadata_of(obj)
    if isinstance(metadata, dict):
        return metadata.get("ownerReferences") or []
    return getattr(metadata, "owner_references", None) or []


def _uid(reference: Any) -> str:
    return str(reference.get("uid", "") if isinstance(reference, dict) else reference.uid)


def _store(obj: AnyObject, references: list[Any]) -> None:
    if isinstance(obj, dict):
        metadata = obj.setdefault("metadata", {})
        if references:
            metadata["ownerReferences"] = references
        else:
            metadata.pop("ownerReferences", None)
        return
    holder: Any = obj
    if holder.metadata is None:
        holder.metadata = ObjectMeta()
    holder.metadata.owner_references = references or None
