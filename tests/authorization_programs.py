"""Programs of requests about authorization, to be run against Kapi and against kube-apiserver with the same answers.

A step is a user, a request line, and perhaps a body and headers. Users have client certificates; their groups are in
`USERS`. The steps of a program share what they create.
"""

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHZ = "/apis/authorization.k8s.io/v1"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ADMIN = "admin"

USERS = {
    ADMIN: ("system:masters",),
    "ann": ("devs", "ops"),
    "bob": (),
    "eve <x>": ("a, b",),
    "granter": (),
    "actor": (),
    "constrained": (),
    "system:node:n1": ("system:nodes",),
    "system:node:n2": ("system:nodes",),
}


def rule(verbs, resources="", groups="", names="", urls=""):
    """A rule from words, as in `rule("get list", "pods pods/log", "core apps")`."""
    made = {"verbs": verbs.split()}
    if resources:
        made |= {"apiGroups": ["" if one == "core" else one for one in (groups or "core").split()]}
        made |= {"resources": resources.split()}
    if names:
        made["resourceNames"] = names.split()
    if urls:
        made["nonResourceURLs"] = urls.split()
    return made


def cluster_role(name, *rules, **more):
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name, role, *subjects, kind="ClusterRole"):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": list(subjects)}


def user(name):
    return {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def group(name):
    return {"kind": "Group", "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def as_user(name, *groups, uid="", extra=()):
    """The headers of impersonation."""
    headers = [("Impersonate-User", name)] if name else []
    headers += [("Impersonate-Group", one) for one in groups]
    headers += [("Impersonate-Uid", uid)] if uid else []
    return [*headers, *((f"Impersonate-Extra-{key}", value) for key, value in extra)]


def content_type(method, path):
    """The media type of a step's body."""
    if method != "PATCH":
        return "application/json"
    return "application/apply-patch+yaml" if "fieldManager" in path else "application/merge-patch+json"


def summary(code, body):
    """What two servers have to agree on in an answer: everything but objects, of which the code tells enough."""
    if not isinstance(body, dict):
        return [code, str(body)]
    if body.get("kind") == "Status":
        details = {key: value for key, value in (body.get("details") or {}).items() if key != "uid"}
        return [code, body.get("reason", ""), body.get("message", ""), details]
    status = body.get("status")
    if body.get("kind") == "SelfSubjectReview":
        info = status["userInfo"]
        # Which certificate was used differs.
        extra = {key: value for key, value in info.get("extra", {}).items() if "credential-id" not in key}
        return [code, info["username"], info["groups"], info.get("uid", ""), extra]
    if body.get("kind") == "SelfSubjectRulesReview":
        # Kubernetes lists the rules in any order.
        status = {key: sorted(value, key=str) if isinstance(value, list) else value for key, value in status.items()}
    if str(body.get("kind")).endswith("Review"):
        return [code, status]
    return [code]


NAMESPACE = (ADMIN, "POST", "/api/v1/namespaces", {"metadata": {"name": "x"}})
"""The first step of every program."""
LIST = "/api/v1/namespaces/x/configmaps"
ROLE = f"{RBAC}/namespaces/x/roles"
BIND = f"{RBAC}/namespaces/x/rolebindings"

REFUSALS = [
    ("bob", "GET", LIST),
    ("bob", "GET", f"{LIST}/one"),
    ("bob", "POST", LIST, {"metadata": {"name": "one"}}),
    ("bob", "DELETE", LIST),
    ("bob", "GET", "/api/v1/configmaps"),
    ("bob", "GET", "/api/v1/nodes?watch=1"),
    ("bob", "GET", "/api/v1/namespaces/x"),
    ("bob", "GET", "/apis/apps/v1/namespaces/x/deployments/d/scale"),
    ("bob", "PATCH", "/apis/apps/v1/namespaces/x/deployments/d/status", {}),
    ("bob", "GET", "/apis/unknown.example.com/v1/namespaces/x/things"),
    ("bob", "GET", "/metrics"),
    ("bob", "GET", "/"),
    ("bob", "POST", "/version"),
    ("eve <x>", "GET", LIST),
    ("eve <x>", "GET", "/a<b>&c"),
    ("bob", "GET", "/healthz/etcd"),
    (ADMIN, "POST", BIND, binding("dangling", "lost", user("bob"), kind="Role")),
    ("bob", "GET", f"{LIST}/one"),
]
"""Requests that nothing allows."""

GRANTS = [
    (ADMIN, "POST", ROLE, cluster_role("reader", rule("get list", "configmaps"))),
    (ADMIN, "POST", BIND, binding("reader", "reader", user("bob"), kind="Role")),
    ("bob", "GET", LIST),
    ("bob", "GET", f"{LIST}/missing"),
    ("bob", "GET", "/api/v1/namespaces/default/configmaps"),
    ("bob", "DELETE", f"{LIST}/missing"),
    (ADMIN, "PATCH", f"{BIND}/reader", {"roleRef": {"name": "other"}}),
    (ADMIN, "PATCH", f"{BIND}/reader", {"subjects": [{"kind": "Robot", "name": "x"}]}),
    (ADMIN, "PATCH", f"{ROLE}/reader", {"rules": [rule("get", urls="/metrics")]}),
    (ADMIN, "POST", ROLE, {"metadata": {"name": "bad"}, "rules": [{}, rule(""), {"verbs": ["get"]}]}),
    (ADMIN, "POST", f"{RBAC}/clusterroles", cluster_role("agg", aggregationRule={})),
    (ADMIN, "POST", f"{RBAC}/clusterroles", cluster_role("both", {**rule("get", "pods"), "nonResourceURLs": ["/a"]})),
    (ADMIN, "DELETE", f"{BIND}/reader"),
    ("bob", "GET", LIST),
]
"""A role is granted and taken away, and mistakes in roles and bindings."""


def review(kind, spec, namespace=""):
    """The step that sends a review as the admin."""
    where = f"{AUTHZ}/namespaces/{namespace}/{kind}" if namespace else f"{AUTHZ}/{kind}"
    body = {"spec": spec, **({"metadata": {"namespace": namespace}} if namespace else {})}
    return (ADMIN, "POST", where, body)


PODS = {"verb": "get", "resource": "pods", "namespace": "x"}
SAR = "subjectaccessreviews"
REVIEWS = [
    (ADMIN, "POST", f"{RBAC}/clusterroles", cluster_role("pods", rule("get list", "pods"), rule("get", urls="/a/*"))),
    (ADMIN, "POST", f"{RBAC}/clusterrolebindings", binding("pods", "pods", user("ann"), group("readers"))),
    review(SAR, {"user": "ann", "resourceAttributes": PODS}),
    review(SAR, {"user": "zoe", "groups": ["readers"], "resourceAttributes": PODS}),
    review(SAR, {"user": "zoe", "resourceAttributes": PODS}),
    review(SAR, {"user": "zoe", "groups": ["system:masters"], "resourceAttributes": PODS}),
    review(SAR, {"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/a/b"}}),
    review(SAR, {"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/b"}}),
    review(SAR, {"user": "ann"}),
    review(SAR, {"resourceAttributes": PODS}),
    review(SAR, {"user": "ann", "resourceAttributes": PODS, "nonResourceAttributes": {"path": "/"}}),
    review(SAR, {"user": "ann", "resourceAttributes": {**PODS, "fieldSelector": {"rawSelector": "a=b"}}}),
    review(SAR, {"user": "ann", "resourceAttributes": {**PODS, "fieldSelector": {"rawSelector": "a=b,,("}}}),
    review(SAR, {"user": "ann", "resourceAttributes": {**PODS, "labelSelector": {"rawSelector": "a in ("}}}),
    review(SAR, {"user": "ann", "resourceAttributes": {**PODS, "labelSelector": {}}}),
    review(
        SAR,
        {
            "user": "ann",
            "resourceAttributes": {
                **PODS,
                "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]},
                "labelSelector": {"requirements": [{"key": "a b", "operator": "In", "values": []}]},
            },
        },
    ),
    review(
        SAR,
        {
            "user": "ann",
            "resourceAttributes": {
                **PODS,
                "fieldSelector": {"requirements": [{"key": "k", "operator": "Exists"}]},
                "labelSelector": {"requirements": [{"key": "k", "operator": "Odd", "values": ["v"]}]},
            },
        },
    ),
    review("localsubjectaccessreviews", {"user": "ann", "resourceAttributes": PODS}, "x"),
    review("localsubjectaccessreviews", {"user": "ann", "resourceAttributes": PODS}, "default"),
    review("localsubjectaccessreviews", {"user": "ann", "nonResourceAttributes": {"path": "/"}}, "x"),
    ("ann", "POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": PODS}}),
    ("bob", "POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": PODS}}),
    ("bob", "POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {}}),
    ("bob", "POST", f"{AUTHZ}/subjectaccessreviews", {"spec": {"user": "bob", "resourceAttributes": PODS}}),
    ("ann", "POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {}}),
    ("ann", "POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "x"}}),
    (ADMIN, "POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "x"}}),
    ("bob", "POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "x"}}),
]
"""The reviews of access, right and wrong."""

CLUSTER = f"{RBAC}/clusterroles"
CLUSTER_BIND = f"{RBAC}/clusterrolebindings"
OWNED = rule("get list", "configmaps secrets")
ESCALATION = [
    (
        ADMIN,
        "POST",
        CLUSTER,
        cluster_role(
            "granter", rule("*", "roles rolebindings clusterroles clusterrolebindings", "rbac.authorization.k8s.io")
        ),
    ),
    (
        ADMIN,
        "PATCH",
        f"{CLUSTER}/granter",
        {
            "rules": [
                rule(
                    "create get list update patch delete",
                    "roles rolebindings clusterroles clusterrolebindings",
                    "rbac.authorization.k8s.io",
                ),
                OWNED,
                rule("get", "*/scale", "*"),
                rule("get", urls="/a/*"),
                rule("update", "pods", names="one two"),
            ]
        },
    ),
    (ADMIN, "POST", CLUSTER_BIND, binding("granter", "granter", user("granter"))),
    ("granter", "POST", ROLE, cluster_role("fine", rule("get", "configmaps"))),
    ("granter", "POST", ROLE, cluster_role("scale", rule("get", "deployments/scale", "apps"))),
    ("granter", "POST", ROLE, cluster_role("named", rule("update", "pods", names="one"))),
    ("granter", "POST", ROLE, cluster_role("wrongname", rule("update", "pods", names="three one"))),
    ("granter", "POST", ROLE, cluster_role("allnames", rule("update", "pods"))),
    ("granter", "POST", ROLE, cluster_role("more", rule("get watch delete", "configmaps pods", "core apps"))),
    ("granter", "POST", ROLE, cluster_role("star", rule("*", "*", "*"))),
    ("granter", "POST", CLUSTER, cluster_role("urls", rule("get", urls="/a/b /a/*"))),
    ("granter", "POST", CLUSTER, cluster_role("urls2", rule("get post", urls="/b /a/b"))),
    ("granter", "PUT", f"{ROLE}/fine", cluster_role("fine", rule("get list", "configmaps"))),
    ("granter", "PUT", f"{ROLE}/fine", cluster_role("fine", rule("get list watch", "configmaps"))),
    ("granter", "PUT", f"{ROLE}/absent", cluster_role("absent", rule("watch", "configmaps"))),
    ("granter", "PATCH", f"{ROLE}/fine", {"rules": [rule("delete", "configmaps")]}),
    ("granter", "PATCH", f"{ROLE}/fine", {"metadata": {"labels": {"a": "b"}}}),
    (ADMIN, "PATCH", f"{ROLE}/fine", {"rules": [rule("delete", "configmaps")]}),
    ("granter", "PATCH", f"{ROLE}/fine", {"metadata": {"labels": {"a": "c"}}}),
    ("granter", "PATCH", f"{ROLE}/fine", {"metadata": {"finalizers": ["a.example.com/b"]}}),
    ("granter", "PATCH", f"{ROLE}/fine", {"metadata": {"finalizers": None}}),
    ("granter", "POST", f"{ROLE}?dryRun=All", cluster_role("dry", rule("delete", "configmaps"))),
    (
        "granter",
        "PATCH",
        f"{ROLE}/applied?fieldManager=me",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            **cluster_role("applied", rule("delete", "pods")),
        },
    ),
    (
        "granter",
        "POST",
        CLUSTER,
        cluster_role("agg", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
    ),
    (ADMIN, "POST", CLUSTER, cluster_role("wide", rule("delete", "pods"))),
    ("granter", "POST", BIND, binding("ok", "granter", user("bob"))),
    ("granter", "POST", BIND, binding("wide", "wide", user("bob"))),
    ("granter", "POST", CLUSTER_BIND, binding("wide", "wide", user("bob"))),
    ("granter", "POST", BIND, binding("b", "lost", user("bob"))),
    ("granter", "POST", BIND, binding("b", "lost", user("bob"), kind="Role")),
    ("granter", "POST", BIND, binding("odd", "lost", user("bob"), kind="Odd")),
    (ADMIN, "POST", BIND, binding("wide", "wide", user("bob"))),
    ("granter", "PATCH", f"{BIND}/wide", {"subjects": []}),
    ("granter", "PUT", f"{BIND}/absent", binding("absent", "wide", user("bob"))),
    # The verbs bind and escalate.
    (ADMIN, "POST", ROLE, cluster_role("binder", rule("bind", "clusterroles", "rbac.authorization.k8s.io", "wide"))),
    (ADMIN, "POST", BIND, binding("binder", "binder", user("granter"), kind="Role")),
    ("granter", "POST", BIND, binding("wide2", "wide", user("bob"))),
    ("granter", "POST", BIND, binding("admin", "cluster-admin", user("bob"))),
    ("granter", "POST", CLUSTER_BIND, binding("wide2", "wide", user("bob"))),
    (
        ADMIN,
        "POST",
        ROLE,
        cluster_role("escalator", rule("escalate", "roles", "rbac.authorization.k8s.io", "special")),
    ),
    (ADMIN, "POST", BIND, binding("escalator", "escalator", user("granter"), kind="Role")),
    ("granter", "POST", ROLE, cluster_role("special", rule("delete", "nodes"))),
    ("granter", "PUT", f"{ROLE}/special", cluster_role("special", rule("delete", "nodes"))),
    ("granter", "PUT", f"{ROLE}/other", cluster_role("other", rule("delete", "nodes"))),
    (ADMIN, "PATCH", f"{ROLE}/escalator", {"rules": [rule("escalate", "roles", "rbac.authorization.k8s.io")]}),
    ("granter", "POST", ROLE, cluster_role("any", rule("delete", "nodes"))),
]
"""Grants of what the granter has, and of what it does not have."""

ACT = rule("impersonate", "users groups serviceaccounts")
IMPERSONATION = [
    (ADMIN, "POST", SELF, {}, as_user("zoe")),
    (ADMIN, "POST", SELF, {}, as_user("zoe", "a", "b")),
    (ADMIN, "POST", SELF, {}, as_user("zoe", "a, b")),
    (ADMIN, "POST", SELF, {}, as_user("zoe", "system:masters")),
    (ADMIN, "POST", SELF, {}, as_user("zoe", "system:unauthenticated")),
    (ADMIN, "POST", SELF, {}, as_user("zoe", "system:authenticated")),
    (ADMIN, "GET", "/healthz", None, as_user("system:anonymous")),
    (ADMIN, "POST", SELF, {}, as_user("system:serviceaccount:x:robot")),
    (ADMIN, "POST", SELF, {}, as_user("system:serviceaccount:x:robot", "only")),
    (ADMIN, "POST", SELF, {}, as_user("system:node:n")),
    (ADMIN, "GET", LIST, None, as_user("bob")),
    (ADMIN, "GET", LIST, None, as_user("zoe", uid="u-1", extra=[("scopes", "a"), ("example.com%2Fk", "v")])),
    (ADMIN, "GET", LIST, None, as_user("", "a")),
    (ADMIN, "GET", LIST, None, as_user("", uid="u")),
    (ADMIN, "GET", LIST, None, as_user("", extra=[("k", "v")])),
    ("bob", "GET", LIST, None, as_user("zoe")),
    ("bob", "GET", "/metrics", None, as_user("zoe")),
    ("bob", "GET", LIST, None, as_user("system:serviceaccount:x:robot")),
    ("bob", "GET", LIST, None, as_user("system:node:n")),
    ("bob", "GET", LIST, None, as_user("zoe", "system:masters")),
    (ADMIN, "POST", CLUSTER, cluster_role("actor", ACT, rule("impersonate", "uids", "authentication.k8s.io"))),
    (ADMIN, "POST", CLUSTER_BIND, binding("actor", "actor", user("actor"))),
    ("actor", "POST", SELF, {}, as_user("zoe")),
    ("actor", "POST", SELF, {}, as_user("zoe", "system:masters")),
    ("actor", "POST", SELF, {}, as_user("zoe", "")),
    ("actor", "POST", SELF, {}, as_user("zoe", uid="u-1")),
    ("actor", "POST", SELF, {}, as_user("zoe", extra=[("k", "v")])),
    ("actor", "POST", SELF, {}, as_user("system:serviceaccount:x:robot")),
    ("actor", "GET", LIST, None, as_user("zoe")),
    (ADMIN, "PATCH", f"{CLUSTER}/actor", {"rules": [{**ACT, "resourceNames": ["zoe"]}]}),
    ("actor", "POST", SELF, {}, as_user("zoe")),
    ("actor", "POST", SELF, {}, as_user("bob")),
    ("actor", "POST", SELF, {}, as_user("zoe", "devs")),
    # Constrained impersonation.
    (
        ADMIN,
        "POST",
        CLUSTER,
        cluster_role(
            "constrained",
            rule("impersonate:user-info", "users groups", "authentication.k8s.io"),
            rule("impersonate:user-info", "userextras/example.com/k", "authentication.k8s.io"),
            rule("impersonate-on:user-info:create", "selfsubjectreviews", "authentication.k8s.io"),
            rule("impersonate-on:serviceaccount:create", "selfsubjectreviews", "authentication.k8s.io"),
            rule("impersonate:serviceaccount", "serviceaccounts", "authentication.k8s.io", "robot"),
            rule("impersonate-on:arbitrary-node:create", "selfsubjectreviews", "authentication.k8s.io"),
            rule("impersonate:arbitrary-node", "nodes", "authentication.k8s.io", "n"),
        ),
    ),
    (ADMIN, "POST", CLUSTER_BIND, binding("constrained", "constrained", user("constrained"))),
    ("constrained", "POST", SELF, {}, as_user("zoe")),
    ("constrained", "POST", SELF, {}, as_user("zoe", "a", "b", "c", "d", "e")),
    ("constrained", "POST", SELF, {}, as_user("zoe", "system:masters")),
    ("constrained", "POST", SELF, {}, as_user("zoe", "")),
    ("constrained", "POST", SELF, {}, as_user("zoe", uid="u")),
    ("constrained", "POST", SELF, {}, as_user("zoe", extra=[("k", "v")])),
    ("constrained", "POST", SELF, {}, as_user("zoe", extra=[("example.com%2Fk", "v")])),
    ("constrained", "POST", SELF, {}, as_user("zoe", extra=[("example.com%2Fl", "v")])),
    ("constrained", "POST", SELF, {}, as_user("zoe", extra=[("example.com%2Fk", "")])),
    ("constrained", "GET", LIST, None, as_user("zoe")),
    ("constrained", "POST", SELF, {}, as_user("system:serviceaccount:x:robot")),
    ("constrained", "POST", SELF, {}, as_user("system:serviceaccount:x:other")),
    ("constrained", "POST", SELF, {}, as_user("system:node:n")),
    ("constrained", "POST", SELF, {}, as_user("system:node:m")),
]
"""Requests as other users, with the right to and without."""

PODS_OF_X = "/api/v1/namespaces/x/pods"
CORE = "/api/v1/namespaces/x"
N1, N2 = "system:node:n1", "system:node:n2"
POD = {
    "metadata": {"name": "p"},
    "spec": {
        "nodeName": "n1",
        "containers": [
            {"name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "env"}}]}
        ],
        "imagePullSecrets": [{"name": "pull"}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "mounted"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
        ],
    },
}
VOLUME = {
    "metadata": {"name": "volume"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "x", "name": "claim"},
        "csi": {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": {"name": "staged", "namespace": "x"}},
    },
}
CLAIM = {
    "metadata": {"name": "claim"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "volume",
        "storageClassName": "",
    },
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES = [
    (N1, "GET", f"{CORE}/secrets/mounted"),
    (ADMIN, "POST", PODS_OF_X, POD),
    (ADMIN, "POST", "/api/v1/persistentvolumes", VOLUME),
    (ADMIN, "POST", f"{CORE}/persistentvolumeclaims", CLAIM),
    *(
        (who, "GET", f"{CORE}/{path}")
        for path in (
            "secrets/mounted",
            "secrets/env",
            "secrets/pull",
            "secrets/staged",
            "secrets/other",
            "configmaps/env",
            "configmaps/projected",
            "configmaps/other",
            "persistentvolumeclaims/claim",
            "pods/p",
            "secrets",
            "configmaps",
            "pods",
            "pods?fieldSelector=spec.nodeName%3Dn1",
            "pods?fieldSelector=spec.nodeName!%3Dn1",
            "secrets?fieldSelector=metadata.name%3Dmounted",
            "serviceaccounts/default",
            "serviceaccounts",
            "services",
        )
        for who in (N1, N2)
    ),
    (N1, "GET", "/api/v1/persistentvolumes/volume"),
    (N2, "GET", "/api/v1/persistentvolumes/volume"),
    (N1, "GET", "/api/v1/persistentvolumes"),
    (N1, "GET", "/api/v1/nodes"),
    (N1, "GET", "/api/v1/nodes/n1"),
    (N1, "GET", "/api/v1/nodes/n2"),
    (N1, "DELETE", "/api/v1/nodes/n1"),
    (N1, "GET", f"{LEASES}/n1"),
    (N1, "GET", f"{LEASES}/n2"),
    (N1, "GET", LEASES),
    (N1, "GET", "/apis/coordination.k8s.io/v1/namespaces/x/leases/n1"),
    (N1, "GET", "/apis/storage.k8s.io/v1/csinodes/n1"),
    (N1, "GET", "/apis/storage.k8s.io/v1/csinodes/n2"),
    (N1, "GET", "/apis/storage.k8s.io/v1/csinodes"),
    (N1, "GET", "/apis/storage.k8s.io/v1/volumeattachments/va"),
    (N1, "GET", "/apis/apps/v1/deployments"),
    (N1, "DELETE", f"{CORE}/secrets/mounted"),
    (N1, "PATCH", f"{CORE}/pods/p", {}),
    (N1, "GET", "/metrics"),
    (N1, "POST", f"{AUTHZ}/selfsubjectrulesreviews", {"spec": {"namespace": "x"}}),
    (N1, "POST", f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": PODS}}),
    (ADMIN, "DELETE", f"{PODS_OF_X}/p?gracePeriodSeconds=0"),
    (N1, "GET", f"{CORE}/secrets/mounted"),
    (N1, "GET", f"{CORE}/pods/p"),
]
"""Requests of kubelets."""

PROGRAMS = {
    "refusals": REFUSALS,
    "grants": GRANTS,
    "reviews": REVIEWS,
    "escalation": ESCALATION,
    "impersonation": IMPERSONATION,
    "nodes": NODES,
}
