"""The reconciler of the three protection controllers. Reads the view; writes finalizers only."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from kapi.api.errors import Conflict, NotFound
from kapi.api.meta import is_deleting
from kapi.controller.objects.finalizer import add_finalizer, discard_finalizer, has_finalizer

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.controller.reconcile import Request, Result
    from kapi.controlplane.controllers.context import ControllerContext


class Usage(Protocol):
    """Knows if objects of a resource are in use."""

    def is_used(self, key: Request, obj: Object) -> bool:
        """Return True if an object that is being deleted is in use; changes of its users then enqueue it."""
        ...

    def release(self, key: Request) -> None:
        """Stop enqueueing an object when its users change."""
        ...


class Protector:
    """Keeps a finalizer on the objects of a resource until they are being deleted and not in use."""

    def __init__(self, context: ControllerContext, resource: str, finalizer: str, usage: Usage) -> None:
        self._context = context
        self._resource = resource
        self._finalizer = finalizer
        self._usage = usage

    async def reconcile(self, request: Request) -> Result | None:
        """Add the finalizer, or remove it."""
        obj = self._context.view.get(self._resource, *request)
        if obj is None or not is_deleting(obj) or not has_finalizer(obj, self._finalizer):
            self._usage.release(request)
            if obj is not None and not is_deleting(obj) and add_finalizer(obj, self._finalizer):
                await self._update(obj)
        elif not self._usage.is_used(request, obj):
            self._usage.release(request)
            discard_finalizer(obj, self._finalizer)
            await self._update(obj)
        return None

    async def _update(self, obj: Object) -> None:
        # Conflict: it was changed since it was read, and that change has enqueued it again.
        with contextlib.suppress(NotFound, Conflict):
            await self._context.writer.update(obj)
