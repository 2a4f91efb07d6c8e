"""Which proxy is on the way, as programs written in Go see it; and a real one."""

import asyncio
import base64
import dataclasses

import pytest

from kapi.client import ClientConfig, ConfigError, ConnectError, RESTClient
from kapi.client.transport.proxy import proxy_for, without_password


def _proxy(server, proxy="", **environ):
    return proxy_for(ClientConfig(server, proxy=proxy), environ) or None


def test_environment_has_a_proxy_for_each_scheme():
    environ = {"HTTPS_PROXY": "http://s:1", "HTTP_PROXY": "http://p:1"}
    assert _proxy("https://api", **environ) == "http://s:1"
    assert _proxy("http://api", **environ) == "http://p:1"
    assert _proxy("https://api", https_proxy="lower:1") == "http://lower:1"
    assert _proxy("https://api", HTTPS_PROXY="upper:1", https_proxy="lower:1") == "http://upper:1"
    assert _proxy("https://api", HTTP_PROXY="http://p:1", ALL_PROXY="http://all:1") is None
    assert _proxy("http://api", HTTP_PROXY="http://p:1", REQUEST_METHOD="GET") is None


def test_the_config_wins_over_the_environment():
    assert _proxy("https://api", proxy="http://mine:1", HTTPS_PROXY="http://s:1", NO_PROXY="*") == "http://mine:1"


@pytest.mark.parametrize(
    ("server", "exceptions", "is_exempt"),
    [
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1", "", True),
        ("https://[::1]:6443", "", True),
        ("https://api.example.com", "", False),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "example.com", True),
        ("https://example.com", "example.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "*.example.com", True),
        ("https://example.com", "*.example.com", False),
        ("https://API.Example.com", " other , EXAMPLE.com ", True),
        ("https://api.example.com:6443", "example.com:6443", True),
        ("https://api.example.com", "example.com:443", True),
        ("https://api.example.com", "example.com:6443", False),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3", "3", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://api.example.com", "10.0.0.0/8,/,:80,[", False),
    ],
)
def test_exceptions(server, exceptions, is_exempt):
    assert (_proxy(server, HTTPS_PROXY="http://p:1", NO_PROXY=exceptions) is None) == is_exempt


@pytest.mark.parametrize("proxy", ["socks5://user:SECRET@p:1", "ftp://p", "http://", "http://user:SECRET@p:port"])
def test_proxy_that_cannot_be_used_is_named_without_its_password(proxy):
    for fields in ({"proxy": proxy}, {"HTTPS_PROXY": proxy}):
        with pytest.raises(ConfigError, match="only http:// and https:// proxies") as raised:
            _proxy("https://api", **fields)
        assert "SECRET" not in str(raised.value)


def test_password_is_cut_out_of_addresses():
    assert without_password("http://u:p@x:1/a@b") == "http://***@x:1/a@b"
    assert without_password("http://x:1/a@b") == "http://x:1/a@b"


class Tunnel:
    """A proxy that connects to where it is asked to, and remembers what it was asked."""

    def __init__(self, answer=b"HTTP/1.1 200 OK\r\n\r\n"):
        self.answer = answer
        self.asked = []

    async def __call__(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        writer.write(self.answer)
        if not self.answer.startswith(b"HTTP/1.1 200"):
            writer.close()
            return
        host, port = head.split()[1].rsplit(":", 1)
        theirs, ours = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_pipe(reader, ours), _pipe(theirs, writer))


async def _pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


async def _ask_through(tunnel, config, userinfo=""):
    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with RESTClient(dataclasses.replace(config, proxy=f"http://{userinfo}127.0.0.1:{port}")) as rest:
            return await rest.request("GET", "/version")
    finally:
        server.close()
        await asyncio.sleep(0)


def test_tls_is_tunnelled_through_the_proxy(admin):
    tunnel = Tunnel()
    assert asyncio.run(_ask_through(tunnel, admin, "user:word@"))["major"] == "1"
    assert tunnel.asked[0].startswith(f"CONNECT {admin.server.removeprefix('https://')} HTTP/1.1\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'user:word').decode()}\r\n" in tunnel.asked[0]
    # What says who we are is for the server's eyes only.
    assert "\r\nAuthorization" not in tunnel.asked[0]


def test_server_is_checked_through_a_proxy_too(admin):
    with pytest.raises(ConnectError, match="could not be trusted"):
        asyncio.run(_ask_through(Tunnel(), dataclasses.replace(admin, tls_server_name="elsewhere.example")))
    asyncio.run(_ask_through(Tunnel(), dataclasses.replace(admin, tls_server_name="localhost")))


def test_proxy_that_says_no_is_blamed(admin):
    with pytest.raises(ConnectError, match=r"the proxy on the way to https://.* refused: 407"):
        asyncio.run(_ask_through(Tunnel(b"HTTP/1.1 407 Sign In\r\nContent-Length: 0\r\n\r\n"), admin))
