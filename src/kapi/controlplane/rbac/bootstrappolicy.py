"""The bootstrap policy: the roles and bindings that every cluster has, as objects.

They are written down in a notation of their own, a role's name and below it one rule per line:

    NAME
        GROUP,GROUP: RESOURCE RESOURCE [OBJECT OBJECT] = VERB VERB
        paths: PATH PATH = VERB
        events

A deeper line continues the one above it. `core` is the group without a name, `read` stands for get, list and watch,
`write` for create, update, patch, delete and deletecollection, and `events` for the right to record events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.controlplane.rbac.clusterroles import CLUSTER_ROLES
from kapi.controlplane.rbac.controllerroles import CONTROLLER_ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object

GROUP: Final = "rbac.authorization.k8s.io"
SYSTEM_NAMESPACE: Final = "kube-system"
CONTROLLER_PREFIX: Final = "system:controller:"
AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""The annotation of a role or binding that is reconciled at every start unless a user sets it to "false"."""
BOOTSTRAPPING: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}

_VERBS: Final = {"read": ("get", "list", "watch"), "write": ("create", "delete", "deletecollection", "patch", "update")}
_EVENTS: Final = "core,events.k8s.io: events = create patch update"

_AGGREGATED_ROLES: Final = ("admin", "edit", "view")
"""The ClusterRoles whose rules are those of the ClusterRoles with the label `aggregate-to-<name>`."""
_AGGREGATED_TO: Final = {
    "edit": "admin",
    "view": "edit",
    **{f"system:aggregate-to-{name}": name for name in _AGGREGATED_ROLES},
}

_ROLES: Final = """
kube-public system:controller:bootstrap-signer
    core: configmaps = read
    core: configmaps [cluster-info] = update
    events
kube-system extension-apiserver-authentication-reader
    core: configmaps [extension-apiserver-authentication] = read
kube-system system::leader-locking-kube-controller-manager
    coordination.k8s.io: leases = read create update
    coordination.k8s.io: leasecandidates = read create update
kube-system system::leader-locking-kube-scheduler
    coordination.k8s.io: leases = read create update
    coordination.k8s.io: leasecandidates = read create update
kube-system system:controller:bootstrap-signer
    core: secrets = read
kube-system system:controller:cloud-provider
    core: configmaps = read create
kube-system system:controller:token-cleaner
    core: secrets = read delete
    events
"""
_CLUSTER_ROLE_BINDINGS: Final = {
    "cluster-admin": ("Group system:masters",),
    "system:basic-user": ("Group system:authenticated",),
    "system:discovery": ("Group system:authenticated",),
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:kube-dns": ("ServiceAccount kube-dns",),
    "system:kube-scheduler": ("User system:kube-scheduler",),
    "system:monitoring": ("Group system:monitoring",),
    "system:node": (),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:volume-scheduler": ("User system:kube-scheduler",),
}
"""The subjects of each ClusterRole that is bound by a ClusterRoleBinding of the same name."""
_ROLE_BINDINGS: Final = {
    ("kube-public", "system:controller:bootstrap-signer"): ("ServiceAccount bootstrap-signer",),
    ("kube-system", "system::extension-apiserver-authentication-reader"): (
        "User system:kube-controller-manager",
        "User system:kube-scheduler",
    ),
    ("kube-system", "system::leader-locking-kube-controller-manager"): (
        "User system:kube-controller-manager",
        "ServiceAccount kube-controller-manager",
        "ServiceAccount leader-election-controller",
    ),
    ("kube-system", "system::leader-locking-kube-scheduler"): (
        "User system:kube-scheduler",
        "ServiceAccount kube-scheduler",
    ),
    ("kube-system", "system:controller:bootstrap-signer"): ("ServiceAccount bootstrap-signer",),
    ("kube-system", "system:controller:cloud-provider"): ("ServiceAccount cloud-provider",),
    ("kube-system", "system:controller:token-cleaner"): ("ServiceAccount token-cleaner",),
}
_OTHER_ROLE: Final = {"system::extension-apiserver-authentication-reader": "extension-apiserver-authentication-reader"}
"""The Role of a RoleBinding that does not have its name."""


class BootstrapPolicy(NamedTuple):
    """The default roles and bindings, in the order in which they are reconciled."""

    cluster_roles: list[Object]
    cluster_role_bindings: list[Object]
    roles: list[Object]
    role_bindings: list[Object]


def bootstrap_policy() -> BootstrapPolicy:
    """Return the roles and bindings that every cluster has."""
    controllers = {f"{CONTROLLER_PREFIX}{account}": rules for account, rules in read_roles(CONTROLLER_ROLES)}
    cluster_roles = [_aggregated_role(name) for name in _AGGREGATED_ROLES]
    cluster_roles += [_role("ClusterRole", "", name, rules=rules) for name, rules in read_roles(CLUSTER_ROLES)]
    cluster_roles += [_role("ClusterRole", "", name, rules=rules) for name, rules in controllers.items()]
    bound = dict(_CLUSTER_ROLE_BINDINGS)
    bound |= {name: (f"ServiceAccount {name.removeprefix(CONTROLLER_PREFIX)}",) for name in controllers}
    return BootstrapPolicy(
        cluster_roles,
        [_binding("ClusterRoleBinding", "", name, "ClusterRole", name, subjects) for name, subjects in bound.items()],
        [_role("Role", *name.split(), rules=rules) for name, rules in read_roles(_ROLES)],
        [
            _binding("RoleBinding", namespace, name, "Role", _OTHER_ROLE.get(name, name), subjects)
            for (namespace, name), subjects in _ROLE_BINDINGS.items()
        ],
    )


def node_rules() -> list[dict[str, Any]]:
    """Return what the ClusterRole system:node allows: what kubelets do."""
    return next(rules for name, rules in read_roles(CLUSTER_ROLES) if name == "system:node")


def read_roles(text: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name and rules of each role in the notation described above."""
    name, lines = "", list[str]()
    for line in text.strip().splitlines():
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            if name:
                yield name, [_rule(one) for one in lines]
            name, lines = line, []
        elif depth == 4:
            lines.append(line.strip())
        else:
            lines[-1] += f" {line.strip()}"
    yield name, [_rule(one) for one in lines]


def _rule(line: str) -> dict[str, Any]:
    groups, _, rest = (_EVENTS if line == "events" else line).partition(": ")
    applied, _, words = rest.rpartition(" = ")
    verbs = sorted(verb for word in words.split() for verb in _VERBS.get(word, (word,)))
    if groups == "paths":
        return {"nonResourceURLs": applied.split(), "verbs": verbs}
    resources, _, names = applied.removesuffix("]").partition(" [")
    rule = {
        "apiGroups": ["" if group == "core" else group for group in groups.split(",")],
        "resources": resources.split(),
        "verbs": verbs,
    }
    return {**rule, "resourceNames": names.split()} if names else rule


def _object(kind: str, namespace: str, name: str, labels: dict[str, str] | None = None) -> Object:
    metadata: Object = {"name": name, "labels": {**BOOTSTRAPPING, **(labels or {})}}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def _role(kind: str, namespace: str, name: str, *, rules: list[dict[str, Any]]) -> Object:
    return {**_object(kind, namespace, name, _aggregation_label(name)), "rules": rules}


def _aggregated_role(name: str) -> Object:
    selector = {"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}
    return {
        **_object("ClusterRole", "", name, _aggregation_label(name)),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
    }


def _aggregation_label(name: str) -> dict[str, str]:
    return {f"{GROUP}/aggregate-to-{_AGGREGATED_TO[name]}": "true"} if name in _AGGREGATED_TO else {}


def _binding(kind: str, namespace: str, name: str, role_kind: str, role: str, subjects: Iterable[str]) -> Object:
    binding = _object(kind, namespace, name)
    binding["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    if named := [_subject(*subject.split()) for subject in subjects]:
        binding["subjects"] = named
    return binding


def _subject(kind: str, name: str) -> dict[str, str]:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": SYSTEM_NAMESPACE}
    return {"kind": kind, "name": name, "apiGroup": GROUP}
