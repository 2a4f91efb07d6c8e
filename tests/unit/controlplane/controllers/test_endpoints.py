"""The controllers of Endpoints, of slices that mirror them, and of the Service `kubernetes`."""

import pytest

from api_client import NS, PODS, SVC
from controller_api import running_controllers, with_controllers
from endpoint_objects import EP, ES, SLICES, TRIGGER, addresses, listed, node, report, run_pod, serve, service, slices
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.endpoints.controller import add_endpoints_controller
from kapi.controlplane.controllers.endpointslice.controller import add_endpointslice_controller
from kapi.controlplane.controllers.endpointslicemirroring.controller import add_endpointslice_mirroring_controller
from kapi.controlplane.controllers.kubernetesservice import add_kubernetes_service_controller
from kapi.storage.memory import MemoryStorage
from virtual_time import run

SKIP = "endpointslice.kubernetes.io/skip-mirror"


async def idle(api):
    """Nothing is written, however long one waits."""
    before = api.revision
    await api.run_until_idle(3600)
    assert api.revision == before


def written(name="web", *ready, **parts):
    """Endpoints that no controller wrote."""
    subsets = [{"addresses": [{"ip": address} for address in ready], "ports": [{"port": 80}]}] if ready else []
    return {"metadata": {"name": name, **parts}, "subsets": subsets}


# -- of Services that select Pods --------------------------------------------------------------------------------------


@with_controllers(add_endpoints_controller)
async def test_a_service_and_its_pods_become_endpoints(api):
    made = await serve(api, metadata={"labels": {"team": "a"}})
    await api.run_until_idle()
    found = api.find("endpoints", "default", "web")
    assert found["metadata"]["labels"] == {"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    assert found["metadata"]["annotations"] == {TRIGGER: made["metadata"]["creationTimestamp"]}
    assert not found.get("subsets")
    await run_pod(api, "a", "10.1.0.1")
    await run_pod(api, "b", "10.1.0.2", ready=False)
    await api.run_until_idle()
    assert listed(api) == {"10.1.0.1": True, "10.1.0.2": False}
    await report(api, "b", "10.1.0.2")
    await api.delete(f"{PODS}/a", gracePeriodSeconds=0)
    await api.run_until_idle()
    assert listed(api) == {"10.1.0.2": True}
    await idle(api)


@with_controllers(add_endpoints_controller)
async def test_pod_changes_that_do_not_affect_endpoints_write_nothing(api):
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    before = api.find("endpoints", "default", "web")
    await api.patch(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}})
    await api.patch(f"{PODS}/a/status", {"status": {"message": "well"}})
    await api.run_until_idle()
    assert api.find("endpoints", "default", "web") == before


@with_controllers(add_endpoints_controller)
async def test_labels_of_the_service_reach_its_endpoints(api):
    await serve(api, clusterIP="None")
    await api.run_until_idle()
    await api.patch(f"{SVC}/web", {"metadata": {"labels": {"team": "b"}}})
    await api.run_until_idle()
    labels = api.find("endpoints", "default", "web")["metadata"]["labels"]
    assert (labels["team"], labels["service.kubernetes.io/headless"]) == ("b", "")


@with_controllers(add_endpoints_controller)
async def test_endpoints_that_are_deleted_or_edited_are_restored(api):
    await serve(api)
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    await api.delete(f"{EP}/web")
    await api.run_until_idle()
    assert listed(api) == {"10.1.0.1": True}
    await api.patch(f"{EP}/web", {"subsets": [{"addresses": [{"ip": "10.6.6.6"}]}]})
    await api.run_until_idle()
    assert listed(api) == {"10.1.0.1": True}
    await idle(api)


@with_controllers(add_endpoints_controller)
async def test_endpoints_are_deleted_with_their_service(api):
    await serve(api)
    await api.run_until_idle()
    await api.delete(f"{SVC}/web")
    await api.run_until_idle()
    assert listed(api) is None


@with_controllers(add_endpoints_controller)
async def test_endpoints_of_services_without_a_selector_are_not_touched(api):
    await api.made(SVC, service("plain"))
    await api.made(EP, written("plain", "10.6.6.6"))
    await api.made(SVC, service("none"))
    await api.run_until_idle()
    assert (listed(api, "plain"), listed(api, "none")) == ({"10.6.6.6": True}, None)


def test_endpoints_whose_service_was_deleted_before_the_start_are_deleted():
    async def main():
        storage = MemoryStorage()
        leader = {"control-plane.alpha.kubernetes.io/leader": "{}"}
        async with running_controllers(add_endpoints_controller, storage=storage) as api:
            await serve(api)
            await api.made(EP, written("elects", annotations=leader))
            await api.run_until_idle()
        async with running_controllers(storage=storage) as api:
            await api.delete(f"{SVC}/web")
        async with running_controllers(add_endpoints_controller, storage=storage) as api:
            await api.run_until_idle()
            assert listed(api) is None
            assert listed(api, "elects") == {}
            await idle(api)

    run(main())


@with_controllers(add_endpoints_controller)
async def test_no_endpoints_are_created_in_a_terminating_namespace(api):
    await api.made(NS, {"metadata": {"name": "ns", "finalizers": ["example.com/wait"]}})
    await api.made(f"{NS}/ns/services", service("web", {"app": "web"}))
    await api.run_until_idle()
    await api.delete(f"{NS}/ns")
    await api.delete(f"{NS}/ns/endpoints/web")
    await api.run_until_idle()
    assert api.find("endpoints", "ns", "web") is None
    assert (await api.get(f"{NS}/ns/events")).json["items"] == []


@pytest.mark.parametrize(
    ("part", "shown", "reason", "message"),
    [
        (add_endpoints_controller, listed, "FailedToUpdateEndpoint", "Failed to update endpoint default/web: "),
        (
            add_endpointslice_controller,
            addresses,
            "FailedToUpdateEndpointSlices",
            "Error updating Endpoint Slices for Service default/web: ",
        ),
    ],
)
def test_a_refused_write_is_recorded_as_an_event_and_retried_after_a_change(part, shown, reason, message):
    @with_controllers(part)
    async def check(api):
        await node(api)
        await serve(api)
        await api.run_until_idle()
        await run_pod(api, "a", "127.0.0.1")
        await api.run_until_idle()
        assert shown(api) == {}
        [event] = (await api.get(f"{NS}/default/events")).json["items"]
        assert event["reason"] == reason
        assert event["message"].startswith(message)
        await idle(api)
        await report(api, "a", "10.1.0.1")
        await api.run_until_idle()
        assert shown(api) == {"10.1.0.1": True}

    check()


# -- mirrored ----------------------------------------------------------------------------------------------------------


@with_controllers(add_endpointslice_mirroring_controller)
async def test_endpoints_of_a_service_without_a_selector_are_mirrored_to_slices(api):
    await api.made(SVC, service())
    both = [{"ip": "10.6.6.6", "hostname": "h"}, {"ip": "2001:db8::1"}]
    subsets = [{"addresses": both, "notReadyAddresses": [{"ip": "10.6.6.7"}], "ports": [{"port": 80, "name": "http"}]}]
    meta = {"labels": {"a": "b"}, "annotations": {"c": "d", TRIGGER: "x"}}
    made = await api.made(EP, {**written(**meta), "subsets": subsets})
    await api.run_until_idle()
    found = {each["addressType"]: each for each in slices(api)}
    four = found["IPv4"]
    assert four["metadata"]["labels"] == {
        "a": "b",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    assert four["metadata"]["annotations"] == {"c": "d"}
    assert four["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert four["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]
    assert four["endpoints"] == [
        {"addresses": ["10.6.6.6"], "conditions": {"ready": True}, "hostname": "h"},
        {"addresses": ["10.6.6.7"], "conditions": {"ready": False}},
    ]
    assert [each["addresses"] for each in found["IPv6"]["endpoints"]] == [["2001:db8::1"]]
    await idle(api)


@with_controllers(add_endpointslice_mirroring_controller)
async def test_changes_of_mirrored_endpoints_are_mirrored(api):
    await api.made(SVC, service())
    await api.made(EP, written("web", "10.6.6.6"))
    await api.run_until_idle()
    [before] = slices(api)
    await api.put(f"{EP}/web", written("web", "10.6.6.7", "10.6.6.8", labels={"x": "y"}))
    await api.run_until_idle()
    [after] = slices(api)
    assert after["metadata"]["name"] == before["metadata"]["name"]
    assert after["metadata"]["labels"]["x"] == "y"
    assert set(addresses(api)) == {"10.6.6.7", "10.6.6.8"}
    await api.delete(f"{ES}/{after['metadata']['name']}")
    await api.run_until_idle()
    assert set(addresses(api)) == {"10.6.6.7", "10.6.6.8"}
    await api.patch(f"{EP}/web", {"subsets": [{"addresses": [{"ip": "10.6.6.7"}], "ports": [{"port": 81}]}]})
    await api.run_until_idle()
    [moved] = slices(api)
    assert moved["ports"][0]["port"] == 81
    await idle(api)


@pytest.mark.parametrize(
    "metadata",
    [{"labels": {SKIP: "true"}}, {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}],
    ids=["asked not to", "elects a leader"],
)
def test_endpoints_with_skip_mirror_or_for_leader_election_are_not_mirrored(metadata):
    @with_controllers(add_endpointslice_mirroring_controller)
    async def check(api):
        await api.made(SVC, service())
        await api.made(EP, written("web", "10.6.6.6"))
        await api.run_until_idle()
        assert len(slices(api)) == 1
        await api.put(f"{EP}/web", written("web", "10.6.6.6", **metadata))
        await api.run_until_idle()
        assert slices(api) == []

    check()


@with_controllers(add_endpointslice_mirroring_controller)
async def test_endpoints_are_mirrored_only_as_long_as_their_service_has_no_selector(api):
    await api.made(EP, written("web", "10.6.6.6"))
    await api.run_until_idle()
    assert slices(api) == []
    await api.made(SVC, service())
    await api.run_until_idle()
    assert set(addresses(api)) == {"10.6.6.6"}
    await api.patch(f"{SVC}/web", {"spec": {"selector": {"a": "b"}}})
    await api.run_until_idle()
    assert slices(api) == []
    await api.patch(f"{SVC}/web", {"spec": {"selector": None}})
    await api.run_until_idle()
    assert len(slices(api)) == 1
    await api.delete(f"{EP}/web")
    await api.run_until_idle()
    assert slices(api) == []


@with_controllers(add_endpointslice_mirroring_controller)
async def test_at_most_a_thousand_addresses_of_a_subset_are_mirrored(api):
    await api.made(SVC, service())
    many = [f"10.6.{number // 250}.{number % 250 + 1}" for number in range(1003)]
    await api.made(EP, written("web", *many))
    await api.run_until_idle()
    assert len(addresses(api)) == 1000
    [event] = (await api.get(f"{NS}/default/events")).json["items"]
    assert event["reason"] == "TooManyAddressesToMirror"
    assert event["message"] == (
        "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped"
    )


@with_controllers(add_endpointslice_controller, add_endpoints_controller, add_endpointslice_mirroring_controller)
async def test_the_three_controllers_do_not_overwrite_each_other(api):
    await node(api)
    await serve(api)
    await api.made(SVC, service("plain"))
    await api.made(EP, written("plain", "10.6.6.6"))
    await run_pod(api, "a", "10.1.0.1")
    await api.run_until_idle()
    assert (listed(api), addresses(api)) == ({"10.1.0.1": True}, {"10.1.0.1": True})
    assert (listed(api, "plain"), addresses(api, "plain")) == ({"10.6.6.6": True}, {"10.6.6.6": True})
    assert len(slices(api)) == len(slices(api, "plain")) == 1
    await idle(api)


# -- the server's own --------------------------------------------------------------------------------------------------


def at(address, port=6443):
    """Where the server is."""
    return ControllerSettings(address=address, port=port)


@pytest.mark.parametrize(("address", "kind"), [("192.0.2.7", "IPv4"), ("2001:db8::7", "IPv6")])
def test_the_service_kubernetes_has_the_address_of_this_server(address, kind):
    @with_controllers(add_kubernetes_service_controller, add_endpointslice_mirroring_controller, settings=at(address))
    async def check(api):
        await api.run_until_idle()
        found = api.find("endpoints", "default", "kubernetes")
        port = {"name": "https", "port": 6443, "protocol": "TCP"}
        assert found["subsets"] == [{"addresses": [{"ip": address}], "ports": [port]}]
        assert found["metadata"]["labels"] == {SKIP: "true"}
        [shown] = slices(api, "kubernetes")
        assert (shown["metadata"]["name"], shown["addressType"], shown["ports"]) == ("kubernetes", kind, [port])
        assert shown["endpoints"] == [{"addresses": [address], "conditions": {"ready": True}}]
        assert shown["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
        await idle(api)

    check()


@with_controllers(add_kubernetes_service_controller, settings=at("192.0.2.7"))
async def test_the_endpoints_of_the_service_kubernetes_are_restored(api):
    await api.delete(f"{ES}/kubernetes")
    await api.patch(f"{EP}/kubernetes", {"subsets": [], "metadata": {"labels": {SKIP: None, "mine": "1"}}})
    await api.run_until_idle()
    assert listed(api, "kubernetes") == addresses(api, "kubernetes") == {"192.0.2.7": True}
    assert api.find("endpoints", "default", "kubernetes")["metadata"]["labels"] == {SKIP: "true", "mine": "1"}
    await idle(api)


def test_a_new_address_of_the_server_is_published():
    async def main():
        storage = MemoryStorage()
        for address, port in (("192.0.2.7", 6443), ("192.0.2.8", 6444), ("2001:db8::8", 6444)):
            async with running_controllers(
                add_kubernetes_service_controller, settings=at(address, port), storage=storage
            ) as api:
                await api.run_until_idle()
                assert listed(api, "kubernetes") == addresses(api, "kubernetes") == {address: True}
                assert api.find(SLICES, "default", "kubernetes")["ports"][0]["port"] == port

    run(main())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "localhost"])
def test_a_loopback_address_is_not_published(address):
    @with_controllers(add_kubernetes_service_controller, settings=at(address))
    async def check(api):
        await api.run_until_idle()
        assert listed(api, "kubernetes") is None

    check()
