"""The protection controllers: claims, volumes and volume classes in use are not deleted."""

import pytest

from api_client import NS, PODS, pod
from controller_api import running_controllers, with_controllers
from kapi.controlplane.controllers.volumeprotection.persistentvolume import FINALIZER as VOLUME_FINALIZER
from kapi.controlplane.controllers.volumeprotection.persistentvolume import add_persistentvolume_protection_controller
from kapi.controlplane.controllers.volumeprotection.persistentvolumeclaim import FINALIZER as CLAIM_FINALIZER
from kapi.controlplane.controllers.volumeprotection.persistentvolumeclaim import (
    add_persistentvolumeclaim_protection_controller,
    uses_claim,
)
from kapi.controlplane.controllers.volumeprotection.volumeattributesclass import FINALIZER as CLASS_FINALIZER
from kapi.controlplane.controllers.volumeprotection.volumeattributesclass import (
    add_volumeattributesclass_protection_controller,
)
from kapi.storage.memory import MemoryStorage
from virtual_time import run

CLAIMS = f"{NS}/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"


def claim(name="data", **metadata):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def volume(name="disk", **spec):
    fields = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}, **spec}
    return {"metadata": {"name": name}, "spec": fields}


def mounting(name, *claims, node="n", **spec):
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": one}} for i, one in enumerate(claims)]
    return pod(name, volumes=volumes, **({"nodeName": node} if node else {}), **spec)


def finalizers(obj):
    return obj["metadata"].get("finalizers", [])


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_the_finalizer_is_added_to_a_claim_once(api):
    await api.made(CLAIMS, claim(finalizers=["example.com/mine"]))
    await api.run_until_idle()
    stored = api.find("persistentvolumeclaims", "default", "data")
    assert finalizers(stored) == ["example.com/mine", CLAIM_FINALIZER]
    revision = api.revision
    await api.run_until_idle()
    assert api.revision == revision


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_an_unused_claim_is_deleted_at_once(api):
    await api.made(CLAIMS, claim())
    await api.run_until_idle()
    await api.delete(f"{CLAIMS}/data")
    await api.run_until_idle()
    assert not api.there("persistentvolumeclaims")


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_a_claim_is_deleted_with_the_last_pod_that_mounts_it(api):
    await api.made(CLAIMS, claim())
    for name in ("a", "b"):
        await api.made(PODS, mounting(name, "other", "data"))
    await api.run_until_idle()
    await api.delete(f"{CLAIMS}/data")
    await api.run_until_idle()
    assert api.there("persistentvolumeclaims")
    await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
    await api.run_until_idle()
    assert api.there("persistentvolumeclaims")
    await api.delete(f"{PODS}/b", gracePeriodSeconds=0)
    await api.run_until_idle()
    assert not api.there("persistentvolumeclaims")


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_a_terminated_pod_still_uses_its_claim(api):
    await api.made(CLAIMS, claim())
    await api.made(PODS, mounting("a", "data"))
    await api.run_until_idle()
    await api.delete(f"{CLAIMS}/data")
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    await api.run_until_idle()
    assert api.there("persistentvolumeclaims")


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_an_unscheduled_pod_uses_no_claim(api):
    await api.made(CLAIMS, claim())
    await api.made(PODS, mounting("a", "data", node=""))
    await api.run_until_idle()
    await api.delete(f"{CLAIMS}/data")
    await api.run_until_idle()
    assert not api.there("persistentvolumeclaims")


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_pods_of_other_namespaces_do_not_use_the_claim(api):
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.made(CLAIMS, claim())
    await api.made(f"{NS}/other/pods", mounting("a", "data"))
    await api.run_until_idle()
    await api.delete(f"{CLAIMS}/data")
    await api.run_until_idle()
    assert not api.there("persistentvolumeclaims")


@with_controllers(add_persistentvolumeclaim_protection_controller)
async def test_the_claim_of_an_ephemeral_volume_is_deleted_when_its_pod_is_shut_down(api):
    template = {"spec": claim()["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    made = await api.made(PODS, pod("a", metadata={"finalizers": ["example.com/x"]}, nodeName="n", volumes=volumes))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": made["metadata"]["uid"], "controller": True}
    await api.made(CLAIMS, claim("a-scratch", ownerReferences=[owner]))
    await api.run_until_idle()
    await api.delete(f"{CLAIMS}/a-scratch")
    await api.run_until_idle()
    assert api.there("persistentvolumeclaims")
    await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
    await api.run_until_idle()
    assert api.there("pods")
    assert not api.there("persistentvolumeclaims")


def test_a_claim_deleted_before_a_restart_is_released_after_it():
    storage = MemoryStorage()

    async def main():
        async with running_controllers(add_persistentvolumeclaim_protection_controller, storage=storage) as api:
            for name in ("data", "free"):
                await api.made(CLAIMS, claim(name))
            await api.made(PODS, mounting("a", "data"))
            await api.run_until_idle()
            await api.delete(f"{CLAIMS}/data")
            await api.run_until_idle()
        async with running_controllers(storage=storage) as api:
            await api.delete(f"{CLAIMS}/free")
        async with running_controllers(add_persistentvolumeclaim_protection_controller, storage=storage) as api:
            await api.run_until_idle()
            assert api.there("persistentvolumeclaims") == {("default", "data")}
            await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
            await api.run_until_idle()
            assert not api.there("persistentvolumeclaims")

    run(main())


@with_controllers(add_persistentvolume_protection_controller)
async def test_a_bound_volume_is_kept(api):
    await api.made(VOLUMES, volume())
    await api.run_until_idle()
    assert finalizers(api.find("persistentvolumes", "", "disk")) == [VOLUME_FINALIZER]
    await api.patch(f"{VOLUMES}/disk/status", {"status": {"phase": "Bound"}})
    await api.delete(f"{VOLUMES}/disk")
    await api.run_until_idle()
    assert api.there("persistentvolumes")
    await api.patch(f"{VOLUMES}/disk/status", {"status": {"phase": "Released"}})
    await api.run_until_idle()
    assert not api.there("persistentvolumes")


@with_controllers(
    add_volumeattributesclass_protection_controller,
    add_persistentvolumeclaim_protection_controller,
)
async def test_a_volume_class_is_kept_while_it_is_named(api):
    await api.made(CLASSES, {"metadata": {"name": "fast"}, "driverName": "d", "parameters": {"iops": "1"}})
    wanting = claim()
    wanting["spec"]["volumeAttributesClassName"] = "fast"
    await api.made(CLAIMS, wanting)
    await api.run_until_idle()
    assert finalizers(api.find("volumeattributesclasses.storage.k8s.io", "", "fast")) == [CLASS_FINALIZER]
    await api.delete(f"{CLASSES}/fast")
    await api.run_until_idle()
    assert api.there("volumeattributesclasses.storage.k8s.io")
    await api.delete(f"{CLAIMS}/data")
    await api.run_until_idle()
    assert not api.there("volumeattributesclasses.storage.k8s.io")


OWNED = [{"uid": "u", "controller": True}]
EPHEMERAL = [{"name": "v", "ephemeral": {}}]
SHUT = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
DELETING = {**SHUT, "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("metadata", "spec", "owners", "used"),
    [
        pytest.param({}, {"volumes": EPHEMERAL}, OWNED, True, id="its own"),
        pytest.param({}, {"volumes": EPHEMERAL}, [], False, id="of that name but not its own"),
        pytest.param({}, {"volumes": EPHEMERAL}, [{"uid": "u"}], False, id="owned but not controlled"),
        pytest.param(DELETING, {"volumes": EPHEMERAL}, OWNED, True, id="being deleted"),
        pytest.param(SHUT, {"volumes": EPHEMERAL}, OWNED, False, id="shut down"),
        pytest.param(
            SHUT, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "p-v"}}]}, [], True, id="mounted"
        ),
        pytest.param({}, {"volumes": [{"name": "w", "ephemeral": {}}]}, OWNED, False, id="another volume"),
        pytest.param({}, {}, OWNED, False, id="no volumes"),
    ],
)
def test_the_claims_that_a_pod_uses(metadata, spec, owners, used):
    subject = {"metadata": {"name": "p", "uid": "u", **metadata}, "spec": {"nodeName": "n", **spec}}
    assert uses_claim(subject, {"metadata": {"name": "p-v", "ownerReferences": owners}}) is used
