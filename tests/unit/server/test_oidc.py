"""Tokens of OpenID Connect issuers: keys that rotate, what is verified, and the users that claims stand for."""

import asyncio
import contextlib
import datetime as dt

import jwt
import pytest

from issuer_server import EC_KEY, OTHER_RSA_KEY, RSA_KEY, IssuerServer
from kapi.base.clock import ManualClock
from kapi.base.http import Outbound
from kapi.server.authn.oidc import FETCH_INTERVAL, KNOWN, KNOWN_SECONDS, OidcTokens
from kapi.server.authn.tokens import InvalidToken

OWN = ("own",)


class Setting:
    """An issuer, the tokens it issues, and the source under test."""

    def __init__(self, server, clock, tokens):
        self.server = server
        self.clock = clock
        self.tokens = tokens

    def token(self, **claims):
        return self.server.token(self.clock.now(), **claims)

    async def user(self, token=None, audiences=OWN):
        found = await self.tokens.authenticate_token(token or self.token(), audiences)
        return None if found is None else found.user

    async def refusal(self, token):
        with pytest.raises(InvalidToken) as caught:
            await self.user(token)
        return str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("issuer")


@pytest.fixture
def with_issuer(folder):
    """Run a coroutine function with a `Setting`; changes to the configuration are given by name."""

    def start(test, **changes):
        async def main():
            clock, outbound = ManualClock(), Outbound()
            tokens = OidcTokens(OWN, outbound, clock)
            async with IssuerServer(folder) as server, contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(outbound.close)
                tokens.configure([server.config(**changes)])
                await test(Setting(server, clock, tokens))

        asyncio.run(asyncio.wait_for(main(), 60))

    return start


def test_token_names_its_user(with_issuer):
    async def check(at):
        user = await at.user(at.token(jti="j-1"))
        assert (user.name, user.groups) == ("oidc:alice", ())
        assert user.extra == {"authentication.kubernetes.io/credential-id": ["JTI=j-1"]}
        assert await at.user(at.token(iss="https://elsewhere.example")) is None
        assert await at.user("no-token") is None
        # The audience of the server is another one than that of the token.
        assert await at.user(audiences=("vault",)) is None

    with_issuer(check)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "oidc: token is expired"),
        ({"exp": None}, "oidc: token is expired"),
        ({"exp": "never"}, "oidc: token is expired"),
        ({"nbf": 9_999_999_999}, "before the nbf (not before) time"),
        ({"nbf": 1e300}, "before the nbf (not before) time"),
        ({"aud": "elsewhere"}, 'oidc: expected audience in ["kapi"] got ["elsewhere"]'),
        ({"aud": ["a", "b"]}, 'oidc: expected audience in ["kapi"] got ["a" "b"]'),
        ({"aud": None}, 'oidc: expected audience in ["kapi"] got []'),
        ({"aud": [["kapi"]]}, 'oidc: expected audience in ["kapi"] got []'),
        ({"sub": None}, 'oidc: parse username claims "sub": claim not present'),
        ({"key": OTHER_RSA_KEY}, "failed to verify id token signature"),
        ({"key": EC_KEY, "algorithm": "ES256"}, "failed to verify id token signature"),
        ({"kid": "../../../k1", "key": RSA_KEY}, "failed to verify id token signature"),
        (
            {"key": "a secret of thirty-two characters", "algorithm": "HS256"},
            'unsupported algorithm, expected ["RS256"',
        ),
        ({"kid": None, "key": "", "algorithm": "none"}, 'got "none"'),
    ],
)
def test_token_that_is_not_valid_is_refused(with_issuer, claims, reason):
    async def check(at):
        assert reason in await at.refusal(at.token(**claims))

    with_issuer(check)


def test_username_must_be_text(with_issuer):
    async def check(at):
        assert await at.refusal(at.token(uname=["x"])) == 'oidc: parse username claims "uname": expected a string'

    with_issuer(check, claimMappings={"username": {"claim": "uname", "prefix": ""}})


def test_token_without_key_id_is_tried_with_every_key(with_issuer):
    async def check(at):
        at.server.keys = {"a": OTHER_RSA_KEY, "b": RSA_KEY}
        assert (await at.user(at.token(kid=None, key=RSA_KEY))).name == "oidc:alice"

    with_issuer(check)


def test_elliptic_curve_and_probabilistic_signatures_are_accepted(with_issuer):
    async def check(at):
        at.server.keys["k2"] = EC_KEY
        assert await at.user(at.token(kid="k2", algorithm="ES256"))
        assert await at.user(at.token(algorithm="PS512"))

    with_issuer(check)


def test_new_key_is_fetched_when_a_token_names_it_and_not_too_often(with_issuer):
    async def check(at):
        await at.user()
        assert at.server.fetches == 1
        await at.user(at.token(sub="bob"))
        assert at.server.fetches == 1
        at.server.keys = {"k2": OTHER_RSA_KEY}
        rotated = at.token(kid="k2")
        # Keys were fetched a moment ago: a flood of tokens with unknown keys must not become one of fetches.
        for _ in range(5):
            await at.refusal(rotated)
        assert at.server.fetches == 1
        at.clock.advance(FETCH_INTERVAL)
        assert await at.user(rotated)
        assert at.server.fetches == 2
        assert "failed to verify" in await at.refusal(at.token(kid="k1", key=RSA_KEY, sub="eve"))

    with_issuer(check)


def test_concurrent_tokens_fetch_keys_once(with_issuer):
    async def check(at):
        users = await asyncio.gather(*(at.user(at.token(sub=f"u{number}")) for number in range(20)))
        assert len({user.name for user in users}) == 20
        assert at.server.fetches == 1

    with_issuer(check)


def test_issuer_that_does_not_answer_is_tried_again_later(with_issuer):
    async def check(at):
        at.server.broken = True
        assert await at.refusal(at.token()) == "oidc: authenticator not initialized"
        at.server.broken = False
        assert await at.refusal(at.token()) == "oidc: authenticator not initialized"
        at.clock.advance(FETCH_INTERVAL)
        assert await at.user()
        # Keys that are known stay in use while the issuer is down.
        at.server.broken = True
        at.clock.advance(FETCH_INTERVAL)
        assert await at.user(at.token(sub="bob"))

    with_issuer(check)


def test_discovery_document_of_another_issuer_is_refused(with_issuer):
    async def check(at):
        at.server.issuer = "https://evil.example"
        assert await at.refusal(at.token()) == "oidc: authenticator not initialized"

    with_issuer(check)


def test_issuer_with_another_certificate_is_not_trusted(with_issuer):
    async def check(at):
        at.tokens.configure([at.server.config(issuer={"certificateAuthority": ""})])
        assert await at.refusal(at.token()) == "oidc: authenticator not initialized"

    with_issuer(check)


def test_discovery_url_may_be_elsewhere(folder):
    async def main():
        clock, outbound = ManualClock(), Outbound()
        async with IssuerServer(folder) as server:
            server.issuer = "https://issuer.example"
            tokens = OidcTokens(OWN, outbound, clock)
            tokens.configure([server.config(issuer={"url": server.issuer, "discoveryURL": f"{server.url}/discovery"})])
            found = await tokens.authenticate_token(server.token(clock.now(), iss=server.issuer), OWN)
            assert found.user.name == "oidc:alice"
            await outbound.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_user_of_a_token_is_remembered_for_a_moment(with_issuer):
    async def check(at):
        token = at.token(exp=int(at.clock.now().timestamp()) + 4)
        first = await at.user(token)
        assert await at.user(token) is first
        at.clock.advance(5)
        assert "expired" in await at.refusal(token)
        lasting = at.token()
        first = await at.user(lasting)
        at.clock.advance(KNOWN_SECONDS)
        assert await at.user(lasting) is not first

    with_issuer(check)


def test_number_of_remembered_tokens_is_bounded(with_issuer):
    async def check(at):
        at.server.keys = {"k1": EC_KEY}
        for number in range(KNOWN + 10):
            await at.user(at.token(sub=f"u{number}", algorithm="ES256"))
        assert len(at.tokens._known) == KNOWN

    with_issuer(check)


def test_changed_configuration_counts_at_once_and_an_unchanged_issuer_keeps_its_keys(with_issuer):
    async def check(at):
        token = at.token()
        assert (await at.user(token)).name == "oidc:alice"
        same = at.server.config()
        at.tokens.configure([same])
        assert await at.user(token)
        assert at.server.fetches == 1
        at.tokens.configure([at.server.config(claimMappings={"username": {"claim": "sub", "prefix": "new:"}})])
        assert (await at.user(token)).name == "new:alice"
        at.tokens.configure([])
        assert await at.user(token) is None

    with_issuer(check)


# -- claims -----------------------------------------------------------------------------------------------------------

MAPPED = {
    "claimMappings": {
        "username": {"expression": "'u:' + claims.name"},
        "groups": {"expression": "claims.roles.split(',').map(r, 'g:' + r)"},
        "uid": {"claim": "sub"},
        "extra": [
            {"key": "example.com/tenant", "valueExpression": "claims.tenant"},
            {"key": "example.com/empty", "valueExpression": "''"},
            {"key": "example.com/odd", "valueExpression": "claims.odd__dash__name"},
        ],
    },
    "claimValidationRules": [
        {"claim": "hd", "requiredValue": "example.com"},
        {"expression": "claims.exp - claims.iat <= 86400.0", "message": "tokens may live for a day"},
    ],
    "userValidationRules": [
        {"expression": "!user.username.startsWith('u:system:')", "message": "reserved"},
        {"expression": "user.groups.all(g, g != 'g:root')", "message": "no root"},
    ],
}
CLAIMS = {"name": "bob", "roles": "a,b", "tenant": "t", "odd-name": "o", "hd": "example.com", "iat": 1_767_225_600}


def test_expressions_map_claims(with_issuer):
    async def check(at):
        user = await at.user(at.token(**CLAIMS))
        assert (user.name, user.uid, user.groups) == ("u:bob", "alice", ("g:a", "g:b"))
        assert user.extra == {"example.com/tenant": ["t"], "example.com/odd": ["o"]}

    with_issuer(check, **MAPPED)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"hd": "evil.com"}, "oidc: required claim hd value does not match. Got = evil.com, want = example.com"),
        ({"hd": None}, "oidc: required claim hd not present in ID token"),
        ({"iat": 1}, "failed: tokens may live for a day"),
        ({"name": "system:admin"}, "failed: reserved"),
        ({"roles": "a,root"}, "failed: no root"),
        ({"roles": None}, "no such key: roles"),
        ({"name": 5}, "no such overload"),
    ],
)
def test_rules_refuse_tokens(with_issuer, claims, reason):
    async def check(at):
        assert reason in await at.refusal(at.token(**(CLAIMS | claims)))

    with_issuer(check, **MAPPED)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [("one", ("p:one",)), (["one", "two"], ("p:one", "p:two")), (None, ()), ([1], "parse groups claim"), ({}, "parse")],
)
def test_groups_are_a_text_or_a_list(with_issuer, groups, expected):
    async def check(at):
        token = at.token(groups=groups)
        if isinstance(expected, tuple):
            assert (await at.user(token)).groups == expected
        else:
            assert expected in await at.refusal(token)

    mappings = {"username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "groups", "prefix": "p:"}}
    with_issuer(check, claimMappings=mappings)


@pytest.mark.parametrize(("verified", "allowed"), [(True, True), (None, True), (False, False), ("true", False)])
def test_email_must_be_verified_if_the_issuer_says_whether(with_issuer, verified, allowed):
    async def check(at):
        token = at.token(email="a@example.com", email_verified=verified)
        if allowed:
            assert (await at.user(token)).name == "a@example.com"
        else:
            assert await at.refusal(token) == "oidc: email not verified"

    with_issuer(check, claimMappings={"username": {"claim": "email", "prefix": ""}})


def test_oversized_and_odd_tokens_are_not_tokens_of_an_issuer(with_issuer):
    async def check(at):
        now = at.clock.now() + dt.timedelta(hours=1)
        huge = jwt.encode({"iss": at.server.url, "aud": "kapi", "exp": now, "x": "x" * 70_000}, RSA_KEY, "RS256")
        for token in (huge, "é.é.é", "a.b.c", "..", "e30.e30.e30"):
            assert await at.user(token) is None

    with_issuer(check)
