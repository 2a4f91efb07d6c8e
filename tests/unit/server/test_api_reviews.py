"""Reviews and component statuses through the whole server: questions that are answered and stored nowhere."""

import pytest

from api_client import AUDIENCES, NS, TABLE, TOKEN, served
from kapi.controlplane.rbac.reconciliation import ensure_policy
from kapi.server.authz.authorizer import ALLOW, Authorizer, Decision, Verdict
from kapi.server.authz.superuser import PrivilegedGroup
from kapi.server.transport.inprocess import InProcessTransport

AUTHN = "/apis/authentication.k8s.io/v1"
AUTHZ = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ATTRIBUTES = {"verb": "get", "resource": "pods", "namespace": "default"}


@served
async def test_self_subject_review_returns_the_user(api):
    answer = await api.post(f"{AUTHN}/selfsubjectreviews", {})
    assert answer.status == 201
    assert answer.json == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"userInfo": {"username": "system:apiserver", "groups": ["system:masters", "system:authenticated"]}},
    }


@served
async def test_token_review_authenticates_a_token(api):
    answer = await api.post(f"{AUTHN}/tokenreviews", {"spec": {"token": TOKEN}})
    assert answer.status == 201
    user = {"username": "alice", "uid": "u-1", "groups": ["devs", "system:authenticated"]}
    assert answer["status"] == {"authenticated": True, "user": user, "audiences": list(AUDIENCES)}


@served
async def test_token_review_of_a_bad_token_is_not_authenticated(api):
    answer = await api.post(f"{AUTHN}/tokenreviews", {"spec": {"token": "nope"}})
    assert (answer.status, answer["status"]) == (201, {"user": {}, "error": "invalid bearer token"})
    answer = await api.post(f"{AUTHN}/tokenreviews", {"spec": {}})
    assert answer.error == (400, "BadRequest", "token is required for TokenReview in authentication")


@served
async def test_self_subject_access_review_is_answered(api):
    path = f"{AUTHZ}/selfsubjectaccessreviews"
    answer = await api.post(path, {"spec": {"resourceAttributes": ATTRIBUTES}})
    assert (answer.status, answer["status"]) == (201, {"allowed": True})
    assert answer["spec"] == {"resourceAttributes": ATTRIBUTES}


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        ({"user": "alice"}, False),
        ({"user": "root", "groups": ["system:masters"]}, True),
        ({"groups": ["system:masters"]}, True),
    ],
)
@served
async def test_subject_access_review_is_answered_for_another_user(api, subject, allowed):
    answer = await api.post(f"{AUTHZ}/subjectaccessreviews", {"spec": {**subject, "resourceAttributes": ATTRIBUTES}})
    assert (answer.status, answer["status"]) == (201, {"allowed": allowed})
    path = f"{AUTHZ}/namespaces/default/localsubjectaccessreviews"
    body = {"metadata": {"namespace": "default"}, "spec": {**subject, "resourceAttributes": ATTRIBUTES}}
    answer = await api.post(path, body)
    assert (answer.status, answer["status"]) == (201, {"allowed": allowed})


@served
async def test_non_resource_paths_can_be_reviewed(api):
    rules = [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]
    await api.made(f"{RBAC}/clusterroles", {"metadata": {"name": "health"}, "rules": rules})
    subjects = [{"kind": "User", "name": "alice"}]
    health = {"metadata": {"name": "health"}, "roleRef": {"kind": "ClusterRole", "name": "health"}}
    await api.made(f"{RBAC}/clusterrolebindings", {**health, "subjects": subjects})
    for path, allowed in (("/healthz", True), ("/metrics", False)):
        spec = {"user": "alice", "nonResourceAttributes": {"path": path, "verb": "get"}}
        answer = await api.post(f"{AUTHZ}/subjectaccessreviews", {"spec": spec})
        assert answer["status"]["allowed"] is allowed


@served
async def test_access_review_has_either_resource_or_non_resource_attributes(api):
    answer = await api.post(f"{AUTHZ}/subjectaccessreviews", {"spec": {"user": "alice"}})
    # The kind is empty here on every server.
    assert answer.error == (
        422,
        "Invalid",
        (
            '.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: '
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        ),
    )
    answer = await api.post(f"{AUTHZ}/subjectaccessreviews", {"spec": {"resourceAttributes": ATTRIBUTES}})
    assert "at least one of user or group must be specified" in answer.message


@served
async def test_local_access_review_is_limited_to_its_namespace(api):
    path = f"{AUTHZ}/namespaces/default/localsubjectaccessreviews"
    spec = {"user": "alice", "resourceAttributes": {**ATTRIBUTES, "namespace": "kube-system"}}
    answer = await api.post(path, {"metadata": {"namespace": "default"}, "spec": spec})
    assert answer.status == 422
    assert "must match metadata.namespace" in answer.message


@served
async def test_self_subject_rules_review_lists_rules(api):
    await ensure_policy(api.transport, api.catalog)
    path = f"{AUTHZ}/selfsubjectrulesreviews"
    answer = await api.post(path, {"spec": {"namespace": "default"}})
    assert answer.status == 201
    assert answer["spec"] == {}
    status = answer["status"]
    assert status["resourceRules"][0] == {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert status["nonResourceRules"][0] == {"verbs": ["*"], "nonResourceURLs": ["*"]}
    assert "/healthz" in status["nonResourceRules"][1]["nonResourceURLs"]
    assert status["incomplete"] is False
    assert (await api.post(path, {"spec": {}})).error == (400, "BadRequest", "no namespace on request")


@served
async def test_reviews_are_not_stored(api):
    before = api.revision
    await api.post(f"{AUTHN}/selfsubjectreviews", {})
    await api.post(f"{AUTHZ}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": ATTRIBUTES}})
    assert api.revision == before


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@served
async def test_reviews_can_only_be_created(api, method):
    assert (await api.request(method, f"{AUTHN}/tokenreviews")).error[0] == 405
    answer = await api.request(method, f"{AUTHN}/tokenreviews/x")
    assert answer.error == (404, "NotFound", "the server could not find the requested resource")


@served
async def test_reviews_have_no_table(api):
    answer = await api.post(f"{AUTHN}/selfsubjectreviews", {}, headers={"accept": TABLE})
    assert answer.error == (
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    )
    assert answer.raw.startswith(b'{\n  "kind": "Status"')


@served
async def test_unknown_fields_of_a_review_are_warned_about(api):
    answer = await api.post(f"{AUTHN}/selfsubjectreviews", {"bar": 1})
    assert answer.warnings == ['unknown field "bar"']


@served
async def test_users_without_permissions_cannot_create_reviews(api):
    stranger = InProcessTransport(api.pipeline, "eve", ())
    answer = await api.request("POST", f"{AUTHN}/selfsubjectreviews", {}, transport=stranger)
    assert answer.error[:2] == (403, "Forbidden")


@served
async def test_component_statuses_are_listed_with_a_deprecation_warning(api):
    answer = await api.get("/api/v1/componentstatuses")
    assert answer.warnings == ["v1 ComponentStatus is deprecated in v1.19+"]
    assert answer["kind"] == "ComponentStatusList"
    assert answer.names == ["scheduler", "controller-manager", "etcd-0"]
    for name, status in (("scheduler", "False"), ("controller-manager", "True"), ("etcd-0", "True")):
        (condition,) = (await api.get(f"/api/v1/componentstatuses/{name}"))["conditions"]
        assert (condition["type"], condition["status"]) == ("Healthy", status)
    answer = await api.get("/api/v1/componentstatuses/none")
    assert answer.error == (404, "NotFound", 'componentstatus "none" not found')


@served
async def test_component_statuses_are_served_as_a_table(api):
    for path in ("/api/v1/componentstatuses", "/api/v1/componentstatuses/etcd-0"):
        answer = await api.get(path, headers={"accept": TABLE})
        assert answer.status == 200, answer
        assert [column["name"] for column in answer["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]


@served
async def test_bindings_exist_in_namespaces_only(api):
    answer = await api.post("/api/v1/bindings", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    assert answer.error == (404, "NotFound", "the server could not find the requested resource")
    assert (await api.get(f"{NS}/default/bindings")).error[0] == 405


@served
async def test_review_reports_selectors_it_could_not_parse(api):
    selector = {"requirements": [{"key": "a", "operator": "Exists"}]}
    spec = {"resourceAttributes": {**ATTRIBUTES, "fieldSelector": selector, "labelSelector": {"rawSelector": "="}}}
    answer = await api.post(f"{AUTHZ}/selfsubjectaccessreviews", {"spec": spec})
    assert answer["status"] == {
        "allowed": True,
        "evaluationError": "spec.resourceAttributes.fieldSelector ignored due to parse error; "
        "spec.resourceAttributes.labelSelector ignored due to parse error",
    }


@served
async def test_review_distinguishes_denied_from_no_opinion(api):
    class Denial(PrivilegedGroup):
        def decide(self, attributes):
            return Decision(Verdict.DENY, "on holiday") if attributes.verb == "delete" else ALLOW

    api.services.authorizer = Authorizer(Denial())
    spec = {"user": "x", "resourceAttributes": {**ATTRIBUTES, "verb": "delete"}}
    answer = await api.post(f"{AUTHZ}/subjectaccessreviews", {"spec": spec})
    assert answer["status"] == {"allowed": False, "denied": True, "reason": "on holiday"}
