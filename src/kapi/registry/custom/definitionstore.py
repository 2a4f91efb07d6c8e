"""The store of definitions: the first deletion marks one, a later one deletes it when it has no instances left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.registry.kinds.apiextensions.conditions import begin_deletion
from kapi.registry.markeddeletion import MarkedDeletionStore

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.deletion import DeleteOptions
    from kapi.registry.request import Write


class DefinitionStore(MarkedDeletionStore):
    """The definitions. The definition controller deletes the instances of a marked one, then removes its finalizer."""

    def mark(self, write: Write, obj: Object, options: DeleteOptions) -> None:
        """Add the finalizer that keeps the definition while it has instances, and the condition Terminating."""
        begin_deletion(obj, write.now)
