"""RBAC: what roles and bindings allow, from when on, and the words of reasons and refusals."""

import itertools

import pytest

from api_client import CM, NS, served
from kapi.api.user import User
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.rbac import authorizer as rbac_authorizer
from kapi.server.authz.rbac.policy import Binding, Policy
from kapi.server.authz.rbac.rules import Rule, missing_rules
from kapi.storage.interface import Draft

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


def role(name, *rules):
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name, role_name, *subjects, kind="Role"):
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role_name}, "subjects": list(subjects)}


def user(name):
    return {"kind": "User", "name": name}


BOB = user("bob")
DEVS = {"kind": "Group", "name": "devs"}


async def may(api, name, path, *groups, method="GET"):
    answer = await api.request(method, path, transport=api.user(name, *groups))
    return answer.status != 403


@pytest.mark.parametrize(
    ("rule", "request_", "allowed"),
    [
        (READ, ("get", "", "configmaps", ""), True),
        (READ, ("watch", "", "configmaps", ""), False),
        (READ, ("get", "apps", "configmaps", ""), False),
        (READ, ("get", "", "configmaps", "status"), False),
        ({**READ, "verbs": ["*"]}, ("anything", "", "configmaps", ""), True),
        ({**READ, "apiGroups": ["*"]}, ("get", "apps", "configmaps", ""), True),
        ({**READ, "resources": ["*"]}, ("get", "", "pods", "log"), True),
        ({**READ, "resources": ["pods/log"]}, ("get", "", "pods", "log"), True),
        ({**READ, "resources": ["pods/log"]}, ("get", "", "pods", ""), False),
        ({**READ, "resources": ["pods"]}, ("get", "", "pods", "log"), False),
        ({**READ, "resources": ["*/scale"]}, ("get", "", "deployments", "scale"), True),
        ({**READ, "resources": ["*/scale"]}, ("get", "", "deployments", ""), False),
        ({**READ, "resources": ["*/scale"]}, ("get", "", "deployments", "status"), False),
        ({**READ, "resources": ["pods/*"]}, ("get", "", "pods", "log"), False),
        ({}, ("get", "", "configmaps", ""), False),
    ],
)
def test_a_rule_allows_its_verbs_on_its_resources(rule, request_, allowed):
    assert Rule(rule).allows_resource(*request_) is allowed


@pytest.mark.parametrize(
    ("urls", "path", "allowed"),
    [
        (["/metrics"], "/metrics", True),
        (["/metrics"], "/metrics/", False),
        (["/healthz/*"], "/healthz/etcd", True),
        (["/healthz/*"], "/healthz/", True),
        (["/healthz/*"], "/healthz", False),
        (["/healthz*"], "/healthz", True),
        (["/a**"], "/abc", True),
        (["*"], "/anything", True),
        (["/*/x"], "/a/x", False),
        ([], "/metrics", False),
    ],
)
def test_a_rule_allows_its_paths_and_a_star_at_the_end_stands_for_the_rest(urls, path, allowed):
    rule = Rule({"nonResourceURLs": urls, "verbs": ["get"]})
    assert rule.allows_path("get", path) is allowed
    assert not rule.allows_path("post", path)


@served
async def test_a_binding_is_effective_when_its_write_is_answered_and_no_longer_after_its_deletion(api):
    assert not await may(api, "bob", CM)
    await api.made(ROLES, role("reader", READ))
    assert not await may(api, "bob", CM)
    await api.made(BINDINGS, binding("readers", "reader", BOB))
    assert await may(api, "bob", CM)
    assert not await may(api, "ann", CM)
    assert not await may(api, "bob", CM, method="POST")
    assert not await may(api, "bob", f"{NS}/kube-system/configmaps")
    assert not await may(api, "bob", "/api/v1/configmaps")
    await api.patch(f"{ROLES}/reader", {"rules": [{**READ, "verbs": ["watch"]}]})
    assert not await may(api, "bob", CM)
    await api.patch(f"{ROLES}/reader", {"rules": [READ]})
    assert await may(api, "bob", CM)
    await api.patch(f"{BINDINGS}/readers", {"subjects": [user("ann")]})
    assert not await may(api, "bob", CM)
    assert await may(api, "ann", CM)
    await api.delete(f"{ROLES}/reader")
    assert not await may(api, "ann", CM)
    await api.made(ROLES, role("reader", READ))
    assert await may(api, "ann", CM)
    await api.delete(f"{BINDINGS}/readers")
    assert not await may(api, "ann", CM)


@pytest.mark.parametrize(
    ("subject", "name", "groups", "allowed"),
    [
        (BOB, "bob", (), True),
        (BOB, "Bob", (), False),
        (BOB, "ann", ("bob",), False),
        (DEVS, "bob", ("devs",), True),
        (DEVS, "devs", (), False),
        ({"kind": "Group", "name": "system:authenticated"}, "bob", (), True),
        ({"kind": "ServiceAccount", "name": "robot"}, "system:serviceaccount:default:robot", (), True),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "a"}, "system:serviceaccount:a:robot", (), True),
        ({"kind": "ServiceAccount", "name": "robot", "namespace": "a"}, "system:serviceaccount:b:robot", (), False),
        ({"kind": "ServiceAccount", "name": "robot"}, "robot", (), False),
    ],
)
@served
async def test_a_subject_is_a_user_a_group_or_a_service_account(api, subject, name, groups, allowed):
    await api.made(ROLES, role("reader", READ))
    await api.made(BINDINGS, binding("readers", "reader", subject))
    assert await may(api, name, CM, *groups) is allowed


@served
async def test_a_cluster_role_is_granted_in_the_namespace_of_a_role_binding_or_everywhere(api):
    await api.made(f"{RBAC}/clusterroles", role("reader", READ, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}))
    await api.made(BINDINGS, binding("here", "reader", BOB, kind="ClusterRole"))
    assert await may(api, "bob", CM)
    assert not await may(api, "bob", "/api/v1/configmaps")
    assert not await may(api, "bob", "/metrics")
    await api.made(f"{RBAC}/clusterrolebindings", binding("everywhere", "reader", BOB, kind="ClusterRole"))
    assert await may(api, "bob", "/api/v1/configmaps")
    assert await may(api, "bob", f"{NS}/kube-system/configmaps")
    assert await may(api, "bob", "/metrics")
    assert not await may(api, "bob", "/openapi/v2")


@served
async def test_resource_names_limit_a_rule_to_objects_and_to_lists_that_select_one(api):
    await api.made(ROLES, role("one", {**READ, "resourceNames": ["a", "b"]}))
    await api.made(BINDINGS, binding("one", "one", BOB))
    assert await may(api, "bob", f"{CM}/a")
    assert await may(api, "bob", f"{CM}/b")
    assert not await may(api, "bob", f"{CM}/c")
    assert not await may(api, "bob", CM)
    assert await may(api, "bob", f"{CM}?fieldSelector=metadata.name%3Da")
    assert not await may(api, "bob", f"{CM}?fieldSelector=metadata.name%3Dc")


@served
async def test_reasons_name_the_binding_the_role_and_the_subject(api):
    await api.made(ROLES, role("reader", READ))
    await api.made(f"{RBAC}/clusterroles", role("pods", {**READ, "resources": ["pods"]}))
    await api.made(BINDINGS, binding("b", "reader", user("ann"), DEVS, BOB))
    account = {"kind": "ServiceAccount", "name": "robot", "namespace": "x"}
    await api.made(f"{RBAC}/clusterrolebindings", binding("c", "pods", account, kind="ClusterRole"))

    async def reason(name, resource, *groups):
        spec = {"user": name, "groups": list(groups)}
        spec["resourceAttributes"] = {"verb": "get", "resource": resource, "namespace": "default"}
        answer = await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        assert answer["status"]["allowed"]
        return answer["status"]["reason"]

    of = 'RBAC: allowed by RoleBinding "b/default" of Role "reader" to'
    assert await reason("bob", "configmaps") == f'{of} User "bob"'
    assert await reason("bob", "configmaps", "devs") == f'{of} Group "devs"'
    of = 'RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "pods" to'
    assert await reason("system:serviceaccount:x:robot", "pods") == f'{of} ServiceAccount "robot/x"'


@served
async def test_a_refusal_names_the_roles_that_bindings_refer_to_and_that_do_not_exist(api):
    await api.made(BINDINGS, binding("a", "missing", BOB))
    await api.made(BINDINGS, binding("b", "missing", BOB))
    refused = 'configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the namespace '
    answer = await api.request("GET", CM, transport=api.user("bob"))
    why = 'RBAC: role.rbac.authorization.k8s.io "missing" not found'
    assert answer.error == (403, "Forbidden", f'{refused}"default": {why}')
    await api.made(f"{RBAC}/clusterrolebindings", binding("c", "lost", BOB, kind="ClusterRole"))
    answer = await api.request("GET", CM, transport=api.user("bob"))
    why = 'RBAC: [clusterrole.rbac.authorization.k8s.io "lost" not found, role.rbac.authorization.k8s.io "missing" not found]'
    assert answer.error == (403, "Forbidden", f'{refused}"default": {why}')


@served
async def test_remembered_decisions_are_bounded_in_number_and_length(api, monkeypatch):
    monkeypatch.setattr(rbac_authorizer, "MAX_REMEMBERED", 10)
    authorizer = rbac_authorizer.RbacAuthorizer(api.policy)
    bob = User("bob")
    for index in range(25):
        authorizer.decide(Attributes(bob, "get", resource=f"r{index}"))
        assert len(authorizer._remembered) <= 10
    authorizer._remembered.clear()
    authorizer.decide(Attributes(bob, "get", resource="r" * rbac_authorizer.MAX_KEY_LENGTH))
    assert not authorizer._remembered


@served
async def test_a_stored_role_or_binding_that_cannot_be_read_grants_nothing_and_stops_nothing(api):
    await api.made(ROLES, role("reader", READ))
    await api.made(BINDINGS, binding("readers", "reader", BOB))
    assert await may(api, "bob", CM)
    before = (
        b'{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"reader","resourceVersion":"'
    )
    key = "/registry/rbac.authorization.k8s.io/roles/default/reader"
    await api.storage.put(key, Draft(before, b'"},"rules":[7]}'), api.catalog.hub.find(key).revision)
    assert not await may(api, "bob", CM)
    await api.delete(f"{ROLES}/reader")
    await api.made(ROLES, role("reader", READ))
    assert await may(api, "bob", CM)
    before = before.replace(b"Role", b"RoleBinding").replace(b"reader", b"readers")
    key = "/registry/rbac.authorization.k8s.io/rolebindings/default/readers"
    await api.storage.put(key, Draft(before, b'"}}'), api.catalog.hub.find(key).revision)
    assert not await may(api, "bob", CM)


def test_every_subset_of_a_rule_is_decided_alike_with_and_without_compilation():
    """The compiled rule against the words of the API reference, over all combinations of a small alphabet."""
    verbs, groups, resources, subs = ("get", "list"), ("", "apps"), ("pods", "deployments"), ("", "scale")
    choices = [["get"], ["*"], []], [[""], ["*"], ["apps"]], [["pods"], ["*"], ["*/scale"], ["pods/scale"]]
    for rule_verbs, rule_groups, rule_resources in itertools.product(*choices):
        rule = Rule({"verbs": rule_verbs, "apiGroups": rule_groups, "resources": rule_resources})
        for verb, group, resource, sub in itertools.product(verbs, groups, resources, subs):
            names = {"*", f"{resource}/{sub}" if sub else resource} | ({f"*/{sub}"} if sub else set())
            wanted = bool({"*", verb} & set(rule_verbs) and {"*", group} & set(rule_groups))
            wanted = wanted and bool(names & set(rule_resources))
            assert rule.allows_resource(verb, group, resource, sub) is wanted


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ([READ], [READ], []),
        ([READ], [{**READ, "verbs": ["get", "watch"]}], [{**READ, "verbs": ["watch"]}]),
        ([{**READ, "verbs": ["*"]}], [{**READ, "verbs": ["watch"]}], []),
        ([READ], [{**READ, "verbs": ["*"]}], [{**READ, "verbs": ["*"]}]),
        ([{**READ, "resources": ["*/scale"]}], [{**READ, "resources": ["a/scale"]}], []),
        ([{**READ, "resources": ["a/scale"]}], [{**READ, "resources": ["*/scale"], "verbs": ["get"]}], 1),
        ([{**READ, "resourceNames": ["a"]}], [{**READ, "resourceNames": ["a"]}], []),
        ([{**READ, "resourceNames": ["a"]}], [READ], 2),
        ([READ], [{**READ, "resourceNames": ["a"]}], []),
        # Two rules cover together what neither covers alone.
        ([{**READ, "verbs": ["get"]}, {**READ, "verbs": ["list"]}], [READ], []),
        (
            [{"nonResourceURLs": ["/a/*"], "verbs": ["get"]}],
            [{"nonResourceURLs": ["/a/b", "/a/*"], "verbs": ["get"]}],
            [],
        ),
        ([{"nonResourceURLs": ["/a"], "verbs": ["get"]}], [{"nonResourceURLs": ["/a/*"], "verbs": ["get"]}], 1),
        ([], [{}], []),
    ],
)
def test_missing_rules_are_what_is_wanted_and_not_owned(owned, wanted, missing):
    found = missing_rules([Rule(rule) for rule in owned], wanted)
    assert len(found) == missing if isinstance(missing, int) else found == missing


@served
async def test_a_small_role_with_very_many_combinations_is_refused_without_comparing_them(api):
    granter = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}
    await api.made(ROLES, role("granter", granter))
    await api.made(BINDINGS, binding("granter", "granter", BOB))
    many = [f"r{number}" for number in range(2000)]
    absurd = role("absurd", {"apiGroups": many, "resources": many, "verbs": many, "resourceNames": many})
    answer = await api.request("POST", ROLES, absurd, transport=api.user("bob"))
    assert answer.error[:2] == (403, "Forbidden")
    assert "too many combinations" in answer.message
    # Who may do everything may store it.
    assert (await api.post(ROLES, absurd)).status == 201


@served
async def test_bindings_without_subjects_can_change_in_one_batch(api):
    """A batch that raises is delivered again event by event, which hides the failure of a single one."""
    policy = Policy(api.catalog)
    for name in ("a", "b"):
        policy._add(Binding(name, name, "default", "Role", "reader", ()))
    policy._remove("a")
    policy._remove("b")
    assert not policy._bindings
