"""Update scopes: the part of an object that an endpoint may change, and the kind it speaks.

The main endpoint and /status take the whole object and restore what they may not change. /scale (`scale.py`) takes a
kind of its own, whose values end up in the object. The write path (`write.py`) asks the scope at each of its steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.registry.initializers import is_unseen
from kapi.registry.strategy import copy_field

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.encoding import HubObject
    from kapi.registry.fieldmanagers import FieldManagers
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy

_STATUS_PARTS = frozenset({"metadata", "status"})


class UpdateScope:
    """The main endpoint of a kind, or a sub-resource with a strategy of its own that takes the whole object."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    # -- the steps before prepare -----------------------------------------------------------------------------------

    def live(self, write: Write, item: Item) -> Object:
        """The current state in the version of the request, for a patch or an apply to change."""
        return write.resource.convert_out(write.store.decode(item))

    def convert_in(self, write: Write, obj: Object) -> HubObject:
        """The wanted state in the version of the store."""
        return write.resource.convert_in(obj)

    def stored_part(self, obj: HubObject) -> Object:
        """The part of a wanted object that is stored for certain, to measure: without a status that is restored."""
        return {key: value for key, value in obj.items() if key != "status"} if self.strategy.has_status else obj

    def default(self, write: Write, obj: HubObject) -> None:
        """Fill in the defaults, in place."""
        write.store.strategy.default(obj)

    def record_owners(self, write: Write, managers: FieldManagers, obj: HubObject) -> Awaitable[None]:
        """Set the managedFields of an object that the field manager of the write creates or updates."""
        return managers.record(write, obj)

    def admitted(self, obj: HubObject) -> Object:
        """The object as admission sees it."""
        return obj

    def merge(self, write: Write, obj: HubObject, item: Item) -> HubObject:
        """The whole object to store, from what came out of mutating admission."""
        return obj

    # -- prepare and validate ---------------------------------------------------------------------------------------

    def prepare(self, write: Write, obj: Object, old: Object) -> None:
        """Restore what this endpoint may not change, then let the kind correct the rest."""
        strategy = self.strategy
        if strategy.has_status:
            copy_field(obj, old, "status")
        strategy.prepare_update(write, obj, old)
        if strategy.tracks_generation and strategy.generation_changed(obj, old) and not is_unseen(write, old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate the change."""
        return self.strategy.validate_update(write, obj, old)


class StatusScope(UpdateScope):
    """The /status endpoint: status, and metadata as far as the kind allows."""

    def stored_part(self, obj: HubObject) -> Object:
        """The status."""
        return {"status": obj.get("status")}

    def prepare(self, write: Write, obj: Object, old: Object) -> None:
        """Restore everything but status and metadata."""
        for key in obj.keys() - _STATUS_PARTS:
            del obj[key]
        # In the order of the stored object: that of a set would differ from process to process.
        obj.update({key: value for key, value in old.items() if key not in _STATUS_PARTS})
        if self.strategy.resets_metadata_on_status:
            metadata = dict(old["metadata"])
            copy_field(metadata, obj["metadata"], "managedFields")
            obj["metadata"] = metadata
        elif self.strategy.resets_labels_on_status:
            copy_field(obj["metadata"], old["metadata"], "labels")
        self.strategy.prepare_status(write, obj, old)

    def validate(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate the status."""
        return self.strategy.validate_status(write, obj, old)
