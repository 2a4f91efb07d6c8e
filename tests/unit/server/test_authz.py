"""Authorization: decisions, their union, the attributes they are made on, and the words of a refusal."""

import asyncio

import pytest

from api_client import CM, DEPLOY, NS, TOKEN, served
from kapi.api.selectors import FieldRequirement, Requirement
from kapi.api.user import User
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.server.authz.attributes import Attributes, attributes_of, reviewed_attributes
from kapi.server.authz.authorizer import ALLOW, NO_OPINION, AccessRules, Authorizer, Decision, Verdict, refusal
from kapi.server.authz.superuser import PrivilegedGroup
from kapi.server.requestinfo import parse_query, request_info
from virtual_time import run

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
async def test_forbidden_message_names_user_verb_resource_and_scope(api, method, path, message):
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
async def test_forbidden_is_answered_before_the_object_is_looked_up(api):
    # Neither whether a resource exists, nor whether a method is allowed, nor what is wrong with a body.
    for method, path in [
        ("GET", f"{NS}/default/foos"),
        ("PUT", CM),
        ("POST", CM),
        ("GET", "/apis/foo.bar/v1/x"),
        ("GET", "/nope"),
    ]:
        assert (await api.as_peer(method, path, headers=ALICE, body=b"{")).status == 403


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version", "/version/", "/healthz?verbose"])
@served
async def test_anonymous_users_can_read_health_and_version(api, path):
    await ensure_policy(api.transport, api.catalog)
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
        "/livez/ping",
        "/readyz/stored-objects",
        "/%68ealthz",
        "/healthz%2f..",
        "/metrics/healthz",
    ],
)
@served
async def test_anonymous_users_can_read_nothing_else(api, path):
    await ensure_policy(api.transport, api.catalog)
    answer = await api.as_peer("GET", path)
    assert answer.status in (403, 404)
    if answer.status == 403:
        assert 'User "system:anonymous" cannot' in answer.message


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@served
async def test_anonymous_users_cannot_write_to_public_paths(api, method):
    await ensure_policy(api.transport, api.catalog)
    assert (await api.as_peer(method, "/version")).status == 403


@served
async def test_public_paths_do_not_match_by_prefix_or_traversal(api):
    await ensure_policy(api.transport, api.catalog)
    for path in (f"/healthz/..{CM}", "/version/../metrics", "/healthz/../metrics", "/livez//metrics"):
        answer = await api.as_peer("GET", path)
        assert answer.status in (403, 404)


def test_markup_of_users_in_a_refusal_is_escaped():
    attributes = Attributes(User("<b>&eve"), "get", is_resource=False, path="/<script>")
    message = refusal(attributes, "no > yes").message
    assert message == 'forbidden: User "&lt;b&gt;&amp;eve" cannot get path "/&lt;script&gt;": no > yes'


@served
async def test_rules_list_everything_for_masters_and_public_paths_for_others(api):
    await ensure_policy(api.transport, api.catalog)
    authorizer = api.services.authorizer
    masters = authorizer.rules(User("root", ("system:masters",)), "default")
    assert masters.resources == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    others = authorizer.rules(User("alice", ("devs", "system:unauthenticated")), "default")
    assert others.resources == []
    assert "/healthz" in others.paths[0]["nonResourceURLs"]


def test_only_system_masters_is_privileged():
    for user in (User("system:masters"), User("x", ("System:Masters", "system:masters2"))):
        assert PrivilegedGroup().decide(Attributes(user, "get", resource="pods")) == NO_OPINION


# -- the union --------------------------------------------------------------------------------------------------------

ALICE_GETS = Attributes(User("alice"), "get", resource="pods")


class _Fixed:
    """A member that always decides the same."""

    def __init__(self, decision, rules=None):
        self.decision = decision
        self.asked = 0
        self._rules = rules or AccessRules([], [])

    def decide(self, attributes):
        self.asked += 1
        return self.decision

    def rules(self, user, namespace):
        return self._rules


class _Remote:
    """A member that waits before it decides."""

    def __init__(self, decision):
        self.decision = decision

    async def authorize(self, attributes):
        await asyncio.sleep(1)
        return self.decision

    def rules(self, user, namespace):
        return AccessRules([], [], incomplete=True, error="webhook authorizer does not support user rule resolution")


DENY = Decision(Verdict.DENY, "on holiday")


@pytest.mark.parametrize(
    ("members", "expected", "asked"),
    [
        ([NO_OPINION, ALLOW, DENY], ALLOW, [1, 1, 0]),
        ([NO_OPINION, DENY, ALLOW], DENY, [1, 1, 0]),
        ([NO_OPINION, NO_OPINION], NO_OPINION, [1, 1]),
        ([], NO_OPINION, []),
        (
            [Decision(Verdict.NO_OPINION, "a", "x"), Decision(Verdict.NO_OPINION, "b"), NO_OPINION],
            Decision(Verdict.NO_OPINION, "a\nb", "x"),
            [1, 1, 1],
        ),
        (
            [Decision(Verdict.NO_OPINION, error="x"), Decision(Verdict.NO_OPINION, error="y")],
            Decision(Verdict.NO_OPINION, error="[x, y]"),
            [1, 1],
        ),
    ],
)
def test_first_opinion_decides_and_without_one_all_reasons_are_given(members, expected, asked):
    fixed = [_Fixed(decision) for decision in members]
    authorizer = Authorizer(*fixed)
    assert not authorizer.may_wait
    assert run(authorizer.authorize(ALICE_GETS)) == expected
    assert [member.asked for member in fixed] == asked
    assert authorizer.decide(ALICE_GETS) == (None if expected.verdict is Verdict.NO_OPINION else expected)


@pytest.mark.parametrize(
    ("first", "decided"), [([ALLOW], ALLOW), ([NO_OPINION, DENY], DENY), ([NO_OPINION], None), ([], None)]
)
def test_local_authorizers_that_come_first_do_not_wait(first, decided):
    last = _Fixed(ALLOW)
    assert Authorizer(*map(_Fixed, first), _Remote(ALLOW), last).decide(ALICE_GETS) == decided
    assert last.asked == 0


def test_remote_authorizer_is_awaited():
    async def scenario():
        authorizer = Authorizer(_Fixed(NO_OPINION), _Remote(ALLOW))
        assert authorizer.may_wait
        assert await authorizer.authorize(ALICE_GETS) == ALLOW

    run(scenario())


def test_rules_of_a_union_are_those_of_all_authorizers():
    pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    rules = Authorizer(_Fixed(ALLOW, AccessRules([pods], [])), _Remote(ALLOW)).rules(User("x"), "default")
    assert rules == AccessRules([pods], [], True, "webhook authorizer does not support user rule resolution")


@served
async def test_failure_of_authorization_is_an_internal_error_in_plain_text(api):
    failing = Authorizer(_Fixed(Decision(Verdict.NO_OPINION, error="connection refused")))
    api.services.authorizer = failing
    answer = await api.get(CM)
    assert (answer.status, answer.text) == (500, f'Internal Server Error: "{CM}": connection refused\n')


@served
async def test_denial_gives_its_reason(api):
    api.services.authorizer = Authorizer(_Fixed(DENY))
    assert (await api.get("/metrics")).message == (
        'forbidden: User "system:apiserver" cannot get path "/metrics": on holiday'
    )


# -- attributes -------------------------------------------------------------------------------------------------------


def _attributes(method, path, query=""):
    return attributes_of(User("alice"), request_info(method, path, parse_query(query)))


@pytest.mark.parametrize(
    ("method", "path", "query", "verb"),
    [
        ("GET", "/api/v1/pods", "", "list"),
        ("GET", "/api/v1/pods", "watch=1&", "watch"),
        ("DELETE", "/api/v1/namespaces/a/pods", "", "deletecollection"),
    ],
)
def test_selectors_of_collections_are_attributes(method, path, query, verb):
    attributes = _attributes(method, path, f"{query}fieldSelector=spec.nodeName%3Dn&labelSelector=a+in+(c,b),!d")
    assert attributes.verb == verb
    assert attributes.field_requirements == (FieldRequirement("spec.nodeName", "=", "n"),)
    assert attributes.label_requirements == (Requirement("a", "in", ("b", "c")), Requirement("d", "!", ()))
    assert (attributes.field_error, attributes.label_error) == ("", "")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/a/pods/p"),
        ("GET", "/api/v1/watch/pods"),
        ("POST", "/api/v1/namespaces/a/pods"),
        ("DELETE", "/api/v1/namespaces/a/pods/p"),
        ("GET", "/metrics"),
    ],
)
def test_other_requests_have_no_selectors(method, path):
    attributes = _attributes(method, path, "fieldSelector=spec.nodeName%3Dn&labelSelector=a")
    assert (attributes.field_requirements, attributes.label_requirements) == ((), ())


def test_selector_that_cannot_be_read_is_an_error_and_no_requirement():
    attributes = _attributes("GET", "/api/v1/pods", "fieldSelector=x&labelSelector=%3D")
    assert (attributes.field_requirements, attributes.label_requirements) == ((), ())
    assert attributes.field_error == "invalid selector: 'x'; can't understand 'x'"
    assert attributes.label_error.startswith("found '='")


def test_paths_are_attributes_of_non_resource_requests_only():
    assert (_attributes("GET", "/healthz").path, _attributes("GET", "/healthz").is_resource) == ("/healthz", False)
    assert (_attributes("GET", "/api/v1/pods").path, _attributes("GET", "/api/v1/pods").is_resource) == ("", True)


def test_review_asks_about_selectors_as_requirements_or_as_text():
    def asked(**resource):
        return reviewed_attributes(User("a"), {"resourceAttributes": {"verb": "list", "resource": "pods", **resource}})

    raw = asked(fieldSelector={"rawSelector": "a=b"}, labelSelector={"rawSelector": "c"})
    assert raw.field_requirements == (FieldRequirement("a", "=", "b"),)
    assert raw.label_requirements == (Requirement("c", "exists", ()),)
    assert raw.version == "*"
    parsed = asked(
        fieldSelector={
            "requirements": [
                {"key": "a", "operator": "In", "values": ["b"]},
                {"key": "c", "operator": "NotIn", "values": ["d"]},
                {"key": "e", "operator": "Exists"},
                {"key": "f", "operator": "In", "values": ["g", "h"]},
            ]
        },
        labelSelector={"requirements": [{"key": "c", "operator": "Exists"}, {"key": "d", "operator": "Gone"}]},
    )
    assert parsed.field_requirements == (FieldRequirement("a", "=", "b"), FieldRequirement("c", "!=", "d"))
    assert parsed.field_error == (
        "fieldSelectors do not yet support Exists, fieldSelectors do not yet support multiple values"
    )
    assert parsed.label_requirements == (Requirement("c", "exists", ()),)
    assert parsed.label_error == '"Gone" is not a valid label selector operator'
