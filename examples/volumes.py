"""Volumes: the example of kopf's documentation, an EphemeralVolumeClaim that makes a PersistentVolumeClaim."""

import kapi
from kapi import CustomResource, Manager, Model, ObjectKey, ObjectMeta, TerminalError, definition, resource
from kapi.api.builtin.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements


class EphemeralVolumeClaimSpec(Model):
    size: str = ""


class EphemeralVolumeClaimStatus(Model):
    claim: str = ""


@resource("kopf.dev/v1", short_names=("evc",))
class EphemeralVolumeClaim(CustomResource, kw_only=True):
    spec: EphemeralVolumeClaimSpec
    status: EphemeralVolumeClaimStatus | None = None


async def setup(manager: Manager) -> None:
    await manager.live.apply(definition(EphemeralVolumeClaim), force=True)
    recorder = manager.recorder("kopf.dev/volumes")

    async def reconcile(volume: EphemeralVolumeClaim) -> None:
        key = ObjectKey.of(volume)
        if not volume.spec.size:
            raise TerminalError("spec.size must be set")  # kopf.PermanentError
        claim = PersistentVolumeClaim(
            metadata=ObjectMeta(name=key.name, namespace=key.namespace),
            spec=PersistentVolumeClaimSpec(
                access_modes=["ReadWriteOnce"],
                resources=VolumeResourceRequirements(requests={"storage": volume.spec.size}),
            ),
        )
        kapi.set_controller_reference(volume, claim)  # kopf.adopt
        await manager.client.apply(claim, force=True)  # creates it, or changes its size
        if volume.status is None:
            volume.status = EphemeralVolumeClaimStatus(claim=key.name)
            await manager.client.update_status(volume)
            recorder.normal(volume, "Created", f"claim {key.name} created")

    manager.builder().for_(EphemeralVolumeClaim).owns(PersistentVolumeClaim).complete(reconcile)


if __name__ == "__main__":
    kapi.run(setup)
