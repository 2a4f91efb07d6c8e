"""A worked example for every kind: the object as it is stored, and the row it makes. No part of it may be missed."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.registry.tables import table_for

NOW = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)
META = {"name": "x", "creationTimestamp": "2026-05-04T11:58:30Z"}
DELETED = {**META, "deletionTimestamp": "2026-05-04T11:59:00Z"}
AGE = "90s"
TEMPLATE = {
    "metadata": {"labels": {"b": "2", "a": "1"}},
    "spec": {
        "containers": [{"name": "web", "image": "nginx:1"}, {"name": "log", "image": "fluent"}],
        "nodeSelector": {"disk": "ssd"},
    },
}
CONTAINERS = ["web,log", "nginx:1,fluent"]
SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}],
}
SELECTED = "app=web,tier in (a,b)"
SELECTOR_DUMP = (
    "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{"
    "LabelSelectorRequirement{Key:tier,Operator:In,Values:[b a],},},}"
)
PARAM_KIND = {"apiVersion": "rules.example.com/v1", "kind": "Limit"}
SUBJECTS = [
    {"kind": "User", "name": "ann"},
    {"kind": "Group", "name": "dev"},
    {"kind": "User", "name": "bob"},
    {"kind": "ServiceAccount", "namespace": "ns", "name": "bot"},
    {"kind": "ServiceAccount", "namespace": "ns", "name": "bot2"},
]
BINDING = {"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": SUBJECTS}
BOUND = ["x", "ClusterRole/view", AGE, "ann, bob", "dev", "ns/bot, ns/bot2"]
WEBHOOKS = {"webhooks": [{"name": "a"}, {"name": "b"}]}
EVENT = {
    "type": "Warning",
    "reason": "BackOff",
    "message": "  Back-off restarting\n",
    "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{web}"},
    "source": {"component": "kubelet", "host": "n1"},
    "firstTimestamp": "2026-05-04T11:00:00Z",
    "lastTimestamp": "2026-05-04T11:59:30Z",
    "count": 7,
}
EVENT_ROW = [
    "30s",
    "Warning",
    "BackOff",
    "pod/p",
    "spec.containers{web}",
    "kubelet, n1",
    "Back-off restarting",
    "60m",
    7,
    "x",
]
ADMISSION = "admissionregistration.k8s.io"
FLOW = "flowcontrol.apiserver.k8s.io"
NETWORK = "networking.k8s.io"
RBAC = "rbac.authorization.k8s.io"
STORAGE = "storage.k8s.io"

EXAMPLES = [
    ("", "namespaces", {"status": {"phase": "Active"}}, ["x", "Active", AGE]),
    ("", "configmaps", {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, ["x", 3, AGE]),
    ("", "secrets", {"type": "Opaque", "data": {"a": ""}}, ["x", "Opaque", 1, AGE]),
    ("", "serviceaccounts", {}, ["x", AGE]),
    ("", "limitranges", {}, ["x", "2026-05-04T11:58:30Z"]),
    ("", "events", EVENT, EVENT_ROW),
    ("events.k8s.io", "events", EVENT, EVENT_ROW),
    (
        "",
        "componentstatuses",
        {"conditions": [{"type": "Healthy", "status": "False", "message": "no answer", "error": "refused"}]},
        ["x", "Unhealthy", "no answer", "refused"],
    ),
    ("", "podtemplates", {"template": TEMPLATE}, ["x", *CONTAINERS, "a=1,b=2"]),
    (
        "",
        "services",
        {
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.0.0.9",
                "clusterIPs": ["10.0.0.9", "fd00::9"],
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                "selector": {"tier": "web", "app": "x"},
            }
        },
        ["x", "NodePort", "10.0.0.9", "<none>", "80:30080/TCP,53/UDP", AGE, "app=x,tier=web"],
    ),
    (
        "",
        "endpoints",
        {
            "subsets": [
                {"addresses": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 443}]},
            ]
        },
        ["x", "10.1.0.1:80,[fd00::1]:80,10.1.0.1:443 + 1 more...", AGE],
    ),
    (
        "",
        "nodes",
        {
            "metadata": {**META, "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                "addresses": [
                    {"type": "Hostname", "address": "n1"},
                    {"type": "InternalIP", "address": "192.0.2.1"},
                    {"type": "InternalIP", "address": "192.0.2.2"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.4",
                    "osImage": "Debian 13",
                    "kernelVersion": "6.12",
                    "architecture": "arm64",
                    "containerRuntimeVersion": "containerd://2.1",
                },
            },
        },
        [
            "x",
            "Ready,SchedulingDisabled",
            "edge,worker",
            AGE,
            "v1.36.4",
            "192.0.2.1",
            "<none>",
            "Debian 13",
            "6.12 (arm64)",
            "containerd://2.1",
        ],
    ),
    (
        "",
        "persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1024Mi"},
                "accessModes": ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "ns", "name": "data"},
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Failed", "reason": "RecycleError"},
        },
        [
            "x",
            "1Gi",
            "RWO,ROX,RWX,RWOP",
            "Retain",
            "Failed",
            "ns/data",
            "fast",
            "<unset>",
            "RecycleError",
            AGE,
            "Filesystem",
        ],
    ),
    (
        "",
        "persistentvolumeclaims",
        {
            "spec": {
                "volumeName": "pv1",
                "storageClassName": "fast",
                "volumeMode": "Block",
                "volumeAttributesClassName": "gold",
                "resources": {"requests": {"storage": "5Gi"}},
            },
            "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"]},
        },
        ["x", "Bound", "pv1", "10Gi", "RWO", "fast", "gold", AGE, "Block"],
    ),
    (
        "",
        "replicationcontrollers",
        {
            "spec": {"replicas": 3, "selector": {"app": "x"}, "template": TEMPLATE},
            "status": {"replicas": 2, "readyReplicas": 1},
        },
        ["x", 3, 2, 1, AGE, *CONTAINERS, "app=x"],
    ),
    (
        "",
        "resourcequotas",
        {
            "status": {
                "hard": {"pods": "10", "requests.cpu": "2000m", "limits.memory": "4096Mi", "limits": "1"},
                "used": {"pods": "3", "limits.memory": "1Gi"},
            }
        },
        ["x", "limits: 0/1, pods: 3/10, requests.cpu: 0/2", "limits.memory: 1Gi/4Gi", AGE],
    ),
    (
        "apps",
        "deployments",
        {
            "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        },
        ["x", "2/3", 3, 1, AGE, *CONTAINERS, SELECTED],
    ),
    (
        "apps",
        "replicasets",
        {"spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}, "status": {"replicas": 3}},
        ["x", 3, 3, 0, AGE, *CONTAINERS, SELECTED],
    ),
    (
        "apps",
        "statefulsets",
        {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"readyReplicas": 2}},
        ["x", "2/3", AGE, *CONTAINERS],
    ),
    (
        "apps",
        "daemonsets",
        {
            "spec": {"selector": SELECTOR, "template": TEMPLATE},
            "status": {
                "desiredNumberScheduled": 5,
                "currentNumberScheduled": 4,
                "numberReady": 3,
                "updatedNumberScheduled": 2,
                "numberAvailable": 1,
            },
        },
        ["x", 5, 4, 3, 2, 1, "disk=ssd", AGE, *CONTAINERS, SELECTED],
    ),
    (
        "apps",
        "controllerrevisions",
        {
            "metadata": {
                **META,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "p"},
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True},
                ],
            },
            "revision": 4,
        },
        ["x", "statefulset.apps/db", 4, AGE],
    ),
    (
        "batch",
        "jobs",
        {
            "spec": {"completions": 3, "selector": SELECTOR, "template": TEMPLATE},
            "status": {
                "succeeded": 3,
                "startTime": "2026-05-04T11:50:00Z",
                "completionTime": "2026-05-04T11:53:20Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        },
        ["x", "Complete", "3/3", "3m20s", AGE, *CONTAINERS, SELECTED],
    ),
    (
        "batch",
        "cronjobs",
        {
            "spec": {
                "schedule": "*/5 * * * *",
                "timeZone": "Europe/Berlin",
                "suspend": False,
                "jobTemplate": {"spec": {"template": TEMPLATE, "selector": SELECTOR}},
            },
            "status": {"active": [{"name": "j"}], "lastScheduleTime": "2026-05-04T11:55:00Z"},
        },
        ["x", "*/5 * * * *", "Europe/Berlin", "False", 1, "5m", AGE, *CONTAINERS, SELECTED],
    ),
    (
        "policy",
        "poddisruptionbudgets",
        {"spec": {"minAvailable": 0}, "status": {"disruptionsAllowed": 2}},
        ["x", "0", "N/A", 2, AGE],
    ),
    ("policy", "poddisruptionbudgets", {"spec": {"maxUnavailable": "25%"}}, ["x", "N/A", "25%", 0, AGE]),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        {
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                "minReplicas": 2,
                "maxReplicas": 9,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                    }
                ],
            },
            "status": {
                "currentReplicas": 4,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10}}}
                ],
            },
        },
        ["x", "Deployment/web", "cpu: 10%/50%", "2", 9, 4, AGE],
    ),
    (
        NETWORK,
        "ingresses",
        {
            "spec": {
                "ingressClassName": "nginx",
                "rules": [{"host": "a.example"}, {"host": "b.example"}],
                "tls": [{"hosts": ["a.example"]}],
            },
            "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}, {"ip": "192.0.2.1"}, {}]}},
        },
        ["x", "nginx", "a.example,b.example", "192.0.2.1,lb.example", "80, 443", AGE],
    ),
    (
        NETWORK,
        "ingressclasses",
        {
            "metadata": {**META, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            "spec": {
                "controller": "example.com/nginx",
                "parameters": {"apiGroup": "k8s.example.com", "kind": "Settings", "name": "main"},
            },
        },
        ["x (default)", "example.com/nginx", "Settings.k8s.example.com/main", AGE],
    ),
    (NETWORK, "networkpolicies", {"spec": {"podSelector": SELECTOR}}, ["x", SELECTED, AGE]),
    (NETWORK, "servicecidrs", {"spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}}, ["x", "10.0.0.0/24,fd00::/112", AGE]),
    (
        NETWORK,
        "ipaddresses",
        {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}},
        ["x", "services/default/kubernetes", AGE],
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        {
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 80}, {"name": "any"}, {}],
            "endpoints": [
                {"addresses": ["10.1.0.1", "10.1.0.2"]},
                {"addresses": ["10.1.0.3"]},
                {"addresses": ["10.1.0.4"]},
            ],
        },
        ["x", "IPv4", "80,any,*", "10.1.0.1,10.1.0.2,10.1.0.3 + 1 more...", AGE],
    ),
    (RBAC, "rolebindings", BINDING, BOUND),
    (RBAC, "clusterrolebindings", BINDING, BOUND),
    (RBAC, "clusterroles", {"rules": []}, ["x", "2026-05-04T11:58:30Z"]),
    (
        STORAGE,
        "storageclasses",
        {
            "metadata": {**META, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "disk.example.com",
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
        },
        ["x (default)", "disk.example.com", "Retain", "WaitForFirstConsumer", True, AGE],
    ),
    (
        STORAGE,
        "volumeattachments",
        {
            "spec": {"attacher": "disk.example.com", "source": {"persistentVolumeName": "pv1"}, "nodeName": "n1"},
            "status": {"attached": True},
        },
        ["x", "disk.example.com", "pv1", "n1", True, AGE],
    ),
    (
        STORAGE,
        "csidrivers",
        {
            "spec": {
                "attachRequired": False,
                "podInfoOnMount": True,
                "storageCapacity": True,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                "requiresRepublish": True,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            }
        },
        ["x", False, True, True, "a,b", True, "Persistent,Ephemeral", AGE],
    ),
    (STORAGE, "csidrivers", {"spec": {}}, ["x", True, False, False, "<unset>", False, "<none>", AGE]),
    (STORAGE, "csinodes", {"spec": {"drivers": [{"name": "a"}]}}, ["x", 1, AGE]),
    (STORAGE, "volumeattributesclasses", {"driverName": "disk.example.com"}, ["x", "disk.example.com", AGE]),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        {"value": -5, "globalDefault": True, "preemptionPolicy": "Never"},
        ["x", -5, True, AGE, "Never"],
    ),
    ("coordination.k8s.io", "leases", {"spec": {"holderIdentity": "me"}}, ["x", "me", AGE]),
    ("node.k8s.io", "runtimeclasses", {"handler": "kata"}, ["x", "kata", AGE]),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        {
            "spec": {"signerName": "example.com/signer", "username": "ann", "expirationSeconds": 7200},
            "status": {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "LS0t"},
        },
        ["x", AGE, "example.com/signer", "ann", "120m", "Approved,Issued"],
    ),
    (ADMISSION, "mutatingwebhookconfigurations", WEBHOOKS, ["x", 2, AGE]),
    (ADMISSION, "validatingwebhookconfigurations", WEBHOOKS, ["x", 2, AGE]),
    (
        ADMISSION,
        "validatingadmissionpolicies",
        {"spec": {"paramKind": PARAM_KIND, "validations": [{}, {}]}},
        ["x", 2, "rules.example.com/v1/Limit", AGE],
    ),
    (ADMISSION, "mutatingadmissionpolicies", {"spec": {"mutations": [{}]}}, ["x", 1, "<unset>", AGE]),
    (
        ADMISSION,
        "validatingadmissionpolicybindings",
        {"spec": {"policyName": "p", "paramRef": {"name": "limits", "namespace": "ns"}}},
        ["x", "p", "ns/limits", AGE],
    ),
    (
        ADMISSION,
        "mutatingadmissionpolicybindings",
        {"spec": {"policyName": "p", "paramRef": {"selector": SELECTOR}}},
        [
            "x",
            "p",
            SELECTOR_DUMP,
            AGE,
        ],
    ),
    (
        "apiregistration.k8s.io",
        "apiservices",
        {
            "spec": {"service": {"namespace": "ns", "name": "metrics"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
        },
        ["x", "ns/metrics", "False (MissingEndpoints)", AGE],
    ),
    (
        FLOW,
        "flowschemas",
        {
            "spec": {
                "priorityLevelConfiguration": {"name": "system"},
                "matchingPrecedence": 500,
                "distinguisherMethod": {"type": "ByUser"},
            },
            "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
        },
        ["x", "system", 500, "ByUser", AGE, "False"],
    ),
    (
        FLOW,
        "prioritylevelconfigurations",
        {
            "spec": {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 20,
                    "limitResponse": {
                        "type": "Queue",
                        "queuing": {"queues": 128, "handSize": 6, "queueLengthLimit": 50},
                    },
                },
            }
        },
        ["x", "Limited", 20, 128, 6, 50, AGE],
    ),
    ("resource.k8s.io", "resourceclaims", {"status": {"allocation": {}}}, ["x", "allocated", AGE]),
    (
        "resource.k8s.io",
        "resourceslices",
        {"spec": {"nodeName": "n1", "driver": "gpu.example.com", "pool": {"name": "pool-a"}}},
        ["x", "n1", "gpu.example.com", "pool-a", AGE],
    ),
    ("resource.k8s.io", "deviceclasses", {}, ["x", AGE]),
    ("resource.k8s.io", "resourceclaimtemplates", {}, ["x", AGE]),
]
PODS = {
    "metadata": DELETED,
    "spec": {
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        "containers": [{"name": "c"}],
        "readinessGates": [{"conditionType": "g"}],
    },
    "status": {
        "phase": "Running",
        "podIPs": [{"ip": "10.1.0.5"}],
        "conditions": [{"type": "Initialized", "status": "True"}, {"type": "g", "status": "True"}],
        "initContainerStatuses": [{"name": "i", "restartCount": 1, "state": {"terminated": {"exitCode": 1}}}],
        "containerStatuses": [
            {
                "name": "c",
                "restartCount": 2,
                "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-05-04T11:00:00Z"}},
            }
        ],
    },
}


@pytest.mark.parametrize(("group", "resource", "fields", "row"), EXAMPLES, ids=[f"{e[0]}/{e[1]}" for e in EXAMPLES])
def test_an_object_makes_its_row(group, resource, fields, row):
    assert table_for(group, resource).cells({"metadata": META, **fields}, NOW) == row


# -- mutilated objects ------------------------------------------------------------------------------------------------


@st.composite
def mutilated(draw, value):
    """The value with parts of it gone: fields, list entries, whole branches. What is left keeps its type."""
    if isinstance(value, dict):
        return {key: draw(mutilated(each)) for key, each in value.items() if draw(st.integers(0, 5))}
    if isinstance(value, list):
        return [draw(mutilated(each)) for each in value if draw(st.integers(0, 5))]
    return value


WHOLE = [(group, resource, {"metadata": META, **fields}) for group, resource, fields, _ in EXAMPLES]
WHOLE.append(("", "pods", PODS))


@given(st.sampled_from(WHOLE).flatmap(lambda whole: st.tuples(st.just(whole[:2]), mutilated(whole[2]))))
def test_a_mutilated_object_still_makes_a_row(drawn):
    kind, obj = drawn
    table = table_for(*kind)
    row = table.cells(obj, NOW)
    assert len(row) >= len(table.columns)
    assert all(isinstance(cell, str | int) for cell in row), row
    assert isinstance(table.conditions(obj), list)


@pytest.mark.parametrize("whole", WHOLE, ids=[f"{each[0]}/{each[1]}" for each in WHOLE])
def test_nothing_at_all_still_makes_a_row(whole):
    assert table_for(*whole[:2]).cells({}, NOW)
