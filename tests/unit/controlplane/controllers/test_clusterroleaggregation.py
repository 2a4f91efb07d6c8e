"""ClusterRoles that are put together from others."""

from api_client import NS
from controller_api import with_controllers
from kapi.controlplane.controllers.clusterroleaggregation import add_clusterrole_aggregation_controller
from kapi.controlplane.controllers.identity import ACCOUNTS, identity_of
from kapi.controlplane.controllers.names import NAMES
from kapi.controlplane.rbac.bootstrappolicy import bootstrap_policy

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
JOBS = {"verbs": ["get"], "apiGroups": ["batch"], "resources": ["jobs"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/a"]}


def part(name, *rules, **labels):
    return {"metadata": {"name": name, "labels": labels}, "rules": list(rules)}


def whole(name, *selectors):
    return {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": list(selectors)}}


async def rules_of(api, name):
    await api.run_until_idle()
    return (await api.get(f"{ROLES}/{name}"))["rules"]


@with_controllers(add_clusterrole_aggregation_controller)
async def test_an_aggregated_role_has_the_rules_of_those_it_selects_in_order_of_name_each_once(api):
    await api.made(ROLES, whole("all", {"matchLabels": {"a": "1"}}, {"matchLabels": {"b": "1"}}))
    await api.made(ROLES, part("z", PODS, JOBS, a="1", b="1"))
    await api.made(ROLES, part("c", URLS, PODS, a="1"))
    await api.made(ROLES, part("other", {**PODS, "verbs": ["delete"]}, c="1"))
    assert await rules_of(api, "all") == [URLS, PODS, JOBS]
    role = (await api.get(f"{ROLES}/all")).json
    managers = {entry["manager"]: entry["operation"] for entry in role["metadata"]["managedFields"]}
    assert managers["clusterrole-aggregation-controller"] == "Apply"


@with_controllers(add_clusterrole_aggregation_controller)
async def test_rules_follow_changes_of_labels_rules_and_the_roles_themselves(api):
    await api.made(ROLES, part("one", PODS, a="1"))
    await api.made(ROLES, whole("all", {"matchLabels": {"a": "1"}}))
    assert await rules_of(api, "all") == [PODS]
    await api.patch(f"{ROLES}/one", {"rules": [JOBS]})
    assert await rules_of(api, "all") == [JOBS]
    await api.patch(f"{ROLES}/all", {"rules": [URLS]})
    assert await rules_of(api, "all") == [JOBS]
    await api.patch(f"{ROLES}/one", {"metadata": {"labels": {"a": None}}})
    assert not await rules_of(api, "all")
    await api.patch(f"{ROLES}/one", {"metadata": {"labels": {"a": "1"}}})
    assert await rules_of(api, "all") == [JOBS]
    await api.delete(f"{ROLES}/one")
    assert not await rules_of(api, "all")
    before = api.revision
    await api.run_until_idle()
    assert api.revision == before


@with_controllers(add_clusterrole_aggregation_controller)
async def test_admin_edit_and_view_are_aggregated_in_turn(api):
    admin, edit, view = [await rules_of(api, name) for name in ("admin", "edit", "view")]
    assert len(view) == 12
    assert all(rule in edit for rule in view)
    assert all(rule in admin for rule in edit)
    assert {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["localsubjectaccessreviews"],
    } in admin
    binding = {
        "metadata": {"name": "view"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await api.made("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    bob = api.user("bob")
    assert (await api.request("GET", f"{NS}/default/pods", transport=bob)).status == 200
    assert (await api.request("GET", f"{NS}/default/secrets", transport=bob)).status == 403


def test_every_controller_with_an_account_has_a_default_role_for_it():
    roles = {role["metadata"]["name"] for role in bootstrap_policy().cluster_roles}
    assert {f"system:controller:{account}" for account in ACCOUNTS.values()} <= roles
    assert ACCOUNTS.keys() <= NAMES


def test_only_what_kube_apiserver_does_itself_is_done_by_a_superuser():
    superusers = {name for name in NAMES if "system:masters" in identity_of(name).groups}
    assert superusers == {"event-ttl-controller"}
