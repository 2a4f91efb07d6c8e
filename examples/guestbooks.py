"""Guestbooks: the operator of `tests/wire/go/envtest`, written with kubebuilder there, in Python."""

import kapi
from kapi import CustomResource, Manager, Model, ObjectKey, ObjectMeta, definition, resource
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.controller import create_or_update


class GuestbookSpec(Model):
    size: int = 3


class GuestbookStatus(Model):
    entries: int = 0


@resource("webapp.example.com/v1")
class Guestbook(CustomResource, kw_only=True):
    spec: GuestbookSpec
    status: GuestbookStatus | None = None


class GuestbookReconciler:
    """Keeps a ConfigMap for each Guestbook."""

    def __init__(self, manager: Manager) -> None:
        self.client = manager.client

    async def reconcile(self, book: Guestbook) -> None:
        def wanted(settings: ConfigMap) -> None:
            settings.data = {"size": str(book.spec.size)}
            kapi.set_controller_reference(book, settings)

        key = ObjectKey.of(book)
        settings = ConfigMap(metadata=ObjectMeta(name=key.name, namespace=key.namespace))
        await create_or_update(self.client, settings, wanted)
        if book.status is None or book.status.entries != book.spec.size:
            book.status = GuestbookStatus(entries=book.spec.size)
            await self.client.update_status(book)


async def setup(manager: Manager) -> None:
    await manager.live.apply(definition(Guestbook), force=True)
    manager.builder().for_(Guestbook).owns(ConfigMap).complete(GuestbookReconciler(manager).reconcile)


if __name__ == "__main__":
    kapi.run(setup)
