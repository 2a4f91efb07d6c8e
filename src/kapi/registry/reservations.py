"""Reservations: stored records, served by no API, that make a value unique across objects.

A reservation is committed together with the object that takes the value. Its key is compared in that commit, so of two
servers that choose the same value at the same time, one has to choose again. They have the outer form of an object, so
that the watch cache holds them as it holds everything else.

    /registry/reservations/nodeports/<port // 32>       which Services hold the node ports of a block of 32
    /registry/reservations/resourcenames/<group>        written whenever a definition of the group takes or frees names
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.cache.watchcache import Selection
from kapi.registry.encoding import StoredObject, decode, draft, head_of
from kapi.storage.interface import Put
from kapi.storage.keys import reservation_key

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.cache.watchcache import CacheHub

_API_VERSION, _KIND = "internal/v1", "Reservation"
_HEAD = head_of(_API_VERSION, _KIND)
_NO_SELECTION = Selection(None, None)


def find(hub: CacheHub, what: str, name: str) -> tuple[dict[str, Any], int]:
    """The content of a reservation and its revision; nothing and 0 when there is none."""
    item = hub.find(reservation_key(what, name))
    if item is None:
        return {}, 0
    content: dict[str, Any] = decode(_HEAD, item.body).get("content") or {}
    return content, item.revision


def put(what: str, name: str, content: dict[str, Any], expected: int) -> Put:
    """The operation that writes a reservation."""
    obj: Object = {"kind": _KIND, "apiVersion": _API_VERSION, "metadata": {"name": name, "uid": ""}, "content": content}
    return Put(reservation_key(what, name), draft(StoredObject(obj)), expected, _NO_SELECTION)
