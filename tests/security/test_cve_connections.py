"""Connections: no other protocol is spoken on them, whatever a client asks for."""

import contextlib
import ssl

import pytest

from api_client import PODS, served
from kapi.server.transport.framing import RequestReader
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Peer
from webhook_server import Certificates

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
UPGRADES = {
    "websocket": {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"},
    "spdy": {"connection": "Upgrade", "upgrade": "SPDY/3.1"},
}
STREAMED = ("exec", "attach", "portforward")
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.mark.parametrize("upgrade", UPGRADES)
def test_cve_2018_1002105_what_follows_an_upgrade_is_a_request_with_credentials_of_its_own(upgrade):
    """In Kubernetes, what followed a failed upgrade reached the backend with the server's credentials."""
    reader = RequestReader(Peer("192.0.2.1"), Limits())
    headers = "".join(f"{name}: {value}\r\n" for name, value in UPGRADES[upgrade].items())
    first = f"GET {PODS}/p/exec HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer one\r\n{headers}\r\n"
    reader.feed(f"{first}GET /api/v1/secrets HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    (asked, _, _), (following, _, _) = reader.queue
    assert asked.headers["authorization"] == "Bearer one"
    assert (following.path, following.headers) == ("/api/v1/secrets", {"host": "h"})


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("subresource", [*STREAMED, "proxy"])
def test_cve_2018_1002105_no_protocol_is_switched(upgrade, subresource):
    @served
    async def check(api):
        await api.made(PODS, POD)
        for method in ("GET", "POST"):
            answer = await api.request(method, f"{PODS}/p/{subresource}", headers=UPGRADES[upgrade])
            assert (answer.status, answer.json["code"]) == (501, 501)

    check()


@pytest.mark.parametrize("subresource", STREAMED)
def test_opening_a_websocket_to_a_pod_needs_the_permission_to_create(subresource):
    """A WebSocket is opened with GET, so that a user who may only read could run commands in a Pod."""

    @served
    async def check(api):
        await api.made(PODS, POD)
        rule = {"verbs": ["get"], "apiGroups": [""], "resources": [f"pods/{subresource}"]}
        await api.made(f"{RBAC}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
        await api.made(f"{RBAC}/rolebindings", {"metadata": {"name": "b"}, "subjects": [subject], "roleRef": reference})
        reader = Peer("192.0.2.1", local=("reader", ()))
        path = f"{PODS}/p/{subresource}"
        refused = await api.as_peer("GET", path, peer=reader, headers=UPGRADES["websocket"])
        assert (refused.status, refused.message) == (403, 'pods "p" is forbidden: ')
        await api.patch(f"{RBAC}/roles/r", {"rules": [{**rule, "verbs": ["get", "create"]}]})
        allowed = await api.as_peer("GET", path, peer=reader, headers=UPGRADES["websocket"])
        assert allowed.status == 501

    check()


@pytest.mark.parametrize(("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], None)])
def test_cve_2023_44487_http_2_is_not_agreed_on(tmp_path, offered, chosen):
    """Without streams there is none to reset; many servers were stopped by resets of HTTP/2."""
    context = ssl.create_default_context(cadata=(certificates := Certificates(tmp_path)).pem.decode())
    context.set_alpn_protocols(offered)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = certificates.server().wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert client.selected_alpn_protocol() == server.selected_alpn_protocol() == chosen
