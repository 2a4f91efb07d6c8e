"""Who may do what, and the words of a refusal."""

import pytest

from api_client import CM, DEPLOY, NS, TOKEN, served
from kapi.api.user import User
from kapi.server.authz.authorizer import Attributes, Decision, MastersAuthorizer, refusal

ALICE = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            CM,
            'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "default"',
        ),
        (
            "GET",
            "/api/v1/nodes",
            'nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (
            "GET",
            f"{CM}/x",
            'configmaps "x" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace "default"',
        ),
        (
            "GET",
            f"{CM}?watch=1",
            'configmaps is forbidden: User "alice" cannot watch resource "configmaps" in API group "" in the namespace "default"',
        ),
        (
            "POST",
            CM,
            'configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace "default"',
        ),
        (
            "PATCH",
            f"{CM}/x",
            'configmaps "x" is forbidden: User "alice" cannot patch resource "configmaps" in API group "" in the namespace "default"',
        ),
        (
            "DELETE",
            CM,
            'configmaps is forbidden: User "alice" cannot deletecollection resource "configmaps" in API group "" in the namespace "default"',
        ),
        (
            "GET",
            f"{DEPLOY}/x/scale",
            'deployments.apps "x" is forbidden: User "alice" cannot get resource "deployments/scale" in API group "apps" in the namespace "default"',
        ),
        (
            "GET",
            f"{NS}/foo",
            'namespaces "foo" is forbidden: User "alice" cannot get resource "namespaces" in API group "" in the namespace "foo"',
        ),
        ("GET", "/metrics", 'forbidden: User "alice" cannot get path "/metrics"'),
        ("GET", "/api", 'forbidden: User "alice" cannot get path "/api"'),
    ],
)
@served
async def test_refusal_says_who_may_not_do_what_where(api, method, path, message):
    answer = await api.as_peer(method, path, headers=ALICE)
    assert answer.error == (403, "Forbidden", message)
    assert answer.header("X-Content-Type-Options") == "nosniff"


@served
async def test_details_of_a_refusal(api):
    assert (await api.as_peer("GET", f"{DEPLOY}/x/scale", headers=ALICE))["details"] == {
        "name": "x",
        "group": "apps",
        "kind": "deployments",
    }
    assert (await api.as_peer("GET", "/metrics", headers=ALICE))["details"] == {}


@served
async def test_refusal_comes_before_anything_else_is_known(api):
    # Neither whether a resource exists, nor whether a method is allowed, nor what is wrong with a body.
    for method, path in [
        ("GET", f"{NS}/default/foos"),
        ("PUT", CM),
        ("POST", CM),
        ("GET", "/apis/foo.bar/v1/x"),
        ("GET", "/nope"),
    ]:
        assert (await api.as_peer(method, path, headers=ALICE, body=b"{")).status == 403


@pytest.mark.parametrize(
    "path", ["/healthz", "/livez", "/readyz", "/livez/ping", "/version", "/version/", "/healthz?verbose"]
)
@served
async def test_nobody_may_see_whether_the_server_is_well(api, path):
    assert (await api.as_peer("GET", path)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/apis",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        CM,
        "/versions",
        "/healthzz",
        "/%68ealthz",
        "/healthz%2f..",
        "/metrics/healthz",
    ],
)
@served
async def test_nobody_may_see_anything_else(api, path):
    answer = await api.as_peer("GET", path)
    assert answer.status in (403, 404)
    if answer.status == 403:
        assert 'User "system:anonymous" cannot' in answer.message


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@served
async def test_nobody_may_do_more_than_look(api, method):
    assert (await api.as_peer(method, "/version")).status == 403


@served
async def test_public_path_is_no_way_around(api):
    for path in (f"/healthz/..{CM}", "/version/../metrics", "/healthz/../metrics", "/livez//metrics"):
        answer = await api.as_peer("GET", path)
        assert answer.status in (403, 404)


def test_markup_in_a_refusal_is_escaped():
    attributes = Attributes(User("<b>&eve"), "get", path="/<script>")
    message = refusal(attributes, Decision(allowed=False, reason="no > yes")).message
    assert message == 'forbidden: User "&lt;b&gt;&amp;eve" cannot get path "/&lt;script&gt;": no &gt; yes'


def test_rules_of_those_who_may_do_everything_and_of_the_others():
    authorizer = MastersAuthorizer()
    masters = authorizer.rules(User("root", ("system:masters",)), "default")
    assert masters.resources == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    others = authorizer.rules(User("alice", ("devs",)), "default")
    assert others.resources == []
    assert "/healthz" in others.paths[0]["nonResourceURLs"]


def test_name_of_a_group_is_not_enough():
    authorizer = MastersAuthorizer()
    for user in (User("system:masters"), User("x", ("System:Masters", "system:masters2"))):
        assert not authorizer.authorize(Attributes(user, "get", resource="pods")).allowed
