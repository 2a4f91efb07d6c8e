"""The service-cidr-controller: ServiceCIDRs are ready, and stay while addresses are in use that no other contains."""

from controller_api import with_controllers
from kapi.controlplane.controllers.servicecidr import FINALIZER, add_service_cidr_controller

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"

READY = ("True", "", "Kubernetes Service CIDR is ready")
BLOCKED = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


def cidr(name, *cidrs):
    return {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def ready(api, name):
    found = (await api.get(f"{CIDRS}/{name}"))["status"]["conditions"]
    assert [one["type"] for one in found] == ["Ready"]
    return tuple(found[0][key] for key in ("status", "reason", "message"))


async def exists(api, name):
    return (await api.get(f"{CIDRS}/{name}")).status == 200


@with_controllers(add_service_cidr_controller)
async def test_a_service_cidr_gets_the_finalizer_and_is_ready(api):
    await api.made(CIDRS, cidr("second", "10.96.0.0/28", "fd00::/112"))
    await api.run_until_idle(1)
    for name in ("kubernetes", "second"):
        assert (await api.get(f"{CIDRS}/{name}")).metadata["finalizers"] == [FINALIZER]
        assert await ready(api, name) == READY
    managers = (await api.get(f"{CIDRS}/second")).metadata["managedFields"]
    assert {(one["manager"], one["operation"], one.get("subresource")) for one in managers} >= {
        ("service-cidr-controller", "Apply", "status")
    }


@with_controllers(add_service_cidr_controller)
async def test_a_ready_service_cidr_is_not_written_again(api):
    await api.run_until_idle(1)
    before = api.revision
    await api.made(SERVICES, service("a"))
    await api.run_until_idle(60)
    assert api.revision == before + 1


@with_controllers(add_service_cidr_controller)
async def test_one_that_no_address_needs_is_deleted_after_the_grace_period(api):
    await api.made(CIDRS, cidr("second", "10.96.0.0/28"))
    await api.run_until_idle(1)
    await api.delete(f"{CIDRS}/second")
    await api.run_until_idle(8)
    assert await exists(api, "second")
    await api.run_until_idle(4)
    assert not await exists(api, "second")


@with_controllers(add_service_cidr_controller)
async def test_one_whose_address_is_in_use_waits_until_it_is_released(api):
    await api.made(CIDRS, cidr("second", "10.96.0.0/28"))
    await api.made(SERVICES, service("a", clusterIP="10.96.0.3"))
    await api.delete(f"{CIDRS}/second")
    await api.run_until_idle(60)
    assert await ready(api, "second") == BLOCKED
    refused = await api.post(SERVICES, service("b", clusterIP="10.96.0.4"))
    assert "failed to allocate IP 10.96.0.4: the provided network does not match the current range" in refused.message
    await api.delete(f"{SERVICES}/a")
    await api.run_until_idle(1)
    assert not await exists(api, "second")


@with_controllers(add_service_cidr_controller)
async def test_one_is_deleted_though_its_address_is_in_use_when_another_contains_it(api):
    await api.made(CIDRS, cidr("second", "10.96.0.0/28"))
    await api.made(SERVICES, service("a", clusterIP="10.96.0.3"))
    await api.delete(f"{CIDRS}/second")
    await api.run_until_idle(60)
    await api.made(CIDRS, cidr("third", "10.96.0.0/16"))
    await api.run_until_idle(1)
    assert not await exists(api, "second")
    await api.delete(f"{CIDRS}/third")
    await api.run_until_idle(60)
    assert await ready(api, "third") == BLOCKED


@with_controllers(add_service_cidr_controller)
async def test_an_address_that_another_controller_made_does_not_keep_a_service_cidr(api):
    await api.made(CIDRS, cidr("second", "10.96.0.0/28"))
    parent = {"resource": "gateways", "group": "example.com", "namespace": "default", "name": "g"}
    await api.made(ADDRESSES, {"metadata": {"name": "10.96.0.5"}, "spec": {"parentRef": parent}})
    await api.delete(f"{CIDRS}/second")
    await api.run_until_idle(20)
    assert not await exists(api, "second")
