from __future__ import annotations

import pytest
from kind_support import all_strategies, assert_idempotent, create_errors, created, status_errors, thing, update_errors

STRATEGIES = all_strategies()
INGRESS, CLASS, POLICY, ADDRESS, RANGE = (
    STRATEGIES["networking.k8s.io", kind]
    for kind in ("Ingress", "IngressClass", "NetworkPolicy", "IPAddress", "ServiceCIDR")
)
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def _rule(**path):
    entry = {"path": "/", "pathType": "Prefix", "backend": BACKEND, **path}
    return {"rules": [{"http": {"paths": [{key: value for key, value in entry.items() if value is not None}]}}]}


PATH = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (_rule(), []),
        ({"defaultBackend": BACKEND}, []),
        ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        (_rule(pathType=None), [f"{PATH}.pathType: Required value: pathType must be specified"]),
        (
            _rule(pathType="X"),
            [f'{PATH}.pathType: Unsupported value: "X": supported values: "Exact", "ImplementationSpecific", "Prefix"'],
        ),
        (_rule(path="a"), [f'{PATH}.path: Invalid value: "a": must be an absolute path']),
        (_rule(path=None, pathType="ImplementationSpecific"), []),
        (_rule(path="//x/.."), [
            f"{PATH}.path: Invalid value: \"//x/..\": must not contain '//'",
            f"{PATH}.path: Invalid value: \"//x/..\": cannot end with '/..'",
        ]),
        (_rule(backend={}), [f'{PATH}.backend: Invalid value: "": resource or service backend is required']),
        (
            _rule(backend={"service": {"name": "s"}}),
            [f"{PATH}.backend: Required value: port name or number is required"],
        ),
        (
            _rule(backend={"service": {"name": "s", "port": {"name": "a", "number": 1}}}),
            [f'{PATH}.backend: Invalid value: "": cannot set both port name & port number'],
        ),
        (
            _rule(backend={**BACKEND, "resource": {"kind": "K", "name": "n"}}),
            [f'{PATH}.backend: Invalid value: "": cannot set both resource and service backends'],
        ),
        ({"rules": [{"http": {}}]}, ["spec.rules[0].http.paths: Required value"]),
        (
            {"rules": [{"host": "1.2.3.4"}]},
            ['spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'],
        ),
        ({"rules": [{"host": "*.example.com"}]}, []),
    ],
)  # fmt: skip
def test_ingress_rules(spec, wrong):
    assert create_errors(INGRESS, thing(spec=spec)) == wrong


def test_ingress_class_annotation_may_not_contradict():
    obj = thing(spec={"defaultBackend": BACKEND, "ingressClassName": "a"})
    obj["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "b"}
    text = "must match `ingressClassName` when both are specified"
    assert create_errors(INGRESS, obj) == [f'annotations.kubernetes.io/ingress.class: Invalid value: "b": {text}']
    assert update_errors(INGRESS, obj, obj) == []
    del obj["spec"]["ingressClassName"]
    assert INGRESS.warnings(obj, None) == [
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    ]


def test_ingress_status_is_a_load_balancers():
    assert created(INGRESS, thing(spec={"defaultBackend": BACKEND}))[0]["status"] == {"loadBalancer": {}}
    obj = thing(status={"loadBalancer": {"ingress": [{"ip": "x"}]}})
    text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    assert status_errors(INGRESS, obj, thing()) == [f'status.loadBalancer.ingress[0].ip: Invalid value: "x": {text}']


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"controller": "example.com/x"}, []),
        ({}, ["spec.controller: Required value"]),
        (
            {"controller": "x"},
            ['spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
        (
            {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}},
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        ),
        (
            {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "namespace": "x"}},
            ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
        ),
    ],
)
def test_ingress_class_rules(spec, wrong):
    assert create_errors(CLASS, thing(spec=spec)) == wrong


def test_ingress_class_controller_is_immutable():
    old = thing(spec={"controller": "a.b/c"})
    assert update_errors(CLASS, thing(spec={"controller": "a.b/d"}), old) == [
        'spec.controller: Invalid value: "a.b/d": field is immutable'
    ]


def test_policy_types_follow_from_the_rules():
    obj, _ = created(POLICY, thing(spec={"ingress": [{"ports": [{"port": 1}]}]}))
    assert obj["spec"]["policyTypes"] == ["Ingress"]
    assert obj["spec"]["ingress"][0]["ports"] == [{"port": 1, "protocol": "TCP"}]
    obj, _ = created(POLICY, thing(spec={"egress": [{}]}))
    assert obj["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert_idempotent(POLICY, thing(spec={"egress": [{}]}))


def _from(**peer):
    return {"ingress": [{"from": [peer]}]}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (_from(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}), []),
        (_from(), ["spec.ingress[0].from[0]: Required value: must specify a peer"]),
        (
            _from(ipBlock={"cidr": "10.0.0.0/8"}, podSelector={}),
            ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
        ),
        (_from(ipBlock={}), ["spec.ingress[0].from[0].ipBlock.cidr: Required value"]),
        (
            _from(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8", "11.0.0.0/16"]}),
            [
                'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
                'spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
            ],
        ),
        (
            {"egress": [{"ports": [{"port": 90, "endPort": 80}]}]},
            ["spec.egress[0].ports[0].endPort: Invalid value: 90: must be greater than or equal to `port`"],
        ),
        (
            {"egress": [{"ports": [{"port": "http", "endPort": 80}, {"endPort": 80}]}]},
            [
                "spec.egress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is non-numeric",
                "spec.egress[0].ports[1].endPort: Invalid value: 80: may not be specified when `port` is not specified",
            ],
        ),
        ({"policyTypes": ["X"]}, ['spec.policyTypes[0]: Unsupported value: "X": supported values: "Ingress", "Egress"']),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
            ['spec.podSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator'],
        ),
    ],
)  # fmt: skip
def test_network_policy_rules(spec, wrong):
    assert create_errors(POLICY, thing(spec=spec)) == wrong


def test_stored_invalid_networks_may_stay():
    old = thing(spec=_from(ipBlock={"cidr": "10.0.0.1/8"}))
    assert update_errors(POLICY, old, old) == []
    assert update_errors(POLICY, old, thing(spec={})) != []


def test_address_record():
    spec = {"parentRef": {"resource": "services", "name": "s", "namespace": "n"}}
    assert create_errors(ADDRESS, thing("10.0.0.1", spec=spec)) == []
    assert create_errors(ADDRESS, thing("10.0.0.1", spec={})) == ["spec.parentRef: Required value"]
    (error,) = update_errors(ADDRESS, thing(spec={"parentRef": {"resource": "x", "name": "y"}}), thing(spec=spec))
    assert error.endswith(": field is immutable")
    assert ADDRESS.validate_name("10.0.0.1") == []
    assert ADDRESS.validate_name("FD00::1") == ['must be in canonical form ("fd00::1")']


@pytest.mark.parametrize(
    ("networks", "wrong"),
    [
        (["10.0.0.0/24"], []),
        (["10.0.0.0/24", "fd00::/64"], []),
        ([], ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            ["10.0.0.0/24", "10.1.0.0/24"],
            [
                (
                    'spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP '
                    "family, i.e 192.168.0.0/24 and 2001:db8::/64"
                )
            ],
        ),
        (["a", "b", "c"], ['spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values']),
    ],
)
def test_service_range_rules(networks, wrong):
    assert create_errors(RANGE, thing(spec={"cidrs": networks})) == wrong


def test_service_range_may_only_gain_a_family():
    old = thing(spec={"cidrs": ["10.0.0.0/24"]})
    assert update_errors(RANGE, thing(spec={"cidrs": ["10.0.0.0/24", "fd00::/64"]}), old) == []
    assert update_errors(RANGE, thing(spec={"cidrs": ["10.1.0.0/24"]}), old) == [
        'spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable'
    ]
    assert update_errors(RANGE, thing(spec={}), old) == ["spec.cidrs: Invalid value: null: field is immutable"]
