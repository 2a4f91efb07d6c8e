"""Tokens of service accounts in Secrets: made, good for requests, and gone with either."""

import base64

import jwt
import pytest

from api_client import NS
from controller_api import running_controllers
from kapi.base.jwt import KeySet, SigningKey
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.serviceaccounttoken import add_serviceaccount_token_controller
from kapi.server.authn.serviceaccounts import ServiceAccountTokens
from kapi.server.authn.tokens import InvalidToken
from virtual_time import run

SECRETS = f"{NS}/default/secrets"
ACCOUNTS = f"{NS}/default/serviceaccounts"


def secret(name="t", account="robot", **fields):
    return {
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
        **fields,
    }


class Tokens:
    """The users of tokens, None for those that are not valid."""

    def __init__(self, api, key):
        keys = KeySet([key.public])
        self._source = ServiceAccountTokens(keys, api.catalog, ["https://issuer"], ("own",), api.clock)

    def user_of(self, token):
        try:
            found = self._source.find(token, ("own",))
        except InvalidToken:
            return None
        return found.user if found else None


@pytest.fixture
def issuing(tmp_path):
    """Make a test of a coroutine that is given the API and the authenticator of tokens."""

    def start(test):
        async def main():
            path = tmp_path / "sa.key"
            async with running_controllers(
                add_serviceaccount_token_controller, settings=ControllerSettings(authority=b"CERT", account_key=path)
            ) as api:
                await test(api, Tokens(api, SigningKey(path)))

        run(main())

    return start


def text(obj, key):
    return base64.b64decode(obj["data"][key]).decode()


def test_a_token_secret_of_an_account_is_filled(issuing):
    async def check(api, tokens):
        account = await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})
        await api.made(SECRETS, secret())
        await api.run_until_idle()
        filled = api.find("secrets", "default", "t")
        assert text(filled, "namespace") == "default"
        assert text(filled, "ca.crt") == "CERT"
        uid = account["metadata"]["uid"]
        assert filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == uid
        claims = jwt.decode(text(filled, "token"), options={"verify_signature": False})
        assert claims == {
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "t",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": uid,
            "sub": "system:serviceaccount:default:robot",
        }
        user = tokens.user_of(text(filled, "token"))
        assert (user.name, user.uid) == ("system:serviceaccount:default:robot", uid)
        assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated")
        before = api.revision
        await api.run_until_idle()
        assert api.revision == before

    issuing(check)


def test_existing_data_is_kept_and_a_wrong_certificate_is_corrected(issuing):
    async def check(api, tokens):
        await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})
        data = {"token": base64.b64encode(b"mine").decode(), "ca.crt": base64.b64encode(b"OLD").decode()}
        await api.made(SECRETS, secret(data=data))
        await api.run_until_idle()
        filled = api.find("secrets", "default", "t")
        assert (text(filled, "token"), text(filled, "ca.crt")) == ("mine", "CERT")
        assert tokens.user_of("mine") is None

    issuing(check)


def test_a_token_secret_without_account_is_deleted(issuing):
    async def check(api, tokens):
        await api.made(SECRETS, secret("orphan", "missing"))
        await api.made(SECRETS, {"metadata": {"name": "plain"}})
        await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})
        await api.made(ACCOUNTS, {"metadata": {"name": "other"}})
        await api.made(SECRETS, secret())
        await api.made(SECRETS, secret("others", "other"))
        await api.run_until_idle()
        assert api.there("secrets") == {("default", "plain"), ("default", "t"), ("default", "others")}
        token = text(api.find("secrets", "default", "t"), "token")
        await api.delete(f"{ACCOUNTS}/robot")
        await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})  # another one of that name
        await api.run_until_idle()
        assert api.there("secrets") == {("default", "plain"), ("default", "others")}
        assert tokens.user_of(token) is None

    issuing(check)


def test_a_deleted_secret_is_removed_from_the_account(issuing):
    async def check(api, tokens):
        listed = [{"name": "t"}, {"name": "else"}]
        await api.made(ACCOUNTS, {"metadata": {"name": "robot"}, "secrets": listed})
        await api.made(SECRETS, secret())
        await api.run_until_idle()
        await api.delete(f"{SECRETS}/t")
        await api.run_until_idle()
        assert api.find("serviceaccounts", "default", "robot")["secrets"] == [{"name": "else"}]

    issuing(check)


def test_a_token_is_valid_only_while_its_secret_and_account_exist(issuing):
    async def check(api, tokens):
        await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})
        await api.made(SECRETS, secret())
        await api.run_until_idle()
        token = text(api.find("secrets", "default", "t"), "token")
        assert tokens.user_of(token) is not None
        label = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}}
        await api.patch(f"{SECRETS}/t", label)
        assert tokens.user_of(token) is None
        await api.patch(f"{SECRETS}/t", {"metadata": {"labels": None}})
        assert tokens.user_of(token) is not None
        await api.patch(f"{SECRETS}/t", {"metadata": {"finalizers": ["example.com/wait"]}})
        await api.delete(f"{SECRETS}/t")
        assert tokens.user_of(token) is None

    issuing(check)


@pytest.mark.parametrize("token", ["", "a.b.c", "x" * 50_000, "..", "é.é.é", "eyJhbGciOiJub25lIn0.e30."])
def test_invalid_tokens_do_not_authenticate(issuing, token):
    async def check(api, tokens):
        assert tokens.user_of(token) is None

    issuing(check)


def test_without_a_key_no_token_is_issued():
    async def main():
        async with running_controllers(add_serviceaccount_token_controller) as api:
            await api.made(ACCOUNTS, {"metadata": {"name": "robot"}})
            await api.made(SECRETS, secret())
            await api.run_until_idle()
            assert "data" not in api.find("secrets", "default", "t")

    run(main())
