"""The persistentvolume-protection controller: a PersistentVolume that is bound is not deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.controlplane.controllers import names
from kapi.controlplane.controllers.context import enqueue_unless_deleted
from kapi.controlplane.controllers.volumeprotection.protector import Protector

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.controller.reconcile import Request
    from kapi.controlplane.controllers.context import ControllerContext

FINALIZER: Final = "kubernetes.io/pv-protection"
VOLUMES: Final = "persistentvolumes"


def add_persistentvolume_protection_controller(context: ControllerContext) -> None:
    """Add the controller; see the module."""
    context.add(
        names.PERSISTENTVOLUME_PROTECTION,
        Protector(context, VOLUMES, FINALIZER, VolumeUsage()),
        enqueue={VOLUMES: enqueue_unless_deleted},
        initial=context.all_of(VOLUMES),
    )


class VolumeUsage:
    """A volume is in use while it is bound to a claim."""

    def is_used(self, key: Request, obj: Object) -> bool:
        """Return True if the volume's phase is Bound."""
        return bool(obj.get("status", {}).get("phase") == "Bound")

    def release(self, key: Request) -> None:
        """Nothing is remembered: a change of phase enqueues the volume anyway."""
