"""Flow control: which FlowSchema a request is of, and which flow."""

import pytest

from kapi.api.user import User
from kapi.controlplane.flowcontrol import SCHEMAS
from kapi.server.flowcontrol.classify import Classifier, FlowSchema
from kapi.server.requestinfo import parse_query, request_info

PODS = "/api/v1/namespaces/default/pods"
AUTHENTICATED = "system:authenticated"


def info(request):
    method, _, target = request.partition(" ")
    path, _, query = target.partition("?")
    return request_info(method, path, parse_query(query))


def account(namespace, name):
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def default_classifier():
    schemas = {name: FlowSchema({"metadata": {"name": name}, "spec": spec}) for name, spec in SCHEMAS.items()}
    return Classifier(schemas.values(), schemas["catch-all"])


LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"


@pytest.mark.parametrize(
    ("user", "request_", "schema", "level", "distinguisher"),
    [
        (User("admin", ("system:masters", AUTHENTICATED)), f"GET {PODS}", "exempt", "exempt", ""),
        (User("alice", (AUTHENTICATED,)), "GET /livez", "probes", "exempt", ""),
        (User("system:anonymous", ("system:unauthenticated",)), "GET /readyz", "probes", "exempt", ""),
        (User("alice", (AUTHENTICATED,)), "GET /readyz/ping", "probes", "exempt", ""),
        (User("alice", (AUTHENTICATED,)), "POST /readyz", "global-default", "global-default", "alice"),
        (User("alice", (AUTHENTICATED,)), f"GET {PODS}", "global-default", "global-default", "alice"),
        (account("default", "a"), f"GET {PODS}", "service-accounts", "workload-low", "system:serviceaccount:default:a"),
        (account("kube-system", "a"), f"GET {PODS}", "kube-system-service-accounts", "workload-high", "default"),
        (account("kube-system", "a"), f"PUT {LEASE}", "system-leader-election", "leader-election", None),
        (account("kube-system", "a"), f"DELETE {LEASE}", "kube-system-service-accounts", "workload-high", "kube-system"),
        (account("default", "a"), f"PUT {LEASE}", "service-accounts", "workload-low", None),
        (User("system:kube-scheduler", (AUTHENTICATED,)), f"PUT {LEASE}", "system-leader-election", "leader-election", None),
        (User("system:kube-scheduler", (AUTHENTICATED,)), f"GET {PODS}", "kube-scheduler", "workload-high", "default"),
        (User("system:node:n", ("system:nodes", AUTHENTICATED)), "PUT /api/v1/nodes/n/status", "system-node-high", "node-high", None),
        (User("system:node:n", ("system:nodes", AUTHENTICATED)), f"GET {PODS}", "system-nodes", "system", None),
        (User("nobody", ()), f"GET {PODS}", "catch-all", "catch-all", "nobody"),
    ],
)  # fmt: skip
def test_the_default_flow_schemas(user, request_, schema, level, distinguisher):
    flow = default_classifier().classify(user, info(request_))
    assert (flow.schema, flow.level) == (schema, level)
    assert flow.distinguisher == (user.name if distinguisher is None else distinguisher)


def schema(name, precedence=1000, **rule):
    rule = {"subjects": [{"kind": "Group", "group": {"name": "*"}}], **rule}
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": name}, "rules": [rule]}
    return FlowSchema({"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec})


ANY = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}


def test_the_lowest_precedence_decides_then_the_name():
    schemas = [schema(name, precedence, resourceRules=[ANY]) for name, precedence in (("c", 5), ("a", 7), ("b", 5))]
    assert Classifier(schemas, schema("last")).classify(User("u"), info(f"GET {PODS}")).schema == "b"


@pytest.mark.parametrize(
    ("change", "matching", "other"),
    [
        ({"verbs": ["list"]}, [f"GET {PODS}"], [f"GET {PODS}/a"]),
        ({"apiGroups": [""]}, [f"GET {PODS}"], ["GET /apis/apps/v1/deployments"]),
        ({"resources": ["pods"]}, [f"GET {PODS}"], [f"GET {PODS}/a/log", "GET /api/v1/nodes"]),
        ({"resources": ["pods/log"]}, [f"GET {PODS}/a/log"], [f"GET {PODS}"]),
        ({"clusterScope": False}, [f"GET {PODS}"], ["GET /api/v1/pods", "GET /api/v1/nodes"]),
        ({"namespaces": ["default"]}, [f"GET {PODS}", "GET /api/v1/nodes"], ["GET /api/v1/namespaces/x/pods"]),
        ({"namespaces": []}, ["GET /api/v1/nodes"], [f"GET {PODS}"]),
    ],
)
def test_resource_rules(change, matching, other):
    classifier = Classifier([schema("this", resourceRules=[{**ANY, **change}])], schema("last"))
    assert {classifier.classify(User("u"), info(request)).schema for request in matching} == {"this"}
    assert {classifier.classify(User("u"), info(request)).schema for request in [*other, "GET /version"]} == {"last"}


@pytest.mark.parametrize(
    ("urls", "matching", "other"),
    [
        (["*"], ["GET /version", "GET /"], [f"GET {PODS}"]),
        (["/version"], ["GET /version", "GET /version/x"], ["GET /versions"]),
        (["/openapi/*"], ["GET /openapi/v2"], ["GET /openapi"]),
    ],
)
def test_path_rules(urls, matching, other):
    classifier = Classifier(
        [schema("this", nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": urls}])], schema("last")
    )
    assert {classifier.classify(User("u"), info(request)).schema for request in matching} == {"this"}
    assert {classifier.classify(User("u"), info(request)).schema for request in other} == {"last"}


def test_responses_tell_uids():
    one = schema("one", resourceRules=[ANY])
    one.set_level_uid("uid-level")
    flow = Classifier([one], one).classify(User("u"), info(f"GET {PODS}"))
    assert dict(flow.headers) == {
        "X-Kubernetes-PF-PriorityLevel-UID": "uid-level",
        "X-Kubernetes-PF-FlowSchema-UID": "uid-one",
    }


def test_the_flow_of_a_user_is_remembered_whatever_object_it_is():
    """A user that has shown a token is a new object in each request; each would be kept otherwise."""
    one = schema("this", resourceRules=[ANY])
    classifier = Classifier([one], one)
    first, again = (classifier.classify(User("u", ("g",)), info(f"GET {PODS}")) for _ in range(2))
    assert first is again
    assert classifier.classify(User("u", ("h",)), info(f"GET {PODS}")) is not first
    assert classifier.classify(User("v", ("g",)), info(f"GET {PODS}")) is not first
