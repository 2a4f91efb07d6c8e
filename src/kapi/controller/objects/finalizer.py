"""Finalizers: names in an object's metadata that delay its deletion until its controllers have cleaned up.

    if is_deleting(network):
        ...clean up...
        await remove_finalizer(manager.client, network, "network.example.com/cleanup")

Return:
    await ensure_finalizer(manager.client, network, "network.example.com/cleanup")

Both send a patch of the one finalizer, so they do not conflict with other writers, and do nothing where nothing is to
be done. Objects are dictionaries or instances of classes; `obj` is afterwards what the server holds, so call them
before you change it. `add_finalizer` and `discard_finalizer` only change an object in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.access import finalizers_of, is_deleting, name_of, resource_version_of, uid_of
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from kapi.api.access import AnyObject
    from kapi.client.client import Client

ATTEMPTS: Final = 10
"""Other writers that may change the list of finalizers meanwhile before the error is raised."""


def has_finalizer(obj: AnyObject, name: str) -> bool:
    """Return True if the object has this finalizer."""
    return name in finalizers_of(obj)


async def ensure_finalizer(client: Client, obj: Any, name: str) -> bool:
    """Add a finalizer to an object on the server; returns True if it had none of this name.

    Raises:
        NotFound: there is no such object, or another one has its name now.
        Invalid: it is being deleted, and a server takes no new finalizers then.
    """
    return await _patch(client, obj, name, is_wanted=True)


async def remove_finalizer(client: Client, obj: Any, name: str) -> bool:
    """Remove a finalizer from an object on the server; returns True if it had one of this name.

    One that is gone, or whose name another object has now, has none.
    """
    try:
        return await _patch(client, obj, name, is_wanted=False)
    except NotFound:
        return False


async def _patch(client: Client, obj: Any, name: str, *, is_wanted: bool) -> bool:
    # The built-in controllers use this module, and have no use for the caches of a manager.
    from kapi.controller.objects.upsert import become, find_live

    uid, current = uid_of(obj), obj
    for attempt in range(ATTEMPTS):
        if has_finalizer(current, name) == is_wanted:
            if attempt:
                become(obj, current)
            return False
        try:
            if is_wanted and not finalizers_of(current):
                # There is no list to add to, and a JSON patch that makes one would replace one made meanwhile.
                metadata = {"finalizers": [name], "resourceVersion": resource_version_of(current), "uid": uid}
                answer = await client.patch(current, {"metadata": metadata})
            else:
                answer = await client.patch(current, _operations(current, name, is_wanted=is_wanted), kind="json")
        except (Conflict, Invalid):
            current = await find_live(client, obj)
            if current is None or uid_of(current) != uid:
                raise NotFound(f"{name_of(obj)} is not there any more") from None
            if attempt == ATTEMPTS - 1 or (is_wanted and is_deleting(current)):
                raise
        else:
            become(obj, answer)
            return True
    raise AssertionError("unreachable: the last attempt returns or raises")


def _operations(obj: AnyObject, name: str, *, is_wanted: bool) -> list[dict[str, Any]]:
    """A JSON patch of one finalizer that fails where the object is another one, or the finalizer is elsewhere."""
    test_uid = {"op": "test", "path": "/metadata/uid", "value": uid_of(obj)}
    if is_wanted:
        return [test_uid, {"op": "add", "path": "/metadata/finalizers/-", "value": name}]
    path = f"/metadata/finalizers/{list(finalizers_of(obj)).index(name)}"
    return [test_uid, {"op": "test", "path": path, "value": name}, {"op": "remove", "path": path}]


def add_finalizer(obj: AnyObject, name: str) -> bool:
    """Add a finalizer to an object in memory; returns True if that changed anything."""
    if has_finalizer(obj, name):
        return False
    _store(obj, [*finalizers_of(obj), name])
    return True


def discard_finalizer(obj: AnyObject, name: str) -> bool:
    """Remove a finalizer from an object in memory; returns True if that changed anything."""
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
