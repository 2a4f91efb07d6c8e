"""The plan for the EndpointSlices of a Service: the right slices with the fewest changes."""

import copy
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoint_objects import facts, named_port, stored_service
from kapi.controlplane.controllers.endpointslice.endpoint import endpoint_of, endpoint_ports, groups
from kapi.controlplane.controllers.endpointslice.plan import MAX_ENDPOINTS, labels_of, plan_slices
from kapi.controlplane.controllers.serviceendpoints.portorder import in_slice_order, in_subset_order

ZONES = {"n1": "z1", "n2": ""}


_numbers = itertools.count()


def stored(plan, before=()):
    """The slices there are after a plan was carried out; new ones get names, all get versions."""
    gone = {each["metadata"]["name"] for each in (*plan.delete, *plan.update)}
    kept = [each for each in before if each["metadata"]["name"] not in gone]
    made = []
    for each in copy.deepcopy(plan.create):
        each["metadata"]["name"] = f"{each['metadata']['generateName']}{next(_numbers)}"
        made.append(each)
    after = [*kept, *copy.deepcopy(plan.update), *made]
    for each in after:
        each["metadata"].setdefault("uid", each["metadata"]["name"])
        each["metadata"]["resourceVersion"] = "1"
    return after


def carried_out(service, pods, slices=(), zones=ZONES):
    return stored(plan_slices(service, pods, zones, slices), slices)


def sizes(slices):
    return sorted(len(each["endpoints"]) for each in slices)


def names_in(slices):
    return [endpoint["targetRef"]["name"] for each in slices for endpoint in each["endpoints"]]


# -- endpoints ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "spec", "conditions"),
    [
        pytest.param({}, {}, (True, True, False), id="ready"),
        pytest.param({"is_ready": False}, {}, (False, False, False), id="not ready"),
        pytest.param({"is_terminating": True}, {}, (False, True, True), id="serving while it ends"),
        pytest.param({"is_terminating": True, "is_ready": False}, {}, (False, False, True), id="ends"),
        pytest.param({"is_ready": False}, {"publishNotReadyAddresses": True}, (True, False, False), id="published"),
        pytest.param({"is_terminating": True}, {"publishNotReadyAddresses": True}, (True, True, True), id="to its end"),
    ],
)
def test_conditions_follow_readiness_and_deletion(pod, spec, conditions):
    endpoint = endpoint_of(stored_service(**spec), facts(**pod), "", "IPv4")
    assert endpoint["conditions"] == dict(zip(("ready", "serving", "terminating"), conditions, strict=True))


def test_an_endpoint_has_the_node_and_zone_of_its_pod():
    endpoint = endpoint_of(stored_service(), facts("a", "10.1.0.1"), "z1", "IPv4")
    assert endpoint == {
        "addresses": ["10.1.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"},
        "nodeName": "n1",
        "zone": "z1",
    }


@pytest.mark.parametrize(
    ("hostname", "subdomain", "shown"),
    [("h", "web", "h"), ("h", "other", None), ("h", "", None), ("", "web", None)],
)
def test_a_hostname_is_set_for_the_service_that_is_the_subdomain(hostname, subdomain, shown):
    endpoint = endpoint_of(stored_service("web"), facts(hostname=hostname, subdomain=subdomain), "", "IPv4")
    assert endpoint.get("hostname") == shown


@pytest.mark.parametrize(
    ("port", "ports", "number"),
    [
        pytest.param({"port": 80, "targetPort": 8080}, (), 8080, id="number"),
        pytest.param({"port": 80}, (), 80, id="its own"),
        pytest.param({"port": 80, "targetPort": "web"}, (named_port("web", 81),), 81, id="name"),
        pytest.param({"port": 80, "targetPort": "web"}, (named_port("web", 1), named_port("web", 2)), 1, id="first"),
        pytest.param({"port": 80, "targetPort": "web"}, (named_port("web", 81, "UDP"),), None, id="other protocol"),
        pytest.param({"port": 80, "targetPort": "x"}, (named_port("web", 81),), None, id="unknown"),
    ],
)
def test_a_named_target_port_is_resolved_on_the_pod(port, ports, number):
    service = stored_service(ports=[{"protocol": "TCP", **port}])
    found = endpoint_ports(service, facts(ports=ports))
    assert found == ([] if number is None else [{"name": "", "port": number, "protocol": "TCP"}])


@pytest.mark.parametrize(
    ("in_order", "names"),
    [
        (in_slice_order, ["metrics", "", "grpc", "http", "https"]),
        (in_subset_order, ["", "grpc", "http", "https", "metrics"]),
    ],
)
def test_ports_are_sorted_as_kubernetes_sorts_them(in_order, names):
    # As its own libraries sort these.
    ports = [
        {"name": name, "port": 8000 + index, "protocol": "TCP", **({"appProtocol": "http2"} if name == "grpc" else {})}
        for index, name in enumerate(["http", "https", "metrics", "grpc", ""])
    ]
    assert [port["name"] for port in in_order(ports)] == names
    assert in_order(reversed(ports)) == in_order(ports)


@pytest.mark.parametrize(
    ("changes", "is_in"),
    [
        ({}, True),
        ({"is_ready": False}, True),
        ({"is_terminating": True}, True),
        ({"is_terminal": True}, False),
        ({"addresses": ()}, False),
        ({"addresses": ("2001:db8::1",)}, False),
        ({"node": "gone"}, False),
        ({"node": ""}, False),
    ],
    ids=str,
)
def test_terminated_pods_and_pods_without_address_are_no_endpoints(changes, is_in):
    found, _ = groups(stored_service(), [facts()._replace(**changes)], ZONES, "IPv4")
    assert sum(len(group.endpoints) for group in found.values()) == is_in


def test_a_pod_without_a_node_is_reported_unless_not_ready_addresses_are_published():
    lost = facts(node="gone")
    assert plan_slices(stored_service(), [lost], ZONES, []).without_node == [lost]
    plan = plan_slices(stored_service(publishNotReadyAddresses=True), [lost], ZONES, [])
    assert plan.without_node == []
    assert names_in(plan.create) == ["a"]


# -- slices ------------------------------------------------------------------------------------------------------------


def test_a_new_slice_belongs_to_its_service():
    service = stored_service(labels={"team": "a", "endpointslice.kubernetes.io/managed-by": "me"})
    [made] = plan_slices(service, [facts()], ZONES, []).create
    assert made["metadata"] == {
        "generateName": "web-",
        "namespace": "default",
        "labels": {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "name": "web",
                "uid": "uid-of-web",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert (made["addressType"], made["ports"]) == ("IPv4", [{"name": "", "port": 8080, "protocol": "TCP"}])


@pytest.mark.parametrize(("address", "headless"), [("None", True), ("", True), ("10.0.0.1", False)])
def test_slices_of_headless_services_have_the_headless_label(address, headless):
    labels = labels_of(stored_service(clusterIP=address, labels={"service.kubernetes.io/headless": "x"}))
    assert labels.get("service.kubernetes.io/headless") == ("" if headless else None)


def test_without_pods_there_is_one_empty_slice_for_each_family_and_it_stays():
    service = stored_service(ipFamilies=["IPv4", "IPv6"])
    slices = carried_out(service, [])
    assert [(each["addressType"], each["endpoints"], each["ports"]) for each in slices] == [
        ("IPv4", [], []),
        ("IPv6", [], []),
    ]
    assert not plan_slices(service, [], ZONES, slices)


def test_the_empty_slice_is_filled_with_the_first_pod_and_emptied_with_the_last():
    service = stored_service()
    empty = carried_out(service, [])
    plan = plan_slices(service, [facts()], ZONES, empty)
    assert [len(part) for part in (plan.create, plan.update, plan.delete)] == [0, 1, 0]
    plan = plan_slices(service, [], ZONES, stored(plan, empty))
    assert [len(part) for part in (plan.create, plan.update, plan.delete)] == [0, 1, 0]
    assert plan.update[0]["endpoints"] == []


def test_both_families_have_slices_of_their_own():
    service = stored_service(ipFamilies=["IPv6", "IPv4"])
    slices = carried_out(service, [facts("a", "10.1.0.1", "2001:db8::1"), facts("b", "10.1.0.2")])
    found = {each["addressType"]: sorted(e["addresses"][0] for e in each["endpoints"]) for each in slices}
    assert found == {"IPv4": ["10.1.0.1", "10.1.0.2"], "IPv6": ["2001:db8::1"]}


def test_slices_of_a_family_the_service_no_longer_has_are_deleted():
    both = carried_out(stored_service(ipFamilies=["IPv4", "IPv6"]), [facts("a", "10.1.0.1", "2001:db8::1")])
    plan = plan_slices(stored_service(), [facts("a", "10.1.0.1", "2001:db8::1")], ZONES, both)
    assert [each["addressType"] for each in plan.delete] == ["IPv6"]
    assert not plan.create + plan.update


def test_pods_with_different_port_numbers_are_in_different_slices():
    service = stored_service(ports=[{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}])
    pods = [facts("a", ports=(named_port("web", 1),)), facts("b", ports=(named_port("web", 2),)), facts("c")]
    slices = carried_out(service, pods)
    assert sorted(([port["port"] for port in each["ports"]], names_in([each])) for each in slices) == [
        ([], ["c"]),
        ([1], ["a"]),
        ([2], ["b"]),
    ]


def test_slices_of_an_older_service_of_the_same_name_are_replaced():
    old = carried_out({**stored_service(), "metadata": {**stored_service()["metadata"], "uid": "old"}}, [facts()])
    plan = plan_slices(stored_service(), [facts()], ZONES, old)
    assert (len(plan.create), plan.update, plan.delete) == (1, [], old)


def test_changed_labels_of_the_service_reach_its_slices():
    slices = carried_out(stored_service(labels={"a": "1"}), [facts()])
    plan = plan_slices(stored_service(labels={"b": "2"}), [facts()], ZONES, slices)
    [changed] = plan.update
    assert changed["metadata"]["labels"] == labels_of(stored_service(labels={"b": "2"}))
    assert not plan.create + plan.delete


def test_endpoints_that_other_clients_added_to_a_slice_are_removed():
    service = stored_service()
    slices = carried_out(service, [facts("a")])
    slices[0]["endpoints"] += [{"addresses": ["10.9.9.9"], "conditions": {}}, dict(slices[0]["endpoints"][0])]
    assert names_in(carried_out(service, [facts("a")], slices)) == ["a"]


def test_planning_does_not_change_its_arguments():
    service, pods = stored_service(), [facts(f"p{n}", f"10.1.0.{n}") for n in range(1, 60)]
    slices = carried_out(service, pods)
    before = copy.deepcopy(slices)
    plan_slices(service, [*pods[5:], facts("new", "10.1.1.1")], {"n1": "z9"}, slices)
    assert slices == before


# -- packing -----------------------------------------------------------------------------------------------------------


def many(count, first=0):
    return [facts(f"p{n:04}", f"10.1.{n // 250}.{n % 250 + 1}") for n in range(first, first + count)]


def test_two_hundred_and_fifty_pods_fill_three_slices():
    assert sizes(carried_out(stored_service(), many(250))) == [50, 100, 100]


def test_deleting_one_pod_changes_one_slice():
    slices = carried_out(stored_service(), many(250))
    plan = plan_slices(stored_service(), many(250)[1:], ZONES, slices)
    assert (len(plan.update), plan.create, plan.delete) == (1, [], [])
    assert sizes(plan.update) == [99]


def test_new_pods_are_added_to_slices_that_change_anyway():
    slices = carried_out(stored_service(), many(250))
    plan = plan_slices(stored_service(), many(250, first=1), ZONES, slices)
    assert sizes(plan.update) == [100]
    assert not plan.create + plan.delete


def test_new_pods_are_added_to_the_fullest_slice_with_space_for_all_of_them():
    service = stored_service()
    slices = carried_out(service, many(250))
    for each, keep in zip(slices, (60, 80, 40), strict=True):
        del each["endpoints"][keep:]
    there = set(names_in(slices))
    pods = [pod for pod in many(250) if pod.name in there] + many(15, first=300)
    plan = plan_slices(service, pods, ZONES, slices)
    assert (sizes(plan.update), plan.create, plan.delete) == ([95], [], [])


def test_more_pods_than_fit_anywhere_make_a_new_slice():
    slices = carried_out(stored_service(), many(160))
    plan = plan_slices(stored_service(), many(210), ZONES, slices)
    assert (plan.update, sizes(plan.create), plan.delete) == ([], [50], [])


def test_a_slice_is_reused_instead_of_deleting_it_and_creating_another():
    service = stored_service(ports=[{"port": 80, "protocol": "TCP", "targetPort": 1}])
    slices = carried_out(service, [facts()])
    service["spec"]["ports"][0]["targetPort"] = 2
    plan = plan_slices(service, [facts()], ZONES, slices)
    [changed] = plan.update
    assert changed["metadata"]["name"] == slices[0]["metadata"]["name"]
    assert changed["metadata"]["resourceVersion"] == "1"
    assert changed["ports"][0]["port"] == 2
    assert not plan.create + plan.delete


# -- hints -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "annotations", "hints"),
    [
        ({}, {}, None),
        ({"trafficDistribution": "PreferClose"}, {}, {"forZones": [{"name": "z1"}]}),
        ({"trafficDistribution": "PreferSameZone"}, {}, {"forZones": [{"name": "z1"}]}),
        (
            {"trafficDistribution": "PreferSameNode"},
            {},
            {"forZones": [{"name": "z1"}], "forNodes": [{"name": "n1"}]},
        ),
        ({"trafficDistribution": "PreferClose"}, {"service.kubernetes.io/topology-mode": "Auto"}, None),
        ({"trafficDistribution": "Other"}, {}, None),
    ],
    ids=str,
)
def test_hints_follow_the_traffic_distribution(spec, annotations, hints):
    service = stored_service(annotations=annotations, **spec)
    slices = carried_out(service, [facts()])
    assert slices[0]["endpoints"][0].get("hints") == hints
    assert not plan_slices(service, [facts()], ZONES, slices)


def test_hints_are_added_and_removed_with_the_traffic_distribution():
    pods = [facts("a"), facts("b", "10.1.0.2", is_ready=False), facts("c", "10.1.0.3", node="n2")]
    plain, close = stored_service(), stored_service(trafficDistribution="PreferClose")
    slices = carried_out(close, pods, carried_out(plain, pods))
    by_name = {endpoint["targetRef"]["name"]: endpoint.get("hints") for endpoint in slices[0]["endpoints"]}
    assert by_name == {"a": {"forZones": [{"name": "z1"}]}, "b": None, "c": None}
    assert not plan_slices(close, pods, ZONES, slices)
    slices = carried_out(plain, pods, slices)
    assert all("hints" not in endpoint for endpoint in slices[0]["endpoints"])


# -- whatever happens --------------------------------------------------------------------------------------------------

POD = st.builds(
    lambda number, ready, terminating, terminal, six, node, port: facts(
        f"p{number}",
        f"10.1.{number // 250}.{number % 250 + 1}",
        *((f"2001:db8::{number + 1:x}",) if six else ()),
        is_ready=ready,
        is_terminating=terminating,
        is_terminal=terminal,
        node=node,
        ports=(named_port("web", port),),
    ),
    st.integers(0, 400),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9).map(lambda n: n == 0),
    st.booleans(),
    st.sampled_from(["n1", "n2", "n2", "gone"]),
    st.sampled_from([1, 1, 1, 2]),
)
PODS = st.lists(POD, max_size=40, unique_by=lambda pod: pod.name)
SERVICE = st.builds(
    lambda families, publish, distribution, named: stored_service(
        ipFamilies=families,
        publishNotReadyAddresses=publish,
        trafficDistribution=distribution,
        ports=[{"port": 80, "protocol": "TCP", "targetPort": "web" if named else 8080}],
    ),
    st.sampled_from([["IPv4"], ["IPv6"], ["IPv4", "IPv6"]]),
    st.booleans(),
    st.sampled_from([None, "PreferClose", "PreferSameNode"]),
    st.booleans(),
)


def expected(service, pods):
    """Independently: (address, ready, port) of every Pod that is to be reached."""
    spec = service["spec"]
    found = set()
    for pod in pods:
        if pod.is_terminal or (pod.node == "gone" and not spec["publishNotReadyAddresses"]):
            continue
        ready = spec["publishNotReadyAddresses"] or (pod.is_ready and not pod.is_terminating)
        port = pod.ports[0].number if spec["ports"][0]["targetPort"] == "web" else 8080
        for address in pod.addresses:
            if ("IPv6" if ":" in address else "IPv4") in spec["ipFamilies"]:
                found.add((address, ready, port))
    return found


def listed(slices):
    triples = [
        (address, endpoint["conditions"]["ready"], each["ports"][0]["port"])
        for each in slices
        for endpoint in each["endpoints"]
        for address in endpoint["addresses"]
    ]
    assert len(triples) == len(set(triples))
    return set(triples)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(SERVICE, PODS), min_size=1, max_size=4), st.integers(1, 12))
def test_slices_match_the_pods_whatever_slices_existed_before(history, size):
    slices = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kapi.controlplane.controllers.endpointslice.plan.MAX_ENDPOINTS", size)
        for service, pods in history:
            slices = carried_out(service, pods, slices)
            assert listed(slices) == expected(service, pods)
            assert max(sizes(slices)) <= size
            assert {each["addressType"] for each in slices} == set(service["spec"]["ipFamilies"])
            assert not plan_slices(service, pods, ZONES, slices)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 350), st.data())
def test_few_slices_change_when_few_pods_do(count, data):
    service, pods = stored_service(), many(count)
    slices = carried_out(service, pods)
    assert max(sizes(slices)) <= MAX_ENDPOINTS
    deleted = data.draw(st.sets(st.sampled_from(pods), max_size=5)) if pods else set()
    plan = plan_slices(service, [pod for pod in pods if pod not in deleted], ZONES, slices)
    assert len(plan.update) + len(plan.delete) + len(plan.create) <= max(len(deleted), 0)
