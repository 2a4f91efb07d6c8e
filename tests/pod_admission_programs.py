"""Requests that admission plug-ins change or refuse, in programs that are run on two servers and compared.

A step is a user with groups, a method, a path and a body. What creates something that the plug-ins look up comes first;
a dry run is repeated until both servers agree, since kube-apiserver looks some objects up in caches that lag behind.
"""

import base64
import copy
import json
import re

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OPT_IN = (
    "AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology",
    "NamespaceExists", "NodeRestriction", "OwnerReferencesPermissionEnforcement", "PodNodeSelector",
    "PodTolerationRestriction",
)  # fmt: skip
"""The plug-ins that the programs need and that kube-apiserver runs only where it is told to."""

ADMIN = ("admin", "system:masters")
NODE = ("system:node:n1", "system:nodes", "system:masters")
"""A kubelet that authorization allows everything, so that admission is asked."""
KUBELET = ("system:node:n1", "system:nodes")
"""A kubelet that is allowed what its roles say."""
BOB = ("bob",)

NS = "/api/v1/namespaces"
CORE = "/api/v1/namespaces/a"
NODES = "/api/v1/nodes"
DRY = "?dryRun=All"
TOLERATIONS = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"


def pod(name="p", metadata=None, **spec):
    containers = [{"name": "c", "image": "i"}]
    spec = {"containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}


def named(name, **fields):
    return {"metadata": {"name": name}, **fields}


def namespace(name, **annotations):
    keys = {"selector": SELECTOR, "tolerations": TOLERATIONS, "allowed": ALLOWED}
    return {"metadata": {"name": name, "annotations": {keys[key]: value for key, value in annotations.items()}}}


def _create(path, obj, user=ADMIN):
    return (user, "POST", path, obj)


def _dry(path, obj, user=ADMIN):
    return (user, "POST", path + DRY, obj)


_ZONED = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"}
_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
_INGRESSES = "/apis/networking.k8s.io/v1/namespaces/a/ingresses"
_RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_BACKEND = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
_DEFAULT = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
_OVERHEAD = {"podFixed": {"cpu": "250m", "memory": "64Mi"}}
_SCHEDULING = {
    "nodeSelector": {"runtime": "kata"},
    "tolerations": [{"key": "kata", "operator": "Exists"}, {"key": "one", "value": "1", "effect": "NoSchedule"}],
}


def _affinity(key):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _requests(**amounts):
    return [{"name": "c", "image": "i", "resources": {"limits": {key.replace("__", "/"): "1" for key in amounts}}}]


PODS = [
    _create(NS, namespace("a")),
    _create(NS, namespace("b", selector="zone=z, disk = ssd", tolerations='[{"key":"k","operator":"Exists"}]')),
    _create(NS, namespace("c", allowed='[{"key":"k","operator":"Exists"},{"key":"node.kubernetes.io/not-ready"}]')),
    _create(NS, namespace("d", selector="a=b=c", allowed="")),
    _create(NS, namespace("e", selector="a=-")),
    _create(NS, namespace("f", selector="-=a")),
    _create(NS, namespace("g", tolerations="")),
    _create(NODES, named("n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})),
    _create(NODES, named("n2") | {"metadata": {"name": "n2", "labels": _ZONED}}),
    _dry(NODES, named("n3", spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]})),
    _dry(NODES, named("n3", spec={"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]})),
    _dry(f"{CORE}/pods", pod()),
    _dry(f"{CORE}/pods", pod(tolerations=[{"operator": "Exists"}])),
    _dry(f"{CORE}/pods", pod(tolerations=[{"operator": "Exists", "effect": "NoSchedule"}])),
    _dry(f"{CORE}/pods", pod(tolerations=[{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}])),
    _dry(f"{CORE}/pods", pod(containers=_requests(example__com=1, cpu=1))),
    _dry(f"{CORE}/pods", pod(containers=[{**_requests(cpu=1)[0], "resources": {"limits": {"a.com/b": 1, "a.com/a": 2}}}])),
    _dry(f"{CORE}/pods", pod(containers=_requests(cpu=1, memory=1))),
    _dry(f"{CORE}/pods", pod(containers=[{"name": "c", "image": "i:1", "imagePullPolicy": "Never"}])),
    _dry(f"{CORE}/pods", pod(volumes=[{"name": "v", "image": {"reference": "r", "pullPolicy": "IfNotPresent"}}])),
    _dry(f"{CORE}/pods", pod(affinity=_affinity("topology.kubernetes.io/zone"))),
    _dry(f"{CORE}/pods", pod(affinity=_affinity("kubernetes.io/hostname"))),
    _dry(f"{CORE}/pods", pod(nodeName="n2")),
    _dry(f"{CORE}/pods", pod(nodeName="n2", metadata={"labels": {"topology.kubernetes.io/zone": "mine"}})),
    _dry(f"{CORE}/pods", pod(nodeName="nowhere")),
    _dry(f"{NS}/b/pods", pod()),
    _dry(f"{NS}/b/pods", pod(nodeSelector={"zone": "z", "more": "x"})),
    _dry(f"{NS}/b/pods", pod(nodeSelector={"zone": "other"})),
    _dry(f"{NS}/c/pods", pod()),
    _dry(f"{NS}/c/pods", pod(tolerations=[{"key": "k", "operator": "Exists"}])),
    *[_dry(f"{NS}/{name}/pods", pod()) for name in "defg"],
    _dry(f"{NS}/missing/pods", pod()),
    _dry(f"{NS}/missing/configmaps", named("m")),
    _dry(f"{NS}/missing/bindings", {**named("p"), "target": {"kind": "Node", "name": "n2"}}),
    _dry(f"{NS}/missing/serviceaccounts", named("m")),
    _dry(f"{CORE}/services", named("s", spec={"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]})),
    _create(f"{CORE}/pods", pod("bound")),
    _create(f"{CORE}/pods/bound/binding", {**named("bound"), "target": {"kind": "Node", "name": "n2"}}),
    (ADMIN, "GET", f"{CORE}/pods/bound", None),
]  # fmt: skip

CLASSES = [
    _create(NS, namespace("a")),
    _dry(_INGRESSES, named("i", spec=_BACKEND)),
    _create(_CLASSES, {"metadata": {"name": "plain"}, "spec": {"controller": "c.io/x"}}),
    _create(_CLASSES, {"metadata": {"name": "b", **_DEFAULT}, "spec": {"controller": "c.io/x"}}),
    _dry(_INGRESSES, named("i", spec=_BACKEND)),
    _dry(_INGRESSES, named("i", spec={**_BACKEND, "ingressClassName": "other"})),
    _dry(_INGRESSES, {"metadata": {"name": "i", "annotations": {"kubernetes.io/ingress.class": "o"}}, "spec": _BACKEND}),
    _dry(f"{CORE}/pods", pod(runtimeClassName="missing")),
    _dry(f"{CORE}/pods", pod(overhead={"cpu": "1"})),
    _create(_RUNTIMES, named("plain", handler="h")),
    _create(_RUNTIMES, named("kata", handler="h", overhead=_OVERHEAD, scheduling=_SCHEDULING)),
    _dry(f"{CORE}/pods", pod(runtimeClassName="plain")),
    _dry(f"{CORE}/pods", pod(runtimeClassName="plain", overhead={"cpu": "1"})),
    _dry(f"{CORE}/pods", pod(runtimeClassName="kata")),
    _dry(f"{CORE}/pods", pod(runtimeClassName="kata", overhead={"memory": "65536Ki", "cpu": "0.25"})),
    _dry(f"{CORE}/pods", pod(runtimeClassName="kata", overhead={"cpu": "1"})),
    _dry(f"{CORE}/pods", pod(runtimeClassName="kata", nodeSelector={"runtime": "runc"})),
    _dry(f"{CORE}/pods", pod(runtimeClassName="kata", nodeSelector={"a": "b", "runtime": "kata"})),
    _dry(f"{CORE}/pods", pod(runtimeClassName="kata", tolerations=[
        {"key": "kata", "operator": "Exists", "effect": "NoExecute"}, {"key": "one", "operator": "Equal", "value": "1"}])),
]  # fmt: skip

_MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}


def _mirror(owner=None, owners=None, **spec):
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "@n1", "controller": True, **(owner or {})}
    owners = [owner] if owners is None else [owner] * owners
    return pod(metadata={**_MIRROR, "ownerReferences": owners}, nodeName="n1", **spec)


def _label(key, old=None):
    return {"metadata": {"labels": {key: "x"}}}


_VOLUMES = (
    {"configMap": {"name": "m"}}, {"secret": {"secretName": "m"}}, {"csi": {"driver": "d"}},
    {"glusterfs": {"endpoints": "e", "path": "p"}}, {"persistentVolumeClaim": {"claimName": "c"}},
    {"azureFile": {"secretName": "s", "shareName": "n"}}, {"hostPath": {"path": "/"}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}}},
    {"projected": {"sources": [{"downwardAPI": {}}]}},
    {"projected": {"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "p"}}]}},
)  # fmt: skip
_ENV = {"name": "c", "image": "i", "env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
_ENV_FROM = {"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "s"}}]}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces"
_CSI = "/apis/storage.k8s.io/v1/csinodes"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def _token(bound=None, **spec):
    return {"spec": {**({} if bound is None else {"boundObjectRef": bound}), **spec}}


_BOUND = {"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": "@mine"}


def _slice(node):
    spec = {
        "driver": "d.io",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [],
    }
    return named("s", spec=spec)


NODE_RESTRICTION = [
    _create(NS, namespace("a")),
    _create(NODES, named("n1")),
    (ADMIN, "GET", f"{NODES}/n1", None),
    _create(NODES, named("n2")),
    _dry(f"{CORE}/pods", pod(), NODE),
    _dry(f"{CORE}/pods", pod(metadata=_MIRROR), NODE),
    _dry(f"{CORE}/pods", pod(metadata=_MIRROR, nodeName="n1"), NODE),
    _dry(f"{CORE}/pods", _mirror(), NODE),
    _dry(f"{CORE}/pods", _mirror({"name": "n2"}), NODE),
    _dry(f"{CORE}/pods", _mirror({"kind": "Pod"}), NODE),
    _dry(f"{CORE}/pods", _mirror({"controller": False}), NODE),
    _dry(f"{CORE}/pods", _mirror({"blockOwnerDeletion": True}), NODE),
    _dry(f"{CORE}/pods", _mirror({"uid": "wrong"}), NODE),
    _dry(f"{CORE}/pods", _mirror(serviceAccountName="s"), NODE),
    _dry(f"{CORE}/pods", _mirror(imagePullSecrets=[{"name": "s"}]), NODE),
    _dry(f"{CORE}/pods", _mirror(containers=[_ENV]), NODE),
    _dry(f"{CORE}/pods", _mirror(containers=[_ENV_FROM]), NODE),
    *[_dry(f"{CORE}/pods", _mirror(volumes=[{"name": "v", **one}]), NODE) for one in _VOLUMES],
    _create(f"{CORE}/pods", pod("mine", nodeName="n1")),
    _create(f"{CORE}/pods", pod("other", nodeName="n2")),
    (ADMIN, "GET", f"{CORE}/pods/mine", None),
    (NODE, "PATCH", f"{CORE}/pods/mine{DRY}", {"metadata": {"labels": {"a": "b"}}}),
    (NODE, "PATCH", f"{CORE}/pods/mine/status{DRY}", {"metadata": {"labels": {"a": "b"}}}),
    (NODE, "PATCH", f"{CORE}/pods/mine/status{DRY}", {"status": {"message": "m"}}),
    (NODE, "PATCH", f"{CORE}/pods/mine/status{DRY}", {"status": {"resourceClaimStatuses": [{"name": "r"}]}}),
    (NODE, "PATCH", f"{CORE}/pods/other/status{DRY}", {"status": {"message": "m"}}),
    (NODE, "DELETE", f"{CORE}/pods/other{DRY}", None),
    (NODE, "DELETE", f"{CORE}/pods/mine{DRY}", None),
    (NODE, "PATCH", f"{CORE}/pods/mine/ephemeralcontainers{DRY}", {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
    _dry(f"{CORE}/pods/other/eviction", named("other"), NODE),
    _dry(f"{CORE}/pods/none/eviction", named("none"), NODE),
    _dry(f"{CORE}/pods/mine/eviction", named("mine"), NODE),
    _dry(f"{CORE}/pods/mine/binding", {**named("mine"), "target": {"kind": "Node", "name": "n1"}}, NODE),
    _dry(NODES, named("n3"), NODE),
    *[_dry(NODES, {"metadata": {"name": "n1", "labels": {key: "x", "kubernetes.io/hostname": "h"}}}, NODE) for key in (
        "a/b", "plain", "node-restriction.kubernetes.io/a", "x.node-restriction.kubernetes.io/a", "kubernetes.io/role",
        "node-role.kubernetes.io/master", "x.k8s.io/a", "kubelet.kubernetes.io/a", "x.node.kubernetes.io/a")],
    *[(NODE, "PATCH", f"{NODES}/n1{DRY}", _label(key)) for key in ("a/b", "node-role.kubernetes.io/x", "k8s.io/y")],
    (NODE, "PATCH", f"{NODES}/n1{DRY}", {"spec": {"taints": []}}),
    (NODE, "PATCH", f"{NODES}/n1{DRY}", {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]}}),
    (NODE, "PATCH", f"{NODES}/n1/status{DRY}", {"status": {"phase": "Running"}}),
    (NODE, "PATCH", f"{NODES}/n2/status{DRY}", {"status": {"phase": "Running"}}),
    (NODE, "DELETE", f"{NODES}/n2{DRY}", None),
    (NODE, "DELETE", f"{NODES}/n1{DRY}", None),
    _dry(f"{_LEASES}/kube-node-lease/leases", named("n1"), NODE),
    _dry(f"{_LEASES}/kube-node-lease/leases", named("n2"), NODE),
    _dry(f"{_LEASES}/a/leases", named("n1"), NODE),
    _dry(_CSI, named("n1", spec={"drivers": []}), NODE),
    _dry(_CSI, named("n2", spec={"drivers": []}), NODE),
    _dry(_SLICES, _slice("n1"), NODE),
    _dry(_SLICES, _slice("n2"), NODE),
    _dry(f"{CORE}/persistentvolumeclaims", named("c"), NODE),
    _create(f"{CORE}/serviceaccounts", named("sa")),
    _dry(f"{CORE}/serviceaccounts/sa/token", _token(), NODE),
    _dry(f"{CORE}/serviceaccounts/sa/token", _token({**_BOUND, "uid": ""}), NODE),
    _dry(f"{CORE}/serviceaccounts/sa/token", _token({**_BOUND, "name": "none"}), NODE),
    _dry(f"{CORE}/serviceaccounts/sa/token", _token({**_BOUND, "uid": "wrong"}), NODE),
    _dry(f"{CORE}/serviceaccounts/sa/token", _token({**_BOUND, "name": "other", "uid": "@other"}), NODE),
    _dry(f"{CORE}/serviceaccounts/sa/token", _token(_BOUND, audiences=["a", "b"]), NODE),
]  # fmt: skip


def _owned(name, **owner):
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", **owner}]
    return {"metadata": {"name": name, "ownerReferences": owners}}


_MAPS = f"{CORE}/configmaps"
OWNERS = [
    _create(NS, namespace("a")),
    _create(f"{_RBAC}/clusterroles", {**named("maker"), "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch", "get"]}]}),
    _create(f"{_RBAC}/clusterrolebindings", {**named("maker"), "subjects": [{"kind": "User", "name": "bob"}],
        "roleRef": {"kind": "ClusterRole", "name": "maker", "apiGroup": "rbac.authorization.k8s.io"}}),
    _dry(_MAPS, named("m"), BOB),
    _dry(_MAPS, _owned("m"), BOB),
    _dry(_MAPS, _owned("m", blockOwnerDeletion=True), BOB),
    _dry(_MAPS, _owned("m", blockOwnerDeletion=True, kind="Unknown", apiVersion="x.io/v1"), BOB),
    _dry(_MAPS, _owned("m", blockOwnerDeletion=True, kind="Node"), BOB),
    _create(_MAPS, named("m")),
    (BOB, "PATCH", f"{_MAPS}/m{DRY}", _owned("m")),
    (BOB, "PATCH", f"{_MAPS}/m{DRY}", {"data": {"a": "b"}}),
    (ADMIN, "PATCH", f"{_MAPS}/m{DRY}", _owned("m", blockOwnerDeletion=True)),
    _create(f"{_RBAC}/clusterroles", {**named("finalizer"), "rules": [
        {"apiGroups": [""], "resources": ["configmaps/finalizers"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}]}),
    _create(f"{_RBAC}/clusterrolebindings", {**named("finalizer"), "subjects": [{"kind": "User", "name": "bob"}],
        "roleRef": {"kind": "ClusterRole", "name": "finalizer", "apiGroup": "rbac.authorization.k8s.io"}}),
    _dry(_MAPS, _owned("n", blockOwnerDeletion=True), BOB),
    (BOB, "PATCH", f"{_MAPS}/m{DRY}", _owned("m")),
]  # fmt: skip

_LEVEL = "pod-security.kubernetes.io"


def _labelled(**labels):
    return {"metadata": {"labels": {f"{_LEVEL}/{key.replace('_', '-')}": value for key, value in labels.items()}}}


def _template(kind, **spec):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(**spec)["spec"]}
    if kind == "cronjobs":
        template["spec"]["restartPolicy"] = "Never"
        return named("w", spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}})
    if kind == "jobs":
        template["spec"]["restartPolicy"] = "Never"
        return named("w", spec={"template": template})
    if kind == "podtemplates":
        return named("w", template=template)
    if kind == "replicationcontrollers":
        return named("w", spec={"selector": {"a": "b"}, "template": template})
    return named(
        "w",
        spec={
            "selector": {"matchLabels": {"a": "b"}},
            "template": template,
            **({"serviceName": "s"} if kind == "statefulsets" else {}),
        },
    )


_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
NAMESPACES = [
    _create(NS, {"metadata": {"name": "l"}}),
    _create(NS, {"metadata": {"name": "t"}}),
    _create(NS, {"metadata": {"name": "warned", **_labelled(enforce="baseline", audit="restricted", warn="restricted")["metadata"]}}),
    *[_dry(NS, {"metadata": {"name": "x", **_labelled(**labels)["metadata"]}}) for labels in (
        {"enforce": "x"}, {"enforce_version": "1.2", "warn": ""}, {"audit": "Baseline", "audit_version": "v1.01"},
        {"warn_version": "v2.0"}, {"enforce": "restricted", "enforce_version": "v1.99"})],
    *[_create(f"{NS}/l/pods", pod(name, hostPID=True, metadata={"ownerReferences": [_OWNER]})) for name in ("b", "c", "a")],
    _create(f"{NS}/l/pods", pod("d", hostNetwork=True)),
    _create(f"{NS}/l/pods", pod("e")),
    _create(f"{NS}/l/pods", pod("f", hostIPC=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}])),
    *[(ADMIN, "PATCH", f"{NS}/l{DRY}", _labelled(**labels)) for labels in (
        {"enforce": "baseline"}, {"enforce": "restricted"}, {"enforce": "privileged"}, {"enforce": "restricted", "enforce_version": "v1.2"},
        {"warn": "restricted"}, {"enforce": "nothing"}, {"enforce_version": "v1.3"})],
    *[_dry(f"/apis/{group}/namespaces/warned/{kind}", _template(kind)) for group, kind in (
        ("apps/v1", "deployments"), ("apps/v1", "replicasets"), ("apps/v1", "daemonsets"), ("apps/v1", "statefulsets"),
        ("batch/v1", "jobs"), ("batch/v1", "cronjobs"))],
    *[_dry(f"{NS}/warned/{kind}", _template(kind)) for kind in ("podtemplates", "replicationcontrollers")],
    _dry(f"{NS}/warned/pods", pod()),
    _dry(f"{NS}/warned/pods", pod(hostPID=True)),
    *[(ADMIN, "DELETE", f"{NS}/{name}{DRY}", None) for name in ("default", "kube-system", "kube-public")],
    _create(f"{NS}/t/pods", pod("p")),
    _create(f"{NS}/t/serviceaccounts", named("sa")),
    (ADMIN, "DELETE", f"{NS}/t", None),
    _dry(f"{NS}/t/pods", pod("q")),
    _dry(f"{NS}/t/configmaps", {"metadata": {"generateName": "m-"}}),
    _dry(f"{NS}/t/configmaps", {"metadata": {}}),
    _dry(f"{NS}/t/pods/p/eviction", named("p")),
    _dry(f"{NS}/t/pods/p/binding", {**named("p"), "target": {"kind": "Node", "name": "n2"}}),
    _dry(f"{NS}/t/bindings", {**named("p"), "target": {"kind": "Node", "name": "n2"}}),
    _dry(f"{NS}/t/serviceaccounts/sa/token", {"spec": {}}),
    (ADMIN, "PATCH", f"{NS}/t/pods/p{DRY}", {"metadata": {"labels": {"a": "b"}}}),
    (ADMIN, "PATCH", f"{NS}/none/pods/p{DRY}", {"metadata": {"labels": {"a": "b"}}}),
]  # fmt: skip


def _request(name, signer, pem=None):
    if pem is None:
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        pem = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
            serialization.Encoding.PEM
        )
    usages = ["digital signature", "server auth" if "serving" in signer else "client auth"]
    spec = {"request": base64.b64encode(pem).decode(), "signerName": f"kubernetes.io/{signer}", "usages": usages}
    return {"metadata": {"name": "r"}, "spec": spec}


_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def _role(name, user, *rules):
    subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    return (
        _create(f"{_RBAC}/clusterroles", {**named(name), "rules": list(rules)}),
        _create(f"{_RBAC}/clusterrolebindings", {**named(name), "subjects": subjects, "roleRef": role}),
    )


def _audience(pod_name, *audiences):
    bound = {**_BOUND, "name": pod_name, "uid": f"@{pod_name}"}
    return _dry(f"{CORE}/serviceaccounts/tokens/token", _token(bound, audiences=list(audiences)), KUBELET)


KUBELETS = [
    _create(NS, namespace("a")),
    _create(NODES, named("n1")),
    *_role("tokens", "system:node:n1", {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]}),
    _create(f"{CORE}/serviceaccounts", named("tokens")),
    _create(f"{CORE}/pods", pod("plain", nodeName="n1")),
    _create(f"{CORE}/pods", pod("claimed", nodeName="n1", volumes=[
        {"name": "a", "persistentVolumeClaim": {"claimName": "none"}}, {"name": "b", "csi": {"driver": "d.io"}}])),
    _create(f"{CORE}/pods", pod("migrated", nodeName="n1", volumes=[{"name": "a", "gcePersistentDisk": {"pdName": "p"}}])),
    _audience("plain", "x"),
    _audience("claimed", "x"),
    _audience("migrated", "x"),
    *[_dry(_REQUESTS, _request(name, signer), NODE) for name in ("system:node:n1", "system:node:n2") for signer in (
        "kubelet-serving", "kube-apiserver-client-kubelet", "kube-apiserver-client")],
    _dry(_REQUESTS, _request("x", "kubelet-serving", b"x"), NODE),
]  # fmt: skip

PROGRAMS = {
    "pods": PODS,
    "classes": CLASSES,
    "nodes": NODE_RESTRICTION,
    "owners": OWNERS,
    "namespaces": NAMESPACES,
    "kubelets": KUBELETS,
}


def with_uids(body, uids):
    """The body of a step with `@name` replaced by the uid of an object that was read before."""
    if isinstance(body, dict):
        return {key: with_uids(value, uids) for key, value in body.items()}
    if isinstance(body, list):
        return [with_uids(value, uids) for value in body]
    if isinstance(body, str) and body.startswith("@"):
        return uids.get(body[1:], body)
    return copy.copy(body)


_SHOWN = ("tolerations", "nodeSelector", "overhead", "taints", "ingressClassName", "nodeName")
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def summary(status, obj, warnings):
    """What a recording has of an answer: a refusal word for word, and of an object what plug-ins have set."""
    found = {"status": status}
    if obj.get("kind") == "Status":
        found |= {key: obj[key] for key in ("reason", "message", "details") if key in obj}
        found.get("details", {}).pop("uid", None)
    else:
        spec = obj.get("spec", {})
        found |= {key: spec[key] for key in _SHOWN if key in spec}
        policies = [container.get("imagePullPolicy") for container in spec.get("containers", ())]
        if policies:
            found["imagePullPolicy"] = policies
        labels = obj["metadata"].get("labels")
        if labels:
            found["labels"] = labels
    if warnings:
        found["warnings"] = warnings
    return json.loads(_UID.sub("<uid>", json.dumps(found)))


def remember_uids(uids, obj):
    """Note the uid of an object that a step has read or created, for `with_uids`."""
    if "uid" in obj.get("metadata", {}):
        uids[obj["metadata"]["name"]] = obj["metadata"]["uid"]


def creates_namespace(step):
    """Return True for a step that creates a namespace: that is there already if another program has created it."""
    return step[:3] == (ADMIN, "POST", NS)
