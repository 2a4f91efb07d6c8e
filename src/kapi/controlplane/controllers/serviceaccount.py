"""The serviceaccount controller: every active namespace has the ServiceAccount `default`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.namespaceobjects import (
    add_namespace_object_controller,
    create_in_namespace,
    namespace_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.keys import ObjectKey
    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controlplane.controllers.context import ControllerContext

RESOURCE: Final = "serviceaccounts"
DEFAULT_NAME: Final = "default"


def default_service_account() -> Object:
    """The ServiceAccount that every namespace has."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT_NAME}}


def add_serviceaccount_controller(context: ControllerContext) -> None:
    """Add the controller that creates the ServiceAccount where it is missing."""

    def is_present(namespace: str) -> bool:
        return context.view.find(RESOURCE, namespace, DEFAULT_NAME) is not None

    async def ensure(namespace: str) -> None:
        await create_in_namespace(context, namespace, default_service_account())

    add_namespace_object_controller(
        context, names.SERVICEACCOUNT, RESOURCE, enqueue=_enqueue, is_present=is_present, ensure=ensure
    )


def _enqueue(event: Event) -> Iterable[ObjectKey]:
    return (namespace_key(event.item.namespace),) if event.deleted and event.item.name == DEFAULT_NAME else ()
