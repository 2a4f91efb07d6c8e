"""The file of --authorization-config: what it says, its mistakes, and the conditions of webhooks."""

import asyncio
import json

import pytest

from api_client import served
from kapi.api.user import User
from kapi.base.http import Endpoint
from kapi.controlplane.authorization import Authorization
from kapi.controlplane.authorizationoptions import MODES, AuthorizationOptions
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.authorizationconfig import read_authorization_config
from kapi.server.authz.authorizer import Verdict
from kapi.server.authz.matchconditions import ConditionError, MatchCondition, all_match
from kapi.server.authz.webhook import WebhookAuthorizer
from kapi.server.configfile import ConfigFileError
from webhook_server import Certificates, Reply, Webhook

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1/'}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
"""
HOOK = {
    "authorizedTTL": "1m",
    "unauthorizedTTL": "10s",
    "timeout": "3s",
    "subjectAccessReviewVersion": "v1",
    "failurePolicy": "Deny",
    "connectionInfo": {"type": "KubeConfigFile"},
}


def write(tmp_path, authorizers):
    hook = tmp_path / "webhook.yaml"
    hook.write_text(KUBECONFIG)
    for entry in authorizers:
        if "webhook" in entry and entry["webhook"].get("connectionInfo", {}).get("type") == "KubeConfigFile":
            connection = {"kubeConfigFile": str(hook), **entry["webhook"]["connectionInfo"]}
            entry["webhook"] = {**entry["webhook"], "connectionInfo": connection}
    file = tmp_path / "config.yaml"
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration"}
    file.write_text(json.dumps({**kind, "authorizers": authorizers}))
    return file


def test_authorizers_are_read_in_order(tmp_path):
    conditions = [{"expression": "request.user != 'x'"}]
    hook = {**HOOK, "matchConditions": conditions, "matchConditionSubjectAccessReviewVersion": "v1"}
    quiet = {**HOOK, "cacheAuthorizedRequests": False, "failurePolicy": "NoOpinion"}
    file = write(
        tmp_path,
        [
            {"type": "Webhook", "name": "first", "webhook": hook},
            {"type": "RBAC", "name": "rbac"},
            {"type": "Webhook", "name": "second", "webhook": quiet},
        ],
    )
    first, rbac, second = read_authorization_config(file, MODES)
    assert (first.type, rbac.type, second.type) == ("Webhook", "RBAC", "Webhook")
    assert (first.webhook.authorized_seconds, first.webhook.unauthorized_seconds, first.webhook.timeout) == (60, 10, 3)
    assert (first.webhook.fails_closed, len(first.webhook.conditions)) == (True, 1)
    assert (second.webhook.authorized_seconds, second.webhook.fails_closed) == (0, False)

    @served
    async def check(api):
        authorization = Authorization(AuthorizationOptions((), config_file=file), api.catalog, clock=api.clock)
        assert authorization.authorizer.may_wait
        await authorization.close()

    check()


@pytest.mark.parametrize(
    ("authorizers", "text"),
    [
        ([], "authorizers: Required value: at least one authorization mode must be defined"),
        ([{"name": "a"}], r"authorizers\[0\].type: Required value"),
        ([{"type": "ABAC", "name": "a"}], r'authorizers\[0\].type: Unsupported value: "ABAC"'),
        ([{"type": "RBAC", "name": "a"}, {"type": "RBAC", "name": "b"}], r"authorizers\[1\].type: Duplicate value"),
        ([{"type": "RBAC"}], r"authorizers\[0\].name: Required value"),
        ([{"type": "RBAC", "name": "A"}], r"authorizers\[0\].name: Invalid value: \"A\": authorizer name is invalid"),
        ([{"type": "RBAC", "name": "a"}, {"type": "Node", "name": "a"}], r"authorizers\[1\].name: Duplicate value"),
        ([{"type": "RBAC", "name": "a", "webhook": HOOK}], "may only be specified when type=Webhook"),
        ([{"type": "Webhook", "name": "a"}], "required when type=Webhook"),
        ([{"type": "Webhook", "name": "a", "webhook": {**HOOK, "timeout": "31s"}}], "must be > 0s and <= 30s"),
        (
            [{"type": "Webhook", "name": "a", "webhook": {**HOOK, "authorizedTTL": "soon"}}],
            "authorizedTTL: Invalid value",
        ),
        ([{"type": "Webhook", "name": "a", "webhook": {**HOOK, "unauthorizedTTL": ""}}], "unauthorizedTTL: Required"),
        (
            [{"type": "Webhook", "name": "a", "webhook": {**HOOK, "failurePolicy": "Maybe"}}],
            "failurePolicy: Unsupported",
        ),
        (
            [{"type": "Webhook", "name": "a", "webhook": {**HOOK, "subjectAccessReviewVersion": "v2"}}],
            "subjectAccessReviewVersion: Unsupported value",
        ),
        (
            [{"type": "Webhook", "name": "a", "webhook": {**HOOK, "matchConditions": [{"expression": "true"}]}}],
            "required if match conditions are specified",
        ),
        (
            [
                {
                    "type": "Webhook",
                    "name": "a",
                    "webhook": {**HOOK, "matchConditions": [{"expression": "request.nope"}]},
                }
            ],
            "compilation failed",
        ),
        (
            [
                {
                    "type": "Webhook",
                    "name": "a",
                    "webhook": {**HOOK, "matchConditions": [{"expression": "request.user"}]},
                }
            ],
            "must evaluate to bool",
        ),
        (
            [{"type": "Webhook", "name": "a", "webhook": {**HOOK, "connectionInfo": {}}}],
            "connectionInfo.type: Required",
        ),
        ([{"type": "RBAC", "name": "a", "extra": 1}], "extra"),
    ],
)
def test_mistakes_are_refused_with_file_and_field(tmp_path, authorizers, text):
    file = write(tmp_path, [dict(entry) for entry in authorizers])
    with pytest.raises(ConfigFileError, match=text) as caught:
        read_authorization_config(file, MODES)
    assert str(file) in str(caught.value)


SPEC = {"user": "ann", "groups": ["devs"], "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "x"}}


@pytest.mark.parametrize(
    ("expressions", "matches"),
    [
        ([], True),
        (["request.user == 'ann'"], True),
        (["request.resourceAttributes.namespace == 'x'", "request.resourceAttributes.name == ''"], True),
        (["has(request.nonResourceAttributes)"], False),
        (["'devs' in request.groups", "request.uid == 'u'"], False),
        (["request.extra['a'][0] == 'b'", "request.user == 'bob'"], False),
    ],
)
def test_conditions_see_the_request(expressions, matches):
    assert all_match([MatchCondition(one) for one in expressions], SPEC) is matches


def test_a_condition_that_fails_is_an_error_unless_another_is_false():
    with pytest.raises(ConditionError, match="no such key"):
        all_match([MatchCondition("request.extra['a'][0] == 'b'")], SPEC)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize(
    ("expression", "fails_closed", "verdict", "calls"),
    [
        ("request.user == 'ann'", False, Verdict.ALLOW, 1),
        ("request.user != 'ann'", True, Verdict.NO_OPINION, 0),
        ("request.extra['a'][0] == 'b'", True, Verdict.DENY, 0),
        ("request.extra['a'][0] == 'b'", False, Verdict.NO_OPINION, 0),
    ],
)
def test_a_webhook_is_asked_only_where_its_conditions_hold(certificates, expression, fails_closed, verdict, calls):
    review = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": True}}

    async def main():
        async with (
            asyncio.timeout(60),
            Webhook(certificates, script=lambda _: Reply(json.dumps(review).encode())) as hook,
        ):
            endpoint = Endpoint(hook.url, certificates.pem)
            conditions = (MatchCondition(expression),)
            authorizer = WebhookAuthorizer(endpoint, fails_closed=fails_closed, conditions=conditions)
            decision = await authorizer.authorize(Attributes(User("ann"), "get", resource="pods"))
            await authorizer.close()
            assert (decision.verdict, len(hook.calls)) == (verdict, calls)

    asyncio.run(main())


def test_a_webhook_that_fails_denies_if_its_policy_says_so(certificates):
    async def main():
        async with asyncio.timeout(60), Webhook(certificates, script=lambda _: Reply(b"", status=403)) as hook:
            authorizer = WebhookAuthorizer(Endpoint(hook.url, certificates.pem), fails_closed=True)
            decision = await authorizer.authorize(Attributes(User("ann"), "get", resource="pods"))
            await authorizer.close()
            assert decision.verdict is Verdict.DENY
            assert decision.error

    asyncio.run(main())
