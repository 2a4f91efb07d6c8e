"""What goes into a write besides the object, and what comes out: how it is built, who is asked, the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item


class Admit(Protocol):
    """Validating admission of one operation: raises to refuse. `obj` is None for a deletion."""

    async def __call__(self, obj: Object | None, old: Object | None) -> None:
        """Judge the operation."""
        ...


class Build(Protocol):
    """Makes the wanted state of an object, once or, when a race was lost, again.

    `old` is the current state and is only read; `fresh` gives a copy of it that may be changed or taken apart.
    """

    async def __call__(self, old: Object, fresh: Callable[[], Object]) -> Object:
        """The wanted state."""
        ...


class Written(NamedTuple):
    """The outcome of a write: the state now, and whether it was created by it or deleted by it."""

    item: Item
    created: bool = False
    deleted: bool = False
