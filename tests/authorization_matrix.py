"""A policy, the requests of a matrix over it, and a model of RBAC that is written unlike the implementation.

The implementation asks of each rule whether it matches a request. The model goes the other way: it spells out, over the
finite matrix, every request that every grant allows, and a request is allowed if it is in that set.
"""

import itertools
from typing import NamedTuple

from authorization_programs import RBAC, binding, cluster_role, group, rule, user

SUBJECTS = {
    "ann": ("devs", "system:authenticated"),
    "bob": ("system:authenticated",),
    "eve": ("ops", "devs", "system:authenticated"),
    "root": ("system:masters", "system:authenticated"),
    "system:anonymous": ("system:unauthenticated",),
    "system:serviceaccount:x:robot": ("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"),
    "system:serviceaccount:y:robot": ("system:serviceaccounts", "system:serviceaccounts:y", "system:authenticated"),
    "zoe": ("system:authenticated",),
}
VERBS = ("get", "list", "watch", "create", "delete", "impersonate")
RESOURCES = (
    ("", "pods"),
    ("", "pods/log"),
    ("", "secrets"),
    ("apps", "deployments"),
    ("apps", "deployments/scale"),
    ("batch", "jobs"),
    ("example.com", "pods"),
    ("example.com", "things/scale"),
)
SCOPES = ("", "x", "y")
NAMES = ("", "a", "b")
SELECTORS = (
    {},
    {"fieldSelector": {"rawSelector": "metadata.name=a"}},
    {"labelSelector": {"requirements": [{"key": "app", "operator": "In", "values": ["a"]}]}},
)
PATHS = ("/", "/metrics", "/metrics/", "/metrics/slis", "/logs", "/logs/etcd", "/debug/pprof", "/custom", "/customx")
"""Paths that the default roles say nothing about."""


def account(name, namespace=""):
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}


CLUSTER_ROLES = {
    "m-pods": [rule("get list", "pods pods/log")],
    "m-scale": [rule("*", "*/scale", "*")],
    "m-apps": [rule("get watch", "*", "apps batch")],
    "m-named": [rule("get delete", "secrets", names="a"), rule("list", "secrets", names="b a")],
    "m-everything-in": [rule("*", "*", "*")],
    "m-urls": [rule("get", urls="/metrics /logs/* /debug*"), rule("*", urls="/custom")],
    "m-empty": [],
    "m-impersonate": [rule("impersonate", "pods"), rule("create", "pods", "example.com")],
}
ROLES = {
    ("x", "m-secrets"): [rule("get list watch", "secrets")],
    ("y", "m-secrets"): [rule("create", "secrets", names="a")],
    ("x", "m-log"): [rule("get", "pods/log"), rule("delete", "deployments", "apps", "a b")],
}
CLUSTER_BINDINGS = {
    "m-pods": ("m-pods", [user("ann"), group("ops")]),
    "m-scale": ("m-scale", [group("devs")]),
    "m-urls": ("m-urls", [user("bob"), account("robot", "y"), group("system:unauthenticated")]),
    "m-named": ("m-named", [account("robot", "x")]),
    "m-lost": ("m-not-there", [user("ann")]),
    "m-empty": ("m-empty", [user("zoe")]),
}
BINDINGS = {
    ("x", "m-apps"): ("ClusterRole", "m-apps", [user("bob")]),
    ("y", "m-all"): ("ClusterRole", "m-everything-in", [user("zoe"), account("robot")]),
    ("x", "m-urls"): ("ClusterRole", "m-urls", [user("zoe")]),
    ("x", "m-secrets"): ("Role", "m-secrets", [group("ops")]),
    ("y", "m-secrets"): ("Role", "m-secrets", [user("ann"), user("ann")]),
    ("x", "m-log"): ("Role", "m-log", [account("robot")]),
    ("y", "m-lost"): ("Role", "m-log", [user("bob")]),
    ("x", "m-act"): ("ClusterRole", "m-impersonate", [group("system:serviceaccounts")]),
}


def objects():
    """The path and body of every object of the policy."""
    for name, rules in CLUSTER_ROLES.items():
        yield f"{RBAC}/clusterroles", cluster_role(name, *rules)
    for (namespace, name), rules in ROLES.items():
        yield f"{RBAC}/namespaces/{namespace}/roles", cluster_role(name, *rules)
    for name, (role, subjects) in CLUSTER_BINDINGS.items():
        yield f"{RBAC}/clusterrolebindings", binding(name, role, *subjects)
    for (namespace, name), (kind, role, subjects) in BINDINGS.items():
        yield f"{RBAC}/namespaces/{namespace}/rolebindings", binding(name, role, *subjects, kind=kind)


class Cell(NamedTuple):
    """One request of the matrix: of a resource, or of a path."""

    user: str
    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def cells():
    """Every request of the matrix."""
    for who, verb, (api_group, resource), namespace, name in itertools.product(
        SUBJECTS, VERBS, RESOURCES, SCOPES, NAMES
    ):
        yield Cell(who, verb, api_group, resource, namespace, name)
    for who, verb, path in itertools.product(SUBJECTS, ("get", "post"), PATHS):
        yield Cell(who, verb, path=path)


def review(cell, selector):
    """The spec of the SubjectAccessReview about a cell."""
    spec = {"user": cell.user, "groups": list(SUBJECTS[cell.user])}
    if cell.path:
        return {**spec, "nonResourceAttributes": {"verb": cell.verb, "path": cell.path}}
    resource, _, subresource = cell.resource.partition("/")
    attributes = {"verb": cell.verb, "group": cell.group, "resource": resource, "subresource": subresource}
    attributes |= {"namespace": cell.namespace, "name": cell.name, **selector}
    return {**spec, "resourceAttributes": {key: value for key, value in attributes.items() if value}}


# -- the model --------------------------------------------------------------------------------------------------------


def allowed_cells():
    """The set of all cells that are allowed."""
    allowed = {cell for cell in cells() if "system:masters" in SUBJECTS[cell.user]}
    for role, subjects in CLUSTER_BINDINGS.values():
        for one in CLUSTER_ROLES.get(role, ()):
            allowed |= _spelled_out(one, _people(subjects, ""), SCOPES)
    for (namespace, _), (kind, role, subjects) in BINDINGS.items():
        rules = CLUSTER_ROLES.get(role, ()) if kind == "ClusterRole" else ROLES.get((namespace, role), ())
        for one in rules:
            # In a namespace, paths are granted to nobody.
            allowed |= {cell for cell in _spelled_out(one, _people(subjects, namespace), [namespace]) if not cell.path}
    return allowed


def _people(subjects, namespace):
    people = set()
    for one in subjects:
        if one["kind"] == "Group":
            people |= {name for name, groups in SUBJECTS.items() if one["name"] in groups}
        elif one["kind"] == "User":
            people |= {one["name"]} & SUBJECTS.keys()
        else:
            people |= {f"system:serviceaccount:{one.get('namespace') or namespace}:{one['name']}"} & SUBJECTS.keys()
    return people


def _spelled_out(one, people, scopes):
    if "nonResourceURLs" in one:
        paths = {path for url in one["nonResourceURLs"] for path in PATHS if _is_path(url, path)}
        verbs = {"get", "post"} if "*" in one["verbs"] else set(one["verbs"])
        return {Cell(who, verb, path=path) for who in people for verb in verbs for path in paths}
    verbs = VERBS if "*" in one["verbs"] else one["verbs"]
    chosen = set()
    for pattern in one["resources"]:
        for api_group, resource in RESOURCES:
            wanted = {"*": resource, "*/scale": f"{resource.partition('/')[0]}/scale"}.get(pattern, pattern)
            if resource == wanted and {api_group, "*"} & set(one["apiGroups"]):
                chosen.add((api_group, resource))
    names = one.get("resourceNames") or NAMES
    every = itertools.product(people, verbs, chosen, scopes, names)
    return {Cell(who, verb, *resource, namespace, name) for who, verb, resource, namespace, name in every}


def _is_path(url, path):
    stem, star, _ = url.partition("*")
    return path[: len(stem)] == stem if star else path == url
