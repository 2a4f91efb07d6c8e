"""The controllers of objects that every active namespace has, such as its ServiceAccount `default`.

`namespacepopulation` creates the objects together with a namespace. The controllers put them back when they are deleted
or changed later, and add them to namespaces that were created while the controllers were disabled.

`namespacepopulation` runs when the server starts, so nothing here imports the controller framework at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from kapi.api.keys import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event, Item
    from kapi.controller.reconcile import Result
    from kapi.controlplane.controllers.context import ControllerContext

POPULATING_SECONDS: Final = 1.0
"""The delay before a namespace that is still being populated by its creation is reconciled again."""


def add_namespace_object_controller(
    context: ControllerContext,
    name: str,
    resource: str,
    *,
    enqueue: Callable[[Event], Iterable[ObjectKey]],
    is_present: Callable[[str], bool],
    ensure: Callable[[str], Awaitable[None]],
) -> None:
    """Add a controller that ensures an object of `resource` in every active namespace.

    `enqueue` returns the namespaces to reconcile for events of the resource.
    """
    from kapi.controller.reconcile import Result

    async def reconcile(request: ObjectKey) -> Result | None:
        namespace = context.view.find("namespaces", "", request.name)
        if namespace is None or not _is_active(namespace) or is_present(request.name):
            return None
        if request.name in context.populating:
            return Result(requeue_after=POPULATING_SECONDS)
        try:
            await ensure(request.name)
        except Conflict:
            return Result(requeue=True)
        return None

    def initial() -> list[ObjectKey]:
        namespaces = context.view.items("namespaces")
        return [namespace_key(item.name) for item in namespaces if _is_active(item) and not is_present(item.name)]

    context.add(name, reconcile, enqueue={"namespaces": _enqueue_active, resource: enqueue}, initial=initial)


async def create_in_namespace(context: ControllerContext, namespace: str, obj: Object) -> None:
    """Create an object in a namespace, unless it exists or the namespace is terminating or deleted."""
    from kapi.controlplane.controllers.writer import is_namespace_terminating

    try:
        await context.writer.create({**obj, "metadata": {**obj["metadata"], "namespace": namespace}})
    except (AlreadyExists, NotFound):
        pass
    except ApiError as error:
        if not is_namespace_terminating(error):
            raise


def namespace_key(name: str) -> ObjectKey:
    """The request for a namespace."""
    return ObjectKey("", name)


def _enqueue_active(event: Event) -> Iterable[ObjectKey]:
    return (namespace_key(event.item.name),) if not event.deleted and _is_active(event.item) else ()


def _is_active(item: Item) -> bool:
    return item.fields is None or item.fields["status.phase"] == "Active"
