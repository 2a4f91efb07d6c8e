"""The default roles and bindings: what they are, and how a start reconciles them with what is stored.

`tests/contract/test_authorization_parity.py` compares them with those of a real kube-apiserver.
"""

import pytest

from api_client import served
from kapi.controlplane.rbac.bootstrappolicy import AUTOUPDATE, bootstrap_policy, read_roles
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.storage.interface import Draft

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
BINDINGS = f"{RBAC}/clusterrolebindings"


def test_rules_are_read_from_their_notation():
    text = """
one
    core,apps: pods pods/log [a b] = read patch
    paths: /healthz /healthz/* = get
two
    events
    batch: jobs
        cronjobs = write
"""
    assert list(read_roles(text)) == [
        (
            "one",
            [
                {
                    "apiGroups": ["", "apps"],
                    "resources": ["pods", "pods/log"],
                    "resourceNames": ["a", "b"],
                    "verbs": ["get", "list", "patch", "watch"],
                },
                {"nonResourceURLs": ["/healthz", "/healthz/*"], "verbs": ["get"]},
            ],
        ),
        (
            "two",
            [
                {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
                {
                    "apiGroups": ["batch"],
                    "resources": ["jobs", "cronjobs"],
                    "verbs": ["create", "delete", "deletecollection", "patch", "update"],
                },
            ],
        ),
    ]


def test_policy_has_the_roles_and_bindings_of_kubernetes_1_36():
    policy = bootstrap_policy()
    assert [len(part) for part in policy] == [69, 50, 7, 7]
    roles = {role["metadata"]["name"] for role in policy.cluster_roles}
    assert {binding["roleRef"]["name"] for binding in policy.cluster_role_bindings} <= roles
    for role in (*policy.cluster_roles, *policy.roles):
        for rule in role.get("rules", ()):
            assert all(rule.values()), role
            assert rule["verbs"] == sorted(set(rule["verbs"]))


@served
async def test_all_are_created_at_the_first_start_and_the_second_writes_nothing(api):
    await ensure_policy(api.transport, api.catalog)
    counts = [len((await api.get(f"{RBAC}/{kind}"))["items"]) for kind in ("clusterroles", "clusterrolebindings")]
    counts += [len((await api.get(f"{RBAC}/{kind}"))["items"]) for kind in ("roles", "rolebindings")]
    assert counts == [69, 50, 7, 7]
    binding = (await api.get(f"{BINDINGS}/system:discovery")).json
    assert binding["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}
    assert binding["metadata"]["annotations"] == {AUTOUPDATE: "true"}
    assert binding["metadata"]["managedFields"][0]["manager"] == "kube-apiserver"
    before = api.revision
    await ensure_policy(api.transport, api.catalog)
    assert api.revision == before


@served
async def test_missing_permissions_and_labels_are_added_and_those_of_users_stay(api):
    await ensure_policy(api.transport, api.catalog)
    kept = {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["get"]}
    change = {"rules": [kept], "metadata": {"labels": {"kubernetes.io/bootstrapping": None, "mine": "yes"}}}
    await api.patch(f"{ROLES}/system:basic-user", change)
    await ensure_policy(api.transport, api.catalog)
    role = (await api.get(f"{ROLES}/system:basic-user")).json
    assert role["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults", "mine": "yes"}
    review = {"apiGroups": ["authorization.k8s.io"], "verbs": ["create"]}
    assert role["rules"] == [
        kept,
        {**review, "resources": ["selfsubjectaccessreviews"]},
        {**review, "resources": ["selfsubjectrulesreviews"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ]
    before = api.revision
    await ensure_policy(api.transport, api.catalog)
    assert api.revision == before


@served
async def test_missing_subjects_are_added_and_those_of_users_stay(api):
    await ensure_policy(api.transport, api.catalog)
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group"}
    await api.patch(f"{BINDINGS}/system:public-info-viewer", {"subjects": [{**group, "name": "mine"}]})
    await ensure_policy(api.transport, api.catalog)
    subjects = (await api.get(f"{BINDINGS}/system:public-info-viewer"))["subjects"]
    assert [one["name"] for one in subjects] == ["mine", "system:authenticated", "system:unauthenticated"]


@served
async def test_a_binding_to_another_role_is_replaced(api):
    other = {"metadata": {"name": "system:discovery"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}
    uid = (await api.made(BINDINGS, other))["metadata"]["uid"]
    await ensure_policy(api.transport, api.catalog)
    binding = (await api.get(f"{BINDINGS}/system:discovery")).json
    assert binding["roleRef"]["name"] == "system:discovery"
    assert binding["metadata"]["uid"] != uid


@pytest.mark.parametrize(
    ("collection", "name", "change"),
    [
        (ROLES, "system:basic-user", {"rules": []}),
        (BINDINGS, "system:basic-user", {"subjects": []}),
        (ROLES, "view", {"aggregationRule": None}),
    ],
)
@served
async def test_autoupdate_false_protects_an_object(api, collection, name, change):
    await ensure_policy(api.transport, api.catalog)
    await api.patch(f"{collection}/{name}", {**change, "metadata": {"annotations": {AUTOUPDATE: "false"}}})
    before = api.revision
    await ensure_policy(api.transport, api.catalog)
    assert api.revision == before


@served
async def test_aggregation_is_added_where_it_is_missing_and_removed_where_there_is_none(api):
    await ensure_policy(api.transport, api.catalog)
    await api.patch(f"{ROLES}/view", {"aggregationRule": None})
    selector = {"matchLabels": {"a": "b"}}
    await api.patch(f"{ROLES}/edit", {"aggregationRule": {"clusterRoleSelectors": [selector]}})
    await api.patch(f"{ROLES}/system:basic-user", {"aggregationRule": {"clusterRoleSelectors": [selector]}})
    await ensure_policy(api.transport, api.catalog)
    own = {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
    assert (await api.get(f"{ROLES}/view"))["aggregationRule"] == {"clusterRoleSelectors": [own]}
    assert len((await api.get(f"{ROLES}/edit"))["aggregationRule"]["clusterRoleSelectors"]) == 2
    assert "aggregationRule" not in (await api.get(f"{ROLES}/system:basic-user")).json


@served
async def test_nothing_that_is_stored_in_a_default_role_stops_the_start(api):
    await ensure_policy(api.transport, api.catalog)
    many = [{"apiGroups": ["g"], "resources": [f"r{number}"], "verbs": ["get"]} for number in range(8000)]
    assert (await api.patch(f"{ROLES}/system:kube-scheduler", {"rules": many})).status == 200
    key = "/registry/rbac.authorization.k8s.io/clusterroles/system:basic-user"
    before = (
        b'{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"system:basic-user",'
    )
    damaged = Draft(before + b'"resourceVersion":"', b'"},"rules":[7]}')
    await api.storage.put(key, damaged, api.catalog.hub.find(key).revision)
    await ensure_policy(api.transport, api.catalog)
    rules = (await api.get(f"{ROLES}/system:kube-scheduler"))["rules"]
    expected = next(
        one for one in bootstrap_policy().cluster_roles if one["metadata"]["name"] == "system:kube-scheduler"
    )
    assert rules == [*many, *expected["rules"]]
