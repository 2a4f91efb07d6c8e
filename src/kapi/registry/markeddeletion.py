"""Deletion in two steps, for kinds that hold other objects: first marked, then, once emptied and let go, removed.

Whoever empties them is somebody else; the mark, and whatever the kind adds to it, is what tells them to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Conflict
from kapi.api.meta import format_time
from kapi.registry import deletion
from kapi.registry.outcome import Written
from kapi.registry.store import Store
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.outcome import Admit
    from kapi.registry.strategy import WriteContext


class TwoStepStore(Store):
    """A store whose objects are only marked by their first deletion."""

    def mark(self, context: WriteContext, obj: Object, options: DeleteOptions) -> None:
        """Add to an object that was just given its deletionTimestamp what says that it is to be emptied, in place."""

    def is_held(self, obj: Object) -> bool:
        """Whether a marked object is not to be touched by another deletion."""
        return False

    async def delete(
        self, context: WriteContext, namespace: str, name: str, options: DeleteOptions, admit: Admit
    ) -> Written:
        """Mark the object the first time; afterwards delete it as every other, unless it is held."""
        while True:
            item = self.get(namespace, name)
            obj = self.decode(item)
            metadata = obj["metadata"]
            self._check(name, "UID", options.uid, metadata["uid"])
            self._check(name, "ResourceVersion", options.resource_version, metadata["resourceVersion"])
            if "deletionTimestamp" in metadata:
                if self.is_held(obj):
                    return Written(item)
                return await deletion.delete(self, context, namespace, name, options, admit)
            await admit(None, obj)
            metadata["deletionTimestamp"] = format_time(context.now)
            self.mark(context, obj, options)
            if context.dry_run:
                return Written(self.preview(item.key, obj, item))
            try:
                return Written(await self.write(item.key, obj, item.revision))
            except RevisionMismatch:
                continue

    def _check(self, name: str, what: str, wanted: str | None, actual: str) -> None:
        if wanted is not None and wanted != actual:
            why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
            raise Conflict.of(self.resource, name, why)
