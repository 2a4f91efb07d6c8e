"""The webhook authorizer, against a real HTTPS server."""

import asyncio
import json

import pytest

from kapi.api.selectors import FieldRequirement, Requirement
from kapi.api.user import User
from kapi.base.clock import ManualClock
from kapi.base.http import Endpoint
from kapi.server.authz import webhook as module
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.authorizer import Decision, Verdict
from kapi.server.authz.webhook import WebhookAuthorizer, review_spec
from webhook_server import Certificates, Reply, Webhook

ANN = User("ann", ("devs", "system:authenticated"), "u-1", {"scopes": ["a"]})
GET = Attributes(ANN, "get", "apps", "v1", "deployments", "scale", "x", "d")


def answer(**status):
    review = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": status}
    return Reply(json.dumps(review).encode())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def asking(certificates, script, test, **settings):
    async def main():
        async with asyncio.timeout(60), Webhook(certificates, script=script) as server:
            endpoint = Endpoint(server.url, certificates.pem)
            authorizer = WebhookAuthorizer(endpoint, first_backoff=0.001, **settings)
            try:
                await test(server, authorizer)
            finally:
                await authorizer.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": True}, Decision(Verdict.ALLOW)),
        ({"allowed": True, "reason": "boss"}, Decision(Verdict.ALLOW, "boss")),
        ({"allowed": False}, Decision(Verdict.NO_OPINION)),
        ({"allowed": False, "denied": True, "reason": "no"}, Decision(Verdict.DENY, "no")),
        ({"allowed": True, "denied": True}, Decision(Verdict.DENY, "", module._BOTH)),
        ({}, Decision(Verdict.NO_OPINION)),
    ],
)
def test_the_status_of_the_review_is_the_decision(certificates, status, expected):
    async def test(server, authorizer):
        assert await authorizer.authorize(GET) == expected

    asking(certificates, lambda _: answer(**status), test)


def test_the_review_names_the_user_and_the_request(certificates):
    async def test(server, authorizer):
        await authorizer.authorize(GET)
        assert json.loads(server.calls[0].body) == {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {
                "resourceAttributes": {
                    "namespace": "x",
                    "verb": "get",
                    "group": "apps",
                    "version": "v1",
                    "resource": "deployments",
                    "subresource": "scale",
                    "name": "d",
                },
                "user": "ann",
                "groups": ["devs", "system:authenticated"],
                "extra": {"scopes": ["a"]},
                "uid": "u-1",
            },
            "status": {"allowed": False},
        }

    asking(certificates, lambda _: answer(allowed=True), test)


def test_paths_and_selectors_are_in_the_review():
    path = Attributes(User("bob"), "get", is_resource=False, path="/metrics")
    assert review_spec(path) == {"user": "bob", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    labels = (Requirement("a", "in", ("1", "2")), Requirement("b", "exists", ()), Requirement("c", "gt", ("3",)))
    fields = (FieldRequirement("spec.nodeName", "=", "n"), FieldRequirement("status.phase", "!=", "Failed"))
    spec = review_spec(GET._replace(label_requirements=labels, field_requirements=fields))["resourceAttributes"]
    assert spec["fieldSelector"]["requirements"] == [
        {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
        {"key": "status.phase", "operator": "NotIn", "values": ["Failed"]},
    ]
    assert spec["labelSelector"]["requirements"] == [
        {"key": "a", "operator": "In", "values": ["1", "2"]},
        {"key": "b", "operator": "Exists"},
    ]


@pytest.mark.parametrize(("allowed", "seconds"), [(True, 300), (False, 30)])
def test_answers_are_remembered_for_their_time(certificates, allowed, seconds):
    clock = ManualClock()

    async def test(server, authorizer):
        for _ in range(3):
            await authorizer.authorize(GET)
        assert len(server.calls) == 1
        await authorizer.authorize(GET._replace(name="other"))
        assert len(server.calls) == 2
        clock.advance(seconds - 1)
        await authorizer.authorize(GET)
        assert len(server.calls) == 2
        clock.advance(2)
        await authorizer.authorize(GET)
        assert len(server.calls) == 3

    asking(certificates, lambda _: answer(allowed=allowed), test, clock=clock)


def test_remembered_answers_are_bounded_and_long_requests_are_not_remembered(certificates, monkeypatch):
    monkeypatch.setattr(module, "MAX_REMEMBERED", 3)

    async def test(server, authorizer):
        for number in range(6):
            await authorizer.authorize(GET._replace(name=str(number)))
            assert len(authorizer._remembered) <= 3
        authorizer._remembered.clear()
        await authorizer.authorize(GET._replace(name="n" * module.MAX_REMEMBERED_LENGTH))
        assert not authorizer._remembered

    asking(certificates, lambda _: answer(allowed=True), test)


def test_failures_that_may_pass_are_retried(certificates):
    replies = [Reply(b"", status=503), Reply(b"", status=500), answer(allowed=True)]

    async def test(server, authorizer):
        assert (await authorizer.authorize(GET)).allowed
        assert len(server.calls) == 3

    asking(certificates, lambda _: replies.pop(0), test)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"", status=503),
        Reply(b"", status=403),
        Reply(b"not json"),
        Reply(b'{"kind":"Other","apiVersion":"v1"}'),
        answer(allowed="yes"),
        answer(allowed=True, reason=7),
    ],
)
def test_an_answer_that_cannot_be_used_is_no_opinion_with_an_error_and_not_remembered(certificates, reply):
    async def test(server, authorizer):
        decision = await authorizer.authorize(GET)
        assert decision.verdict is Verdict.NO_OPINION
        assert decision.error
        assert not authorizer._remembered

    asking(certificates, lambda _: reply, test)
