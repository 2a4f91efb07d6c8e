"""The token review webhook: what it is asked, how it is believed, and what is remembered."""

import asyncio

import pytest

from issuer_server import IssuerServer
from kapi.base.clock import ManualClock
from kapi.base.http import Endpoint, Outbound
from kapi.server.authn import tokenwebhook
from kapi.server.authn.tokens import InvalidToken
from kapi.server.authn.tokenwebhook import ATTEMPTS, KNOWN, TokenWebhook

OWN = ("own", "other")
ALICE = {"username": "alice", "uid": "u-1", "groups": ["devs"], "extra": {"k": ["v"]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("webhook")


@pytest.fixture
def with_webhook(folder, monkeypatch):
    monkeypatch.setattr(tokenwebhook, "FIRST_BACKOFF", 0.001)

    def start(test):
        async def main():
            clock, outbound = ManualClock(), Outbound()
            async with IssuerServer(folder) as server:
                endpoint = Endpoint(f"{server.url}/review", server.certificates.pem, token="its-token")
                await test(server, TokenWebhook(endpoint, outbound, OWN, clock, version="v1", ttl=120.0), clock)
                await outbound.close()

        asyncio.run(asyncio.wait_for(main(), 60))

    return start


def test_user_of_the_webhook_is_believed_and_remembered(with_webhook):
    async def check(server, webhook, clock):
        server.answer = lambda _: {"authenticated": True, "user": ALICE}
        user, audiences = await webhook.authenticate_token("t", OWN)
        assert (user.name, user.uid, user.groups, user.extra) == ("alice", "u-1", ("devs",), {"k": ["v"]})
        assert audiences == OWN
        assert server.reviews == [
            {
                "kind": "TokenReview",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {},
                "spec": {"token": "t", "audiences": ["own", "other"]},
                "status": {"user": {}},
            }
        ]
        server.answer = lambda _: {"authenticated": False}
        assert (await webhook.authenticate_token("t", OWN)).user is user
        clock.advance(121)
        assert await webhook.authenticate_token("t", OWN) is None
        # That there is no such user is remembered, too.
        await webhook.authenticate_token("t", OWN)
        assert len(server.reviews) == 2

    with_webhook(check)


def test_token_is_for_the_audiences_that_the_webhook_names(with_webhook):
    async def check(server, webhook, clock):
        server.answer = lambda _: {"authenticated": True, "user": ALICE, "audiences": ["other"]}
        assert (await webhook.authenticate_token("t", OWN)).audiences == ("other",)
        assert await webhook.authenticate_token("t", ("own",)) is None
        assert len(server.reviews) == 2

    with_webhook(check)


def test_reason_of_the_webhook_is_reported(with_webhook):
    async def check(server, webhook, clock):
        server.answer = lambda _: {"authenticated": False, "error": "revoked"}
        with pytest.raises(InvalidToken, match="revoked"):
            await webhook.authenticate_token("t", OWN)

    with_webhook(check)


@pytest.mark.parametrize(("code", "asked"), [(503, ATTEMPTS), (500, ATTEMPTS), (403, 1), (302, 1)])
def test_webhook_that_fails_is_asked_again_if_that_may_help(with_webhook, code, asked):
    async def check(server, webhook, clock):
        server.answer = lambda _: code
        with pytest.raises(InvalidToken, match=f"status {code}"):
            await webhook.authenticate_token("t", OWN)
        assert len(server.reviews) == asked
        server.answer = lambda _: {"authenticated": True, "user": ALICE}
        assert (await webhook.authenticate_token("t", OWN)).user.name == "alice"

    with_webhook(check)


def test_webhook_recovers_within_one_request(with_webhook):
    async def check(server, webhook, clock):
        answers = [503, 503, {"authenticated": True, "user": ALICE}]
        server.answer = lambda _: answers.pop(0)
        assert (await webhook.authenticate_token("t", OWN)).user.name == "alice"

    with_webhook(check)


@pytest.mark.parametrize("status", [{"authenticated": "yes"}, {"authenticated": True, "user": "root"}, []])
def test_answer_that_is_no_review_is_refused(with_webhook, status):
    async def check(server, webhook, clock):
        server.answer = lambda _: status
        with pytest.raises(InvalidToken, match="cannot be read"):
            await webhook.authenticate_token("t", OWN)

    with_webhook(check)


def test_number_of_remembered_answers_is_bounded(with_webhook, monkeypatch):
    monkeypatch.setattr(tokenwebhook, "KNOWN", 20)

    async def check(server, webhook, clock):
        for number in range(30):
            await webhook.authenticate_token(f"t{number}", OWN)
        assert len(webhook._known) == 20

    assert KNOWN > 20
    with_webhook(check)
