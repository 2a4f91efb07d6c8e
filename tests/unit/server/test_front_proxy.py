"""Front proxies: whose headers are trusted, and what they say."""

import datetime as dt

import pytest

from certificates import DAY, new_authority
from kapi.api.errors import Unauthorized
from kapi.api.user import User
from kapi.base.clock import ManualClock
from kapi.base.trust import Authorities
from kapi.server.authn.authenticator import Authenticator
from kapi.server.authn.certificate import ClientCertificates
from kapi.server.authn.frontproxy import FrontProxy, ProxyHeaders
from kapi.server.authn.tokens import StaticTokens, TokenSources
from kapi.server.transport.message import Peer, Request

PROXIES, CLIENTS = new_authority("proxies"), new_authority("clients")
OWN = ("own",)
HEADERS = {
    "x-remote-user": "alice",
    "x-remote-uid": "u-1",
    "x-remote-group": "devs\nCN=ops, O=all",
    "x-remote-extra-scopes": "a\nb",
    "x-remote-extra-example.com%2fplace": "here",
    "x-other": "stays",
}


def authenticator(headers=None, clock=None):
    clock = clock or ManualClock(dt.datetime.now(dt.UTC))
    proxy = FrontProxy(Authorities(PROXIES.pem), headers or ProxyHeaders(allowed_names=("proxy",)), clock)
    tokens = TokenSources(OWN, StaticTokens({"a-token": User("bob")}, OWN))
    return Authenticator(tokens, proxy, ClientCertificates(Authorities(CLIENTS.pem), clock))


def request(certificate=None, peer=None, **more):
    shown = (certificate.der,) if certificate else ()
    return Request("GET", "/", headers={**HEADERS, **more}, peer=peer or Peer("192.0.2.1", shown))


def outcome(union, asked):
    """The name of the user, or 401. Everything is known locally, so nothing waits."""
    user = union.identify(asked)
    if user is None:
        try:
            union.authenticate(asked).send(None)
        except StopIteration as result:
            user = result.value
        except Unauthorized:
            return 401
    return user.name


def test_headers_of_a_proxy_name_the_user():
    asked = request(PROXIES.issue("proxy"))
    user = authenticator().identify(asked)
    assert (user.name, user.uid) == ("alice", "u-1")
    assert user.groups == ("devs", "CN=ops, O=all", "system:authenticated")
    assert user.extra == {"scopes": ["a", "b"], "example.com/place": ["here"]}
    # Nothing behind authentication sees them.
    assert asked.headers == {"x-other": "stays"}


def test_headers_without_a_certificate_of_a_proxy_are_ignored():
    union = authenticator()
    assert outcome(union, request()) == "system:anonymous"
    assert outcome(union, request(CLIENTS.issue("carol"))) == "carol"
    assert outcome(union, request(CLIENTS.issue("proxy"))) == "proxy"
    assert outcome(union, request(authorization="Bearer a-token")) == "bob"


@pytest.mark.parametrize(
    "certificate",
    [
        PROXIES.issue("someone"),
        PROXIES.issue(""),
        PROXIES.issue("proxy", ends=-DAY / 2),
        new_authority("proxies").issue("proxy"),
    ],
    ids=["another name", "no name", "expired", "another authority"],
)
def test_certificate_that_is_not_that_of_a_proxy_is_refused(certificate):
    assert outcome(authenticator(), request(certificate)) == 401
    # Other credentials of the same request count all the same.
    assert outcome(authenticator(), request(certificate, authorization="Bearer a-token")) == "bob"


def test_proxy_that_names_no_user_is_not_a_client():
    asked = Request("GET", "/", headers={"x-remote-group": "system:masters"}, peer=request(PROXIES.issue("proxy")).peer)
    assert outcome(authenticator(), asked) == 401


def test_every_name_is_allowed_if_none_is_given():
    assert outcome(authenticator(ProxyHeaders()), request(PROXIES.issue("someone"))) == "alice"


def test_each_request_of_a_connection_has_its_own_user():
    union, peer = authenticator(), Peer("192.0.2.1", (PROXIES.issue("proxy").der,))
    names = [outcome(union, request(peer=peer, **{"x-remote-user": name})) for name in ("alice", "bob", "alice")]
    assert names == ["alice", "bob", "alice"]


def test_certificate_of_a_proxy_expires_on_an_open_connection():
    clock = ManualClock(dt.datetime.now(dt.UTC))
    union, peer = authenticator(clock=clock), Peer("192.0.2.1", (PROXIES.issue("proxy").der,))
    assert outcome(union, request(peer=peer)) == "alice"
    clock.advance(2 * 86400)
    assert outcome(union, request(peer=peer)) == 401


def test_other_names_of_headers_can_be_given():
    headers = ProxyHeaders(username=("X-A", "X-B"), uid=(), group=("X-G",), extra_prefix=("X-E-",))
    asked = Request(
        "GET",
        "/",
        headers={"x-b": "bob", "x-g": "g", "x-e-k": "v", "x-remote-group": "system:masters"},
        peer=Peer("192.0.2.1", (PROXIES.issue("p").der,)),
    )
    user = authenticator(headers).identify(asked)
    assert (user.name, user.uid, user.groups, user.extra) == ("bob", "", ("g", "system:authenticated"), {"k": ["v"]})


def test_anonymous_user_of_a_proxy_is_not_authenticated():
    asked = request(PROXIES.issue("proxy"), **{"x-remote-user": "system:anonymous", "x-remote-group": ""})
    assert authenticator().identify(asked).groups == ()
