"""The subsets of Endpoints, in canonical form."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoint_objects import facts, named_port, stored_service
from kapi.controlplane.controllers.endpoints.controller import endpoints_of, same_endpoints
from kapi.controlplane.controllers.endpoints.subsets import (
    MAX_ADDRESSES,
    labels_of,
    repacked,
    same_subsets,
    subsets_of,
    truncated,
)


def brief(subsets):
    """Ready and unready addresses and port numbers of each subset."""
    return [
        (
            [address["ip"] for address in subset.get("addresses", ())],
            [address["ip"] for address in subset.get("notReadyAddresses", ())],
            sorted(port["port"] for port in subset.get("ports", ())),
        )
        for subset in subsets
    ]


@pytest.mark.parametrize(
    ("pod", "spec", "expected"),
    [
        pytest.param({}, {}, [(["10.1.0.1"], [], [8080])], id="ready"),
        pytest.param({"is_ready": False}, {}, [([], ["10.1.0.1"], [8080])], id="not ready"),
        pytest.param({"is_terminating": True}, {}, [], id="ends"),
        pytest.param({"is_terminal": True}, {}, [], id="has ended"),
        pytest.param({"addresses": ()}, {}, [], id="no address"),
        pytest.param(
            {"is_ready": False, "is_terminating": True},
            {"publishNotReadyAddresses": True},
            [(["10.1.0.1"], [], [8080])],
            id="published",
        ),
        pytest.param({"node": "gone"}, {}, [(["10.1.0.1"], [], [8080])], id="nodes do not matter"),
        pytest.param({}, {"clusterIP": "None", "ports": []}, [(["10.1.0.1"], [], [])], id="headless without ports"),
        pytest.param({}, {"ports": [{"port": 80, "protocol": "TCP", "targetPort": "x"}]}, [], id="no such port"),
    ],
)
def test_addresses_by_readiness_and_termination(pod, spec, expected):
    assert brief(subsets_of(stored_service(**spec), [facts()._replace(**pod)])) == expected


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        ({"ipFamilies": ["IPv4", "IPv6"]}, "10.1.0.1"),
        ({"ipFamilies": ["IPv6", "IPv4"]}, "2001:db8::1"),
        ({"ipFamilies": [], "clusterIP": "2001:db8::99"}, "2001:db8::1"),
        ({"ipFamilies": [], "clusterIP": "None"}, "10.1.0.1"),
    ],
    ids=str,
)
def test_addresses_are_of_the_first_family(spec, address):
    [subset] = subsets_of(stored_service(**spec), [facts("a", "10.1.0.1", "2001:db8::1")])
    assert [each["ip"] for each in subset["addresses"]] == [address]


def test_an_address_has_the_node_hostname_and_target_of_its_pod():
    service = stored_service("web", ports=[{"name": "http", "port": 80, "protocol": "UDP", "appProtocol": "h"}])
    [subset] = subsets_of(service, [facts(hostname="h", subdomain="web"), facts("b", "10.1.0.2", node="")])
    target = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-a"}
    assert subset == {
        "addresses": [
            {"ip": "10.1.0.1", "hostname": "h", "nodeName": "n1", "targetRef": target},
            {"ip": "10.1.0.2", "targetRef": {**target, "name": "b", "uid": "uid-b"}},
        ],
        "ports": [{"name": "http", "port": 80, "protocol": "UDP", "appProtocol": "h"}],
    }


def test_ports_with_the_same_addresses_share_a_subset():
    ports = [
        {"name": "a", "port": 1, "protocol": "TCP", "targetPort": 1},
        {"name": "b", "port": 2, "protocol": "TCP", "targetPort": 2},
        {"name": "c", "port": 3, "protocol": "TCP", "targetPort": "web"},
    ]
    pods = [
        facts("a", "10.1.0.1", ports=(named_port("web", 8),)),
        facts("b", "10.1.0.2", ports=(named_port("web", 9),)),
        facts("c", "10.1.0.3", is_ready=False),
    ]
    assert sorted(brief(subsets_of(stored_service(ports=ports), pods)), key=lambda subset: subset[2]) == [
        (["10.1.0.1", "10.1.0.2"], ["10.1.0.3"], [1, 2]),
        (["10.1.0.1"], [], [8]),
        (["10.1.0.2"], [], [9]),
    ]


def test_pods_may_share_an_address():
    [subset] = subsets_of(stored_service(), [facts("a", "10.1.0.1"), facts("b", "10.1.0.1")])
    assert [address["targetRef"]["name"] for address in subset["addresses"]] == ["a", "b"]


def test_an_address_that_is_both_ready_and_not_ready_is_not_ready():
    port = [{"port": 1}]
    both = [
        {"addresses": [{"ip": "1.1.1.1"}], "ports": port},
        {"notReadyAddresses": [{"ip": "1.1.1.1"}], "ports": port},
    ]
    for subsets in (both, both[::-1]):
        assert brief(repacked(subsets)) == [([], ["1.1.1.1"], [1])]


def test_addresses_without_ports_are_kept():
    without = [{"addresses": [{"ip": "1.1.1.1"}]}, {"notReadyAddresses": [{"ip": "1.1.1.2"}]}]
    assert repacked(without) == [{"addresses": [{"ip": "1.1.1.1"}], "notReadyAddresses": [{"ip": "1.1.1.2"}]}]


SUBSET = st.builds(
    lambda ready, unready, ports: {
        "addresses": [{"ip": f"10.0.0.{number}"} for number in ready],
        "notReadyAddresses": [{"ip": f"10.0.0.{number}"} for number in unready],
        "ports": [{"name": f"p{number}", "port": number, "protocol": "TCP"} for number in ports],
    },
    st.lists(st.integers(1, 5), max_size=3),
    st.lists(st.integers(1, 5), max_size=3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)


def pairs(subsets):
    """The readiness of each port and address, computed independently."""
    state = {}
    for subset in subsets:
        for port in subset["ports"]:
            for field in ("addresses", "notReadyAddresses"):
                for address in subset.get(field) or ():
                    state.setdefault((port["port"], address["ip"]), set()).add(field == "addresses")
    return {key: all(values) for key, values in state.items()}


@settings(deadline=None)
@given(st.lists(SUBSET, max_size=5), st.randoms())
def test_equal_subsets_have_one_canonical_form(subsets, random):
    form = repacked(subsets)
    assert pairs(form) == pairs(subsets)
    assert repacked(form) == form
    shuffled = subsets[:]
    random.shuffle(shuffled)
    assert repacked(shuffled) == form
    assert same_subsets(shuffled, form)
    sets = [(brief([subset])[0][:2]) for subset in form]
    assert all(sets.count(each) == 1 for each in sets)


def test_resource_versions_of_targets_are_not_compared():
    def subset(version, uid="u"):
        return [{"addresses": [{"ip": "1.1.1.1", "targetRef": {"uid": uid, "resourceVersion": version}}]}]

    assert same_subsets(subset("1"), subset("2"))
    assert not same_subsets(subset("1"), subset("1", "other"))


# -- capacity ----------------------------------------------------------------------------------------------------------


def filled(*counts):
    return [
        {
            "addresses": [{"ip": f"10.{index}.{n // 250}.{n % 250}"} for n in range(ready)],
            "notReadyAddresses": [{"ip": f"11.{index}.{n // 250}.{n % 250}"} for n in range(unready)],
            "ports": [{"port": index + 1}],
        }
        for index, (ready, unready) in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("counts", "left"),
    [
        ([(600, 400)], [(600, 400)]),
        ([(600, 900)], [(600, 400)]),
        ([(1200, 300)], [(1000, 0)]),
        ([(900, 0), (600, 100)], [(600, 0), (400, 0)]),
        ([(100, 600), (100, 1000)], [(100, 300), (100, 500)]),
        ([(1999, 0), (1, 0), (1, 5)], [(1000, 0)]),
    ],
    ids=str,
)
def test_more_than_a_thousand_addresses_are_truncated(counts, left):
    cut, is_less = truncated(filled(*counts))
    found = [(len(subset.get("addresses", ())), len(subset.get("notReadyAddresses", ()))) for subset in cut]
    assert found == left
    assert is_less == (counts != left)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), max_size=4))
def test_truncation_keeps_at_most_a_thousand_and_ready_ones_first(counts):
    cut, is_less = truncated(filled(*counts))
    ready = sum(len(subset.get("addresses", ())) for subset in cut)
    total = ready + sum(len(subset.get("notReadyAddresses", ())) for subset in cut)
    assert total == min(sum(map(sum, counts)), MAX_ADDRESSES) if is_less else total <= MAX_ADDRESSES
    assert ready == min(sum(first for first, _ in counts), MAX_ADDRESSES)


def test_truncated_endpoints_have_the_annotation_and_compare_equal():
    service = stored_service()
    pods = [facts(f"p{n}", f"10.1.{n // 250}.{n % 250 + 1}") for n in range(1200)]
    made = endpoints_of(service, subsets_of(service, pods), None)
    assert made["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert same_endpoints(made, endpoints_of(service, subsets_of(service, pods), made))
    fewer = endpoints_of(service, subsets_of(service, pods[:10]), made)
    assert fewer["metadata"]["annotations"] == {}
    assert not same_endpoints(made, fewer)


@pytest.mark.parametrize(("address", "headless"), [("None", ""), ("10.0.0.1", None)])
def test_labels_are_those_of_the_service(address, headless):
    labels = labels_of(stored_service(clusterIP=address, labels={"a": "b", "service.kubernetes.io/headless": "x"}))
    assert labels.pop("service.kubernetes.io/headless", None) == headless
    assert labels == {"a": "b", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
