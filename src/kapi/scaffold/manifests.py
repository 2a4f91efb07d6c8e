"""The manifests of a project that come from its code: definitions of its kinds, and the role of its permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.codec import yaml
from kapi.scaffold.layout import GENERATED, conversion_path, converted, definition_name
from kapi.scaffold.rbac import API, merged_rules
from kapi.scaffold.writer import File

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.crd import CustomResource
    from kapi.api.meta import Object
    from kapi.controller.permissions import Permissions
    from kapi.scaffold.project import Project

ROLE_PATH = "config/rbac/role.yaml"


def empty_role(project: Project) -> File:
    """Return the role of an operator that has no controllers yet."""
    return role_file(project, ())


def role_file(project: Project, permissions: Permissions) -> File:
    """Return the role of the operator, and its bindings: in the cluster, or in each namespace that it watches.

    An operator of some namespaces has a second role in the cluster, if it needs resources that belong to no namespace.
    """
    rules = merged_rules(permissions)
    if not project.namespaces:
        return _file([_role(project, project.name, rules), _binding(project, project.name)])
    everywhere = [rule for rule in rules if _is_cluster_scoped(rule)]
    role = _role(project, project.name, [rule for rule in rules if rule not in everywhere])
    documents = [role, *(_binding(project, project.name, namespace) for namespace in project.namespaces)]
    if everywhere:
        name = f"{project.name}-cluster"
        documents += [_role(project, name, everywhere), _binding(project, name)]
    return _file(documents)


def _role(project: Project, name: str, rules: list[Object]) -> Object:
    return {"apiVersion": API, "kind": "ClusterRole", "metadata": _metadata(project, name), "rules": rules}


def _binding(project: Project, role: str, namespace: str = "") -> Object:
    return {
        "apiVersion": API,
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {**_metadata(project, role), **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": project.name, "namespace": project.namespace}],
    }


def _metadata(project: Project, name: str) -> Object:
    return {"name": name, "labels": {"app.kubernetes.io/name": project.name}}


def _is_cluster_scoped(rule: Object) -> bool:
    """Return True for a rule of paths, or of a built-in resource without namespaces."""
    from kapi.registry.builtins import GROUPS

    wanted = {
        (group, name.partition("/")[0]) for group in rule.get("apiGroups", ()) for name in rule.get("resources", ())
    }
    found = {(group.group, row.resource) for group in GROUPS for row in group.rows if not row.namespaced}
    return "nonResourceURLs" in rule or not wanted.isdisjoint(found)


def definition_files(project: Project, classes: Sequence[type[CustomResource]]) -> dict[str, File]:
    """Return the definitions of all kinds.

    Raises:
        kapi.scaffold.definitions.BadDefinition: a server would refuse one.
    """
    from kapi.scaffold.definitions import definitions_of

    files = {}
    conversions = {definition_name(project, kind): conversion_path(kind) for kind in converted(project)}
    for made in definitions_of(classes):
        path = conversions.get(made["metadata"]["name"])
        if path:
            made["spec"]["conversion"] = _conversion(project, path)
        path = f"config/crd/bases/{made['spec']['group']}_{made['spec']['names']['plural']}.yaml"
        files[path] = _file([made])
    return files


def _conversion(project: Project, path: str) -> Object:
    """Return the conversion of a definition; the operator puts its certificate authority into it."""
    service = {"name": f"{project.name}-webhook", "namespace": project.namespace, "path": path, "port": 443}
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]},
    }


def _file(documents: Sequence[Any]) -> File:
    return File(GENERATED + "---\n".join(yaml.encode(one).decode() for one in documents), is_generated=True)
