"""What a client sends cannot make the server behind the proxy believe in another user, request or length."""

import asyncio

import pytest

from certificates import new_authority
from extension_server import FLUNDERS, ROOT, aggregated, response, until
from kapi.api.user import User
from kapi.controlplane.authenticationoptions import AuthenticationOptions
from kapi.server.aggregation.headers import InvalidHeader, RequestHeaders, returned
from kapi.server.authn.frontproxy import ProxyHeaders
from kapi.server.transport.message import Request
from webhook_server import Certificates

HEADERS = RequestHeaders(ProxyHeaders())
OPTIONS = RequestHeaders(ProxyHeaders(("X-User",), ("X-Uid",), ("X-Group",), ("X-More-",)))


def head(headers=None, *, user=None, method="GET", body=b"", maker=HEADERS):
    """The head that is passed on for the headers of a request, as lines."""
    request = Request(method, FLUNDERS, "", headers or {}, body)
    text = maker.head(request, user or User("alice"), "api.wardle.svc", "id").decode()
    return text.removesuffix("\r\n\r\n").split("\r\n")


def names(lines):
    return {line.partition(":")[0].lower() for line in lines[1:]}


@pytest.mark.parametrize(
    "name",
    [
        "x-remote-user",
        "x-remote-group",
        "x-remote-uid",
        "x-remote-extra-scopes",
        "x-remote-anything",
    ],
)
def test_user_of_the_headers_is_that_of_the_request(name):
    lines = head({name: "system:admin"})
    assert not any("system:admin" in line for line in lines)
    assert "X-Remote-User: alice" in lines


@pytest.mark.parametrize("name", ["x-user", "x-uid", "x-group", "x-more-scopes", "x-remote-user"])
def test_headers_that_the_options_name_are_not_passed_on_either(name):
    lines = head({name: "system:admin"}, maker=OPTIONS)
    assert not any("system:admin" in line for line in lines)
    assert "X-User: alice" in lines


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", "Bearer secret"),
        ("cookie", "session=secret"),
        ("proxy-authorization", "Basic secret"),
        ("impersonate-user", "secret"),
        ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.secret, channel.k8s.io"),
    ],
)
def test_credentials_are_not_passed_on(name, value):
    assert not any("secret" in line for line in head({name: value}))


def test_headers_between_two_hops_are_not_passed_on():
    given = {
        "connection": "close, X-Secret, X-Remote-User",
        "x-secret": "1",
        "te": "trailers",
        "trailer": "a",
        "upgrade": "h2c",
        "keep-alive": "1",
        "transfer-encoding": "chunked",
        "expect": "100-continue",
        "x-kept": "2",
    }
    lines = head(given)
    assert names(lines) & given.keys() == {"x-kept"}
    # What the client lists as its own hop's headers does not remove what is added here.
    assert "X-Remote-User: alice" in lines


def test_length_is_that_of_the_body_that_was_read():
    lines = head({"content-length": "5", "transfer-encoding": "chunked"}, method="POST", body=b"12345678")
    assert [line for line in lines if "length" in line.lower()] == ["Content-Length: 8"]
    assert "transfer-encoding" not in names(lines)


@pytest.mark.parametrize(
    "user",
    [
        User("a\r\nX-Remote-Group: system:masters"),
        User("a\nb"),
        User("a", ("g\r\nX-Remote-Group: system:masters",)),
        User("a", (), "uid\n"),
        User("a", (), "", {"k": ["v\r\n\r\nGET / HTTP/1.1"]}),
        User("a\0"),
    ],
)
def test_names_of_users_cannot_add_headers(user):
    with pytest.raises(InvalidHeader):
        head(user=user)


def test_keys_of_extra_attributes_are_escaped():
    lines = head(user=User("a", (), "", {"acme.com/x\r\ny: %": ["v"]}))
    assert "X-Remote-Extra-acme.com%2Fx%0D%0Ay%3A%20%25: v" in lines


def test_response_sets_no_cookies_and_no_framing():
    given = [
        (b"Content-Type", b"application/json"),
        (b"Set-Cookie", b"a=b"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"3"),
        (b"Connection", b"X-Hop"),
        (b"X-Hop", b"1"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Audit-Id", b"theirs"),
    ]
    assert returned(given) == [("Content-Type", "application/json")]


def test_live_request_has_nothing_of_the_client_that_names_a_user(tmp_path):
    async def check(plane, server):
        reader, writer = await plane.send(
            f"GET {FLUNDERS}",
            "X-Remote-User: root",
            "X-Remote-Group: system:masters",
            "x-remote-extra-a: b",
            "Cookie: a=b",
            "Connection: close, X-Remote-User",
        )
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        call = await server.called()
        assert call.values("x-remote-user") == ["kubernetes-admin"]
        assert call.values("x-remote-group") == ["system:masters", "system:authenticated"]
        assert not call.names & {"authorization", "cookie", "x-remote-extra-a", "connection"}
        assert plane.token not in str(call.lines)

    aggregated(tmp_path, check, listen=True)


def test_headers_of_the_options_name_the_user_to_the_other_server(tmp_path):
    ca = tmp_path / "proxies.crt"

    async def check(plane, server):
        await plane.request("GET", FLUNDERS)
        call = await server.called()
        assert call.values("x-user") == ["system:apiserver"]
        assert call.values("x-remote-user") == []

    ca.write_bytes(new_authority("proxies").pem)
    options = AuthenticationOptions(
        requestheader_client_ca_file=ca,
        requestheader_allowed_names=("proxy",),
        requestheader_username_headers=("X-User",),
    )
    aggregated(tmp_path, check, authentication=options)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_cve_2022_3172_redirect_is_neither_followed_nor_passed_on(tmp_path, status):
    async def check(plane, server):
        async def script(call, writer):
            writer.write(response(status, b"", "Location: https://127.0.0.1:1/steal"))

        server.script = script
        answer, text = await plane.request("GET", FLUNDERS)
        assert answer == 502
        assert text == "the backend attempted to redirect this request, which is not permitted\n"
        assert len(server.calls) == 1

    aggregated(tmp_path, check)


def test_path_that_could_mean_another_is_refused(tmp_path):
    async def check(plane, server):
        for path in (
            f"{ROOT}/../../apps/v1/deployments",
            f"{ROOT}/namespaces/default/flunders/..",
            f"{ROOT}/namespaces/%2e%2e/flunders",
            f"{ROOT}/./flunders/a",
            f"{ROOT}/flunders/a%5c..%5cb",
            f"{ROOT}/flunders/a\\b",
        ):
            status, answer = await plane.request("GET", path)
            assert (path, status) == (path, 400), answer
        for path in (f"{ROOT}//flunders", f"{ROOT}/flunders/a%2fb"):
            assert (await plane.request("GET", path))[0] == 404
        assert server.calls == []
        assert (await plane.request("GET", f"{ROOT}/flunders/a.b"))[0] == 200

    aggregated(tmp_path, check)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * (2 << 20),
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_response_that_could_be_read_in_two_ways_is_not_passed_on(tmp_path, answer):
    async def check(plane, server):
        async def script(call, writer):
            writer.write(answer)
            await call.abandoned()

        server.script = script
        assert (await plane.request("GET", FLUNDERS))[0] == 503

    aggregated(tmp_path, check)


def test_bytes_behind_a_response_are_not_the_answer_to_the_next_request(tmp_path):
    async def check(plane, server):
        poison = response(200, {"stolen": True})

        async def together(call, writer):
            writer.write(response(200, {"own": 1}) + poison)

        async def apart(call, writer):
            writer.write(response(200, {"own": 1}))
            await writer.drain()
            await sent.wait()
            writer.write(poison)
            await writer.drain()
            await call.abandoned()
            closed.set()

        async def honest(call, writer):
            writer.write(response(200, {"own": 2}))

        for script in (together, apart):
            sent, closed = asyncio.Event(), asyncio.Event()
            server.script = script
            status, answer = await plane.request("GET", FLUNDERS)
            assert status == 503 or answer == {"own": 1}
            sent.set()
            if script is apart:
                await closed.wait()
            server.script = honest
            for _ in range(3):
                assert await plane.request("GET", FLUNDERS) == (200, {"own": 2})

    aggregated(tmp_path, check)


def test_server_with_another_name_or_authority_is_not_trusted(tmp_path):
    async def check(plane, server):
        folder = tmp_path / "others"
        folder.mkdir()
        others = Certificates(folder)
        await plane.request("PATCH", SELF, {"spec": {"caBundle": others.bundle}}, content_type=MERGE)
        await plane.until_available("False")
        assert "certificate signed by unknown authority" in (await plane.condition())["message"]
        own = {"spec": {"caBundle": server.certificates.bundle, "service": {"name": "other", "namespace": "wardle"}}}
        await plane.request("PATCH", SELF, own, content_type=MERGE)

        async def is_another():
            return "certificate is not valid for other.wardle.svc" in (await plane.condition())["message"]

        await until(is_another)
        insecure = {"spec": {"caBundle": None, "insecureSkipTLSVerify": True, "service": {"name": "api"}}}
        await plane.request("PATCH", SELF, insecure, content_type=MERGE)
        await plane.until_available()
        assert (await plane.request("GET", FLUNDERS))[0] == 200

    aggregated(tmp_path, check)


MERGE = "application/merge-patch+json"
SELF = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.wardle.example.com"
