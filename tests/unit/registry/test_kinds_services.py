from __future__ import annotations

import copy

import pytest
from kind_support import ServiceCluster, a_write, create_errors, created, status_errors, thing, updated

from kapi.api.errors import InternalError, Invalid

PORT = [{"port": 80}]


def test_plain_service_gets_all_its_defaults():
    obj = ServiceCluster().create({"ports": PORT, "selector": {"a": "b"}})
    address = obj["spec"].pop("clusterIP")
    assert address.startswith("10.0.0.")
    assert obj["spec"] == {
        "clusterIPs": [address],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "selector": {"a": "b"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    assert obj["status"] == {"loadBalancer": {}}


def test_node_port_service_gets_a_port_and_a_policy():
    spec = ServiceCluster().create({"ports": PORT, "type": "NodePort"})["spec"]
    assert spec["externalTrafficPolicy"] == "Cluster"
    assert 30000 <= spec["ports"][0]["nodePort"] <= 32767


def test_one_number_in_two_protocols_shares_a_node_port():
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "x", "port": 54}]
    given = ServiceCluster().create({"ports": ports, "type": "NodePort"})["spec"]["ports"]
    assert given[0]["nodePort"] == given[1]["nodePort"] != given[2]["nodePort"]


def test_local_load_balancer_gets_a_health_check_port():
    cluster = ServiceCluster()
    spec = cluster.create({"ports": PORT, "type": "LoadBalancer", "externalTrafficPolicy": "Local"})["spec"]
    assert spec["healthCheckNodePort"] in cluster.ports
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    assert spec["allocateLoadBalancerNodePorts"] is True


def test_load_balancer_may_do_without_node_ports():
    spec = {"ports": PORT, "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
    assert "nodePort" not in ServiceCluster().create(spec)["spec"]["ports"][0]


def test_headless_services_allocate_nothing():
    spec = ServiceCluster().create({"clusterIP": "None", "selector": {"a": "b"}})["spec"]
    assert spec["clusterIPs"] == ["None"]
    assert spec["ipFamilies"] == ["IPv4"]
    without_selector = ServiceCluster().create({"clusterIP": "None"})["spec"]
    assert without_selector["ipFamilyPolicy"] == "RequireDualStack"
    assert without_selector["ipFamilies"] == ["IPv4", "IPv6"]


def test_external_name_has_no_addresses():
    spec = ServiceCluster().create({"type": "ExternalName", "externalName": "example.com"})["spec"]
    assert spec == {"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("1.2.3.4", "the provided network does not match the current range"),
        ("10.0.0.1", "provided IP is already allocated"),
        ("10.0.0.7", "provided IP is already allocated"),
    ],
)
def test_refused_addresses(address, why):
    cluster = ServiceCluster()
    cluster.create({"ports": PORT, "clusterIP": "10.0.0.7"}, "first")
    with pytest.raises(Invalid) as refused:
        cluster.create({"ports": PORT, "clusterIP": address}, "s2")
    text = f'spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: {why}'
    assert refused.value.message == f'Service "s2" is invalid: {text}'


def test_refused_node_ports():
    cluster = ServiceCluster()
    cluster.create({"ports": [{"port": 80, "nodePort": 30080}], "type": "NodePort"})
    for port, why in (
        (30080, "provided port is already allocated"),
        (80, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
    ):
        with pytest.raises(Invalid) as refused:
            cluster.create({"ports": [{"port": 80, "nodePort": port}], "type": "NodePort"}, "b")
        text = f"spec.ports[0].nodePort: Invalid value: {port}: {why}"
        assert refused.value.message == f'Service "b" is invalid: {text}'


def test_an_invalid_service_allocates_nothing():
    cluster = ServiceCluster()
    cluster.create({"ports": [{"port": 80, "nodePort": 30080}], "type": "NodePort"})
    taken = cluster.addresses
    with pytest.raises(Invalid):
        cluster.create({"ports": [{"port": 80, "nodePort": 30080}], "type": "NodePort"}, "b")
    assert cluster.addresses == taken
    assert cluster.records.pending == set()


def test_a_failed_commit_leaves_the_object_alone_and_nothing_pending():
    cluster = ServiceCluster()
    obj, _ = created(cluster.strategy, thing(spec={"ports": PORT, "type": "NodePort"}))
    before = copy.deepcopy(obj)
    companions = cluster.strategy.commit_with(a_write(), obj, None)
    assert companions.obj["spec"]["clusterIP"]
    assert obj == before
    assert cluster.records.pending == {one.key for one in companions.operations}
    companions.done(False)
    assert cluster.records.pending == set()


def test_a_full_range_is_an_internal_error():
    cluster = ServiceCluster(("10.0.0.0/30",))
    cluster.create({"ports": PORT})
    with pytest.raises(InternalError) as full:
        cluster.create({"ports": PORT}, "b")
    text = 'failed to allocate a serviceIP for Service "b": range is full'
    assert full.value.message == f"Internal error occurred: {text}"


def test_the_api_servers_own_service_has_the_first_address():
    cluster = ServiceCluster()
    spec = cluster.create({"ports": PORT, "clusterIP": "10.0.0.1"}, "kubernetes")["spec"]
    assert spec["clusterIPs"] == ["10.0.0.1"]


def test_a_deleted_service_releases_everything():
    cluster = ServiceCluster()
    service = cluster.create({"ports": PORT, "type": "NodePort"})
    spec = service["spec"]
    assert spec["clusterIP"] in cluster.addresses
    cluster.delete(service)
    assert spec["clusterIP"] not in cluster.addresses
    assert spec["ports"][0]["nodePort"] not in cluster.ports


# -- updates ----------------------------------------------------------------------------------------------------------


def test_an_update_that_leaves_allocated_values_out_keeps_them():
    cluster = ServiceCluster()
    old = cluster.create({"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}], "type": "NodePort"})
    ports = [{"name": "b", "port": 82}, {"name": "a", "port": 80}]
    new = cluster.update(old, {"ports": ports, "type": "NodePort"})
    assert new["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert [port["nodePort"] for port in new["spec"]["ports"]] == [
        old["spec"]["ports"][1]["nodePort"],
        old["spec"]["ports"][0]["nodePort"],
    ]


def test_becoming_cluster_ip_releases_node_ports():
    cluster = ServiceCluster()
    old = cluster.create({"ports": PORT, "type": "NodePort"})
    port = old["spec"]["ports"][0]["nodePort"]
    new = cluster.update(old, {**copy.deepcopy(old["spec"]), "type": "ClusterIP"})
    assert "nodePort" not in new["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in new["spec"]
    assert port not in cluster.ports


def test_becoming_external_name_releases_the_address_and_coming_back_takes_a_new_one():
    cluster = ServiceCluster()
    old = cluster.create({"ports": PORT})
    address = old["spec"]["clusterIP"]
    external = cluster.update(old, {**copy.deepcopy(old["spec"]), "type": "ExternalName", "externalName": "x.y"})
    dropped = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"}
    assert not dropped & set(external["spec"])
    assert address not in cluster.addresses
    back = cluster.update(external, {**copy.deepcopy(external["spec"]), "type": "ClusterIP"})
    assert back["spec"]["clusterIP"] in cluster.addresses


def test_an_unchanged_service_is_a_no_op():
    cluster = ServiceCluster()
    spec = {"ports": PORT, "type": "LoadBalancer", "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}
    old = cluster.create(spec)
    new, errors = updated(cluster.strategy, copy.deepcopy(old), old)
    assert errors == []
    assert new == old


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (
            {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]},
            ['spec.clusterIPs[0]: Invalid value: ["10.0.0.9"]: may not change once set'],
        ),
        ({"clusterIP": "10.0.0.9"}, ['spec.clusterIPs[0]: Invalid value: ["10.0.0.9"]: may not change once set']),
        (
            {"clusterIP": "None", "clusterIPs": ["None"]},
            ['spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'],
        ),
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            [
                (
                    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
                    "this cluster is not configured for dual-stack services"
                )
            ],
        ),
        (
            {"ipFamilies": ["IPv6"]},
            ['spec.clusterIPs[0]: Invalid value: "10.0.0.7": expected an IPv6 value as indicated by `ipFamilies[0]`'],
        ),
    ],
)
def test_addresses_and_families_are_immutable(change, wrong):
    cluster = ServiceCluster()
    old = cluster.create({"ports": PORT, "clusterIP": "10.0.0.7"})
    wanted = {**old, "spec": {**copy.deepcopy(old["spec"]), **change}}
    assert updated(cluster.strategy, wanted, old)[1] == wrong


def test_class_and_health_check_port_are_immutable():
    cluster = ServiceCluster()
    spec = {
        "ports": PORT,
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "loadBalancerClass": "example.com/a",
    }
    old = cluster.create({**spec, "healthCheckNodePort": 31000})
    change = {"loadBalancerClass": "example.com/b", "healthCheckNodePort": 31001}
    wanted = {**old, "spec": {**copy.deepcopy(old["spec"]), **change}}
    assert updated(cluster.strategy, wanted, old)[1] == [
        'spec.loadBalancerClass: Invalid value: "example.com/b": may not change once set',
        "spec.healthCheckNodePort: Forbidden: field is immutable",
    ]


# -- validation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 80}, {"port": 81}]},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        (
            {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]},
            ['spec.ports[1].name: Duplicate value: "a"'],
        ),
        ({"ports": [{"port": 0}]}, [
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ]),
        (
            {"ports": [{"port": 80, "targetPort": "a_b", "protocol": "X"}]},
            [
                'spec.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
                'spec.ports[0].targetPort: Invalid value: "a_b": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
            ],
        ),
        (
            {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]},
            [
                ('spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,'
                '"TargetPort":0,"NodePort":0}')
            ],
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30000}]},
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        ({"ports": PORT, "type": "X"}, ['spec.type: Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"']),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"type": "ExternalName", "externalName": "x.y", "clusterIP": "10.0.0.5"},
            ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
        (
            {"ports": PORT, "type": "NodePort", "clusterIP": "None"},
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        ),
        (
            {"ports": PORT, "clusterIP": "x"},
            ['spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'],
        ),
        (
            {"ports": PORT, "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.6"]},
            ['spec.clusterIPs: Invalid value: ["10.0.0.6"]: first value must match `clusterIP`'],
        ),
        (
            {"ports": PORT, "clusterIPs": ["10.0.0.6"]},
            ['spec.clusterIPs: Invalid value: ["10.0.0.6"]: must be empty when `clusterIP` is not specified'],
        ),
        (
            {"ports": PORT, "ipFamilies": ["IPv6"]},
            ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'],
        ),
        (
            {"ports": PORT, "ipFamilies": ["IPv4", "IPv6"]},
            [
                ("spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' "
                "when multiple IP families are specified")
            ],
        ),
        (
            {"ports": PORT, "sessionAffinity": "X"},
            ['spec.sessionAffinity: Unsupported value: "X": supported values: "ClientIP", "None"'],
        ),
        (
            {"ports": PORT, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}},
            [
                ("spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: "
                "must be greater than 0 and less than 86400")
            ],
        ),
        (
            {"ports": PORT, "externalIPs": ["127.0.0.1"]},
            ['spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'],
        ),
        (
            {"ports": PORT, "loadBalancerSourceRanges": ["10.0.0.0/8"]},
            ["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
        (
            {"ports": PORT, "type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]},
            ['spec.LoadBalancerSourceRanges[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'],
        ),
        (
            {"ports": PORT, "allocateLoadBalancerNodePorts": True, "loadBalancerClass": "a/b"},
            [
                "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ],
        ),
        (
            {"ports": PORT, "externalTrafficPolicy": "Local"},
            ['spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'],
        ),
        (
            {"ports": PORT, "healthCheckNodePort": 30000},
            [
                ("spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and "
                "`externalTrafficPolicy` is 'Local'")
            ],
        ),
        (
            {"ports": PORT, "internalTrafficPolicy": "X"},
            ['spec.internalTrafficPolicy: Unsupported value: "X": supported values: "Cluster", "Local"'],
        ),
        (
            {"ports": PORT, "trafficDistribution": "X"},
            [
                ('spec.trafficDistribution: Unsupported value: "X": supported values: "PreferClose", "PreferSameZone", '
                '"PreferSameNode"')
            ],
        ),
    ],
)  # fmt: skip
def test_service_rules(spec, wrong):
    assert create_errors(ServiceCluster().strategy, thing(spec=spec)) == wrong


def test_dry_run_shows_placeholders_and_allocates_nothing():
    strategy = ServiceCluster().strategy
    spec = {"ports": PORT, "type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    obj, errors = created(strategy, thing(spec=spec), dry_run=True)
    assert errors == []
    assert obj["spec"]["clusterIP"] == "10.0.0.0"
    assert obj["spec"]["ports"][0]["nodePort"] == 32769
    assert obj["spec"]["healthCheckNodePort"] == 32770


def test_dry_run_refuses_what_allocation_would():
    cluster = ServiceCluster()
    cluster.create({"ports": [{"port": 80, "nodePort": 30080}], "type": "NodePort"})
    spec = {"ports": [{"port": 80, "nodePort": 30080}], "type": "NodePort", "clusterIP": "1.2.3.4"}
    assert create_errors(cluster.strategy, thing("b", spec=spec), dry_run=True) == [
        (
            'spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: '
            "the provided IP (1.2.3.4) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
        ),
        "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
    ]


def test_status_holds_load_balancer_addresses():
    strategy = ServiceCluster().strategy

    def status_problems(kind, *ingress):
        obj = thing(spec={"type": kind}, status={"loadBalancer": {"ingress": list(ingress)}})
        return status_errors(strategy, obj, thing(spec={"type": kind}))

    assert status_problems("LoadBalancer", {"ip": "1.2.3.4", "ipMode": "VIP"}) == []
    assert status_problems("ClusterIP", {"ip": "1.2.3.4"}) == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]
    assert status_problems("LoadBalancer", {"ip": "1.2.3.4"}, {"hostname": "1.2.3.4"}) == [
        "status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set",
        'status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
    ]


def test_names_warnings_and_fields():
    strategy = ServiceCluster().strategy
    assert strategy.validate_name("1a") == []
    assert strategy.validate_name("a.b") != []
    spec = {
        "type": "ClusterIP",
        "clusterIP": "None",
        "externalName": "x",
        "sessionAffinity": "None",
        "externalIPs": ["1.1.1.1"],
    }
    assert strategy.warnings(thing(spec=spec), None) == [
        "spec.externalIPs is ignored for headless services",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ]
    assert strategy.selectable(thing(spec=spec)) == {"spec.clusterIP": "None", "spec.type": "ClusterIP"}


def test_status_writes_allocate_nothing():
    strategy = ServiceCluster().strategy
    assert strategy.commit_with(a_write(subresource="status"), thing(spec={}), thing(spec={})) is None
