"""Defaulting of pods and templates: what a client reads back after sending the least it can."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import kind_support
import pytest

from kapi.registry.kinds.core.pod.defaults import default_pod_spec, default_pull_policy
from kapi.registry.kinds.core.pod.pods import STRATEGIES, PodStrategy, PodTemplateStrategy

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


class NoLookup:
    def get(self, resource: str, namespace: str, name: str) -> None:
        raise AssertionError("pods need no other objects")

    def list(self, resource: str, namespace: str = "") -> list[Any]:
        raise AssertionError("pods need no other objects")


def a_write():
    return kind_support.a_write(lookup=NoLookup(), now=NOW)


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def created(**spec: Any) -> dict[str, Any]:
    obj = pod(**spec)
    strategy = PodStrategy()
    strategy.default(obj)
    strategy.prepare_create(a_write(), obj)
    return obj


def test_a_minimal_pod_reads_back_with_the_known_defaults():
    assert created() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "enableServiceLinks": True,
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("example.com:5000/team/app", "Always"),
        ("example.com:5000/team/app:v1", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "Always"),
        ("Nginx Image", "IfNotPresent"),
        ("HOST/case", "Always"),
        ("team/App", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str):
    assert default_pull_policy(image) == policy


def test_requests_follow_limits_in_a_pod_but_not_in_a_template():
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    container = {"name": "c", "image": "i", "resources": resources}
    in_pod = created(containers=[copy.deepcopy(container)])
    assert in_pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    spec = {"containers": [copy.deepcopy(container)]}
    default_pod_spec(spec)
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "500m"}


def test_host_network_copies_container_ports_to_the_host():
    ports = [{"containerPort": 80}, {"containerPort": 90, "hostPort": 91}]
    spec = created(hostNetwork=True, containers=[{"name": "c", "image": "i", "ports": ports}])["spec"]
    assert spec["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP", "hostPort": 80},
        {"containerPort": 90, "hostPort": 91, "protocol": "TCP"},
    ]


def test_probes_and_hooks_get_defaults():
    container = {
        "name": "c",
        "image": "i",
        "livenessProbe": {"httpGet": {"port": 80}},
        "readinessProbe": {"grpc": {"port": 9}, "timeoutSeconds": 7},
        "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/bye"}}},
    }
    done = created(containers=[container])["spec"]["containers"][0]
    assert done["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert done["readinessProbe"]["grpc"] == {"port": 9, "service": ""}
    assert done["readinessProbe"]["timeoutSeconds"] == 7
    assert done["lifecycle"]["preStop"]["httpGet"] == {"port": 80, "path": "/bye", "scheme": "HTTP"}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "m"}}, {"configMap": {"name": "m", "defaultMode": 420}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels", "apiVersion": "v1"}}],
                    "defaultMode": 420,
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
        ),
        ({"iscsi": {"lun": 0}}, {"iscsi": {"lun": 0, "iscsiInterface": "default"}}),
        ({"rbd": {"user": "u"}}, {"rbd": {"user": "u", "pool": "rbd", "keyring": "/etc/ceph/keyring"}}),
        ({"scaleIO": {}}, {"scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"}}),
        (
            {"azureDisk": {"readOnly": True}},
            {"azureDisk": {"readOnly": True, "cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared"}},
        ),
        ({"image": {"reference": "a:b"}}, {"image": {"reference": "a:b", "pullPolicy": "IfNotPresent"}}),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"metadata": {}, "spec": {"volumeMode": "Filesystem", "resources": {}}}
                }
            },
        ),
    ],
)
def test_volumes_get_defaults(volume: dict[str, Any], expected: dict[str, Any]):
    spec = created(volumes=[{"name": "v", **volume}])["spec"]
    assert spec["volumes"] == [{"name": "v", **expected}]


def test_the_two_names_of_the_service_account_mirror_each_other():
    assert created(serviceAccount="old")["spec"]["serviceAccountName"] == "old"
    both = created(serviceAccount="old", serviceAccountName="new")["spec"]
    assert (both["serviceAccount"], both["serviceAccountName"]) == ("new", "new")


def test_a_negative_grace_period_becomes_one_in_a_pod_only():
    assert created(terminationGracePeriodSeconds=-5)["spec"]["terminationGracePeriodSeconds"] == 1
    spec = {"containers": [], "terminationGracePeriodSeconds": -5}
    default_pod_spec(spec)
    assert spec["terminationGracePeriodSeconds"] == -5


def test_resources_finer_than_a_thousandth_are_rounded_up():
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500u"}}}
    assert created(containers=[container])["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2m"}


def test_pod_level_requests_come_from_containers_and_else_from_limits():
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec = created(containers=[container], resources={"limits": {"cpu": "1", "memory": "1Gi"}})["spec"]
    assert spec["resources"]["requests"] == {"cpu": "100m", "memory": "1Gi"}


def test_defaulting_twice_changes_nothing():
    obj = created(
        volumes=[{"name": "v", "configMap": {"name": "m"}}],
        containers=[{"name": "c", "image": "i", "livenessProbe": {"tcpSocket": {"port": 1}}}],
    )
    again = copy.deepcopy(obj)
    PodStrategy().default(again)
    assert again == obj


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
    ],
)
def test_quality_of_service(resources: list[dict[str, Any]], quality: str):
    containers = [{"name": f"c{index}", "image": "i", "resources": one} for index, one in enumerate(resources)]
    assert created(containers=containers)["status"]["qosClass"] == quality


def test_a_gated_pod_has_a_scheduling_gated_condition():
    status = created(schedulingGates=[{"name": "example.com/wait"}])["status"]
    assert status["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def test_label_keys_are_merged_into_selectors_once():
    obj = pod(
        topologySpreadConstraints=[{"maxSkew": 1, "labelSelector": {}, "matchLabelKeys": ["app", "absent"]}],
    )
    obj["metadata"]["labels"] = {"app": "web"}
    strategy = PodStrategy()
    for _ in range(2):
        strategy.default(obj)
        strategy.prepare_create(a_write(), obj)
    expected = [{"key": "app", "operator": "In", "values": ["web"]}]
    assert obj["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": expected}


def test_fields_of_switched_off_features_are_dropped_unless_in_use():
    container = {"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}}
    obj = created(containers=[container], schedulingGroup={"podGroupName": "g"})
    assert obj["spec"]["containers"][0]["lifecycle"] == {}
    assert "schedulingGroup" not in obj["spec"]
    new = pod(schedulingGroup={"podGroupName": "g"})
    PodStrategy().prepare_update(a_write(), new, pod(schedulingGroup={"podGroupName": "g"}))
    assert "schedulingGroup" in new["spec"]


def test_a_pod_template_gets_the_defaults_of_templates():
    obj = {"metadata": {"name": "t"}, "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}}
    strategy = PodTemplateStrategy()
    strategy.default(obj)
    assert obj["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert "enableServiceLinks" not in obj["template"]["spec"]
    assert strategy.validate_create(a_write(), obj) == []


def test_strategies_are_listed_by_group_and_kind():
    assert set(STRATEGIES) == {("", "Pod"), ("", "PodTemplate")}
    assert all(strategy.returns_deleted_object and strategy.tracks_generation for strategy in STRATEGIES.values())
