"""The NodeRestriction plug-in. Users whose name and group are not those of a kubelet are not restricted by it.

What only writes of kubelets need is imported for the first of them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from kapi.api.errors import NotFound
from kapi.api.meta import GroupResource
from kapi.registry.kinds.core.pod.spec import MIRROR_ANNOTATION
from kapi.registry.request import CREATE, DELETE, UPDATE
from kapi.server.admission.noderestriction.labels import forbidden_changes
from kapi.server.admission.refusal import refusal
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.node import NODE_LEASES, NODE_PREFIX, NODES_GROUP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.registry.strategy import Lookup
    from kapi.server.authz.authorizer import Authorizer

    Rule = Callable[[str, Write, Object | None, Object | None], Awaitable[str]]
    """Returns why a write of a node is refused, an empty string if it is not."""

_KUBELET_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
_TOKEN_VERB: Final = "request-serviceaccounts-token-audience"  # noqa: S105


class NodeRestriction:
    """Refuses writes of kubelets that are not about their own node."""

    def __init__(self, lookup: Lookup, authorizer: Authorizer) -> None:
        self._lookup = lookup
        self._authorizer = authorizer
        self._rules: dict[GroupResource, Rule] = {
            GroupResource("", "pods"): self._refuse_pod,
            GroupResource("", "nodes"): _refuse_node,
            GroupResource("", "persistentvolumeclaims"): _refuse_claim,
            GroupResource("", "serviceaccounts"): self._refuse_token,
            GroupResource("coordination.k8s.io", "leases"): _refuse_lease,
            GroupResource("storage.k8s.io", "csinodes"): _refuse_csi_node,
            GroupResource("resource.k8s.io", "resourceslices"): _refuse_slice,
            GroupResource("certificates.k8s.io", "certificatesigningrequests"): _refuse_signing_request,
        }

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for the resources that kubelets write."""
        return operation in (CREATE, UPDATE, DELETE) and resource.group_resource in self._rules

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Refuse what a kubelet may not write; nothing is changed."""
        user = write.user
        if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
            return
        node = user.name.removeprefix(NODE_PREFIX)
        if not node:
            raise refusal(write, obj, f'could not determine node from user "{user.name}"')
        why = await self._rules[write.resource.group_resource](node, write, obj, old)
        if why:
            raise refusal(write, obj, why)

    # -- Pods ---------------------------------------------------------------------------------------------------------

    async def _refuse_pod(self, node: str, write: Write, obj: Object | None, old: Object | None) -> str:
        match write.subresource:
            case "":
                return self._refuse_mirror_pod(node, write, obj, old)
            case "status":
                return _refuse_pod_status(node, write, obj or {}, old or {})
            case "eviction":
                return self._refuse_eviction(node, write)
        return f"unexpected pod subresource \"{write.subresource}\", only 'status' and 'eviction' are allowed"

    def _refuse_mirror_pod(self, node: str, write: Write, obj: Object | None, old: Object | None) -> str:
        if write.operation == DELETE:
            if _node_of(old) == node:
                return ""
            return f'node "{node}" can only delete pods with spec.nodeName set to itself'
        if write.operation != CREATE or obj is None:
            return f'unexpected operation "{write.operation}", node "{node}" can only create and delete mirror pods'
        if MIRROR_ANNOTATION not in (obj["metadata"].get("annotations") or {}):
            return f'pod does not have "{MIRROR_ANNOTATION}" annotation, node "{node}" can only create mirror pods'
        if _node_of(obj) != node:
            return f'node "{node}" can only create pods with spec.nodeName set to itself'
        why = self._refuse_owners(node, obj["metadata"].get("ownerReferences") or [])
        if why:
            return why
        from kapi.server.admission.noderestriction.mirrorpods import UnknownSource, referenced_resource

        try:
            resource = referenced_resource(obj)
        except UnknownSource as error:
            return f"error checking mirror pod for API references: {error}"
        return f'node "{node}" can not create pods that reference {resource}' if resource else ""

    def _refuse_owners(self, node: str, owners: list[Object]) -> str:
        """A mirror Pod has one owner, which is the node, and does not block its deletion."""
        if len(owners) > 1:
            return f'node "{node}" can only create pods with a single owner reference set to itself'
        named = [(owner.get("apiVersion"), owner.get("kind"), owner.get("name")) for owner in owners]
        if named != [("v1", "Node", node)]:
            return f'node "{node}" can only create pods with an owner reference set to itself'
        owner = owners[0]
        if not owner.get("controller"):
            return f'node "{node}" can only create pods with a controller owner reference set to itself'
        if owner.get("blockOwnerDeletion"):
            return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
        found = self._lookup.get("nodes", "", node)
        if found is None:
            raise NotFound.of(GroupResource("", "node"), node)
        uid = found["metadata"]["uid"]
        if owner.get("uid", "") != uid:
            return f"node {node} UID mismatch: expected {owner.get('uid', '')} got {uid}"
        return ""

    def _refuse_eviction(self, node: str, write: Write) -> str:
        if write.operation != CREATE:
            return f"unexpected operation {write.operation}"
        if _node_of(self._pod(write.namespace, write.name)) != node:
            return f"node {node} can only evict pods with spec.nodeName set to itself"
        return ""

    def _pod(self, namespace: str, name: str) -> Object:
        pod = self._lookup.get("pods", namespace, name)
        if pod is None:
            raise NotFound.of(GroupResource("", "pod"), name)
        return pod

    # -- tokens -------------------------------------------------------------------------------------------------------

    async def _refuse_token(self, node: str, write: Write, obj: Object | None, old: Object | None) -> str:
        if write.operation != CREATE or write.subresource != "token":
            return ""
        spec: Object = (obj or {}).get("spec") or {}
        bound = spec.get("boundObjectRef") or {}
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            return "node requested token not bound to a pod"
        uid = bound.get("uid")
        if not uid:
            return "node requested token with a pod binding without a uid"
        pod = self._pod(write.namespace, bound["name"])
        if pod["metadata"]["uid"] != uid:
            return (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if _node_of(pod) != node:
            return "node requested token bound to a pod scheduled on a different node"
        return await self._refuse_audience(write, pod, spec.get("audiences") or [])

    async def _refuse_audience(self, write: Write, pod: Object, audiences: list[str]) -> str:
        if len(audiences) > 1:
            return "node may only request 0 or 1 audiences"
        from kapi.server.admission.noderestriction.audiences import references_audience

        audience = audiences[0] if audiences else ""
        is_referenced, problem = references_audience(self._lookup, pod, audience)
        if is_referenced:
            return ""
        if problem:
            return f'error validating audience "{audience}": {problem}'
        attributes = Attributes(write.user, _TOKEN_VERB, "", "v1", audience, namespace=write.namespace, name=write.name)
        decision = await self._authorizer.authorize(attributes)
        if decision.allowed:
            return ""
        missing = f'audience "{audience}" not found in pod spec volume'
        if decision.error:
            what = "to request tokens for this audience"
            return f"{missing}, error authorizing {write.user.name} {what}: {decision.error}"
        return f"{missing}, {write.user.name} is not authorized to request tokens for this audience"


def _node_of(pod: Object | None) -> str:
    return str(((pod or {}).get("spec") or {}).get("nodeName") or "")


def _refuse_pod_status(node: str, write: Write, obj: Object, old: Object) -> str:
    if write.operation != UPDATE:
        return f'unexpected operation "{write.operation}"'
    if _node_of(old) != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'  # noqa: S608
    if (obj["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    status, before = obj.get("status") or {}, old.get("status") or {}
    if _claims(status) != _claims(before):
        return f'node "{node}" cannot update resource claim statues'
    if status.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        return f'node "{node}" cannot update extended resource claim status'
    return ""


def _claims(status: Object) -> list[tuple[str, str | None]]:
    claims = status.get("resourceClaimStatuses") or ()
    return [(claim.get("name", ""), claim.get("resourceClaimName")) for claim in claims]


async def _refuse_node(node: str, write: Write, obj: Object | None, old: Object | None) -> str:
    name = write.name
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if obj is None:
        return ""
    spec, labels = obj.get("spec") or {}, obj["metadata"].get("labels")
    if old is None:
        if spec.get("configSource") is not None:
            return f'node "{node}" is not allowed to create pods with a non-nil configSource'
        forbidden = forbidden_changes(labels, None)
        if forbidden:
            return f'node "{node}" is not allowed to set the following labels: {", ".join(forbidden)}'
        return ""
    before = old.get("spec") or {}
    if spec.get("configSource") is not None and spec["configSource"] != before.get("configSource"):
        return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
    if (spec.get("taints") or []) != (before.get("taints") or []):
        return f'node "{node}" is not allowed to modify taints'
    if (obj["metadata"].get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
        return f'node "{node}" is not allowed to modify ownerReferences'
    forbidden = forbidden_changes(labels, old["metadata"].get("labels"))
    return f"is not allowed to modify labels: {', '.join(forbidden)}" if forbidden else ""


async def _refuse_claim(node: str, write: Write, obj: Object | None, old: Object | None) -> str:
    if write.subresource != "status":
        return "may only update PVC status"
    if write.operation != UPDATE or obj is None or old is None:
        return f'unexpected operation "{write.operation}"'
    changed = [field for field in _unchangeable(obj, old) if field]
    if changed:
        # Kubernetes adds a difference of both objects as Go prints it.
        allowed = "status.quantity and status.conditions"
        return f'node "{node}" is not allowed to update fields other than {allowed}: {", ".join(changed)}'
    return ""


def _unchangeable(obj: Object, old: Object) -> list[str]:
    """Return the fields of a claim that differ and that its kubelet may not change."""
    changed = []
    for part, ignored in (
        ("metadata", {"resourceVersion", "managedFields"}),
        ("spec", set[str]()),
        ("status", {"capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"}),
    ):
        now, before = obj.get(part) or {}, old.get(part) or {}
        fields = sorted((now.keys() | before.keys()) - ignored)
        changed += [f"{part}.{field}" for field in fields if now.get(field) != before.get(field)]
    return changed


async def _refuse_lease(node: str, write: Write, obj: Object | None, old: Object | None) -> str:
    if write.namespace != NODE_LEASES:
        return f'can only access leases in the "{NODE_LEASES}" system namespace'
    if _written_name(write, obj) != node:
        return "can only access node lease with the same name as the requesting node"
    return ""


async def _refuse_csi_node(node: str, write: Write, obj: Object | None, old: Object | None) -> str:
    if _written_name(write, obj) != node:
        return "can only access CSINode with the same name as the requesting node"
    return ""


def _written_name(write: Write, obj: Object | None) -> str:
    return str((obj or {}).get("metadata", {}).get("name", "")) if write.operation == CREATE else write.name


async def _refuse_slice(node: str, write: Write, obj: Object | None, old: Object | None) -> str:
    if write.operation == CREATE and _node_of(obj) != node:
        return "can only create ResourceSlice with the same NodeName as the requesting node"
    if write.operation == DELETE and _node_of(old) != node:
        return "can only delete ResourceSlice with the same NodeName as the requesting node"
    return ""


async def _refuse_signing_request(node: str, write: Write, obj: Object | None, old: Object | None) -> str:
    """A kubelet requests certificates for its own name only. What else they have is validated by the signer."""
    spec: Object = (obj or {}).get("spec") or {}
    if write.operation != CREATE or spec.get("signerName") not in _KUBELET_SIGNERS:
        return ""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        pem = base64.b64decode(spec.get("request") or "", validate=True)
        begin = pem.find(b"-----BEGIN CERTIFICATE REQUEST-----")
        if begin < 0:
            return "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
        request = x509.load_pem_x509_csr(pem[begin:])
    except ValueError as error:
        return f"unable to parse csr: {error}"
    names = [str(one.value) for one in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names[-1:] != [f"system:node:{node}"]:
        return f"can only create a node CSR with CN=system:node:{node}"
    return ""
