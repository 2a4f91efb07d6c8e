"""DefaultStorageClass and PersistentVolumeClaimResize. More is in `admission_programs`."""

import asyncio

from api_client import NS, served

CLAIMS = f"{NS}/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def storage_class(name, annotations=None, **fields):
    return {"metadata": {"name": name, "annotations": annotations or {}}, "provisioner": "example.com/p", **fields}


def claim(name, **spec):
    resources = {"requests": {"storage": "1Gi"}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}


async def class_of(api, name):
    return (await api.made(CLAIMS, claim(name)))["spec"].get("storageClassName")


@served
async def test_of_several_default_classes_the_newest_is_taken_and_of_equally_old_the_first_by_name(api):
    await api.made(CLASSES, storage_class("none"))
    assert await class_of(api, "a") is None
    await api.made(CLASSES, storage_class("c", DEFAULT))
    await api.made(CLASSES, storage_class("b", DEFAULT))
    assert await class_of(api, "b") == "b"
    await asyncio.sleep(2)
    await api.made(CLASSES, storage_class("z", {"storageclass.beta.kubernetes.io/is-default-class": "true"}))
    assert await class_of(api, "c") == "z"


@served
async def test_a_claim_that_shrinks_or_stays_is_no_expansion(api):
    await api.made(CLASSES, storage_class("fixed"))
    made = await api.made(CLAIMS, claim("a", storageClassName="fixed", volumeName="v"))
    made["metadata"]["labels"] = {"a": "b"}
    assert (await api.put(f"{CLAIMS}/a", made)).status == 200


@served
async def test_a_claim_whose_class_is_gone_does_not_grow(api):
    made = await api.made(CLAIMS, claim("a", storageClassName="gone", volumeName="v"))
    made["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    assert (await api.put(f"{CLAIMS}/a/status", made)).status == 200
    refused = await api.patch(f"{CLAIMS}/a", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    assert refused.message == (
        'persistentvolumeclaims "a" is forbidden: only dynamically provisioned pvc can be resized and the '
        "storageclass that provisions the pvc must support resize"
    )
