"""Finalizers: names in an object's metadata that delay its deletion until its controllers have cleaned up.

    if is_deleting(network):
        ...clean up...
        if remove_finalizer(network, "network.example.com/cleanup"):
            await client.update(network)

Objects are dictionaries or instances of classes; they are changed in place. Nothing is sent anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api.access import finalizers_of
from kapi.api.builtin.meta_v1 import ObjectMeta

if TYPE_CHECKING:
    from kapi.api.access import AnyObject


def has_finalizer(obj: AnyObject, name: str) -> bool:
    """Return True if the object has this finalizer."""
    return name in finalizers_of(obj)


def add_finalizer(obj: AnyObject, name: str) -> bool:
    """Add a finalizer; returns True if that changed anything."""
    if has_finalizer(obj, name):
        return False
    _store(obj, [*finalizers_of(obj), name])
    return True


def remove_finalizer(obj: AnyObject, name: str) -> bool:
    """Remove a finalizer; returns True if that changed anything."""
    if not has_finalizer(obj, name):
        return False
    _store(obj, [one for one in finalizers_of(obj) if one != name])
    return True


def _store(obj: AnyObject, finalizers: list[str]) -> None:
    if isinstance(obj, dict):
        metadata = obj.setdefault("metadata", {})
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        return
    holder: Any = obj
    if holder.metadata is None:
        holder.metadata = ObjectMeta()
    holder.metadata.finalizers = finalizers or None
