"""Programs for admission plug-ins: requests whose answers were recorded from a real kube-apiserver.

Each runs in a namespace of its own, without controllers: the status of quotas and the account `default` are written by
the programs. A step is (method, path, body). The path may be relative to the namespace; `dry` marks a dry run, which
can be repeated until the plug-ins of kube-apiserver have seen the objects that were written before.
"""

import copy
import json
import re

NAMESPACE = "NS"
"""Stands for the namespace, in requests and in answers."""

_ACCOUNT = ("POST", "serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})


def account(name, **fields):
    return (
        "POST",
        "serviceaccounts",
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, **fields.pop("metadata", {})},
            **fields,
        },
    )


def container(name="c", **fields):
    return {"name": name, "image": "i", **fields}


def resources(requests=None, limits=None):
    return {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}


def pod(name="p", *containers, metadata=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def create_pod(*args, **fields):
    return ("POST", "pods", pod(*args, **fields))


def dry(step):
    method, path, body = step
    return (method, f"{path}{'&' if '?' in path else '?'}dryRun=All", body)


def quota(name, hard, used=None, **spec):
    """The creation of a quota and of its status, with nothing used."""
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    status = {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")}
    return [
        ("POST", "resourcequotas", body),
        ("PUT", f"resourcequotas/{name}/status", {**body, "status": status}),
    ]


def read_quota(name):
    return ("GET", f"resourcequotas/{name}", None)


def config_map(name):
    return ("POST", "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


def claim(name="claim", size="1Gi", metadata=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec},
    }


def create_claim(*args, **fields):
    return ("POST", "persistentvolumeclaims", claim(*args, **fields))


def service(name, kind, ports=1, **spec):
    return (
        "POST",
        "services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "type": kind,
                "ports": [{"name": f"n{index}", "port": 80 + index} for index in range(ports)],
                **spec,
            },
        },
    )


def limit_range(name, *limits):
    return (
        "POST",
        "limitranges",
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": list(limits)}},
    )


def priority_class(name, value, **fields):
    return (
        "POST",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"{name}-{NAMESPACE}"},
            "value": value,
            **fields,
        },
    )


def storage_class(name, *, annotations=None, **fields):
    return (
        "POST",
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": f"{name}-{NAMESPACE}", "annotations": annotations or {}},
            "provisioner": "example.com/it",
            **fields,
        },
    )


def deleted(step):
    """The deletion of a cluster-scoped object that a step has created: other programs must not see it."""
    _, path, body = step
    return ("DELETE", f"{path}/{body['metadata']['name']}", None)


_SMALL = resources({"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m", "memory": "128Mi"})
_AFFINITY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaces": ["other"]}]
    }
}
_HIGH = priority_class("high", 1000, preemptionPolicy="Never")
_DEFAULT_CLASS = priority_class("standard", 7, globalDefault=True)
_FAST = storage_class("fast", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
_GROWING = storage_class("growing", allowVolumeExpansion=True)
_FIXED = storage_class("fixed")
_MIRROR = {"annotations": {"kubernetes.io/config.mirror": "m"}}
_LIMITED = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "limited"},
    "value": 3,
}
CONFIGURATION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "ResourceQuotaConfiguration",
    "limitedResources": [
        {"resource": "persistentvolumeclaims", "matchContains": ["limited.storageclass.storage.k8s.io/requests"]},
        {
            "resource": "pods",
            "matchScopes": [{"scopeName": "PriorityClass", "operator": "In", "values": ["limited", "other"]}],
        },
    ],
}
"""The configuration of ResourceQuota that all programs run with."""
_BOUND = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


def resize(name, size, storage):
    """The creation of a claim, its binding, and the wish for another size."""
    spec = {"storageClassName": f"{storage}-{NAMESPACE}", "volumeName": "v"}
    bound = {**claim(name, "1Gi", **spec), "status": _BOUND}
    return [
        create_claim(name, "1Gi", **spec),
        ("PUT", f"persistentvolumeclaims/{name}/status", bound),
        ("PUT", f"persistentvolumeclaims/{name}?dryRun=All", claim(name, size, **spec)),
    ]


def resized(name, amounts):
    return ("PATCH", f"pods/{name}/resize", {"spec": {"containers": [{"name": "c", "resources": amounts}]}})


PROGRAMS = {
    "a quota of object counts": [
        *quota("maps", {"count/configmaps": "2", "secrets": "0"}),
        ("POST", "secrets?dryRun=All", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        config_map("a"),
        dry(config_map("b")),
        config_map("b"),
        config_map("c"),
        read_quota("maps"),
        ("POST", "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    ],
    "a quota without a status": [
        (
            "POST",
            "resourcequotas",
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "new"}, "spec": {"hard": {"pods": "0"}}},
        ),
        _ACCOUNT,
        create_pod("free"),
    ],
    "a quota whose usage is unknown": [
        *quota("unknown", {"count/configmaps": "3", "configmaps": "3"}, used={"configmaps": "0"}),
        dry(config_map("a")),
    ],
    "a quota of requests and limits": [
        _ACCOUNT,
        *quota("compute", {"requests.cpu": "300m", "limits.memory": "256Mi", "pods": "3"}),
        dry(create_pod("without")),
        create_pod("two", container("b"), container("a", resources=resources({"cpu": "1"}))),
        create_pod(
            "init", container(resources=_SMALL), initContainers=[container("i", resources=resources({"cpu": "1"}))]
        ),
        create_pod("first", container(resources=_SMALL)),
        create_pod("second", container(resources=_SMALL)),
        create_pod("third", container(resources=_SMALL)),
        read_quota("compute"),
    ],
    "a quota and Pods with resources as a whole": [
        _ACCOUNT,
        *quota("compute", {"requests.cpu": "1", "limits.cpu": "1"}),
        dry(create_pod("much", resources=resources({"cpu": "2"}, {"cpu": "2"}))),
        create_pod("whole", resources=resources({"cpu": "500m"}, {"cpu": "1"})),
        read_quota("compute"),
    ],
    "quotas by scope": [
        _ACCOUNT,
        *quota("best", {"pods": "0"}, scopes=["BestEffort"]),
        *quota("ending", {"pods": "1"}, scopes=["Terminating"]),
        dry(create_pod("besteffort")),
        create_pod("burstable", container(resources=_SMALL)),
        create_pod("ends", container(resources=_SMALL), activeDeadlineSeconds=60),
        create_pod("ends-too", container(resources=_SMALL), activeDeadlineSeconds=60),
        ("PATCH", "pods/burstable", {"spec": {"activeDeadlineSeconds": 30}}),
        read_quota("ending"),
    ],
    "a quota by priority class": [
        _ACCOUNT,
        _HIGH,
        *quota(
            "important",
            {"pods": "0"},
            scopeSelector={
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [f"high-{NAMESPACE}"]}]
            },
        ),
        dry(create_pod("important", priorityClassName=f"high-{NAMESPACE}")),
        create_pod("ordinary"),
        read_quota("important"),
        deleted(_HIGH),
    ],
    "a quota of affinity to other namespaces": [
        _ACCOUNT,
        *quota(
            "affinity",
            {"pods": "0"},
            scopeSelector={"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]},
        ),
        dry(create_pod("elsewhere", affinity=_AFFINITY)),
        create_pod("here"),
    ],
    "two quotas": [
        _ACCOUNT,
        *quota("a", {"pods": "5"}),
        *quota("b", {"count/pods": "1"}),
        dry(create_pod("probe")),
        create_pod("one"),
        create_pod("two"),
        read_quota("a"),
        read_quota("b"),
    ],
    "a quota of services": [
        *quota("net", {"services": "3", "services.nodeports": "2", "services.loadbalancers": "1"}),
        dry(service("ports", "NodePort", 3)),
        service("plain", "ClusterIP"),
        service("balanced", "LoadBalancer"),
        service("balanced-too", "LoadBalancer", allocateLoadBalancerNodePorts=False),
        ("PATCH", "services/plain", {"spec": {"type": "NodePort"}}),
        ("PATCH", "services/plain", {"spec": {"ports": [{"name": "n0", "port": 80}, {"name": "n1", "port": 81}]}}),
        read_quota("net"),
    ],
    "a quota of storage": [
        *quota(
            "storage",
            {
                "requests.storage": "3Gi",
                "persistentvolumeclaims": "2",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            },
        ),
        dry(create_claim("large", "4Gi", storageClassName="")),
        create_claim("gold", "1Gi", storageClassName="gold"),
        create_claim("gold-too", "1Gi", storageClassName="gold"),
        create_claim("plain", "2Gi", storageClassName=""),
        create_claim("third", "1", storageClassName=""),
        read_quota("storage"),
    ],
    "a quota and the growth of claims": [
        _GROWING,
        *quota("storage", {"requests.storage": "3Gi"}),
        dry(create_claim("probe", "4Gi", storageClassName="")),
        *resize("grows", "2Gi", "growing"),
        (
            "PUT",
            "persistentvolumeclaims/grows",
            claim("grows", "3Gi", storageClassName=f"growing-{NAMESPACE}", volumeName="v"),
        ),
        read_quota("storage"),
        (
            "PUT",
            "persistentvolumeclaims/grows",
            claim("grows", "4Gi", storageClassName=f"growing-{NAMESPACE}", volumeName="v"),
        ),
        (
            "PUT",
            "persistentvolumeclaims/grows/status",
            {
                **claim("grows", "3Gi", storageClassName=f"growing-{NAMESPACE}", volumeName="v"),
                "status": {**_BOUND, "allocatedResources": {"storage": "5Gi"}},
            },
        ),
        read_quota("storage"),
        deleted(_GROWING),
    ],
    "a quota of extended resources and huge pages": [
        _ACCOUNT,
        *quota("devices", {"requests.example.com/gpu": "2", "hugepages-2Mi": "4Mi"}),
        dry(
            create_pod(
                "greedy",
                container(resources=resources({"example.com/gpu": "3"}, {"example.com/gpu": "3"})),
            )
        ),
        create_pod(
            "modest",
            container(
                resources=resources(
                    {"example.com/gpu": "1", "hugepages-2Mi": "2Mi", "cpu": "1"},
                    {"example.com/gpu": "1", "hugepages-2Mi": "2Mi", "cpu": "1"},
                )
            ),
        ),
        read_quota("devices"),
    ],
    "a quota by the class of volume attributes": [
        *quota(
            "gold",
            {"persistentvolumeclaims": "0"},
            scopeSelector={
                "matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}]
            },
        ),
        dry(create_claim("gold", storageClassName="", volumeAttributesClassName="gold")),
        create_claim("silver", storageClassName="", volumeAttributesClassName="silver"),
        create_claim("plain", storageClassName=""),
    ],
    "a quota of Pods without a priority class": [
        _ACCOUNT,
        *quota(
            "ordinary",
            {"pods": "0"},
            scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]},
        ),
        dry(create_pod("ordinary")),
        create_pod("critical", priorityClassName="system-cluster-critical"),
    ],
    "the resize of a Pod within limits and a quota": [
        _ACCOUNT,
        *quota("compute", {"requests.cpu": "500m"}),
        limit_range("bounds", {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}),
        dry(create_pod("greedy", container(resources=resources({"cpu": "600m"})))),
        create_pod("grows", container(resources=resources({"cpu": "200m"}, {"cpu": "1"}))),
        resized("grows", {"requests": {"cpu": "400m"}}),
        resized("grows", {"requests": {"cpu": "600m"}}),
        resized("grows", {"limits": {"cpu": "2"}}),
        read_quota("compute"),
    ],
    "storage that is limited by configuration": [
        create_claim("free", "1Gi", storageClassName=""),
        create_claim("uncovered", "1Gi", storageClassName="limited"),
        *quota("covers", {"limited.storageclass.storage.k8s.io/requests.storage": "2Gi"}),
        dry(create_claim("covered", "1Gi", storageClassName="limited")),
        create_claim("large", "3Gi", storageClassName="limited"),
    ],
    "a scope that is limited by configuration": [
        _ACCOUNT,
        ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", _LIMITED),
        dry(create_pod("uncovered", priorityClassName="limited")),
        *quota(
            "covers",
            {"pods": "1"},
            scopeSelector={
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["limited"]}]
            },
        ),
        dry(create_pod("covered", priorityClassName="limited")),
        ("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/limited", None),
    ],
    "container defaults of a LimitRange": [
        _ACCOUNT,
        limit_range(
            "defaults",
            {"type": "Container", "default": {"cpu": "200m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}},
        ),
        dry(create_pod("probe")),
        create_pod("empty", container("a"), container("b", resources=resources({"cpu": "50m"}))),
        create_pod("full", container(resources=resources({"cpu": "50m", "memory": "1"}, {"cpu": "1", "memory": "2"}))),
        create_pod("init", container(), initContainers=[container("i")], metadata={"annotations": {"a": "b"}}),
    ],
    "container bounds of a LimitRange": [
        _ACCOUNT,
        limit_range(
            "bounds",
            {
                "type": "Container",
                "min": {"cpu": "100m"},
                "max": {"memory": "1Gi"},
                "maxLimitRequestRatio": {"cpu": "2"},
            },
        ),
        dry(create_pod("small", container(resources=resources({"cpu": "50m"}, {"cpu": "80m", "memory": "1Gi"})))),
        create_pod("defaulted"),
        create_pod("large", container(resources=resources({"cpu": "1"}, {"cpu": "1", "memory": "2Gi"}))),
        create_pod("wide", container(resources=resources({"cpu": "100m"}, {"cpu": "300m", "memory": "1Gi"}))),
        create_pod("fits", container(resources=resources({"cpu": "100m"}, {"cpu": "200m", "memory": "1Gi"}))),
        create_pod(
            "init",
            container(resources=resources({"cpu": "100m"}, {"cpu": "200m", "memory": "1Gi"})),
            initContainers=[container("i", resources=resources({"cpu": "100m"}, {"cpu": "100m", "memory": "2Gi"}))],
        ),
    ],
    "a Pod bound of a LimitRange": [
        _ACCOUNT,
        limit_range("pods", {"type": "Pod", "max": {"cpu": "300m"}, "min": {"cpu": "100m"}}),
        dry(create_pod("none")),
        create_pod(
            "sum",
            container("a", resources=resources(None, {"cpu": "200m"})),
            container("b", resources=resources(None, {"cpu": "200m"})),
        ),
        create_pod("fits", container("a", resources=resources(None, {"cpu": "200m"}))),
        create_pod("whole", resources=resources(None, {"cpu": "1"})),
        create_pod(
            "sidecar",
            container("a", resources=resources(None, {"cpu": "200m"})),
            initContainers=[container("s", restartPolicy="Always", resources=resources(None, {"cpu": "200m"}))],
        ),
    ],
    "a claim bound of a LimitRange": [
        limit_range("claims", {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}),
        dry(create_claim("small", "500Mi", storageClassName="")),
        create_claim("large", "3Gi", storageClassName=""),
        create_claim("fits", "2Gi", storageClassName=""),
    ],
    "two LimitRanges": [
        _ACCOUNT,
        limit_range("first", {"type": "Container", "default": {"cpu": "200m"}}),
        limit_range("second", {"type": "Container", "max": {"memory": "1Gi"}}),
        dry(create_pod("large", container(resources=resources(None, {"memory": "2Gi"})))),
    ],
    "a missing ServiceAccount": [
        dry(create_pod("lost", serviceAccountName="gone")),
        (
            "POST",
            "pods",
            {
                **pod("x"),
                "metadata": {"generateName": "made-"},
                "spec": {"serviceAccountName": "gone", "containers": [container()]},
            },
        ),
        create_pod("default"),
    ],
    "the token of a ServiceAccount": [
        _ACCOUNT,
        account("shy", automountServiceAccountToken=False, imagePullSecrets=[{"name": "pull"}]),
        dry(create_pod("probe", serviceAccountName="shy")),
        create_pod("plain", container("a"), container("b"), initContainers=[container("i")]),
        create_pod("shy", serviceAccountName="shy"),
        create_pod("eager", serviceAccountName="shy", automountServiceAccountToken=True),
        create_pod("refusing", automountServiceAccountToken=False),
        create_pod("pulling", serviceAccountName="shy", imagePullSecrets=[{"name": "own"}]),
        create_pod(
            "mounted",
            container(
                "a", volumeMounts=[{"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
            ),
            volumes=[{"name": "mine", "emptyDir": {}}],
        ),
        create_pod("named", volumes=[{"name": "kube-api-access-mine", "emptyDir": {}}]),
    ],
    "mountable secrets of a ServiceAccount": [
        account(
            "strict",
            metadata={"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
            secrets=[{"name": "mine"}],
            imagePullSecrets=[{"name": "pull"}],
        ),
        dry(
            create_pod(
                "volume", serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "yours"}}]
            )
        ),
        create_pod("allowed", serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "mine"}}]),
        create_pod(
            "env",
            container(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "yours", "key": "k"}}}]),
            serviceAccountName="strict",
        ),
        create_pod("from", container(envFrom=[{"secretRef": {"name": "yours"}}]), serviceAccountName="strict"),
        create_pod(
            "init",
            initContainers=[container("i", envFrom=[{"secretRef": {"name": "yours"}}])],
            serviceAccountName="strict",
        ),
        create_pod("pull", serviceAccountName="strict", imagePullSecrets=[{"name": "other"}]),
        (
            "PATCH",
            "pods/allowed/ephemeralcontainers",
            {
                "spec": {
                    "ephemeralContainers": [{"name": "e", "image": "i", "envFrom": [{"secretRef": {"name": "yours"}}]}]
                }
            },
        ),
    ],
    "mirror Pods": [
        create_pod("mirror", metadata=_MIRROR, nodeName="n", serviceAccountName="default"),
        create_pod(
            "secret",
            metadata=_MIRROR,
            nodeName="n",
            volumes=[{"name": "v", "secret": {"secretName": "s"}}],
        ),
        create_pod(
            "token",
            metadata=_MIRROR,
            nodeName="n",
            volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        ),
    ],
    "the priority of Pods": [
        _ACCOUNT,
        _HIGH,
        dry(create_pod("probe", priorityClassName=f"high-{NAMESPACE}")),
        create_pod("plain"),
        create_pod("missing", priorityClassName="gone"),
        create_pod("wrong", priorityClassName=f"high-{NAMESPACE}", priority=5),
        create_pod("right", priorityClassName=f"high-{NAMESPACE}", priority=1000),
        create_pod("policy", priorityClassName=f"high-{NAMESPACE}", preemptionPolicy="PreemptLowerPriority"),
        create_pod("critical", priorityClassName="system-node-critical"),
        create_pod("number", priority=3),
        deleted(_HIGH),
    ],
    "the default PriorityClass": [
        _ACCOUNT,
        _DEFAULT_CLASS,
        dry(priority_class("second", 8, globalDefault=True)),
        create_pod("plain"),
        deleted(_DEFAULT_CLASS),
    ],
    "the default StorageClass": [
        _FAST,
        dry(create_claim("probe")),
        create_claim("plain"),
        create_claim("none", storageClassName=""),
        create_claim("annotated", metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}),
        deleted(_FAST),
    ],
    "the expansion of claims": [
        _GROWING,
        _FIXED,
        *resize("grows", "2Gi", "growing"),
        *resize("stays", "2Gi", "fixed"),
        deleted(_GROWING),
        deleted(_FIXED),
    ],
}


def path_of(step, namespace):
    """The path of a step in a namespace."""
    path = step[1].replace(NAMESPACE, namespace)
    return path if path.startswith("/") else f"/api/v1/namespaces/{namespace}/{path}"


def body_of(step, namespace):
    """The body of a step, encoded."""
    return b"" if step[2] is None else json.dumps(step[2]).replace(NAMESPACE, namespace).encode()


def content_type(step):
    return "application/strategic-merge-patch+json" if step[0] == "PATCH" else "application/json"


def is_repeatable(step):
    """Return True if a step can be sent again until its answer is as expected."""
    return "dryRun" in step[1] or step[0] == "GET"


_KEPT = ("spec", "status")


def summary(status, body, namespace):
    """The part of an answer that must be the same on each server."""
    if body.get("kind") == "Status":
        result = {"code": status, "reason": body.get("reason", ""), "message": body.get("message", "")}
        if status < 300:
            result = {"code": status}
    else:
        result = {"code": status, **{key: copy.deepcopy(body[key]) for key in _KEPT if key in body}}
        annotations = body["metadata"].get("annotations")
        if annotations:
            result["annotations"] = annotations
        (result.get("spec") or {}).pop("tolerations", None)
        if body["kind"] in ("Service", "Pod"):
            result.pop("status", None)
        if body["kind"] == "Service":
            result["spec"] = {"type": body["spec"]["type"], "ports": len(body["spec"]["ports"])}
    text = json.dumps(result, sort_keys=True).replace(namespace, NAMESPACE)
    return json.loads(re.sub(r"kube-api-access-[a-z0-9]{5}\b", "kube-api-access-xxxxx", text))
