"""The admission chain: plug-ins that may change or refuse a write, in a fixed order, mutating ones first.

A plug-in is given the `Write` and is asked `handles` first, so that a write that no plug-in handles costs nothing. The
write path (`registry/write.py`) calls the chain and knows it as `Admission`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kapi.registry.encoding import copy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.registry.request import Write


class MutatingPlugin(Protocol):
    """May change the object, or refuse the write."""

    def handles(self, write: Write) -> bool:
        """Return True if this write concerns the plug-in."""
        ...

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Change `obj` in place, or raise; `obj` is None for a DELETE."""
        ...


class ValidatingPlugin(Protocol):
    """May refuse the write."""

    def handles(self, write: Write) -> bool:
        """Return True if this write concerns the plug-in."""
        ...

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse; `obj` is None for a DELETE."""
        ...


class Admission:
    """The plug-ins of one server, in order."""

    def __init__(self, mutating: Sequence[MutatingPlugin], validating: Sequence[ValidatingPlugin]) -> None:
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Run the mutating plug-ins."""
        for plugin in self._mutating:
            if plugin.handles(write):
                await plugin.mutate(write, obj, old)

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Run the validating plug-ins. Each is given copies: what it does to them has no effect."""
        for plugin in self._validating:
            if plugin.handles(write):
                await plugin.validate(write, copy_of(obj), copy_of(old))
