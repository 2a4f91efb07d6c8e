"""Deletion in two steps, for kinds that hold other objects: the first deletion marks an object, a later one deletes it.

The mark, and whatever the kind adds to it, tells a controller to delete what the object holds and then to release it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Conflict
from kapi.api.meta import format_time
from kapi.registry.encoding import HubObject, copy_of
from kapi.registry.store import Store

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.request import Write


class MarkedDeletionStore(Store):
    """A store whose objects are only marked by their first deletion."""

    def mark(self, write: Write, obj: Object, options: DeleteOptions) -> None:
        """Add to an object that was just given its deletionTimestamp what the kind's controller acts on, in place."""

    def mark_deletion(self, write: Write, old: HubObject, options: DeleteOptions) -> HubObject:
        """The object with its deletionTimestamp and the kind's own mark."""
        obj = HubObject(copy_of(old))
        obj["metadata"]["deletionTimestamp"] = format_time(write.now)
        self.mark(write, obj, options)
        return obj

    def check_deletion(self, item: Item, obj: Object, options: DeleteOptions) -> None:
        """Raise Conflict when an object is not the one that is to be deleted."""
        metadata = obj["metadata"]
        self._check(item.name, "UID", options.uid, metadata["uid"])
        self._check(item.name, "ResourceVersion", options.resource_version, metadata["resourceVersion"])

    def _check(self, name: str, what: str, wanted: str | None, actual: str) -> None:
        if wanted is not None and wanted != actual:
            why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
            raise Conflict.of(self.resource, name, why)
