"""Outbound calls, to real servers on loopback: what is sent, what is kept open, and every way it can go wrong."""

import asyncio
import contextlib
import gc
import gzip
import logging

import pytest

from kapi.base import http, httppool
from kapi.base.http import Endpoint, Outbound, OutboundError
from webhook_server import Certificates, Gate, Hangup, Reply, Reset, Webhook

SECONDS = 20
LIMIT = 100_000
SECRET = "the-password-in-a-body"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """Another authority."""
    return Certificates(tmp_path_factory.mktemp("strangers"))


def echo(call):
    return Reply(call.body or b"nothing")


def calling(certificates, test, *names, script=echo):
    """Run `test(webhook, outbound)` with both running; everything is closed afterwards and nothing warns."""

    async def main():
        outbound = Outbound()
        async with Webhook(certificates, *names, script=script) as webhook:
            try:
                await test(webhook, outbound)
            finally:
                await outbound.close()

    asyncio.run(main())
    gc.collect()


def endpoint(webhook, **changes):
    return Endpoint(webhook.url, webhook.certificates.pem)._replace(**changes)


async def post(outbound, where, body=b"{}", *, seconds=SECONDS, limit=LIMIT):
    return await outbound.post(where, body, seconds=seconds, limit=limit)


async def failure(outbound, where, **options):
    with pytest.raises(OutboundError) as caught:
        await post(outbound, where, **options)
    return str(caught.value)


# -- what is sent and what comes back -------------------------------------------------------------------------------


def test_a_call_is_a_post_of_json_and_brings_status_type_and_body(certificates):
    async def test(webhook, outbound):
        webhook.script = lambda call: Reply(b"made", 201, content_type="text/plain")
        assert await post(outbound, endpoint(webhook), b'{"a":1}') == (201, "text/plain", b"made")
        (call,) = webhook.calls
        assert (call.method, call.target, call.body) == ("POST", "/convert", b'{"a":1}')
        assert call.headers["content-type"] == "application/json"
        assert call.headers["accept"] == "application/json, */*"
        assert call.headers["host"] == f"127.0.0.1:{webhook.port}"
        assert "aiohttp" not in call.headers["user-agent"]

    calling(certificates, test)


def test_the_query_of_a_url_is_sent(certificates):
    async def test(webhook, outbound):
        await post(outbound, endpoint(webhook, url=f"{webhook.url}?timeout=30s"))
        assert webhook.calls[0].target == "/convert?timeout=30s"

    calling(certificates, test)


def test_proxies_of_the_environment_are_ignored(certificates, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def test(webhook, outbound):
        assert (await post(outbound, endpoint(webhook))).status == 200

    calling(certificates, test)


def test_redirects_are_answers_like_others(certificates):
    async def test(webhook, outbound):
        webhook.script = lambda call: Reply(b"", 307, location="/elsewhere")
        assert (await post(outbound, endpoint(webhook))).status == 307
        assert len(webhook.calls) == 1

    calling(certificates, test)


def test_cookies_are_not_kept(certificates):
    async def test(webhook, outbound):
        webhook.script = lambda call: Reply(b"x", set_cookie="a=b; Path=/")
        await post(outbound, endpoint(webhook))
        await post(outbound, endpoint(webhook))
        assert all("cookie" not in call.headers for call in webhook.calls)

    calling(certificates, test)


def test_unrequested_compression_is_not_decoded(certificates):
    bomb = gzip.compress(bytes(10 * LIMIT))

    async def test(webhook, outbound):
        webhook.script = lambda call: Reply(bomb, content_encoding="gzip")
        assert (await post(outbound, endpoint(webhook))).body == bomb
        assert webhook.calls[0].headers["accept-encoding"] == "identity"

    calling(certificates, test)


def test_the_address_is_connected_to_and_the_url_is_verified(certificates):
    async def test(webhook, outbound):
        where = Endpoint("https://hook.apps.svc:443/x?y=z", certificates.pem, ("127.0.0.1", webhook.port))
        assert (await post(outbound, where)).status == 200
        (call,) = webhook.calls
        assert (call.target, call.headers["host"]) == ("/x?y=z", "hook.apps.svc:443")

    calling(certificates, test, "hook.apps.svc")


# -- connections ----------------------------------------------------------------------------------------------------


def test_connections_are_used_again(certificates):
    async def test(webhook, outbound):
        for _ in range(5):
            await post(outbound, endpoint(webhook))
        assert (len(webhook.calls), webhook.opened) == (5, 1)

    calling(certificates, test)


def test_a_connection_trusted_by_one_ca_is_not_reused_for_another(certificates, strangers):
    async def test(webhook, outbound):
        await post(outbound, endpoint(webhook))
        text = await failure(outbound, endpoint(webhook, authority=strangers.pem))
        assert "certificate signed by unknown authority" in text
        assert len(webhook.calls) == 1

    calling(certificates, test)


def test_a_connection_to_one_name_is_not_used_for_another_name_at_the_same_address(certificates):
    async def test(webhook, outbound):
        address = ("127.0.0.1", webhook.port)
        one = Endpoint("https://one.apps.svc:443/", certificates.pem, address)
        await post(outbound, one)
        other = one._replace(url="https://two.apps.svc:443/")
        assert "certificate is valid for one.apps.svc, not two.apps.svc" in await failure(outbound, other)
        assert len(webhook.calls) == 1

    calling(certificates, test, "one.apps.svc")


def test_an_idle_connection_closed_by_the_server_is_replaced(certificates):
    async def test(webhook, outbound):
        served = set()

        def script(call):
            if webhook.opened in served:
                raise Hangup
            served.add(webhook.opened)
            return echo(call)

        webhook.script = script
        await post(outbound, endpoint(webhook))
        assert (await post(outbound, endpoint(webhook))).status == 200
        assert (len(webhook.calls), webhook.opened) == (3, 2)

    calling(certificates, test)


def test_a_request_on_a_new_connection_is_not_retried(certificates):
    async def test(webhook, outbound):
        def script(call):
            raise Hangup

        webhook.script = script
        assert await failure(outbound, endpoint(webhook)) == f'Post "{webhook.url}": EOF'
        assert len(webhook.calls) == 1

    calling(certificates, test)


def test_hanging_calls_do_not_block_calls_to_another_server(certificates):
    async def test(webhook, outbound):
        gate = Gate()
        webhook.script = gate
        hanging = [asyncio.ensure_future(post(outbound, endpoint(webhook))) for _ in range(httppool.MAX_PER_SITE + 10)]
        async with Webhook(certificates, script=echo) as other:
            assert (await post(outbound, endpoint(other))).status == 200
        assert not any(one.done() for one in hanging)
        for one in hanging:
            one.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    calling(certificates, test)


def test_few_parsed_authorities_are_kept(certificates, monkeypatch):
    monkeypatch.setattr(http, "MAX_CONTEXTS", 2)

    async def test(webhook, outbound):
        for padding in range(4):
            await post(outbound, endpoint(webhook, authority=certificates.pem + b"\n" * padding))
        assert len(outbound._contexts) == 2

    calling(certificates, test)


# -- certificates -----------------------------------------------------------------------------------------------------


def refused(webhook, why):
    return f'Post "{webhook.url}": tls: failed to verify certificate: x509: {why}'


def test_a_server_of_another_authority_is_refused(certificates, strangers):
    async def test(webhook, outbound):
        text = await failure(outbound, endpoint(webhook, authority=strangers.pem))
        assert text == refused(webhook, "certificate signed by unknown authority")
        assert not webhook.calls

    calling(certificates, test)


def test_without_an_authority_those_of_the_machine_are_trusted_and_no_other(certificates):
    async def test(webhook, outbound):
        text = await failure(outbound, endpoint(webhook, authority=b""))
        assert text == refused(webhook, "certificate signed by unknown authority")

    calling(certificates, test)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["127.0.0.2", "::1"], "certificate is valid for 127.0.0.2, ::1, not 127.0.0.1"),
        (["other.example"], "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
    ],
)
def test_a_server_at_another_address_is_refused(certificates, names, reason):
    async def test(webhook, outbound):
        assert await failure(outbound, endpoint(webhook)) == refused(webhook, reason)
        assert not webhook.calls

    calling(certificates, test, *names)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a.example", "b.example"], "certificate is valid for a.example, b.example, not c.example"),
        (["127.0.0.1"], "certificate is not valid for any names, but wanted to match c.example"),
    ],
)
def test_a_server_by_another_name_is_refused(certificates, names, reason):
    async def test(webhook, outbound):
        asked = Endpoint("https://c.example/", certificates.pem, ("127.0.0.1", webhook.port))
        assert (await failure(outbound, asked)).endswith(f"x509: {reason}")
        assert not webhook.calls

    calling(certificates, test, *names)


def test_a_certificate_that_has_expired_is_refused(tmp_path):
    async def test(webhook, outbound):
        text = await failure(outbound, endpoint(webhook))
        assert text.startswith(refused(webhook, "certificate has expired or is not yet valid: current time "))

    calling(Certificates(tmp_path, days_ago=1000), test)


def test_several_authorities_with_text_between_them_may_be_trusted(certificates, strangers):
    bundle = strangers.pem + "\n# le deuxième\n".encode() + certificates.pem

    async def test(webhook, outbound):
        assert (await post(outbound, endpoint(webhook, authority=bundle))).status == 200

    calling(certificates, test)


def test_a_servers_own_certificate_may_be_what_is_trusted(tmp_path):
    certificates = Certificates(tmp_path)

    async def test(webhook, outbound):
        own = (tmp_path / "127.0.0.1.crt").read_bytes()
        assert (await post(outbound, endpoint(webhook, authority=own))).status == 200

    calling(certificates, test, "127.0.0.1")


@pytest.mark.parametrize("junk", [b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_invalid_ca_bundle_is_reported(certificates, junk):
    async def test(webhook, outbound):
        text = await failure(outbound, endpoint(webhook, authority=junk))
        assert text == "unable to load root certificates: unable to parse bytes as PEM block"

    calling(certificates, test)


# -- servers that misbehave ---------------------------------------------------------------------------------------


def test_an_answer_that_is_too_large_is_not_read_to_its_end(certificates):
    async def test(webhook, outbound):
        webhook.script = lambda call: Reply(bytes(50 * LIMIT))
        assert await failure(outbound, endpoint(webhook)) == f"the answer is larger than {LIMIT} bytes"
        webhook.script = lambda call: Reply(bytes(LIMIT))
        assert len((await post(outbound, endpoint(webhook))).body) == LIMIT
        assert webhook.opened == 2, "the connection with the rest of the answer must not be used"

    calling(certificates, test)


def test_a_call_times_out_waiting_for_headers(certificates):
    async def test(webhook, outbound):
        webhook.script = Gate()
        text = await failure(outbound, endpoint(webhook), seconds=0.05)
        assert text.endswith("net/http: request canceled (Client.Timeout exceeded while awaiting headers)")
        webhook.script = echo
        assert (await post(outbound, endpoint(webhook))).status == 200

    calling(certificates, test)


HALF = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"


class Begun:
    """An answer that has begun and does not end."""

    raw = HALF


def test_a_call_times_out_while_reading_the_body(certificates):
    async def test(webhook, outbound):
        webhook.script = lambda call: Begun
        assert await failure(outbound, endpoint(webhook), seconds=0.05) == (
            "unexpected error when reading response body. Please retry. Original error: "
            "net/http: request canceled (Client.Timeout or context cancellation while reading body)"
        )

    calling(certificates, test)


def raising(error):
    def script(call):
        raise error

    return script


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(Hangup(), 'Post "{url}": EOF', id="hangs-up"),
        pytest.param(Reset(), 'Post "{url}": read tcp 127.0.0.1:{port}: read: connection reset by peer', id="resets"),
        pytest.param(
            Hangup(HALF),
            "unexpected error when reading response body. Please retry. Original error: unexpected EOF",
            id="half-an-answer",
        ),
        pytest.param(
            Hangup(b"SSH-2.0-hello\r\n\r\n"),
            'Post "{url}": net/http: HTTP/1.x transport connection broken: malformed HTTP response',
            id="not-http",
        ),
    ],
)
def test_a_broken_response_is_reported(certificates, error, expected):
    async def test(webhook, outbound):
        webhook.script = raising(error)
        text = await failure(outbound, endpoint(webhook))
        assert text == expected.format(url=webhook.url, port=webhook.port)

    calling(certificates, test)


def test_a_closed_port_is_reported_as_connection_refused(certificates):
    async def test(webhook, outbound):
        await webhook.stop()
        text = await failure(outbound, endpoint(webhook))
        assert text == f'Post "{webhook.url}": dial tcp 127.0.0.1:{webhook.port}: connect: connection refused'
        address = ("127.0.0.1", webhook.port)
        text = await failure(outbound, Endpoint("https://a.b.svc:443/", certificates.pem, address))
        assert text.endswith(f'.svc:443/": dial tcp 127.0.0.1:{webhook.port}: connect: connection refused')
        await webhook.start()

    calling(certificates, test)


@contextlib.asynccontextmanager
async def plain(answer):
    """A server without TLS."""

    async def serve(reader, writer):
        await reader.read(1)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def test_a_server_without_tls_is_reported(certificates):
    async def test(webhook, outbound):
        async with plain(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            text = await failure(outbound, endpoint(webhook, url=f"https://127.0.0.1:{port}/"))
        assert text == f'Post "https://127.0.0.1:{port}/": http: server gave HTTP response to HTTPS client'

    calling(certificates, test)


def test_a_server_that_leaves_during_the_handshake_is_an_error_like_others(certificates):
    async def test(webhook, outbound):
        async with plain(b"") as port:
            text = await failure(outbound, endpoint(webhook, url=f"https://127.0.0.1:{port}/"))
        assert text.startswith(f'Post "https://127.0.0.1:{port}/": ')

    calling(certificates, test)


@pytest.mark.parametrize("url", ["https://a..b/", "https://[::bad/", "https://127.0.0.1:99999/", "nonsense"])
def test_an_invalid_url_is_an_error(certificates, url):
    async def test(webhook, outbound):
        assert await failure(outbound, endpoint(webhook, url=url))

    calling(certificates, test)


@pytest.mark.parametrize("token", ["a\r\nX-Remote-User: admin", "a\n", "\u7b26"])
def test_a_token_that_would_add_a_header_is_not_sent(certificates, token):
    async def test(webhook, outbound):
        text = await failure(outbound, endpoint(webhook, token=token))
        assert text == "the bearer token has characters that a header must not have"
        assert not webhook.calls

    calling(certificates, test)


# -- ending -----------------------------------------------------------------------------------------------------------


def test_a_cancelled_call_closes_its_connection(certificates):
    async def test(webhook, outbound):
        gate = webhook.script = Gate()
        call = asyncio.ensure_future(post(outbound, endpoint(webhook)))
        await webhook.until_called()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        gate.opened.set()
        webhook.script = echo
        await post(outbound, endpoint(webhook))
        assert webhook.opened == 2

    calling(certificates, test)


def test_closing_cancels_calls_in_flight_and_refuses_new_ones(certificates):
    async def test(webhook, outbound):
        webhook.script = Gate()
        call = asyncio.ensure_future(failure(outbound, endpoint(webhook)))
        await webhook.until_called()
        await outbound.close()
        assert await call
        assert await failure(outbound, endpoint(webhook)) == "the server is shutting down"

    calling(certificates, test)


def test_an_unused_client_can_be_closed():
    async def main():
        outbound = Outbound()
        await outbound.close()
        await outbound.close()

    asyncio.run(main())


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [echo, raising(Hangup(HALF)), lambda call: Reply(call.body, 500)])
def test_bodies_are_in_no_log_and_in_no_error(certificates, caplog, capfd, script):
    caplog.set_level(logging.DEBUG)

    async def test(webhook, outbound):
        asyncio.get_running_loop().set_debug(enabled=True)
        webhook.script = script
        message = ""
        try:
            await post(outbound, endpoint(webhook), SECRET.encode())
        except OutboundError as error:
            message = str(error)
        assert SECRET not in message

    calling(certificates, test)
    assert SECRET not in caplog.text + "".join(capfd.readouterr())
