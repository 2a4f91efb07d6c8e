"""Authentication: client certificates, bearer tokens, anonymous requests, and the union of authenticators."""

import asyncio
import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from api_client import CM, TOKEN, served
from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.server.authn.authenticator import Authenticator
from kapi.server.authn.certificate import ConnectionAuthenticator
from kapi.server.authn.tokens import StaticTokens, TokenSources
from kapi.server.transport.message import Peer, Request
from virtual_time import run

KEY = ec.generate_private_key(ec.SECP256R1())


def _certificate(name="bob", groups=("devs", "ops"), *, usage=ExtendedKeyUsageOID.CLIENT_AUTH, expired=False):
    now = dt.datetime.now(dt.UTC)
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    if name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    subject = x509.Name(attributes)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(now + dt.timedelta(days=-1 if expired else 1))
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def _authenticate(*, certificate=None, local=None, **headers):
    request = Request("GET", "/", headers=headers, peer=Peer("192.0.2.1", certificate, local))
    return _now(_authenticator({TOKEN: User("alice", ("devs",), "u-1")}).authenticate(request))


def _authenticator(tokens=None, *members):
    return Authenticator(TokenSources(StaticTokens(tokens or {})), *members, ConnectionAuthenticator())


def _now(coroutine):
    """The result of a coroutine that must not wait: what is known locally costs no switch to another task."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        return result.value
    coroutine.close()
    raise AssertionError("it waits")


def test_certificate_names_user_and_groups():
    user = _authenticate(certificate=_certificate())
    assert (user.name, user.groups) == ("bob", ("devs", "ops", "system:authenticated"))


@pytest.mark.parametrize(
    "certificate",
    [
        _certificate(usage=ExtendedKeyUsageOID.SERVER_AUTH),
        _certificate(expired=True),
        _certificate(""),
    ],
)
def test_certificate_that_names_no_client_is_refused(certificate):
    with pytest.raises(Unauthorized):
        _authenticate(certificate=certificate)


def test_token_names_its_bearer():
    for scheme in ("Bearer", "bearer", "BEARER"):
        user = _authenticate(authorization=f"{scheme} {TOKEN}")
        assert (user.name, user.uid, user.groups) == ("alice", "u-1", ("devs", "system:authenticated"))


@pytest.mark.parametrize(
    "header", ["Bearer nope", "Bearer", "Bearer  ", "", "Basic YTpi", TOKEN, f"Token {TOKEN}", "Bearer é"]
)
def test_wrong_credentials_are_refused_and_not_anonymous(header):
    with pytest.raises(Unauthorized):
        _authenticate(authorization=header)


def test_request_without_credentials_is_anonymous():
    user = _authenticate()
    assert (user.name, user.groups) == ("system:anonymous", ("system:unauthenticated",))


def test_in_process_caller_is_the_user_of_the_transport():
    user = _authenticate(local=("system:gc", ("system:masters",)))
    assert (user.name, user.groups) == ("system:gc", ("system:masters", "system:authenticated"))


def test_certificate_is_read_once_per_connection():
    authenticator = _authenticator()
    peer = Peer("192.0.2.1", _certificate())
    first = _now(authenticator.authenticate(Request("GET", "/", peer=peer)))
    assert _now(authenticator.authenticate(Request("GET", "/", peer=peer))) is first


def test_connection_does_not_outlive_its_certificate(monkeypatch):
    authenticator = _authenticator()
    peer = Peer("192.0.2.1", _certificate())
    _now(authenticator.authenticate(Request("GET", "/", peer=peer)))

    today = dt.datetime

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return today.now(tz) + dt.timedelta(days=5)

    monkeypatch.setattr(dt, "datetime", Later)
    with pytest.raises(Unauthorized):
        _now(authenticator.authenticate(Request("GET", "/", peer=peer)))


def test_certificates_are_read_per_connection():
    authenticator = _authenticator()
    users = [
        _now(authenticator.authenticate(Request("GET", "/", peer=Peer("192.0.2.1", certificate)))).name
        for certificate in (_certificate("bob"), None, _certificate("eve"))
    ]
    assert users == ["bob", "system:anonymous", "eve"]


class _Webhook:
    """A member of the union that waits before it answers."""

    def __init__(self, users):
        self.users = users

    async def authenticate(self, request):
        await asyncio.sleep(1)
        name = request.headers.get("x-ticket")
        if name and name not in self.users:
            raise Unauthorized
        return User(name) if name else None

    async def authenticate_token(self, token):
        await asyncio.sleep(1)
        return User(token) if token in self.users else None


def test_remote_authenticator_is_awaited_and_the_next_is_used_if_it_has_no_user():
    async def scenario():
        authenticator = _authenticator({TOKEN: User("alice")}, _Webhook({"bob"}))
        assert authenticator.may_wait
        sent = [{"x-ticket": "bob"}, {"authorization": f"Bearer {TOKEN}"}, {}]
        users = [await authenticator.authenticate(Request("GET", "/", headers=headers)) for headers in sent]
        assert [user.name for user in users] == ["bob", "alice", "system:anonymous"]
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(Request("GET", "/", headers={"x-ticket": "eve"}))
        both = Request("GET", "/", headers={"x-ticket": "eve", "authorization": f"Bearer {TOKEN}"})
        assert (await authenticator.authenticate(both)).name == "alice"

    run(scenario())


def test_remote_token_authenticator_runs_after_local_ones():
    async def scenario():
        tokens = TokenSources(StaticTokens({TOKEN: User("alice")}), _Webhook({"carol"}))
        authenticator = Authenticator(tokens)
        assert authenticator.may_wait
        assert (await authenticator.review("carol")).groups == ("system:authenticated",)
        assert _now(authenticator.review(TOKEN)).name == "alice"
        assert await authenticator.review("nope") is None

    run(scenario())


def test_local_authenticators_that_come_first_do_not_wait():
    request = Request("GET", "/", peer=Peer("192.0.2.1", _certificate()))
    local = _authenticator()
    assert (local.identify(request).name, local.may_wait) == ("bob", False)
    # The certificate counts after the webhook here, so it must wait for that.
    assert _authenticator({}, _Webhook({})).identify(request) is None
    wrong = Request("GET", "/", peer=Peer("192.0.2.1", _certificate("")))
    assert local.identify(wrong) is None


@served
async def test_bad_token_is_unauthorized_everywhere(api):
    for path in (CM, "/healthz", "/version", "/nope"):
        answer = await api.as_peer("GET", path, headers={"authorization": "Bearer nope"})
        assert answer.status == 401
        assert answer.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        }
        assert answer.header("WWW-Authenticate") is None


@served
async def test_administrator_certificate_is_authorized_for_everything(api):
    peer = Peer("192.0.2.1", _certificate("admin", ("system:masters",)))
    assert (await api.as_peer("GET", CM, peer=peer)).status == 200
    assert (await api.as_peer("GET", CM, peer=Peer("192.0.2.1", _certificate()))).status == 403


@pytest.mark.parametrize("header", ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-x"])
@served
async def test_impersonation_is_refused_until_it_is_supported(api, header):
    answer = await api.get(CM, headers={header: "root"})
    assert answer.error[:2] == (501, "NotImplemented")
    assert "impersonation is not supported" in answer.message
