"""Gateways: an operator with a finalizer, an index, predicates, owned objects and objects that are only watched.

Run it with `kapi run gateways:setup`, or with `python gateways.py --leader-elect --metrics-bind-address=:8080`.
"""

import kapi
from kapi import (
    CustomResource,
    Finalizers,
    Manager,
    Model,
    ObjectKey,
    ObjectMeta,
    Request,
    Result,
    definition,
    resource,
)
from kapi.api.builtin.core_v1 import ConfigMap, Secret
from kapi.controller.predicate import generation_changed, has_labels, label_changed, or_


class GatewaySpec(Model):
    host: str
    secret: str = ""


class GatewayStatus(Model):
    address: str = ""


@resource("example.com/v1")
class Gateway(CustomResource, kw_only=True):
    spec: GatewaySpec
    status: GatewayStatus | None = None


async def setup(manager: Manager) -> None:
    await manager.live.apply(definition(Gateway), force=True)
    manager.index(Gateway, "secret", lambda gateway: [gateway.spec.secret])
    finalizers = Finalizers(manager.client)

    @finalizers.register("example.com/dns-record")
    async def delete_record(gateway: Gateway) -> None:
        print(f"deleted the record of {gateway.spec.host}", flush=True)

    async def users_of(secret: Secret) -> list[Request]:
        name, namespace = secret.metadata.name or "", secret.metadata.namespace or ""
        gateways = await manager.client.list(Gateway, namespace=namespace, index={"secret": name})
        return [ObjectKey.of(gateway) for gateway in gateways]

    async def reconcile(gateway: Gateway) -> Result | None:
        if await finalizers.finalize(gateway):
            return None  # it is being deleted, and what was to be cleaned up is
        key = ObjectKey.of(gateway)
        secret = await manager.client.find(Secret, ObjectKey(key.namespace, gateway.spec.secret))
        settings = ConfigMap(
            metadata=ObjectMeta(name=key.name, namespace=key.namespace),
            data={"host": gateway.spec.host, "has-secret": str(secret is not None)},
        )
        kapi.set_controller_reference(gateway, settings)
        await manager.client.apply(settings, force=True)
        if gateway.status is None:
            gateway.status = GatewayStatus(address="192.0.2.1")
            await manager.client.update_status(gateway)
        return Result(requeue_after=300)

    (
        manager.builder()
        .for_(Gateway, or_(generation_changed, label_changed))
        .owns(ConfigMap)
        .watches(Secret, users_of, has_labels("gateways=yes"))
        .with_options(workers=4, timeout=60)
        .complete(reconcile)
    )


if __name__ == "__main__":
    kapi.run(setup)
