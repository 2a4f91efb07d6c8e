"""What a controller hears of an object: it is there, it changed, it is gone.

Events carry `Cached` objects: key, labels, generation and versions are at hand, and nothing is decoded until somebody
asks for `.object()`. Predicates and enqueue handlers are functions of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import msgspec

from kapi.controller.queue import LIVE_PRIORITY, LOW_PRIORITY

if TYPE_CHECKING:
    from kapi.informer.cached import Cached

T = TypeVar("T")


class Created(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object is there that we did not know. `initial`: it was there before we looked."""

    object: Cached[T]
    initial: bool = False

    @property
    def priority(self) -> int:
        """Low for the initial list, so that a start does not delay what changes meanwhile."""
        return LOW_PRIORITY if self.initial else LIVE_PRIORITY


class Updated(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object has another state, or (in a resync) is only shown again, with one and the same resourceVersion."""

    old: Cached[T]
    object: Cached[T]

    @property
    def priority(self) -> int:
        """Low for a resync."""
        return LOW_PRIORITY if self.old.resource_version == self.object.resource_version else LIVE_PRIORITY


class Deleted(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object is gone. `stale`: we missed how, and `object` may not be its very last state."""

    object: Cached[T]
    stale: bool = False

    @property
    def priority(self) -> int:
        """As of any change."""
        return LIVE_PRIORITY


Event: TypeAlias = Created[T] | Updated[T] | Deleted[T]
