"""The RBAC objects that give a user of an environment its rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.controller.permissions import policy_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.controller.permissions import Permissions
    from kapi.testing.servers import User

_API: Final = "rbac.authorization.k8s.io"


def role_objects(user: User, role: str, rules: Permissions, namespace: str) -> Iterator[Object]:
    """Return the roles and bindings that give a user a ClusterRole, and rules, in a namespace or (empty) in all."""
    prefix = f"kapi-testing:{user.name}"
    if role:
        yield _binding(f"{prefix}:{role}", user, "ClusterRole", role, namespace)
    if rules:
        kind = "Role" if namespace else "ClusterRole"
        yield {
            **_object(kind, prefix, namespace),
            "rules": policy_rules(rules),
        }
        yield _binding(prefix, user, kind, prefix, namespace)


def _binding(name: str, user: User, kind: str, role: str, namespace: str) -> Object:
    return {
        **_object("RoleBinding" if namespace else "ClusterRoleBinding", name, namespace),
        "roleRef": {"apiGroup": _API, "kind": kind, "name": role},
        "subjects": [{"apiGroup": _API, "kind": "User", "name": user.name}],
    }


def _object(kind: str, name: str, namespace: str) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{_API}/v1", "kind": kind, "metadata": metadata}
