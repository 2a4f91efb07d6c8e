"""Authentication: client certificates, bearer tokens, anonymous requests, and the union of authenticators."""

import asyncio
import datetime as dt
import hashlib

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from api_client import CM, TOKEN, served, serving
from certificates import DAY, new_authority
from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.base.clock import ManualClock
from kapi.base.trust import Authorities
from kapi.server.authn.authenticator import Anonymous, Authenticator
from kapi.server.authn.certificate import KNOWN, ClientCertificates
from kapi.server.authn.tokens import Authenticated, InvalidToken, StaticTokens, TokenSources
from kapi.server.transport.message import Peer, Request
from virtual_time import run

CA = new_authority()
TRUSTED = Authorities(CA.pem)
OWN = ("https://kubernetes.default.svc.cluster.local",)


def _certificate(name="bob", groups=("devs", "ops"), **details):
    return CA.issue(name, groups, **details).der


def _authenticate(*, certificate=None, local=None, **headers):
    shown = (certificate,) if certificate else ()
    request = Request("GET", "/", headers=headers, peer=Peer("192.0.2.1", shown, local))
    return _now(_authenticator({TOKEN: User("alice", ("devs",), "u-1")}).authenticate(request))


def _authenticator(tokens=None, *members, clock=None, **settings):
    sources = TokenSources(OWN, StaticTokens(tokens or {}, OWN))
    return Authenticator(sources, *members, ClientCertificates(TRUSTED, clock), **settings)


def _now(coroutine):
    """The result of a coroutine that must not wait: what is known locally costs no switch to another task."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        return result.value
    coroutine.close()
    raise AssertionError("it waits")


def test_certificate_names_user_groups_and_credential():
    certificate = _certificate()
    user = _authenticate(certificate=certificate)
    assert (user.name, user.groups) == ("bob", ("devs", "ops", "system:authenticated"))
    digest = hashlib.sha256(certificate).hexdigest()
    assert user.extra == {"authentication.kubernetes.io/credential-id": [f"X509SHA256={digest}"]}


def test_certificate_without_a_common_name_names_no_user():
    assert _authenticate(certificate=_certificate("")).name == "system:anonymous"


@pytest.mark.parametrize(
    "certificate",
    [
        _certificate(usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
        _certificate(ends=-DAY / 2),
        _certificate(begins=DAY / 2),
        new_authority().issue("bob").der,
        b"garbage",
    ],
)
def test_certificate_that_is_not_valid_is_refused(certificate):
    with pytest.raises(Unauthorized):
        _authenticate(certificate=certificate)


def test_token_names_its_bearer():
    for scheme in ("Bearer", "bearer", "BEARER"):
        user = _authenticate(authorization=f"{scheme} {TOKEN}")
        assert (user.name, user.uid, user.groups) == ("alice", "u-1", ("devs", "system:authenticated"))


@pytest.mark.parametrize("header", ["Bearer nope", f"Bearer {TOKEN}x", "Bearer é", f"Bearer {'a' * 70_000}"])
def test_wrong_token_is_refused_and_not_anonymous(header):
    with pytest.raises(Unauthorized):
        _authenticate(authorization=header)


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer  ", "", "Basic YTpi", TOKEN, f"Token {TOKEN}", f"Bearer  {TOKEN}"]
)
def test_credentials_of_another_kind_are_not_looked_at(header):
    assert _authenticate(authorization=header).name == "system:anonymous"


def test_request_without_credentials_is_anonymous():
    user = _authenticate()
    assert (user.name, user.groups) == ("system:anonymous", ("system:unauthenticated",))


def test_in_process_caller_is_the_user_of_the_transport():
    user = _authenticate(local=("system:gc", ("system:masters",)))
    assert (user.name, user.groups) == ("system:gc", ("system:masters", "system:authenticated"))


def test_certificate_is_read_once_per_connection():
    authenticator = _authenticator()
    peer = Peer("192.0.2.1", (_certificate(),))
    first = _now(authenticator.authenticate(Request("GET", "/", peer=peer)))
    assert _now(authenticator.authenticate(Request("GET", "/", peer=peer))) is first


def test_connection_does_not_outlive_its_certificate():
    clock = ManualClock(dt.datetime.now(dt.UTC))
    authenticator = _authenticator(clock=clock)
    peer = Peer("192.0.2.1", (_certificate(),))
    _now(authenticator.authenticate(Request("GET", "/", peer=peer)))
    clock.advance(5 * 86400)
    with pytest.raises(Unauthorized):
        _now(authenticator.authenticate(Request("GET", "/", peer=peer)))


def test_changed_authorities_count_for_open_connections():
    other = new_authority("other")
    certificates = ClientCertificates(TRUSTED)
    authenticator = Authenticator(TokenSources(OWN), certificates)
    peers = [Peer("192.0.2.1", (CA.issue("bob").der,)), Peer("192.0.2.1", (other.issue("eve").der,))]
    asked = [Request("GET", "/", peer=peer) for peer in peers]
    assert _now(authenticator.authenticate(asked[0])).name == "bob"
    with pytest.raises(Unauthorized):
        _now(authenticator.authenticate(asked[1]))
    certificates.authorities = Authorities(other.pem)
    assert _now(authenticator.authenticate(asked[1])).name == "eve"
    with pytest.raises(Unauthorized):
        _now(authenticator.authenticate(asked[0]))


def test_verified_certificate_is_known_without_its_intermediates():
    between = CA.issue("between", authority=True)
    leaf = between.issue("bob").der
    authenticator = _authenticator()
    with pytest.raises(Unauthorized):
        _now(authenticator.authenticate(Request("GET", "/", peer=Peer("192.0.2.1", (leaf,)))))
    whole = Peer("192.0.2.1", (leaf, between.der))
    assert _now(authenticator.authenticate(Request("GET", "/", peer=whole))).name == "bob"
    # As in a TLS session that is resumed.
    assert _now(authenticator.authenticate(Request("GET", "/", peer=Peer("192.0.2.1", (leaf,))))).name == "bob"


def test_number_of_known_certificates_is_bounded():
    key = CA.key
    certificates = ClientCertificates(TRUSTED)
    for number in range(KNOWN + 20):
        shown = CA.issue(f"user-{number}", key=key).der
        certificates.identify(Request("GET", "/", peer=Peer("192.0.2.1", (shown,))))
    assert len(certificates._known) == KNOWN


def test_refused_certificate_is_verified_once_per_connection(monkeypatch):
    counted = []
    verify = Authorities.verify
    monkeypatch.setattr(Authorities, "verify", lambda *given: counted.append(1) or verify(*given))
    peer = Peer("192.0.2.1", (new_authority().issue("bob").der,))
    authenticator = _authenticator()
    for _ in range(3):
        with pytest.raises(Unauthorized):
            _now(authenticator.authenticate(Request("GET", "/", peer=peer)))
    assert len(counted) == 1


def test_certificates_are_read_per_connection():
    authenticator = _authenticator()
    users = [
        _now(authenticator.authenticate(Request("GET", "/", peer=Peer("192.0.2.1", shown)))).name
        for shown in ((_certificate("bob"),), (), (_certificate("eve"),))
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

    async def authenticate_token(self, token, audiences):
        await asyncio.sleep(1)
        return Authenticated(User(token), audiences) if token in self.users else None


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
        tokens = TokenSources(OWN, StaticTokens({TOKEN: User("alice")}, OWN), _Webhook({"carol"}))
        authenticator = Authenticator(tokens)
        assert authenticator.may_wait
        user, audiences = await authenticator.review("carol", OWN)
        assert (user.groups, audiences) == (("system:authenticated",), OWN)
        assert _now(authenticator.review(TOKEN, OWN)).user.name == "alice"
        with pytest.raises(InvalidToken, match="invalid bearer token"):
            await authenticator.review("nope", OWN)

    run(scenario())


def test_token_of_a_file_is_for_the_audiences_of_this_server():
    authenticator = _authenticator({TOKEN: User("alice")})
    assert _now(authenticator.review(TOKEN, ("elsewhere", *OWN))).audiences == OWN
    with pytest.raises(InvalidToken):
        _now(authenticator.review(TOKEN, ("elsewhere",)))


class _Refusing:
    """A source that knows every token and refuses it."""

    def __init__(self, reason):
        self.reason = reason

    def find(self, token, audiences):
        raise InvalidToken(self.reason)


def test_reasons_of_all_sources_are_in_the_error():
    refusing = [_Refusing("expired"), _Refusing("expired"), _Refusing("from elsewhere")]
    with pytest.raises(InvalidToken, match=r"^\[invalid bearer token, expired, from elsewhere\]$"):
        _now(Authenticator(TokenSources(OWN, *refusing)).review("a", OWN))
    known = TokenSources(OWN, *refusing, StaticTokens({TOKEN: User("alice")}, OWN))
    assert _now(Authenticator(known).review(TOKEN, OWN)).user.name == "alice"


def test_token_that_is_known_locally_does_not_wait():
    request = Request("GET", "/", headers={"authorization": f"Bearer {TOKEN}"})
    assert _authenticator({TOKEN: User("alice")}).identify(request).name == "alice"
    assert _authenticator({}).identify(request) is None


def test_anonymous_requests_are_allowed_where_they_are_enabled():
    def user_at(path, anonymous):
        return _now(_authenticator(anonymous=anonymous).authenticate(Request("GET", path))).name

    for anonymous, path in ((Anonymous(enabled=False), "/livez"), (Anonymous(frozenset({"/livez"})), "/version")):
        with pytest.raises(Unauthorized):
            user_at(path, anonymous)
    assert user_at("/livez", Anonymous(frozenset({"/livez"}))) == "system:anonymous"


def test_local_authenticators_that_come_first_do_not_wait():
    request = Request("GET", "/", peer=Peer("192.0.2.1", (_certificate(),)))
    local = _authenticator()
    assert (local.identify(request).name, local.may_wait) == ("bob", False)
    # The certificate counts after the webhook here, so it must wait for that.
    assert _authenticator({}, _Webhook({})).identify(request) is None
    wrong = Request("GET", "/", peer=Peer("192.0.2.1", (_certificate("", ends=-DAY / 2),)))
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


def test_administrator_certificate_is_authorized_for_everything():
    async def scenario():
        async with serving(authorities=TRUSTED) as api:
            admin, other = (Peer("192.0.2.1", (_certificate(*who),)) for who in (("a", ("system:masters",)), ("b", ())))
            assert (await api.as_peer("GET", CM, peer=admin)).status == 200
            assert (await api.as_peer("GET", CM, peer=other)).status == 403

    run(scenario())
