"""The node authorizer: what a kubelet may read, by the Pods on its node."""

import pytest

from api_client import NS, PODS, served
from kapi.api.selectors import FieldRequirement
from kapi.api.user import User
from kapi.controlplane.rbac.bootstrappolicy import node_rules
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.node import NodeAuthorizer
from kapi.server.authz.rbac.rules import Rule

N1 = User("system:node:n1", ("system:nodes", "system:authenticated"))
N2 = User("system:node:n2", ("system:nodes", "system:authenticated"))
STORAGE = "/apis/storage.k8s.io/v1"
CONTAINER = {"name": "c", "image": "i"}
NOT_RELATED = "no relationship found between node 'n2' and this object"


def pod(name="p", node="n1", **spec):
    return {
        "metadata": {"name": name},
        "spec": {"containers": [CONTAINER], **({"nodeName": node} if node else {}), **spec},
    }


def nodes(api):
    authorizer = NodeAuthorizer(api.catalog, [Rule(rule) for rule in node_rules()])
    authorizer.start()
    return authorizer


def get(user, resource, name, namespace="default", verb="get", subresource="", group=""):
    return Attributes(user, verb, group, "v1", resource, subresource, namespace, name)


def volume(**source):
    return pod(volumes=[{"name": "v", **source}])


def env(**source):
    return pod(containers=[{**CONTAINER, "env": [{"name": "e", "valueFrom": source}]}])


REFERENCES = [
    (volume(secret={"secretName": "s"}), "secrets", "s"),
    (volume(configMap={"name": "s"}), "configmaps", "s"),
    (volume(projected={"sources": [{"secret": {"name": "s"}}]}), "secrets", "s"),
    (volume(projected={"sources": [{"configMap": {"name": "s"}}]}), "configmaps", "s"),
    (volume(persistentVolumeClaim={"claimName": "s"}), "persistentvolumeclaims", "s"),
    (volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "s"}}), "secrets", "s"),
    (volume(cephfs={"monitors": ["m"], "secretRef": {"name": "s"}}), "secrets", "s"),
    (env(secretKeyRef={"name": "s", "key": "k"}), "secrets", "s"),
    (env(configMapKeyRef={"name": "s", "key": "k"}), "configmaps", "s"),
    (pod(containers=[{**CONTAINER, "envFrom": [{"secretRef": {"name": "s"}}]}]), "secrets", "s"),
    (pod(initContainers=[{**CONTAINER, "name": "i", "envFrom": [{"configMapRef": {"name": "s"}}]}]), "configmaps", "s"),
    (pod(imagePullSecrets=[{"name": "s"}]), "secrets", "s"),
    (pod(serviceAccountName="s"), "serviceaccounts", "s"),
]


@pytest.mark.parametrize(("obj", "resource", "name"), REFERENCES)
@served
async def test_a_node_reads_what_its_pods_refer_to_and_no_other_node_does(api, obj, resource, name):
    authorizer = nodes(api)
    assert not authorizer.decide(get(N1, resource, name)).allowed
    await api.made(PODS, obj)
    assert authorizer.decide(get(N1, resource, name)).allowed
    assert authorizer.decide(get(N2, resource, name)).reason == NOT_RELATED
    assert not authorizer.decide(get(N1, resource, "other")).allowed
    assert not authorizer.decide(get(N1, resource, name, "kube-system")).allowed
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert not authorizer.decide(get(N1, resource, name)).allowed


@served
async def test_a_pod_that_is_stored_at_the_start_or_bound_later_is_known(api):
    await api.made(PODS, pod("early", volumes=[{"name": "v", "secret": {"secretName": "a"}}]))
    authorizer = nodes(api)
    assert authorizer.decide(get(N1, "secrets", "a")).allowed
    await api.made(PODS, pod("late", node="", volumes=[{"name": "v", "secret": {"secretName": "b"}}]))
    assert not authorizer.decide(get(N1, "secrets", "b")).allowed
    await api.post(f"{PODS}/late/binding", {"metadata": {"name": "late"}, "target": {"kind": "Node", "name": "n1"}})
    assert authorizer.decide(get(N1, "secrets", "b")).allowed
    assert authorizer.decide(get(N1, "pods", "late")).allowed
    assert not authorizer.decide(get(N2, "pods", "late")).allowed


@served
async def test_a_mirror_pod_gives_access_to_nothing(api):
    authorizer = nodes(api)
    obj = volume(secret={"secretName": "s"})
    obj["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    await api.made(PODS, obj)
    assert not authorizer.decide(get(N1, "secrets", "s")).allowed


@served
async def test_a_volume_and_its_secrets_follow_from_its_claim(api):
    authorizer = nodes(api)
    await api.made(PODS, volume(persistentVolumeClaim={"claimName": "c"}))
    csi = {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": {"name": "s", "namespace": "kube-system"}}
    csi["controllerExpandSecretRef"] = {"name": "t", "namespace": "kube-system"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}
    await api.made(f"{NS}/default/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    capacity = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    bound = {**capacity, "claimRef": {"namespace": "default", "name": "c"}}
    await api.made("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": bound})
    assert authorizer.decide(get(N1, "persistentvolumes", "pv", "")).allowed
    assert authorizer.decide(get(N1, "secrets", "s", "kube-system")).allowed
    assert not authorizer.decide(get(N1, "secrets", "t", "kube-system")).allowed
    assert not authorizer.decide(get(N2, "persistentvolumes", "pv", "")).allowed


@served
async def test_an_attachment_is_read_by_the_node_it_names(api):
    authorizer = nodes(api)
    spec = {"attacher": "a", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
    await api.made(f"{STORAGE}/volumeattachments", {"metadata": {"name": "va"}, "spec": spec})
    assert authorizer.decide(get(N1, "volumeattachments", "va", "", group="storage.k8s.io")).allowed
    assert not authorizer.decide(get(N2, "volumeattachments", "va", "", group="storage.k8s.io")).allowed


CASES = [
    (get(N1, "nodes", "n1", ""), True, ""),
    (get(N1, "nodes", "n2", ""), False, "node 'n1' cannot read 'n2', only its own Node object"),
    (get(N1, "nodes", "", "", "list"), False, "node 'n1' cannot read all nodes, only its own Node object"),
    (get(N1, "nodes", "n1", "", "update", "status"), True, ""),
    (get(N1, "nodes", "n1", "", "delete"), False, ""),
    (get(N1, "secrets", "", "default", "list"), False, "No Object name found"),
    (get(N1, "secrets", "s", "", "list"), False, "can only read namespaced object of this type"),
    (get(N1, "secrets", "s", "default", "delete"), False, "can only read resources of this type"),
    (get(N1, "secrets", "s", "default", "get", "x"), False, "cannot read subresource"),
    (get(N1, "persistentvolumes", "", "", "list"), False, "can only get individual resources of this type"),
    (get(N1, "persistentvolumeclaims", "c", "default", "get", "status"), False, "can only get/update/patch this type"),
    (get(N1, "leases", "n1", "kube-node-lease", "update", group="coordination.k8s.io"), True, ""),
    (
        get(N1, "leases", "n2", "kube-node-lease", "update", group="coordination.k8s.io"),
        False,
        "can only access node lease with the same name as the requesting node",
    ),
    (
        get(N1, "leases", "n1", "default", group="coordination.k8s.io"),
        False,
        'can only access leases in the "kube-node-lease" system namespace',
    ),
    (get(N1, "csinodes", "n1", "", "patch", group="storage.k8s.io"), True, ""),
    (
        get(N1, "csinodes", "n2", "", "patch", group="storage.k8s.io"),
        False,
        "can only access CSINode with the same name as the requesting node",
    ),
    (
        get(N1, "serviceaccounts", "s", "default", "create", "token"),
        False,
        "no relationship found between node 'n1' and this object",
    ),
    (
        get(N1, "serviceaccounts", "", "default", "list"),
        False,
        "can only create tokens for individual service accounts",
    ),
    (get(N1, "pods", "", "", "list"), False, "can only list/watch pods with spec.nodeName field selector"),
    (get(N1, "pods", "p", "default", "create", "eviction"), True, ""),
    (get(N1, "pods", "p", "default", "update", "status"), True, ""),
    (get(N1, "pods", "p", "default", "patch"), False, ""),
    (get(N1, "services", "", "", "list"), True, ""),
    (get(N1, "deployments", "", "", "list", group="apps"), False, ""),
    (get(N1, "events", "", "default", "create"), True, ""),
    (
        get(User("system:node:", ("system:nodes",)), "services", "", "", "list"),
        False,
        'unknown node for user "system:node:"',
    ),
    (get(User("system:node:n1"), "services", "", "", "list"), False, ""),
    (get(User("bob", ("system:nodes",)), "services", "", "", "list"), False, ""),
]


@pytest.mark.parametrize(("attributes", "allowed", "reason"), CASES)
@served
async def test_requests_of_nodes_are_decided_with_the_reasons_of_kubernetes(api, attributes, allowed, reason):
    decision = nodes(api).decide(attributes)
    assert (decision.allowed, decision.reason) == (allowed, reason)


@served
async def test_lists_of_pods_are_limited_by_a_field_selector(api):
    authorizer = nodes(api)
    listed = get(N1, "pods", "", "", "watch")
    for field, operator, value, allowed in (
        ("spec.nodeName", "=", "n1", True),
        ("spec.nodeName", "=", "n2", False),
        ("spec.nodeName", "!=", "n1", False),
        ("metadata.name", "=", "n1", False),
    ):
        requirement = FieldRequirement(field, operator, value)
        assert authorizer.decide(listed._replace(field_requirements=(requirement,))).allowed is allowed


@served
async def test_rules_of_nodes_cannot_be_listed_and_those_of_others_are_none(api):
    authorizer = nodes(api)
    assert authorizer.rules(N1, "default").incomplete
    assert not authorizer.rules(User("bob"), "default").incomplete
