"""The node authorizer: a kubelet may read what the Pods on its node need, and nothing of other nodes.

Kubernetes keeps a graph of all references between Pods and other objects. Here only the Pods of each node are indexed,
by a field that the watch cache has already, so that a write of a Pod costs next to nothing; which objects a Pod refers
to is read from the Pod when a kubelet asks for one of them, and remembered until the Pod changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.selectors import EQUALS
from kapi.server.authz.authorizer import ALLOW, NO_OPINION, AccessRules, Decision, Verdict
from kapi.server.authz.podreferences import Reference, pod_references, volume_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kapi.api.user import User
    from kapi.cache.watchcache import Event, Item
    from kapi.registry.catalog import Catalog
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.rbac.rules import Rule

NODES_GROUP: Final = "system:nodes"
NODE_PREFIX: Final = "system:node:"
NODE_LEASES: Final = "kube-node-lease"

_OWN_OBJECT: Final = ("get", "create", "update", "patch", "delete")
_NODE_NAME: Final = "spec.nodeName"


class _Pod(NamedTuple):
    """The node of a Pod, and what the Pod refers to."""

    node: str
    references: frozenset[Reference] | None = None
    """None until a kubelet has asked."""


class NodeAuthorizer:
    """Allows requests of nodes. `rules` are what all nodes may do, but for the resources that are decided here."""

    def __init__(self, catalog: Catalog, rules: Sequence[Rule]) -> None:
        self._catalog = catalog
        self._rules = rules
        self._store = catalog.store("pods")
        self._pods: dict[str, _Pod] = {}
        self._by_node: dict[str, set[str]] = {}
        self._deciders: dict[tuple[str, str], Callable[[str, Attributes], Decision]] = {
            ("", "secrets"): self._decide_read,
            ("", "configmaps"): self._decide_read,
            ("", "persistentvolumeclaims"): self._decide_claim,
            ("", "persistentvolumes"): self._decide_get,
            ("resource.k8s.io", "resourceclaims"): self._decide_get,
            ("storage.k8s.io", "volumeattachments"): self._decide_get,
            ("", "serviceaccounts"): self._decide_service_account,
            ("coordination.k8s.io", "leases"): _decide_lease,
            ("storage.k8s.io", "csinodes"): _decide_csi_node,
            ("resource.k8s.io", "resourceslices"): self._decide_slice,
            ("", "nodes"): _decide_node,
            ("", "pods"): self._decide_pod,
        }

    def start(self) -> None:
        """Index the Pods that are stored, and follow their changes; called once the watch cache is loaded."""
        self._store.cache.listen(self._changed)
        for item in self._store.cache.items():
            self._add(item)

    def decide(self, attributes: Attributes) -> Decision:
        """Allow what a node may do; no opinion on other users."""
        user = attributes.user
        if NODES_GROUP not in user.groups or not user.name.startswith(NODE_PREFIX):
            return NO_OPINION
        node = user.name.removeprefix(NODE_PREFIX)
        if not node:
            return _no(f'unknown node for user "{user.name}"')
        if not attributes.is_resource:
            allowed = any(rule.allows_path(attributes.verb, attributes.path) for rule in self._rules)
            return ALLOW if allowed else NO_OPINION
        decider = self._deciders.get((attributes.group, attributes.resource))
        if decider is not None:
            return decider(node, attributes)
        _, verb, group, _, resource, subresource, *_ = attributes
        for rule in self._rules:
            named = not rule.names or attributes.name in rule.names
            if named and rule.allows_resource(verb, group, resource, subresource):
                return ALLOW
        return NO_OPINION

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return nothing: what a node may do depends on its Pods."""
        if NODES_GROUP not in user.groups or not user.name.startswith(NODE_PREFIX):
            return AccessRules([], [])
        error = "node authorizer does not support user rule resolution"
        return AccessRules([], [], incomplete=True, error=error)

    # -- decisions ----------------------------------------------------------------------------------------------------

    def _decide_read(self, node: str, a: Attributes) -> Decision:
        if a.verb not in ("get", "list", "watch"):
            return _no("can only read resources of this type")
        if a.subresource:
            return _no("cannot read subresource")
        if not a.namespace:
            return _no("can only read namespaced object of this type")
        return self._decide_related(node, a)

    def _decide_get(self, node: str, a: Attributes) -> Decision:
        if a.verb != "get":
            return _no("can only get individual resources of this type")
        if a.subresource:
            return _no("cannot get subresource")
        return self._decide_related(node, a)

    def _decide_claim(self, node: str, a: Attributes) -> Decision:
        if a.subresource != "status":
            return self._decide_get(node, a)
        if a.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._decide_related(node, a)

    def _decide_service_account(self, node: str, a: Attributes) -> Decision:
        if a.verb == "get" and not a.subresource:
            return self._decide_read(node, a)
        if a.verb != "create" or not a.name:
            return _no("can only create tokens for individual service accounts")
        if a.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._decide_related(node, a)

    def _decide_slice(self, node: str, a: Attributes) -> Decision:
        if a.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if a.verb == "create":
            return ALLOW
        if a.verb in ("get", "update", "patch", "delete"):
            return self._decide_related(node, a)
        if a.verb in ("watch", "list", "deletecollection"):
            if _selects(a, _NODE_NAME, node):
                return ALLOW
            return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no(
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection"
        )

    def _decide_pod(self, node: str, a: Attributes) -> Decision:
        if (a.subresource, a.verb) in _POD_WRITES:
            return ALLOW
        if a.subresource or a.verb not in ("get", "list", "watch"):
            return NO_OPINION
        if a.verb == "get":
            return self._decide_get(node, a)
        if _selects(a, _NODE_NAME, node):
            return ALLOW
        if a.name:
            return self._decide_related(node, a)
        return _no("can only list/watch pods with spec.nodeName field selector")

    def _decide_related(self, node: str, a: Attributes) -> Decision:
        if not a.name:
            return _no("No Object name found")
        if self._is_related(node, a.resource, a.namespace, a.name):
            return ALLOW
        return _no(f"no relationship found between node '{node}' and this object")

    # -- relations ----------------------------------------------------------------------------------------------------

    def _is_related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Return True if a Pod on a node needs an object."""
        if resource == "pods":
            return f"{self._store.prefix}{namespace}/{name}" in self._by_node.get(node, ())
        if resource == "volumeattachments":
            return self._names_node("volumeattachments.storage.k8s.io", name, node)
        if resource == "resourceslices":
            return self._names_node("resourceslices.resource.k8s.io", name, node)
        if resource == "persistentvolumes":
            volume = self._catalog.get("persistentvolumes", "", name)
            claim = ((volume or {}).get("spec") or {}).get("claimRef") or {}
            place = Reference("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
            return any(place in references for references in self._references(node))
        wanted = Reference(resource, namespace, name)
        if any(wanted in references for references in self._references(node)):
            return True
        return resource == "secrets" and wanted in self._volume_secrets(node)

    def _names_node(self, resource: str, name: str, node: str) -> bool:
        found = self._catalog.get(resource, "", name)
        return found is not None and (found.get("spec") or {}).get("nodeName") == node

    def _volume_secrets(self, node: str) -> Iterator[Reference]:
        """Yield the Secrets that volumes need which are bound to claims of Pods on a node."""
        for references in self._references(node):
            for resource, namespace, name in references:
                if resource != "persistentvolumeclaims":
                    continue
                claim = self._catalog.get("persistentvolumeclaims", namespace, name) or {}
                volume = self._catalog.get("persistentvolumes", "", (claim.get("spec") or {}).get("volumeName") or "-")
                bound = ((volume or {}).get("spec") or {}).get("claimRef") or {}
                if volume is not None and (bound.get("namespace"), bound.get("name")) == (namespace, name):
                    yield from volume_secrets(volume)

    def _references(self, node: str) -> Iterator[frozenset[Reference]]:
        for key in self._by_node.get(node, ()):
            pod = self._pods[key]
            if pod.references is None:
                item = self._store.cache.get(key)
                found: Iterable[Reference] = () if item is None else pod_references(self._store.decode(item))
                pod = self._pods[key] = pod._replace(references=frozenset(found))
            assert pod.references is not None
            yield pod.references

    # -- the index ----------------------------------------------------------------------------------------------------

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            key = event.item.key
            known = self._pods.pop(key, None)
            if known is not None:
                pods = self._by_node[known.node]
                pods.discard(key)
                if not pods:
                    del self._by_node[known.node]
            if not event.deleted:
                self._add(event.item)

    def _add(self, item: Item) -> None:
        node = (item.fields or {}).get(_NODE_NAME, "")
        if node:
            self._pods[item.key] = _Pod(node)
            self._by_node.setdefault(node, set()).add(item.key)


_POD_WRITES: Final = frozenset(
    {("", "create"), ("", "delete"), ("status", "update"), ("status", "patch"), ("eviction", "create")}
)
"""What a kubelet does with Pods. Kubernetes limits it to Pods of the node in admission (NodeRestriction)."""


def _no(reason: str) -> Decision:
    return Decision(Verdict.NO_OPINION, reason)


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    """Return True if a request is limited to objects that have a value in a field."""
    return any((one.field, one.operator, one.value) == (field, EQUALS, value) for one in attributes.field_requirements)


def _decide_lease(node: str, a: Attributes) -> Decision:
    if a.verb not in _OWN_OBJECT:
        return _no("can only get, create, update, patch, or delete a node lease")
    if a.namespace != NODE_LEASES:
        return _no(f'can only access leases in the "{NODE_LEASES}" system namespace')
    if a.verb != "create" and a.name != node:
        return _no("can only access node lease with the same name as the requesting node")
    return ALLOW


def _decide_csi_node(node: str, a: Attributes) -> Decision:
    if a.verb not in _OWN_OBJECT:
        return _no("can only get, create, update, patch, or delete a CSINode")
    if a.subresource:
        return _no("cannot authorize CSINode subresources")
    if a.verb != "create" and a.name != node:
        return _no("can only access CSINode with the same name as the requesting node")
    return ALLOW


def _decide_node(node: str, a: Attributes) -> Decision:
    if a.subresource == "status" and a.verb in ("update", "patch"):
        return ALLOW
    if a.subresource:
        return NO_OPINION
    if a.verb in ("create", "update", "patch"):
        return ALLOW
    if a.verb not in ("get", "list", "watch"):
        return NO_OPINION
    if a.name == node:
        return ALLOW
    if not a.name:
        return _no(f"node '{node}' cannot read all nodes, only its own Node object")
    return _no(f"node '{node}' cannot read '{a.name}', only its own Node object")
