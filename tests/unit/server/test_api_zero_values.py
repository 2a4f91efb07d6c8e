"""The fields that kube-apiserver writes for every object, whether the client set them or not."""

import pytest

from api_client import served

CASES = {
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": (
        {"kind": "ResourceClaim", "spec": {}},
        {"spec": {"devices": {"requests": None}}, "status": {}},
    ),
    "/apis/resource.k8s.io/v1/resourceslices": (
        {
            "kind": "ResourceSlice",
            "spec": {"driver": "d.io", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"},
        },
        {
            "spec": {
                "driver": "d.io",
                "pool": {"name": "p", "resourceSliceCount": 1, "generation": 0},
                "nodeName": "n",
            }
        },
    ),
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas": (
        {"kind": "FlowSchema", "spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
        {"status": {}},
    ),
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": (
        {
            "kind": "PriorityLevelConfiguration",
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
        },
        {"status": {}},
    ),
    "/apis/networking.k8s.io/v1/servicecidrs": (
        {"kind": "ServiceCIDR", "spec": {"cidrs": ["10.9.0.0/16"]}},
        {"status": {}},
    ),
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": (
        {
            "kind": "ValidatingAdmissionPolicy",
            "spec": {
                "validations": [{"expression": "true"}],
                "matchConstraints": {
                    "resourceRules": [
                        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
                    ]
                },
            },
        },
        {"status": {}},
    ),
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers": (
        {
            "kind": "HorizontalPodAutoscaler",
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "D", "name": "d"}, "maxReplicas": 2},
        },
        {"status": {"currentMetrics": None, "desiredReplicas": 0}},
    ),
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": (
        {
            "kind": "HorizontalPodAutoscaler",
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "D", "name": "d"}, "maxReplicas": 2},
        },
        {"status": {"currentReplicas": 0, "desiredReplicas": 0}},
    ),
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles": ({"kind": "Role"}, {"rules": None}),
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": ({"kind": "ClusterRole", "rules": []}, {"rules": None}),
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": (
        {"kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
        {"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}], "ports": None},
    ),
    "/apis/apps/v1/namespaces/default/controllerrevisions": (
        {"kind": "ControllerRevision", "data": {"a": 1}},
        {"revision": 0},
    ),
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": ({"kind": "Lease"}, {"spec": {}}),
    "/apis/scheduling.k8s.io/v1/priorityclasses": ({"kind": "PriorityClass"}, {"value": 0}),
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": (
        {"kind": "PodDisruptionBudget"},
        {
            "spec": {},
            "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
        },
    ),
    "/api/v1/namespaces/default/events": (
        {"kind": "Event", "involvedObject": {"namespace": "default"}},
        {
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": None,
            "reportingComponent": "",
            "reportingInstance": "",
        },
    ),
}


@pytest.mark.parametrize("path", CASES)
@served
async def test_an_object_has_the_fields_that_are_always_written(api, path):
    sent, expected = CASES[path]
    version = path.removeprefix("/apis/").removeprefix("/api/").split("/namespaces/")[0]
    group_version = "/".join(version.split("/")[:2]) if path.startswith("/apis/") else "v1"
    answer = await api.post(path, {"apiVersion": group_version, "metadata": {"name": "a"}, **sent})
    assert answer.status == 201, answer.json
    assert {key: answer[key] for key in expected} == expected
    assert (await api.get(f"{path}/a")).json == answer.json


@served
async def test_a_node_shows_its_empty_status_and_the_times_of_its_conditions(api):
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": status}
    answer = await api.post("/api/v1/nodes", node)
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None}
    assert answer["status"]["conditions"] == [condition]
    assert answer["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert set(answer["status"]["nodeInfo"].values()) == {""}
    assert len(answer["status"]["nodeInfo"]) == 10


@served
async def test_a_json_patch_adds_to_a_status_that_the_client_never_set(api):
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    schema = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "a"},
        "spec": {"priorityLevelConfiguration": {"name": "exempt"}},
    }
    await api.made(path, schema)
    condition = {"type": "Dangling", "status": "True"}
    patch = [{"op": "add", "path": "/status/conditions", "value": [condition]}]
    answer = await api.patch(f"{path}/a/status", patch, "application/json-patch+json")
    assert answer.status == 200, answer.json
    assert answer["status"]["conditions"] == [{**condition, "lastTransitionTime": None}]


@served
async def test_zero_values_are_owned_by_no_manager(api):
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "data": {"a": 1}}
    answer = await api.post(f"{path}?fieldManager=m", revision)
    (entry,) = answer.metadata["managedFields"]
    assert "f:revision" not in entry["fieldsV1"]
