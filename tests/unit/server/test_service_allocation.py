"""Services and what is committed with them: IPAddress objects and node ports, ranges, and the repair of both."""

import asyncio

import msgspec
import pytest

from api_client import Api, served
from kapi.registry.kinds.core.service.repair import service_repair
from kapi.storage.interface import Delete
from kapi.storage.memory import MemoryStorage
from virtual_time import run

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
NODE_PORTS = "/registry/reservations/nodeports/"
LABELS = {
    "ipaddress.kubernetes.io/ip-family": "IPv4",
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
}


def service(name="a", **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def addresses(api):
    return {item["metadata"]["name"] for item in (await api.get(ADDRESSES))["items"]}


def node_ports(api):
    held = {}
    for item in api.catalog.hub.cache(NODE_PORTS).items():
        held |= msgspec.json.decode(b"{" + item.body)["content"]
    return {int(port): owner for port, owner in held.items()}


@served
async def test_the_server_has_a_ready_service_cidr_and_an_address(api):
    found = (await api.get(f"{CIDRS}/kubernetes")).json
    assert found["spec"] == {"cidrs": ["10.0.0.0/24"]}
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "True", "")
    assert condition["message"] == "Kubernetes default Service CIDR is ready"
    assert await addresses(api) == {"10.0.0.1"}


@served
async def test_an_ip_address_is_made_as_kube_apiserver_makes_it(api):
    made = await api.made(SERVICES, service(clusterIP="10.0.0.9"))
    found = (await api.get(f"{ADDRESSES}/10.0.0.9")).json
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "one commit"
    assert found["metadata"]["labels"] == LABELS
    assert found["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}
    (entry,) = found["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kube-apiserver", "Update")
    assert entry["fieldsV1"]["f:spec"] == {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}}


@served
async def test_an_address_with_an_ip_address_of_another_parent_is_allocated_already(api):
    parent = {"resource": "gateways", "group": "example.com", "namespace": "default", "name": "g"}
    await api.made(ADDRESSES, {"metadata": {"name": "10.0.0.10"}, "spec": {"parentRef": parent}})
    refused = await api.post(SERVICES, service(clusterIP="10.0.0.10"))
    assert refused.status == 422
    assert refused.message == (
        'Service "a" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.10"]: '
        "failed to allocate IP 10.0.0.10: provided IP is already allocated"
    )


@served
async def test_deleting_a_service_leaves_the_ip_address_of_another_parent(api):
    await api.made(SERVICES, service(clusterIP="10.0.0.9"))
    await api.delete(f"{ADDRESSES}/10.0.0.9")
    parent = {"resource": "gateways", "group": "example.com", "namespace": "default", "name": "g"}
    await api.made(ADDRESSES, {"metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": parent}})
    assert (await api.delete(f"{SERVICES}/a")).status == 200
    assert await addresses(api) == {"10.0.0.1", "10.0.0.9"}


@served
async def test_type_changes_release_what_the_new_type_does_not_hold(api):
    ports = [{"port": 80, "nodePort": 30080}]
    await api.made(SERVICES, service(type="NodePort", clusterIP="10.0.0.9", ports=ports))
    assert node_ports(api) == {30080: "default/a"}
    await api.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
    assert node_ports(api) == {}
    await api.patch(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "example.com"}})
    assert await addresses(api) == {"10.0.0.1"}
    back = await api.patch(f"{SERVICES}/a", {"spec": {"type": "NodePort", "externalName": None}})
    assert await addresses(api) == {"10.0.0.1", back["spec"]["clusterIP"]}
    assert node_ports(api) == {back["spec"]["ports"][0]["nodePort"]: "default/a"}


@served
async def test_a_service_with_finalizers_holds_its_values_until_it_is_deleted(api):
    body = service(type="NodePort")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.made(SERVICES, body)
    await api.delete(f"{SERVICES}/a")
    assert len(await addresses(api)) == 2
    await api.patch(f"{SERVICES}/a", {"metadata": {"finalizers": None}})
    assert await addresses(api) == {"10.0.0.1"}
    assert node_ports(api) == {}


@served
async def test_a_service_may_have_more_node_ports_than_a_commit_has_operations(api):
    ports = [{"name": f"p{number}", "port": number} for number in range(1, 501)]
    made = await api.made(SERVICES, service(type="NodePort", ports=ports))
    given = {port["nodePort"] for port in made["spec"]["ports"]}
    assert len(given) == 500
    assert node_ports(api) == dict.fromkeys(given, "default/a")
    assert (await api.delete(f"{SERVICES}/a")).status == 200
    assert node_ports(api) == {}


@served
async def test_a_dry_run_commits_nothing(api):
    before = api.revision
    shown = await api.post(SERVICES, service(type="NodePort"), dryRun="All")
    assert (shown["spec"]["clusterIP"], shown["spec"]["ports"][0]["nodePort"]) == ("10.0.0.0", 32769)
    assert api.revision == before


@served
async def test_addresses_come_from_a_second_service_cidr_when_the_first_is_full(api):
    await api.made(CIDRS, {"metadata": {"name": "second"}, "spec": {"cidrs": ["10.96.0.0/30"]}})
    for number in range(253):
        await api.made(SERVICES, service(f"s{number}"))
    for number in range(2):
        spec = (await api.made(SERVICES, service(f"t{number}")))["spec"]
        assert spec["clusterIP"].startswith("10.96.0.")
    full = await api.post(SERVICES, service("u"))
    assert full.status == 500
    text = 'failed to allocate a serviceIP for Service "u": range is full'
    assert full.message == f"Internal error occurred: {text}"


@pytest.mark.parametrize(
    "change",
    [{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, None],
    ids=["not ready", "being deleted"],
)
def test_nothing_is_allocated_from_a_service_cidr_that_is_not_ready(change):
    @served
    async def check(api):
        condition = {"reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        if change is None:
            await api.patch(f"{CIDRS}/kubernetes", {"metadata": {"finalizers": ["example.com/hold"]}})
            await api.delete(f"{CIDRS}/kubernetes")
        else:
            change["status"]["conditions"][0] |= condition
            assert (await api.patch(f"{CIDRS}/kubernetes/status", change)).status == 200
        refused = await api.post(SERVICES, service())
        assert refused.message.endswith('failed to allocate a serviceIP for Service "a": range is full')
        refused = await api.post(SERVICES, service(clusterIP="10.0.0.9"))
        assert refused.message.endswith(
            "failed to allocate IP 10.0.0.9: the provided network does not match the current range"
        )
        refused = await api.post(SERVICES, service(), dryRun="All")
        assert refused.message.endswith('Invalid value: [""]: failed to allocate IP: allocator not ready')

    check()


# -- dual stack --------------------------------------------------------------------------------------------------------


def test_a_dual_stack_server_gives_one_address_of_each_family():
    async def main():
        api = Api(service_cidrs=("10.0.0.0/24", "fd00::/112"))
        await api.start()
        spec = (await api.made(SERVICES, service(ipFamilyPolicy="RequireDualStack")))["spec"]
        assert spec["ipFamilies"] == ["IPv4", "IPv6"]
        assert [":" in address for address in spec["clusterIPs"]] == [False, True]
        assert await addresses(api) == {"10.0.0.1", *spec["clusterIPs"]}
        found = (await api.get(f"{ADDRESSES}/{spec['clusterIPs'][1]}")).metadata["labels"]
        assert found["ipaddress.kubernetes.io/ip-family"] == "IPv6"
        one = await api.patch(f"{SERVICES}/a", {"spec": {"ipFamilyPolicy": "SingleStack"}})
        assert one["spec"]["clusterIPs"] == spec["clusterIPs"][:1]
        assert await addresses(api) == {"10.0.0.1", spec["clusterIPs"][0]}
        six = (await api.made(SERVICES, service("b", ipFamilies=["IPv6"])))["spec"]
        assert six["clusterIP"].startswith("fd00::")
        await api.stop()

    run(main())


def test_a_second_range_is_added_to_the_service_cidr_of_an_older_start():
    async def main():
        store = MemoryStorage()
        for cidrs in (("10.0.0.0/24",), ("10.0.0.0/24", "fd00::/112"), ("10.0.0.0/24", "fd00::/112")):
            api = Api(store, service_cidrs=cidrs)
            await api.start()
            assert (await api.get(f"{CIDRS}/kubernetes"))["spec"]["cidrs"] == list(cidrs)
            await api.stop()

    run(main())


def test_a_start_succeeds_though_the_address_of_the_server_is_taken():
    async def main():
        store = MemoryStorage()
        api = Api(store)
        await api.start()
        await api.delete(f"{SERVICES}/kubernetes")
        parent = {"resource": "gateways", "group": "example.com", "namespace": "default", "name": "g"}
        await api.made(ADDRESSES, {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}})
        await api.stop()
        again = Api(store)
        await again.start()
        assert (await again.get(f"{SERVICES}/kubernetes")).status == 404
        await again.stop()

    run(main())


# -- repair ------------------------------------------------------------------------------------------------------------


async def _forget_records(api):
    """What a version that kept no such records would have stored."""
    entries = (await api.storage.range("/registry/networking.k8s.io/ipaddresses/")).entries
    entries += (await api.storage.range(NODE_PORTS)).entries
    await api.storage.commit([Delete(entry.key, entry.revision) for entry in entries])


@served
async def test_missing_records_are_created_at_the_start(api):
    ports = [{"port": 80, "nodePort": 30080}]
    await api.made(SERVICES, service("a", type="NodePort", clusterIP="10.0.0.9", ports=ports))
    await api.made(SERVICES, service("b", clusterIP="None"))
    await _forget_records(api)
    assert await addresses(api) == set()
    await service_repair(api.catalog).repair_all()
    assert await addresses(api) == {"10.0.0.1", "10.0.0.9"}
    assert node_ports(api) == {30080: "default/a"}
    refused = await api.post(SERVICES, service("c", clusterIP="10.0.0.9"))
    assert "provided IP is already allocated" in refused.message
    before = api.revision
    await service_repair(api.catalog).repair_all()
    assert api.revision == before


@served
async def test_reservations_that_no_service_holds_are_removed(api):
    await api.made(SERVICES, service("a", type="NodePort"))
    (port,) = node_ports(api)
    item = api.catalog.store("services").get("default", "a")
    await api.storage.delete(item.key, item.revision)
    await service_repair(api.catalog).repair_all()
    assert port not in node_ports(api)


@served
async def test_hundreds_of_services_are_repaired_in_a_few_commits(api):
    for number in range(200):
        await api.made(SERVICES, service(f"s{number}", type="NodePort"))
    held = node_ports(api), await addresses(api)
    await asyncio.sleep(0)
    for _ in range(4):
        entries = (await api.storage.range("/registry/networking.k8s.io/ipaddresses/", limit=100)).entries
        entries = entries or (await api.storage.range(NODE_PORTS)).entries
        await api.storage.commit([Delete(entry.key, entry.revision) for entry in entries])
    before = api.revision
    await service_repair(api.catalog).repair_all()
    assert (node_ports(api), await addresses(api)) == held
    assert api.revision - before < 10


@served
async def test_two_services_with_one_address_do_not_keep_the_server_from_starting(api):
    first = await api.made(SERVICES, service("a", type="NodePort"))
    await _forget_records(api)
    again = await api.made(SERVICES, service("b", type="NodePort"))
    twin = {**again, "spec": {**first["spec"], "clusterIPs": first["spec"]["clusterIPs"]}}
    store = api.catalog.store("services")
    item = store.get("default", "b")
    await store.put(item.key, twin, item.revision)
    await service_repair(api.catalog).repair_all()
    assert first["spec"]["clusterIP"] in await addresses(api)
    assert node_ports(api)[first["spec"]["ports"][0]["nodePort"]] == "default/a"


@served
async def test_an_ip_address_that_is_deleted_while_its_service_holds_it_is_restored(api):
    repair = asyncio.ensure_future(service_repair(api.catalog).run())
    await api.made(SERVICES, service(clusterIP="10.0.0.9"))
    await asyncio.sleep(1)
    uid = (await api.get(f"{ADDRESSES}/10.0.0.9")).metadata["uid"]
    assert (await api.delete(f"{ADDRESSES}/10.0.0.9")).status == 200
    await asyncio.sleep(1)
    assert (await api.get(f"{ADDRESSES}/10.0.0.9")).metadata["uid"] != uid
    await api.delete(f"{SERVICES}/a")
    await asyncio.sleep(1)
    assert await addresses(api) == {"10.0.0.1"}
    repair.cancel()
    await asyncio.gather(repair, return_exceptions=True)
