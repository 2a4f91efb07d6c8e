"""Requests and answers: what is retried, what is refused, and what each failure is called."""

import asyncio
import dataclasses
import logging
import os
import re
import shutil
import socket

import pytest

from kapi.api import errors
from kapi.base.tls import Authority, KeyPair
from kapi.client import AnswerError, ClientConfig, ConnectError, RESTClient, TransportError, TransportTimeout
from kapi.client.errors import ConnectionLost
from kapi.client.rest import RETRIES
from virtual_time import LoopClock, run

CONFLICT = b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m","reason":"Conflict","code":409}'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def talk(script, conversation, answers, runner=asyncio.run, **client):
    """Run a conversation with a server that has these answers; what it returns, and what the server was asked."""

    async def main():
        server = script(answers)
        async with server.serving() as config, RESTClient(config, **client) as rest:
            return await conversation(rest), server.requests

    return runner(main())


def virtually(script, conversation, answers):
    """The same where waiting takes no time."""
    return talk(script, conversation, answers, runner=run)


def fails(script, cls, conversation, answers):
    async def main(rest):
        with pytest.raises(cls) as raised:
            await conversation(rest)
        return raised.value

    return talk(script, main, answers)


def test_request_says_what_it_wants_and_gets_it(script, http):
    async def conversation(rest):
        return await rest.request("POST", "/a%20b", query={"x": True, "y": None, "z": "a&b c"}, body={"k": 1})

    answer, (request,) = talk(script, conversation, [http(201, b'{"a":1}')])
    assert answer == {"a": 1}
    assert request.startswith("POST /a%20b?x=true&z=a%26b%20c HTTP/1.1\r\n")
    assert "\r\nUser-Agent: kapi/" in request
    assert "\r\nAccept: application/json\r\n" in request
    assert "\r\nContent-Type: application/json\r\n" in request
    assert "Cookie" not in request
    assert request.endswith('\r\n\r\n{"k":1}')


def test_address_may_have_a_path_of_its_own(script, http):
    async def main():
        server = script([http(200, b"{}")])
        async with server.serving() as config:
            behind = dataclasses.replace(config, server=config.server + "/clusters/one/")
            async with RESTClient(behind) as rest:
                await rest.request("GET", "/api")
        return server.requests[0]

    assert asyncio.run(main()).startswith("GET /clusters/one/api HTTP/1.1")


@pytest.mark.parametrize("path", ["api", "", "/a?b=1", "/a#b", "/a b", "/a\n", "/a\\b"])
def test_path_that_is_not_one_is_refused(script, path):
    error, requests = fails(script, ValueError, lambda rest: rest.request("GET", path), [])
    assert "absolute, escaped path" in str(error)
    assert requests == []


def test_status_becomes_its_error(script, http):
    error, _ = fails(script, errors.Conflict, lambda rest: rest.request("PUT", "/a", body={}), [http(409, CONFLICT)])
    assert error.message == "m"


def test_page_that_is_no_status_is_an_error_by_its_code(script, http):
    error, _ = fails(script, errors.NotFound, lambda rest: rest.request("GET", "/a"), [http(404, b"<h1>", "text/html")])
    assert error.message == "the server could not find the requested resource"
    error, _ = fails(script, errors.ServiceUnavailable, lambda rest: rest.request("GET", "/a"), [http(503, b"{oops")])
    assert error.code == 503


def test_success_that_is_not_json_is_no_success(script, http):
    fails(script, AnswerError, lambda rest: rest.request("GET", "/a"), [http(200, b"<html>")])


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("status", [429, 503])
def test_harmless_request_is_repeated_when_the_server_asks(script, http, method, status):
    answers = [http(status, Retry_After=0), http(status, Retry_After=0), http(200, b'"done"')]
    answer, requests = talk(script, lambda rest: rest.request(method, "/a", body={}), answers)
    assert answer == "done"
    assert len(requests) == 3
    assert len(set(requests)) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_other_requests_are_repeated_only_when_the_server_did_nothing(script, http, method):
    answers = [http(503, Retry_After=0), http(200, b"1")]
    _, requests = fails(script, errors.ServiceUnavailable, lambda rest: rest.request(method, "/a", body={}), answers)
    assert len(requests) == 1
    answers = [http(429, Retry_After=0), http(200, b"1")]
    answer, requests = talk(script, lambda rest: rest.request(method, "/a", body={}), answers)
    assert (answer, len(requests)) == (1, 2)


@pytest.mark.parametrize("headers", [{}, {"Retry_After": "soon"}, {"Retry_After": "Wed, 21 Oct 2026 07:28:00 GMT"}])
def test_nothing_is_repeated_unasked(script, http, headers):
    answers = [http(503, **headers), http(200, b"1")]
    _, requests = fails(script, errors.ServiceUnavailable, lambda rest: rest.request("GET", "/a"), answers)
    assert len(requests) == 1


def test_server_error_is_not_repeated_even_if_asked(script, http):
    answers = [http(500, Retry_After=0), http(200, b"1")]
    fails(script, errors.InternalError, lambda rest: rest.request("GET", "/a"), answers)


def test_repeating_has_an_end(script, http):
    answers = [http(429, Retry_After=0)] * (RETRIES + 5)
    _, requests = fails(script, errors.TooManyRequests, lambda rest: rest.request("GET", "/a"), answers)
    assert len(requests) == RETRIES + 1


def test_number_of_repeats_is_the_callers_to_lower(script, http):
    answers = [http(429, Retry_After=0), http(200, b"1")]
    fails(script, errors.TooManyRequests, lambda rest: rest.request("GET", "/a", retries=0), answers)


def test_wait_that_would_outlast_the_timeout_is_not_begun(script, http):
    answers = [http(429, CONFLICT, Retry_After=20), http(200, b"1")]

    async def conversation(rest):
        before = asyncio.get_running_loop().time()
        with pytest.raises(errors.ApiError):
            await rest.request("GET", "/a", timeout=10)
        return asyncio.get_running_loop().time() - before

    assert virtually(script, conversation, answers)[0] < 10


def test_server_is_given_the_time_it_asks_for(script, http):
    async def conversation(rest):
        before = asyncio.get_running_loop().time()
        await rest.request("GET", "/a")
        return asyncio.get_running_loop().time() - before

    passed, _ = virtually(script, conversation, [http(503, Retry_After=7), http(200, b"1")])
    assert 7 <= passed < 8


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_broken_connection_is_made_again_for_what_can_be_repeated(script, http, cut, method):
    answers = [cut, http(200, b"1")]
    answer, requests = virtually(script, lambda rest: rest.request(method, "/a", body={}), answers)
    assert (answer, len(requests)) == (1, 2)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_broken_connection_leaves_a_change_in_doubt(script, http, cut, method):
    async def conversation(rest):
        with pytest.raises(ConnectionLost):
            await rest.request(method, "/a", body={})

    _, requests = virtually(script, conversation, [cut, http(200, b"1")])
    assert len(requests) == 1


def test_read_that_is_cut_in_the_middle_is_made_again(script, http):
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\nx"
    answer, requests = virtually(script, lambda rest: rest.request("GET", "/a"), [half, http(200, b"1")])
    assert (answer, len(requests)) == (1, 2)


def test_connections_that_keep_breaking_are_given_up(script, cut):
    async def conversation(rest):
        with pytest.raises(ConnectionLost, match="broke"):
            await rest.request("GET", "/a")

    _, requests = virtually(script, conversation, [cut] * 50)
    assert len(requests) < 10


def test_limit_of_the_config_holds(script, http):
    async def main():
        server = script([http(200, b"1")] * 5)
        async with server.serving() as config:
            limited = dataclasses.replace(config, qps=2, burst=1)
            async with RESTClient(limited, clock=LoopClock()) as rest:
                before = asyncio.get_running_loop().time()
                for _ in range(5):
                    await rest.request("GET", "/a")
                return asyncio.get_running_loop().time() - before

    assert run(main()) == pytest.approx(2.0, abs=0.1)


# -- credentials ------------------------------------------------------------------------------------------------------

UNAUTHORIZED = b'{"kind":"Status","apiVersion":"v1","message":"Unauthorized","reason":"Unauthorized","code":401}'


def _with_token_file(script, authority, path, answers, conversation):
    """A conversation with a server that speaks TLS, with a token from a file; and the tokens the server saw."""
    ca_file, files = authority

    def identified(config):
        return dataclasses.replace(config, ca_file=ca_file, token_file=path)

    async def main():
        server = script(answers, files)
        async with server.serving() as config, RESTClient(identified(config)) as rest:
            result = await conversation(rest)
        return result, [re.search(r"Bearer (\w+)", request)[1] for request in server.requests]

    return asyncio.run(main())


def test_refused_token_is_read_again_and_the_request_repeated_once(script, http, authority, tmp_path):
    path = tmp_path / "token"
    path.write_text("one")

    async def conversation(rest):
        first = await rest.request("GET", "/a")
        # The same size and the same time: only asking again can tell.
        state = path.stat()
        path.write_text("two")
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        return first, await rest.request("POST", "/a", body={})

    answers = [http(200, b"1"), http(401, UNAUTHORIZED), http(200, b"2")]
    assert _with_token_file(script, authority, path, answers, conversation) == ((1, 2), ["one", "one", "two"])


def test_token_that_stays_refused_is_an_error(script, http, authority, tmp_path):
    path = tmp_path / "token"
    path.write_text("one")

    async def conversation(rest):
        with pytest.raises(errors.Unauthorized) as raised:
            await rest.request("GET", "/a")
        return str(raised.value)

    answers = [http(401, UNAUTHORIZED), http(200, b"1")]
    assert _with_token_file(script, authority, path, answers, conversation) == ("Unauthorized", ["one"])


def test_authority_that_was_replaced_is_trusted_by_new_connections(script, http, authority, tmp_path):
    good, files = authority
    ca_file = tmp_path / "mounted.crt"
    other = Authority.ensure(KeyPair(tmp_path / "other.crt", tmp_path / "other.key"), "other")
    shutil.copy(other.files.certificate, ca_file)

    async def main():
        server = script([http(200, b"1")], files)
        async with server.serving() as config, RESTClient(dataclasses.replace(config, ca_file=ca_file)) as rest:
            with pytest.raises(ConnectError, match="could not be trusted: "):
                await rest.request("GET", "/a")
            shutil.copy(good, tmp_path / "next")
            (tmp_path / "next").replace(ca_file)
            return await rest.request("GET", "/a")

    assert asyncio.run(main()) == 1


def test_secrets_are_in_no_error_and_no_log(script, http, authority, tmp_path, caplog):
    path = tmp_path / "token"
    path.write_text("SECRET")

    async def conversation(rest):
        texts = []
        for _ in range(3):
            with pytest.raises((errors.ApiError, TransportError)) as raised:
                await rest.request("POST", "/a", body={})
            texts += [str(raised.value), repr(raised.value)]
        return [*texts, repr(rest), repr(rest.config)]

    with caplog.at_level(logging.DEBUG):
        answers = [http(401, UNAUTHORIZED), http(302, Location="https://elsewhere"), http(500, b"oops")]
        texts, tokens = _with_token_file(script, authority, path, answers, conversation)
    assert tokens == ["SECRET"] * 3
    assert not [text for text in (*texts, caplog.text) if "SECRET" in text]


def test_a_server_without_tls_is_reported_as_such(http):
    async def answer(reader, writer):
        await reader.read(5)  # the beginning of a TLS greeting, which is no HTTP
        writer.write(http(400))
        writer.close()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, RESTClient(ClientConfig(f"https://127.0.0.1:{port}")) as rest:
            with pytest.raises(ConnectError, match="does not speak TLS; is its address http://"):
                await rest.request("GET", "/a")

    asyncio.run(main())


def test_a_redirect_is_refused_and_not_followed(script, http):
    async def main():
        other = script([http(200, b"{}")])
        async with other.serving():
            server = script([http(302, Location=other.url + "/a")])
            async with server.serving() as config, RESTClient(config) as rest:
                with pytest.raises(AnswerError, match="redirect"):
                    await rest.request("GET", "/a")
        return other.requests

    assert asyncio.run(main()) == []


def test_a_refused_connection_has_an_error_of_its_own():
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        async with RESTClient(ClientConfig(f"http://127.0.0.1:{port}")) as rest:
            with pytest.raises(ConnectError) as raised:
                await rest.request("GET", "/a")
        return raised.value, port

    error, port = asyncio.run(main())
    assert error.refused
    assert error.host == f"127.0.0.1:{port}"


def test_a_server_with_an_untrusted_certificate_is_refused(admin):
    async def main(config):
        async with RESTClient(config) as rest:
            return await rest.request("GET", "/version")

    stranger = dataclasses.replace(admin.anonymous(), ca_data=b"")
    with pytest.raises(ConnectError, match="could not be trusted") as raised:
        asyncio.run(main(stranger))
    assert not raised.value.refused
    with pytest.raises(ConnectError, match="could not be trusted"):
        asyncio.run(main(dataclasses.replace(admin, tls_server_name="elsewhere.example")))
    assert asyncio.run(main(dataclasses.replace(admin, tls_server_name="localhost")))["major"] == "1"
    assert asyncio.run(main(dataclasses.replace(stranger, insecure=True)))["major"] == "1"


def test_silence_ends_in_a_timeout(script):
    async def conversation(rest):
        await rest.request("POST", "/a", body={}, timeout=0.05)

    error, _ = fails(script, TransportTimeout, conversation, [[b"HTTP/1.1 200 OK\r\n", b"Content-Length: 5\r\n\r\n"]])
    assert "POST /a" in str(error)


def test_connection_cut_in_the_middle_is_a_transport_error(script):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\nx"
    fails(script, TransportError, lambda rest: rest.request("GET", "/a"), [answer])


def test_warnings_of_the_server_are_heard(script, http):
    heard = []
    texts = ['299 - "old \\"kind\\""', '199 - "cache"', "299 - bare"]
    answers = [http(200, b"1", Warning=texts[0]), http(200, b"1", Warning=texts[1]), http(200, b"1", Warning=texts[2])]

    async def conversation(rest):
        for _ in answers:
            await rest.request("GET", "/a")

    talk(script, conversation, list(answers), on_warning=heard.append)
    assert heard == ['old "kind"']


# -- streams ----------------------------------------------------------------------------------------------------------


async def _lines(rest, **options):
    async with rest.stream("/a", **options) as lines:
        return [line async for line in lines]


def test_lines_come_whole_however_they_were_sent(script):
    long = b"x" * 300_000
    pieces = [
        STREAM,
        _chunk(b"a\nbb"),
        _chunk(b"b\n\nc\n"),
        _chunk(long[:9]),
        _chunk(long[9:] + b"\nd"),
        _chunk(b"\n"),
        b"0\r\n\r\n",
    ]
    lines, _ = talk(script, _lines, [pieces])
    assert lines == [b"a", b"bbb", b"c", long, b"d"]


def test_endless_line_is_cut_off(script):
    pieces = [STREAM, _chunk(b"a\n"), _chunk(b"x" * 5000), _chunk(b"x" * 5000)]
    error, _ = fails(script, AnswerError, lambda rest: _lines(rest, max_line_bytes=6000), [pieces])
    assert "more than 6000 bytes" in str(error)


def test_stream_that_ends_within_a_line_is_an_error(script):
    error, _ = fails(script, AnswerError, _lines, [[STREAM, _chunk(b"a\nb"), b"0\r\n\r\n"]])
    assert "middle of a line" in str(error)


def test_stream_that_is_cut_is_an_error(script):
    cut = [STREAM.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), _chunk(b"a\n")]
    fails(script, TransportError, _lines, [cut])


def test_refused_stream_is_an_error_before_it_begins(script, http):
    fails(script, errors.Conflict, _lines, [http(409, CONFLICT)])


def test_timeout_covers_the_opening_and_not_the_stream(script):
    async def conversation(rest):
        async with rest.stream("/a", timeout=1) as lines:
            assert await anext(lines) == b"a"
            # The caller's own time-out is the caller's to see.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(lines)
            return "still here"

    assert talk(script, conversation, [[STREAM, _chunk(b"a\n")]])[0] == "still here"
    fails(script, TransportTimeout, lambda rest: _lines(rest, timeout=0.05), [[b"HTTP/1.1 200 OK\r\n"]])


def test_silence_on_a_stream_ends_it(script):
    async def conversation(rest):
        async with rest.stream("/a", timeout=1, idle_timeout=60) as lines:
            heard = await anext(lines)
            with pytest.raises(TransportTimeout, match="sent nothing on a stream for 60 s"):
                await anext(lines)
        return heard, asyncio.get_running_loop().time()

    (heard, ended), _ = virtually(script, conversation, [[STREAM, _chunk(b"a\n")]])
    assert heard == b"a"
    assert 1060 <= ended < 1062


def test_callers_own_timeout_is_not_taken_for_silence(script):
    async def conversation(rest):
        async with rest.stream("/a", idle_timeout=60) as lines:
            assert await anext(lines) == b"a"
            with pytest.raises(TimeoutError) as raised:
                async with asyncio.timeout(5):
                    await anext(lines)
        return raised.value

    error, _ = virtually(script, conversation, [[STREAM, _chunk(b"a\n")]])
    assert not isinstance(error, TransportTimeout)


TOO_MANY = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429%b}'


@pytest.mark.parametrize(
    ("code", "body", "headers", "seconds"),
    [
        (429, TOO_MANY % b"", {"Retry_After": "7"}, 7),
        (429, TOO_MANY % b',"details":{"name":"x"}', {"Retry_After": "7"}, 7),
        (429, TOO_MANY % b',"details":{"retryAfterSeconds":3}', {"Retry_After": "7"}, 3),
        (503, b"busy", {"Retry_After": "7"}, 7),
        (429, TOO_MANY % b"", {}, 0),
        (429, TOO_MANY % b"", {"Retry_After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0),
        (404, b"{}", {"Retry_After": "7"}, 7),
    ],
    ids=["only the header", "details of something else", "both", "no Status", "neither", "a date", "any status"],
)
def test_an_error_says_when_to_come_back_even_where_only_a_header_did(script, http, code, body, headers, seconds):
    async def conversation(rest):
        await rest.request("GET", "/api", retries=0)

    error, _ = fails(script, errors.ApiError, conversation, [http(code, body, **headers)])
    assert error.retry_after == seconds
    assert (error.details or {}).get("retryAfterSeconds", 0) == seconds
    assert (error.details or {}).get("name", "x") == "x"
