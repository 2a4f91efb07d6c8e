from __future__ import annotations

import pytest
from kind_support import create_errors, created, thing, update_errors

from kapi.registry.kinds.core.endpoints import EndpointsStrategy
from kapi.registry.kinds.discovery import EndpointSliceStrategy

ENDPOINTS = EndpointsStrategy()
SLICE = EndpointSliceStrategy()
HOST = [{"ip": "1.2.3.4"}]


@pytest.mark.parametrize(
    ("subset", "wrong"),
    [
        ({"addresses": HOST, "ports": [{"port": 80}]}, []),
        ({}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
        (
            {"addresses": [{"ip": "x"}]},
            [
                'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address',
            ],
        ),
        (
            {"notReadyAddresses": [{"ip": "169.254.1.1"}]},
            [
                ('subsets[0].notReadyAddresses[0].ip: Invalid value: "169.254.1.1": '
                "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
            ],
        ),
        (
            {"addresses": HOST, "ports": [{"port": 80}, {"port": 81, "name": "b"}]},
            ["subsets[0].ports[0].name: Required value"],
        ),
    ],
)  # fmt: skip
def test_endpoints_rules(subset, wrong):
    assert create_errors(ENDPOINTS, thing(subsets=[subset])) == wrong


def test_endpoints_default_to_tcp_and_stored_mistakes_may_stay():
    obj, _ = created(ENDPOINTS, thing(subsets=[{"addresses": HOST, "ports": [{"port": 80}]}]))
    assert obj["subsets"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    wrong = thing(subsets=[{}])
    assert update_errors(ENDPOINTS, wrong, wrong) == []
    assert update_errors(ENDPOINTS, wrong, thing()) != []


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}]}, []),
        ({}, ["addressType: Required value"]),
        ({"addressType": "X"}, ['addressType: Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6"']),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": []}]},
            ["endpoints[0].addresses: Required value: must contain at least 1 address"],
        ),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}]},
            ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address'],
        ),
        (
            {"addressType": "IPv6", "endpoints": [{"addresses": ["FD00::1"]}]},
            ['endpoints[0].addresses[0]: Invalid value: "FD00::1": must be in canonical form ("fd00::1")'],
        ),
        (
            {"addressType": "FQDN", "endpoints": [{"addresses": ["localhost"]}]},
            [
                (
                    'endpoints[0].addresses[0]: Invalid value: "localhost": '
                    "should be a domain with at least two segments separated by dots"
                )
            ],
        ),
        (
            {"addressType": "IPv4", "ports": [{"port": 80}, {"port": 81}]},
            ['ports[1].name: Duplicate value: ""'],
        ),
        (
            {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}] * 1001},
            ["endpoints: Too many: 1001: must have at most 1000 items"],
        ),
        (
            {
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["1.2.3.4"], "hints": {"forZones": [{"name": "a"}, {"name": "a"}]}}],
            },
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "a"'],
        ),
    ],
)
def test_slice_rules(fields, wrong):
    assert create_errors(SLICE, thing(**fields)) == wrong


def test_slice_defaults_generation_and_type():
    old, _ = created(SLICE, thing(addressType="IPv4", ports=[{"port": 80}], endpoints=[]))
    assert old["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]
    assert update_errors(SLICE, {**old, "addressType": "IPv6"}, old) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]
    relabelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert SLICE.generation_changed(relabelled, old)
    annotated = {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}}}
    assert not SLICE.generation_changed(annotated, old)
    assert SLICE.generation_changed({**old, "ports": []}, old)
    assert SLICE.warnings({**old, "addressType": "FQDN"}, None) == ["spec.addressType: FQDN endpoints are deprecated"]
