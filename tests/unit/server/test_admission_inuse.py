"""New storage objects get the finalizer that keeps them while they are in use."""

import pytest

from api_client import CM, NS, cm, serving
from kapi.server.admission.chain import Admission
from kapi.server.admission.inuse import InUseProtection
from virtual_time import run

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DISK = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}

CASES = [
    pytest.param(
        f"{NS}/default/persistentvolumeclaims",
        {"spec": SPEC},
        "kubernetes.io/pvc-protection",
        id="persistentvolumeclaims",
    ),
    pytest.param("/api/v1/persistentvolumes", {"spec": DISK}, "kubernetes.io/pv-protection", id="persistentvolumes"),
    pytest.param(
        "/apis/storage.k8s.io/v1/volumeattributesclasses",
        {"driverName": "d", "parameters": {"a": "b"}},
        "kubernetes.io/vac-protection",
        id="volumeattributesclasses",
    ),
]


def protected(test):
    async def main():
        async with serving(admission=Admission({"InUse": InUseProtection()})) as api:
            await test(api)

    run(main())


@pytest.mark.parametrize(("path", "fields", "finalizer"), CASES)
def test_the_protection_finalizer_is_added_once_on_create(path, fields, finalizer):
    async def check(api):
        made = await api.made(path, {"metadata": {"name": "a"}, **fields})
        assert made["metadata"]["finalizers"] == [finalizer]
        made = await api.made(path, {"metadata": {"name": "b", "finalizers": ["example.com/x"]}, **fields})
        assert made["metadata"]["finalizers"] == ["example.com/x", finalizer]
        made = await api.made(path, {"metadata": {"name": "c", "finalizers": [finalizer]}, **fields})
        assert made["metadata"]["finalizers"] == [finalizer]

    protected(check)


@pytest.mark.parametrize(("path", "fields", "finalizer"), CASES)
def test_a_removed_protection_finalizer_is_not_added_again(path, fields, finalizer):
    async def check(api):
        await api.made(path, {"metadata": {"name": "a"}, **fields})
        patched = await api.patch(f"{path}/a", {"metadata": {"finalizers": None}})
        assert "finalizers" not in patched.metadata

    protected(check)


def test_other_kinds_get_no_protection_finalizer():
    async def check(api):
        assert "finalizers" not in (await api.made(CM, cm("a")))["metadata"]

    protected(check)
