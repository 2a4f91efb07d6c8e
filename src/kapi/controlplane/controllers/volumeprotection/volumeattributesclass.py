"""The volumeattributesclass-protection controller: a class that a claim or a volume names is not deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_unless_deleted
from kapi.controlplane.controllers.volumeprotection.persistentvolume import VOLUMES
from kapi.controlplane.controllers.volumeprotection.persistentvolumeclaim import CLAIMS
from kapi.controlplane.controllers.volumeprotection.protector import Protector
from kapi.registry.quota.scopes import volume_classes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Event
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

FINALIZER: Final = "kubernetes.io/vac-protection"
CLASSES: Final = "volumeattributesclasses.storage.k8s.io"


def add_volumeattributesclass_protection_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    usage = ClassUsage(context)
    context.add(
        names.VOLUMEATTRIBUTESCLASS_PROTECTION,
        Protector(context, CLASSES, FINALIZER, usage),
        enqueue={CLASSES: enqueue_unless_deleted, CLAIMS: usage.enqueue_waiting, VOLUMES: usage.enqueue_waiting},
        initial=context.all_of(CLASSES),
    )


class ClassUsage:
    """The claims and volumes that name a class: searched when a class is being deleted, which is rare."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._waiting: set[Request] = set()
        """Classes that are being deleted and are in use."""

    def enqueue_waiting(self, event: Event) -> Iterable[Request]:
        """The classes that wait: a claim or a volume was deleted, or may name another class now."""
        return sorted(self._waiting)

    def is_used(self, key: Request, obj: Object) -> bool:
        """Return True if any claim or volume names the class."""
        self._waiting.add(key)
        mention = f'"{key.name}"'.encode()
        view = self._context.view
        return any(
            mention in item.body and key.name in volume_classes_of(view.decode(resource, item))
            for resource in (VOLUMES, CLAIMS)
            for item in view.items(resource)
        )

    def release(self, key: Request) -> None:
        """Stop enqueueing the class when claims or volumes change."""
        self._waiting.discard(key)
