"""Resources to describe: a few as a server would have them, and one for every stable kind."""

from __future__ import annotations

import schema_samples

from kapi.schema.builtin import definitions as builtin
from kapi.schema.openapi.served import ServedResource, Subresource

READ_WRITE = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
STATUS = frozenset({"get", "patch", "update"})


def resource(kind: str, group: str = "", version: str = "v1", **more: object) -> ServedResource:
    row = {"plural": kind.lower() + "s", "singular": kind.lower(), "namespaced": True, "verbs": READ_WRITE}
    return ServedResource(group=group, version=version, kind=kind, **(row | more))


PODS = resource(
    "Pod",
    subresources=(
        Subresource("binding", "", "v1", "Binding", frozenset({"create"})),
        Subresource("eviction", "policy", "v1", "Eviction", frozenset({"create"})),
        Subresource("exec", "", "v1", "PodExecOptions", frozenset({"create", "get"})),
        Subresource("log", "", "v1", "Pod", frozenset({"get"})),
        Subresource("status", "", "v1", "Pod", STATUS),
    ),
)
NODES = resource("Node", namespaced=False)
DEPLOYMENTS = resource(
    "Deployment",
    "apps",
    subresources=(
        Subresource("scale", "autoscaling", "v1", "Scale", STATUS),
        Subresource("status", "apps", "v1", "Deployment", STATUS),
    ),
)
ROLES = resource("Role", "rbac.authorization.k8s.io")
REVIEWS = resource("SubjectAccessReview", "authorization.k8s.io", namespaced=False, verbs=frozenset({"create"}))


def every_stable_resource() -> list[ServedResource]:
    return [
        resource(kind, group, version)
        for group, version, kind in schema_samples.stable_kinds()
        if builtin.definition_name(group, version, kind + "List")
    ]
