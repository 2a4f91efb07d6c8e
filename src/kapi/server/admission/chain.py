"""Admission: the rules about operations, as opposed to the rules about objects.

Plugins run in a fixed order, mutating ones before validating ones. Each is asked `handles` first, so that an
operation nobody cares about costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapi.registry.encoding import copy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.api.user import User
    from kapi.registry.resource import Resource


class Operation(NamedTuple):
    """One write, as admission sees it. `name` is empty while a generated name is not known yet."""

    kind: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    resource: Resource
    subresource: str
    namespace: str
    name: str
    user: User
    dry_run: bool


class Mutator(Protocol):
    """May change the object, or refuse."""

    def handles(self, operation: Operation) -> bool:
        """Whether this operation concerns the plugin."""
        ...

    async def mutate(self, operation: Operation, obj: Object | None, old: Object | None) -> None:
        """Change `obj` in place, or raise."""
        ...


class Validator(Protocol):
    """May refuse."""

    def handles(self, operation: Operation) -> bool:
        """Whether this operation concerns the plugin."""
        ...

    async def validate(self, operation: Operation, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse."""
        ...


class Admission:
    """The plugins of one server, in order."""

    def __init__(self, mutators: Sequence[Mutator], validators: Sequence[Validator]) -> None:
        self._mutators = tuple(mutators)
        self._validators = tuple(validators)

    async def mutate(self, operation: Operation, obj: Object | None, old: Object | None) -> None:
        """Run the mutating plugins."""
        for plugin in self._mutators:
            if plugin.handles(operation):
                await plugin.mutate(operation, obj, old)

    async def validate(self, operation: Operation, obj: Object | None, old: Object | None) -> None:
        """Run the validating plugins. Each is shown copies: what it does to them reaches nobody else."""
        for plugin in self._validators:
            if plugin.handles(operation):
                await plugin.validate(operation, copy_of(obj), copy_of(old))
