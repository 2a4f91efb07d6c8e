from __future__ import annotations

import pytest
from kind_support import create_errors, created, status_errors, thing, update_errors

from kapi.registry.kinds.coordination import LeaseStrategy
from kapi.registry.kinds.core.nodes import NodeStrategy
from kapi.registry.kinds.node import RuntimeClassStrategy

NODE = NodeStrategy()
RUNTIME = RuntimeClassStrategy()
LEASE = LeaseStrategy()


def test_node_registers_with_its_status():
    obj, errors = created(NODE, thing(status={"capacity": {"cpu": "4"}}))
    assert errors == []
    assert obj["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}, []),
        ({"taints": [{"key": "a"}]}, ["metadata.taints[0].effect: Required value"]),
        (
            {"taints": [{"key": "a", "effect": "X"}]},
            [
                (
                    'metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", "PreferNoSchedule", '
                    '"NoExecute"'
                )
            ],
        ),
        (
            {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "value": "b", "effect": "NoExecute"}]},
            [
                (
                    'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"b","Effect":"NoExecute","TimeAdded":null}: '
                    "taints must be unique by key and effect pair"
                )
            ],
        ),
        (
            {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]},
            [
                (
                    'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: '
                    "may specify no more than one CIDR for each IP family"
                )
            ],
        ),
        ({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, []),
        (
            {"podCIDRs": ["10.0.0.1/24"]},
            ['spec.podCIDRs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length'],
        ),
    ],
)
def test_node_rules(spec, wrong):
    assert create_errors(NODE, thing(spec=spec)) == wrong


def test_node_network_and_provider_are_set_once():
    old = thing(spec={"podCIDRs": ["10.0.0.0/24"], "providerID": "x"})
    assert update_errors(NODE, thing(spec={"podCIDRs": ["10.1.0.0/24"], "providerID": "y"}), old) == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ]
    assert update_errors(NODE, old, thing(spec={})) == []


def test_node_status_addresses_are_distinct():
    address = {"type": "InternalIP", "address": "1.2.3.4"}
    assert status_errors(NODE, thing(status={"addresses": [address, address]}), thing()) == [
        'status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.2.3.4"}'
    ]


def test_node_is_selectable_by_schedulability():
    assert NODE.selectable(thing(spec={"unschedulable": True})) == {"spec.unschedulable": "true"}
    assert NODE.selectable(thing(spec={})) == {"spec.unschedulable": "false"}


def test_runtime_class_handler_is_required_and_immutable():
    assert create_errors(RUNTIME, thing()) == ["handler: Required value"]
    assert create_errors(RUNTIME, thing(handler="runc")) == []
    assert update_errors(RUNTIME, thing(handler="b"), thing(handler="a")) == [
        'handler: Invalid value: "b": field is immutable'
    ]
    toleration = {"key": "a", "operator": "Exists"}
    (error,) = create_errors(RUNTIME, thing(handler="a", scheduling={"tolerations": [toleration, toleration]}))
    assert error.startswith("scheduling.tolerations[1]: Duplicate value: ")
    selector = {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    assert RUNTIME.warnings(thing(handler="a", scheduling=selector), None) == [
        'scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead'
    ]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        ({"leaseDurationSeconds": 15, "leaseTransitions": 0, "holderIdentity": "a"}, []),
        ({"leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
        ({"leaseTransitions": -1}, ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"preferredHolder": "a"},
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
        ),
        (
            {"strategy": "X"},
            ['spec.strategy.strategy: Unsupported value: "X": supported values: "OldestEmulationVersion"'],
        ),
    ],
)
def test_lease_rules(spec, wrong):
    assert create_errors(LEASE, thing(spec=spec)) == wrong
