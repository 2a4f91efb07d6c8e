"""The registry of a controller's finalizers: what is to be cleaned up before an object is deleted, by name.

    finalizers = Finalizers(manager.client)

    @finalizers.register("network.example.com/records")
    async def delete_records(network: Network) -> None: ...

    async def reconcile(network: Network) -> None:
        if await finalizers.finalize(network):
            return  # it is being deleted
        ...

Objects get all registered finalizers, in one place, before anything is made for them that would need cleaning up. Of an
object that is being deleted each is called in the order of registration and removed when it has returned. One that
raises keeps its finalizer, and those after it wait: `finalize` raises, and the key is reconciled again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kapi.api.access import is_deleting
from kapi.controller.objects.finalizer import ensure_finalizer, has_finalizer, remove_finalizer

if TYPE_CHECKING:
    from kapi.client.client import Client

CleanUp: TypeAlias = Callable[[Any], Any]
"""Cleans up after an object; may be `async`, and must not mind being called again."""

F = TypeVar("F", bound=CleanUp)


class Finalizers:
    """Finalizers by name."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clean_ups: dict[str, CleanUp] = {}

    def register(self, name: str) -> Callable[[F], F]:
        """Register a function under the name of a finalizer, such as `example.com/records`; a decorator.

        Raises:
            ValueError: the name is taken, or has no domain.
        """
        if "/" not in name:
            raise ValueError(f"{name!r}: the name of a finalizer has a domain, as in example.com/{name}")
        if name in self._clean_ups:
            raise ValueError(f"there is a finalizer {name!r} already")

        def registered(function: F) -> F:
            self._clean_ups[name] = function
            return function

        return registered

    async def finalize(self, obj: Any) -> bool:
        """Give an object its finalizers, or clean up if it is being deleted; returns True if it is.

        `obj` is afterwards what the server holds.
        """
        if not is_deleting(obj):
            for name in self._clean_ups:
                await ensure_finalizer(self._client, obj, name)
            return False
        for name, clean_up in self._clean_ups.items():
            if has_finalizer(obj, name):
                done = clean_up(obj)
                if inspect.isawaitable(done):
                    await done
                await remove_finalizer(self._client, obj, name)
        return True
