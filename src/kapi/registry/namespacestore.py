"""The store of namespaces, which go in two steps: first marked Terminating, then, once emptied and let go, removed."""

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


class NamespaceStore(Store):
    """Namespaces. One is removed only when spec.finalizers, metadata.finalizers and grace are all spent."""

    def should_delete(self, obj: Object, old: Object) -> bool:
        """As for every object, and the namespace must have been let go of."""
        return not obj.get("spec", {}).get("finalizers") and super().should_delete(obj, old)

    async def delete(
        self, context: WriteContext, namespace: str, name: str, options: DeleteOptions, admit: Admit
    ) -> Written:
        """Mark the namespace the first time; remove it once nothing holds it."""
        while True:
            item = self.get(namespace, name)
            obj = self.decode(item)
            metadata = obj["metadata"]
            self._check(name, "UID", options.uid, metadata["uid"])
            self._check(name, "ResourceVersion", options.resource_version, metadata["resourceVersion"])
            if "deletionTimestamp" in metadata:
                if obj.get("spec", {}).get("finalizers"):
                    return Written(item)
                return await deletion.delete(self, context, namespace, name, options, admit)
            await admit(None, obj)
            metadata["deletionTimestamp"] = format_time(context.now)
            obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
            finalizers = deletion.wanted_finalizers(self, metadata.get("finalizers", []), options)
            if finalizers:
                metadata["finalizers"] = finalizers
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
