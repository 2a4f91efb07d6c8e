"""What this server and its client send to other servers: no redirect is followed, no wrong certificate accepted.

Kapi forwards no requests to nodes or to other API servers. What is left of the lessons about proxies is the calls to webhooks.
"""

import asyncio
import ipaddress
import logging
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from certificates import DAY, issue
from kapi.api.user import User
from kapi.base.http import Endpoint, Outbound, OutboundError
from kapi.client.config import ClientConfig
from kapi.client.errors import ConnectError
from kapi.client.rest import RESTClient
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.webhook import WebhookAuthorizer
from webhook_server import Certificates, Reply, Webhook

CANARY = "the-canary-in-an-answer"
GET = Attributes(User("ann"), "get", "", "v1", "pods", "", "default", "p")


@pytest.fixture(scope="module")
def trusted(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("trusted"))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_cve_2018_1002102_and_2020_8559_and_8561_redirects_of_a_webhook_are_not_followed(trusted, status):
    async def main():
        async with Webhook(trusted, script=lambda _: Reply(b"{}")) as victim:
            moved = Reply(CANARY.encode(), status, location=victim.url)
            async with Webhook(trusted, script=lambda _: moved) as webhook:
                authorizer = WebhookAuthorizer(Endpoint(webhook.url, trusted.pem), first_backoff=0.001)
                try:
                    decision = await authorizer.authorize(GET)
                finally:
                    await authorizer.close()
            return decision, webhook.calls, victim.calls

    decision, calls, redirected = asyncio.run(main())
    assert not decision.allowed
    assert decision.error
    assert calls
    assert redirected == []


@pytest.mark.parametrize("status", [200, 302, 500])
def test_cve_2020_8561_and_8555_the_answer_of_a_webhook_is_in_no_log(trusted, status, caplog):
    """In Kubernetes, an answer that was logged let the owner of a webhook read what the server can reach."""

    async def main():
        async with Webhook(trusted, script=lambda _: Reply(CANARY.encode(), status)) as webhook:
            authorizer = WebhookAuthorizer(Endpoint(webhook.url, trusted.pem), first_backoff=0.001)
            try:
                return await authorizer.authorize(GET)
            finally:
                await authorizer.close()

    with caplog.at_level(logging.DEBUG):
        decision = asyncio.run(main())
    assert not decision.allowed
    assert CANARY not in caplog.text
    assert CANARY not in decision.error


# -- certificates of servers ------------------------------------------------------------------------------------------

SERVING = (ExtendedKeyUsageOID.SERVER_AUTH,)
OWN_NAMES = (x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
OTHER_NAMES = (x509.SubjectAlternativeName([x509.DNSName("elsewhere.example")]), False)


def _authority(name):
    key = ec.generate_private_key(ec.SECP256R1())
    signs = dict.fromkeys(("key_cert_sign", "crl_sign"), True)
    others = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = x509.KeyUsage(**signs, **dict.fromkeys((*others, "encipher_only", "decipher_only"), False))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return issue(name, authority=True, key=key, more=[(identifier, False), (usage, True)])


def _server(authority, names=OWN_NAMES, **details):
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return authority.issue("s", **{"usages": SERVING, **details}, more=[names, (identifier, False)])


class Chains:
    """An authority that clients trust, another one, and the certificates of servers."""

    def __init__(self, folder):
        self.trusted = _authority("trusted")
        made = {
            "right": _server(self.trusted),
            "of another authority": _server(_authority("other")),
            "signed by itself": issue("s", usages=SERVING, more=[OWN_NAMES]),
            "for another name": _server(self.trusted, OTHER_NAMES),
            "expired": _server(self.trusted, begins=-DAY, ends=-DAY / 2),
            "not valid yet": _server(self.trusted, begins=DAY, ends=2 * DAY),
            "for clients": _server(self.trusted, usages=(ExtendedKeyUsageOID.CLIENT_AUTH,)),
        }
        self.files = {what: one.write(folder, what.replace(" ", "-")) for what, one in made.items()}

    def context(self, what):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.files[what].certificate, self.files[what].key)
        return context


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    return Chains(tmp_path_factory.mktemp("chains"))


async def _answer(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    await writer.drain()
    writer.close()


async def _client(url, authority):
    async with RESTClient(ClientConfig(url, ca_data=authority)) as rest:
        return await rest.request("GET", "/version")


async def _webhook_call(url, authority):
    outbound = Outbound()
    try:
        return (await outbound.post(Endpoint(url, authority), b"{}", seconds=20, limit=1000)).status
    finally:
        await outbound.close()


def _called(chains, what, call):
    async def main():
        async with asyncio.timeout(60):
            server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=chains.context(what))
            async with server:
                return await call(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", chains.trusted.pem)

    return asyncio.run(main())


WRONG = ("of another authority", "signed by itself", "for another name", "expired", "not valid yet", "for clients")


@pytest.mark.parametrize("what", WRONG)
def test_cve_2025_9708_the_client_refuses_a_wrong_certificate(chains, what):
    """In Kubernetes' C# client, a custom authority accepted any chain."""
    with pytest.raises(ConnectError, match="could not be trusted"):
        _called(chains, what, _client)


@pytest.mark.parametrize("what", WRONG)
def test_cve_2025_9708_calls_to_webhooks_refuse_a_wrong_certificate(chains, what):
    with pytest.raises(OutboundError):
        _called(chains, what, _webhook_call)


def test_cve_2025_9708_a_right_certificate_is_accepted(chains):
    assert _called(chains, "right", _client) == {}
    assert _called(chains, "right", _webhook_call) == 200
