"""Kubelets and owners: what is checked on an update is checked on a create and on the status, too."""

import json

import pytest

from api_client import NS, PODS, cm, serving
from kapi.controlplane.admissionoptions import AdmissionOptions
from kapi.server.transport.message import Peer
from virtual_time import run

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NODES = "/api/v1/nodes"
CM = f"{NS}/default/configmaps"
KUBELET = Peer("192.0.2.1", local=("system:node:mine", ("system:nodes",)))
BOB = Peer("192.0.2.1", local=("bob", ()))
MIRROR = {"kubernetes.io/config.mirror": "x"}
SPEC = {"containers": [{"name": "c", "image": "i"}], "nodeName": "mine"}
MERGE = "application/merge-patch+json"


def admitted(test):
    """Make a test of `test(api)`: a server with the plug-ins of kubelets and of owners, and rights for all users."""

    def runner():
        async def main():
            options = AdmissionOptions(frozenset({"OwnerReferencesPermissionEnforcement"}))
            async with serving(admission_options=options) as api:
                await api.made(NODES, {"metadata": {"name": "mine"}})
                await api.made(NODES, {"metadata": {"name": "other"}})
                await api.made(f"{NS}/default/serviceaccounts", {"metadata": {"name": "default"}})
                await test(api)

        run(main())

    runner.__name__ = test.__name__
    runner.__doc__ = test.__doc__
    return runner


async def grant(api, verbs, resources, kind, name):
    """Let a user do something; role bindings decide before admission is asked."""
    rule = {"verbs": verbs, "apiGroups": ["*"], "resources": resources}
    label = f"{name}-{len(verbs)}".replace(":", "-")
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": label}, "rules": [rule]})
    await api.made(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"name": label},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": label},
        },
    )


async def send(api, peer, method, path, body):
    content_type = MERGE if method == "PATCH" else "application/json"
    encoded = json.dumps(body).encode()
    return await api.as_peer(method, path, peer=peer, headers={"content-type": content_type}, body=encoded)


def mirror(name="m", uid="", **spec):
    owner = {"apiVersion": "v1", "kind": "Node", "name": "mine", "uid": uid, "controller": True}
    metadata = {"name": name, "annotations": MIRROR, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {**SPEC, **spec}}


@pytest.mark.parametrize(
    ("spec", "resource"),
    [
        ({"resourceClaims": [{"name": "r", "resourceClaimName": "claim"}]}, "resourceclaims"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "secrets"),
        ({"volumes": [{"name": "v", "configMap": {"name": "s"}}]}, "configmaps"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}]}, "persistentvolumeclaims"),
        ({"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}, "secrets"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_cve_2025_4563_a_kubelet_cannot_create_a_mirror_pod_that_refers_to_other_objects(spec, resource):
    """In Kubernetes, a kubelet could not give its Pods claims by their status, but could create Pods that have them."""

    @admitted
    async def check(api):
        await grant(api, ["*"], ["pods", "pods/status"], "Group", "system:nodes")
        uid = (await api.get(f"{NODES}/mine")).metadata["uid"]
        plain = await send(api, KUBELET, "POST", PODS, mirror("plain", uid))
        assert plain.status == 201, plain
        refused = await send(api, KUBELET, "POST", PODS, mirror("m", uid, **spec))
        assert refused.status == 403, refused
        assert resource in refused.message

    check()


@admitted
async def test_cve_2025_4563_nor_give_claims_to_a_pod_by_its_status(api):
    await grant(api, ["*"], ["pods", "pods/status"], "Group", "system:nodes")
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": SPEC})
    claims = [{"name": "r", "resourceClaimName": "claim"}]
    body = {"status": {"resourceClaimStatuses": claims}}
    refused = await send(api, KUBELET, "PATCH", f"{PODS}/p/status", body)
    assert (refused.status, "resource claim" in refused.message) == (403, True)


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_cve_2025_5187_a_kubelet_cannot_give_its_node_an_owner(subresource):
    """In Kubernetes, a kubelet that did had the garbage collector delete its Node, and came back with other labels."""

    @admitted
    async def check(api):
        await grant(api, ["*"], ["nodes", "nodes/status"], "Group", "system:nodes")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0000"}
        body = {"metadata": {"ownerReferences": [owner]}}
        answer = await send(api, KUBELET, "PATCH", f"{NODES}/mine{subresource}", body)
        assert answer.status == 403, answer
        assert "not allowed to modify ownerReferences" in answer.message
        assert "ownerReferences" not in (await api.get(f"{NODES}/mine")).metadata

    check()


@admitted
async def test_cve_2025_5187_owners_are_set_by_users_who_may_delete_the_object(api):
    await grant(api, ["get", "create", "update", "patch"], ["configmaps"], "User", "bob")
    owner = (await api.made(CM, cm("owner")))["metadata"]
    await api.made(CM, cm("a"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    body = {"metadata": {"ownerReferences": [reference]}}
    refused = await send(api, BOB, "PATCH", f"{CM}/a", body)
    assert (refused.status, "can't delete" in refused.message) == (403, True)
    await grant(api, ["delete"], ["configmaps"], "User", "bob")
    assert (await send(api, BOB, "PATCH", f"{CM}/a", body)).status == 200


@pytest.mark.parametrize("is_new", [True, False])
def test_cve_2025_5187_blocking_the_deletion_of_an_owner_needs_a_permission_on_it(is_new):
    @admitted
    async def check(api):
        await grant(api, ["get", "create", "update", "patch", "delete"], ["configmaps"], "User", "bob")
        owner = (await api.made(CM, cm("owner")))["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
        body = cm("a") | {"metadata": {"name": "a", "ownerReferences": [{**reference, "blockOwnerDeletion": True}]}}
        if not is_new:
            await api.made(CM, cm("a"))
        method, path = ("POST", CM) if is_new else ("PUT", f"{CM}/a")
        refused = await send(api, BOB, method, path, body)
        assert (refused.status, "finalizers" in refused.message) == (403, True)
        await grant(api, ["update"], ["configmaps/finalizers"], "User", "bob")
        assert (await send(api, BOB, method, path, body)).status in (200, 201)

    check()


STRICT = {
    "metadata": {"name": "strict", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
    "secrets": [{"name": "mine"}],
}
SECRETS = {
    "envFrom": {"envFrom": [{"secretRef": {"name": "yours"}}]},
    "env": {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "yours", "key": "k"}}}]},
}


@pytest.mark.parametrize("field", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("source", SECRETS)
def test_cve_2023_2727_and_2728_and_2024_3177_secrets_are_limited_for_every_list_of_containers(field, source):
    """In Kubernetes, the list of ephemeral containers, and later the field envFrom, was forgotten."""

    @admitted
    async def check(api):
        await api.made(f"{NS}/default/serviceaccounts", STRICT)
        container = {"name": "s", "image": "i", **SECRETS[source]}
        spec = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "strict"}
        if field == "ephemeralContainers":
            await api.made(PODS, {"metadata": {"name": "p"}, "spec": spec})
            body = {"spec": {"ephemeralContainers": [container]}}
            refused = await api.patch(f"{PODS}/p/ephemeralcontainers", body)
        else:
            spec[field] = [*spec.get(field, ()), container]
            refused = await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
        assert refused.status >= 400
        assert "yours" in refused.message

    check()
