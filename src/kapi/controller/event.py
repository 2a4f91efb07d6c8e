"""Events of objects as controllers receive them: created, updated, deleted.

Events carry `Cached` objects: key, labels, generation and versions are decoded, the rest is decoded by `.object()`
alone. Predicates and enqueue handlers are functions of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import msgspec

from kapi.controller.queue import LIVE_PRIORITY, LOW_PRIORITY

if TYPE_CHECKING:
    from kapi.informer.cached import Cached

T = TypeVar("T")


class Created(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was created, or is in the first list (`initial`)."""

    object: Cached[T]
    initial: bool = False

    @property
    def priority(self) -> int:
        """Low for the initial list, so that a start does not delay what changes meanwhile."""
        return LOW_PRIORITY if self.initial else LIVE_PRIORITY


class Updated(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was updated, or is shown again by a resync: then both states have the same resourceVersion."""

    old: Cached[T]
    object: Cached[T]

    @property
    def priority(self) -> int:
        """Low for a resync."""
        return LOW_PRIORITY if self.old.resource_version == self.object.resource_version else LIVE_PRIORITY


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was deleted. `stale`: the deletion event was missed, and `object` may not be its very last state."""

    object: Cached[T]
    stale: bool = False

    @property
    def priority(self) -> int:
        """As of any change."""
        return LIVE_PRIORITY


Event: TypeAlias = Created[T] | Updated[T] | Deleted[T]
