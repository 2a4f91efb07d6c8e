"""What a server of the next release may have stored, and this one, on the same store, does not know: fields and kinds."""

import contextlib

import pytest

from api_client import Api
from kapi.registry.encoding import draft
from kapi.storage.interface import Draft
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PODS = "/api/v1/namespaces/default/pods"
POD = f"{PODS}/p"
KEY = "/registry/core/pods/default/p"
GADGET = "/registry/gadgets.k8s.io/gadgets/default/g"
GADGET_BYTES = Draft(
    b'{"kind":"Gadget","apiVersion":"gadgets.k8s.io/v1","metadata":{"name":"g","namespace":"default","resourceVersion":"',
    b'"},"spec":{"wheels":3}}',
)


def pod(**spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def apply(api, obj, manager):
    return api.patch(POD, obj, "application/apply-patch+yaml", fieldManager=manager)


@contextlib.asynccontextmanager
async def restarted(storage):
    api = Api(storage)
    await api.start()
    try:
        yield api
    finally:
        await api.stop()


async def store_a_pod_of_the_next_release(storage):
    """A Pod with a field that this release does not know, which its creator owns; returns the object."""
    async with restarted(storage) as api:
        assert (await apply(api, pod(), "newer")).status == 201
        obj = (await api.get(POD)).json
        obj["spec"]["vehicle"] = {"wheels": 3}
        obj["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:vehicle"] = {"f:wheels": {}}
        await storage.put(KEY, draft(obj), int(obj["metadata"]["resourceVersion"]))
    return obj


def scenario(test):
    """Run `test(api, obj)` on a store that has a Pod and a kind of the next release."""

    def runner():
        async def main():
            storage = MemoryStorage()
            obj = await store_a_pod_of_the_next_release(storage)
            await storage.put(GADGET, GADGET_BYTES, 0)
            async with restarted(storage) as api:
                await test(api, obj)
            assert (await storage.get(GADGET)).value.endswith(b'"spec":{"wheels":3}}')

        run(main())

    runner.__name__ = test.__name__
    return runner


@scenario
async def test_a_field_of_the_next_release_is_shown(api, obj):
    assert (await api.get(POD))["spec"]["vehicle"] == {"wheels": 3}
    assert (await api.get(PODS)).names == ["p"]


@scenario
async def test_a_patch_of_something_else_is_no_change_of_what_cannot_be_changed(api, obj):
    patched = await api.patch(POD, {"metadata": {"labels": {"a": "b"}}})
    assert patched.status == 200, patched
    # As kube-apiserver does, which keeps the fields that it knows.
    assert "vehicle" not in patched["spec"]


@scenario
async def test_a_replacement_by_a_client_that_does_not_know_the_field_either_is_accepted(api, obj):
    del obj["spec"]["vehicle"]
    obj["metadata"] = {"name": "p", "labels": {"a": "b"}}
    assert (await api.put(POD, obj)).status == 200


@scenario
async def test_a_status_is_written(api, obj):
    written = await api.patch(f"{POD}/status", {"status": {"phase": "Running"}})
    assert written["status"]["phase"] == "Running", written


@scenario
async def test_configurations_are_applied_though_field_owners_name_the_field(api, obj):
    same = await apply(api, pod(), "newer")
    assert same.status == 200, same
    other = await apply(api, {**pod(), "metadata": {"name": "p", "labels": {"a": "b"}}}, "other")
    assert other["metadata"]["labels"] == {"a": "b"}, other


@scenario
async def test_a_change_of_what_cannot_be_changed_is_refused_all_the_same(api, obj):
    refused = await api.patch(POD, {"spec": {"nodeName": "n", "hostNetwork": True}})
    assert refused.status == 422
    assert "pod updates may not change fields other than" in refused.message


@pytest.mark.parametrize("path", ["/apis/gadgets.k8s.io", "/apis/gadgets.k8s.io/v1/namespaces/default/gadgets/g"])
def test_a_kind_of_the_next_release_is_not_found(path):
    @scenario
    async def test(api, obj):
        assert (await api.get(path)).status == 404

    test()
