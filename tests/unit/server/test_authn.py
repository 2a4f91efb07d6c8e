"""Who is asking: certificates, tokens, nobody; and wrong credentials, which are never nobody."""

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from api_client import CM, TOKEN, served
from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.server.authn.chain import Authenticator, StaticTokens
from kapi.server.transport.message import Peer, Request

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
    authenticator = Authenticator(StaticTokens({TOKEN: User("alice", ("devs",), "u-1")}))
    return authenticator.authenticate(Request("GET", "/", headers=headers, peer=Peer("192.0.2.1", certificate, local)))


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


def test_nothing_is_anonymous():
    user = _authenticate()
    assert (user.name, user.groups) == ("system:anonymous", ("system:unauthenticated",))


def test_local_caller_is_who_the_transport_says():
    user = _authenticate(local=("system:gc", ("system:masters",)))
    assert (user.name, user.groups) == ("system:gc", ("system:masters", "system:authenticated"))


def test_certificate_is_read_once_per_connection():
    authenticator = Authenticator(StaticTokens({}))
    peer = Peer("192.0.2.1", _certificate())
    first = authenticator.authenticate(Request("GET", "/", peer=peer))
    assert authenticator.authenticate(Request("GET", "/", peer=peer)) is first


def test_connection_does_not_outlive_its_certificate(monkeypatch):
    authenticator = Authenticator(StaticTokens({}))
    peer = Peer("192.0.2.1", _certificate())
    authenticator.authenticate(Request("GET", "/", peer=peer))

    today = dt.datetime

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return today.now(tz) + dt.timedelta(days=5)

    monkeypatch.setattr(dt, "datetime", Later)
    with pytest.raises(Unauthorized):
        authenticator.authenticate(Request("GET", "/", peer=peer))


def test_every_connection_is_read_for_itself():
    authenticator = Authenticator(StaticTokens({}))
    users = [
        authenticator.authenticate(Request("GET", "/", peer=Peer("192.0.2.1", certificate))).name
        for certificate in (_certificate("bob"), None, _certificate("eve"))
    ]
    assert users == ["bob", "system:anonymous", "eve"]


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
async def test_certificate_of_an_administrator_opens_everything(api):
    peer = Peer("192.0.2.1", _certificate("admin", ("system:masters",)))
    assert (await api.as_peer("GET", CM, peer=peer)).status == 200
    assert (await api.as_peer("GET", CM, peer=Peer("192.0.2.1", _certificate()))).status == 403


@pytest.mark.parametrize("header", ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-x"])
@served
async def test_impersonation_is_refused_as_long_as_it_is_not_there(api, header):
    answer = await api.get(CM, headers={header: "root"})
    assert answer.error[:2] == (501, "NotImplemented")
    assert "impersonation is not supported" in answer.message
