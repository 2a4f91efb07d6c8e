"""A request that could be read two ways is refused, and nothing behind it is ever taken for a request.

Each rule is tried on a real socket: the bytes of an attack, then an innocent request that must not be answered. The fuzzers at
the end hold the reader to its promises for any input, however it is cut.
"""

import asyncio
import contextlib
import re

import msgspec
import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kapi.server.transport.framing import _NAMES, IDLE, Refusal, RequestReader
from kapi.server.transport.limits import Limits
from kapi.server.transport.message import Peer, Response
from kapi.server.transport.serve import Server

INNOCENT = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
HOST = b"Host: h\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

LIMITS = Limits(target=1000, head=5000, headers=50, body=10_000, chunk_overhead=2000)


def on_both_loops(main):
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as loop:
            loop.run(asyncio.wait_for(main(), 20))


@contextlib.asynccontextmanager
async def serving(seen, limits=LIMITS):
    async def handler(request):
        seen.append((request.method, request.path, request.body))
        return Response(200, [], b"ok")

    server = Server(handler, host="127.0.0.1", limits=limits)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def send(server, data):
    """Everything the server sends in response to `data`, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        return await reader.read()
    finally:
        writer.transport.abort()


REFUSED = {
    # Two lengths, or none that is certain.
    "length and chunked": (400, POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunked and length": (400, POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd"),
    "the same length twice": (400, POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
    "a list of lengths": (400, POST + b"Content-Length: 4, 4\r\n\r\nabcd"),
    "a signed length": (400, POST + b"Content-Length: +4\r\n\r\nabcd"),
    "a negative length": (400, POST + b"Content-Length: -4\r\n\r\nabcd"),
    "a hexadecimal length": (400, POST + b"Content-Length: 0x4\r\n\r\nabcd"),
    "a length with a space in it": (400, POST + b"Content-Length: 1 0\r\n\r\nabcd"),
    "an empty length": (400, POST + b"Content-Length: \r\n\r\nabcd"),
    "a length beyond 64 bits": (400, POST + b"Content-Length: 99999999999999999999\r\n\r\nabcd"),
    # Codings other than exactly `chunked`.
    "an unknown coding": (400, POST + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
    "a coding before chunked": (400, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "a coding after chunked": (400, POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    "chunked twice": (400, POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    "two coding headers": (400, POST + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a comma before chunked": (400, POST + b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    "almost chunked": (400, POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "an empty coding": (400, POST + b"Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    "chunked in HTTP/1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    # Chunks.
    "a chunk size that is no number": (400, CHUNKED + b"x\r\n"),
    "an empty chunk size": (400, CHUNKED + b"\r\n"),
    "a chunk size with a prefix": (400, CHUNKED + b"0x1\r\na\r\n0\r\n\r\n"),
    "a space after a chunk size": (400, CHUNKED + b"1 \r\na\r\n0\r\n\r\n"),
    "a space before a chunk size": (400, CHUNKED + b" 1\r\na\r\n0\r\n\r\n"),
    "a negative chunk size": (400, CHUNKED + b"-1\r\na\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": (400, CHUNKED + b"1ffffffffffffffff\r\na\r\n0\r\n\r\n"),
    "a line feed alone after a chunk size": (400, CHUNKED + b"1\na\r\n0\r\n\r\n"),
    "a carriage return alone after a chunk size": (400, CHUNKED + b"1\ra\r\n0\r\n\r\n"),
    "a line feed alone after a chunk": (400, CHUNKED + b"1\r\na\n0\r\n\r\n"),
    "a chunk longer than declared": (400, CHUNKED + b"1\r\nab\r\n0\r\n\r\n"),
    "a line feed in a chunk extension": (400, CHUNKED + b"1;a\nb\r\na\r\n0\r\n\r\n"),
    "a line feed alone after the last chunk": (400, CHUNKED + b"0\r\n\n"),
    "a length in the trailer": (400, CHUNKED + b"0\r\nContent-Length: 40\r\n\r\n"),
    "a coding in the trailer": (400, CHUNKED + b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a folded trailer": (400, CHUNKED + b"0\r\nX: a\r\n b\r\n\r\n"),
    "chunk extensions without end": (400, CHUNKED + b"1;" + b"a" * 40_000),
    "trailers without end": (400, CHUNKED + b"0\r\n" + b"X: y\r\n" * 10_000),
    # Lines.
    "a folded header": (400, GET + b"X: a\r\n b\r\n\r\n"),
    "a folded header with a tab": (400, GET + b"X: a\r\n\tb\r\n\r\n"),
    "a folded header that begins empty": (400, GET + b"X:\r\n b\r\n\r\n"),
    "a space before the first header": (400, b"GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
    "a line feed alone after the request line": (400, b"GET / HTTP/1.1\nHost: h\r\n\r\n"),
    "a line feed alone after a header": (400, GET + b"X: a\nY: b\r\n\r\n"),
    "a line feed alone at the end": (400, GET + b"\n"),
    "a carriage return in a value": (400, GET + b"X: a\rb\r\n\r\n"),
    "two carriage returns": (400, GET + b"X: a\r\r\n\r\n"),
    # Headers.
    "a NUL in a value": (400, GET + b"X: a\0b\r\n\r\n"),
    "a control character in a value": (400, GET + b"X: a\x01b\r\n\r\n"),
    "a delete character in a value": (400, GET + b"X: a\x7fb\r\n\r\n"),
    "a value that is not UTF-8": (400, GET + b"X: a\xff\r\n\r\n"),
    "a space before the colon": (400, GET + b"X : a\r\n\r\n"),
    "a tab before the colon": (400, GET + b"X\t: a\r\n\r\n"),
    "a header without a colon": (400, GET + b"X\r\n\r\n"),
    "a header without a name": (400, GET + b": a\r\n\r\n"),
    "a name with a bracket": (400, GET + b"X[0]: a\r\n\r\n"),
    "a name that is not ASCII": (400, GET + "Å: a\r\n\r\n".encode()),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two hosts": (400, GET + HOST + b"\r\n"),
    "two authorizations": (400, GET + b"Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n"),
    "an unknown expectation": (417, POST + b"Expect: 200-ok\r\nContent-Length: 1\r\n\r\na"),
    # Request lines.
    "CONNECT": (405, b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"),
    "an unknown method": (400, b"SMUGGLE / HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a method in lower case": (400, b"get / HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a tab after the method": (400, b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a space before the method": (400, b" GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a space after the version": (400, b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
    "a space in the target": (400, b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a NUL in the target": (400, b"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a control character in the target": (400, b"GET /\x1f HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a target that is not ASCII": (400, "GET /å HTTP/1.1\r\nHost: h\r\n\r\n".encode()),
    "a fragment in the target": (400, b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a relative target": (400, b"GET a HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a target of another scheme": (400, b"GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    "an asterisk for a target": (400, b"GET * HTTP/1.1\r\nHost: h\r\n\r\n"),
    "no version": (505, b"GET /\r\nHost: h\r\n\r\n"),
    "HTTP/0.9": (505, b"GET / HTTP/0.9\r\nHost: h\r\n\r\n"),
    "HTTP/1.2": (400, b"GET / HTTP/1.2\r\nHost: h\r\n\r\n"),
    "HTTP/2.0": (505, b"GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
    "the preface of HTTP/2": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    # Sizes.
    "a long target": (414, b"GET /" + b"a" * 1000 + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
    "a target without end": (414, b"GET /" + b"a" * 40_000),
    "a long header": (431, GET + b"X: " + b"a" * 5000 + b"\r\n\r\n"),
    "a header without end": (431, GET + b"X: " + b"a" * 40_000),
    "a name without end": (431, GET + b"X" * 40_000),
    "many headers": (431, GET + b"X: a\r\n" * 50 + b"\r\n"),
}


@pytest.mark.parametrize(("status", "attack"), REFUSED.values(), ids=REFUSED)
def test_ambiguous_request_is_refused_and_nothing_after_it_is_read(status, attack):
    async def main():
        seen = []
        async with serving(seen) as server:
            answer = await send(server, attack + INNOCENT)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert b"\r\nConnection: close" in head
            assert answer.count(b"HTTP/1.1 ") == 1
            decoded = msgspec.json.decode(body)
            assert (decoded["kind"], decoded["status"], decoded["code"]) == ("Status", "Failure", status)
            assert decoded["message"]
            assert seen == []

    on_both_loops(main)


ACCEPTED = {
    "a length with spaces around it": (POST + b"Content-Length: \t 2 \r\n\r\nab", b"ab"),
    "chunked in capitals": (POST + b"Transfer-Encoding: CHUNKED\r\n\r\n2\r\nab\r\n0\r\n\r\n", b"ab"),
    "chunk extensions and trailers": (CHUNKED + b'1;a=b;c="d"\r\na\r\n01\r\nb\r\n0\r\nX: y\r\n\r\n', b"ab"),
    "an empty line before the request": (b"\r\n" + POST + b"Content-Length: 2\r\n\r\nab", b"ab"),
    "a body on GET": (GET + b"Content-Length: 2\r\n\r\nab", b"ab"),
    "an upgrade with a length": (
        POST + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(INNOCENT) + INNOCENT,
        INNOCENT,
    ),
    "an upgrade with chunks": (
        POST + b"Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNOCENT), INNOCENT),
        INNOCENT,
    ),
    "an upgrade without a body": (GET + b"Connection: upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", b""),
    "a value in UTF-8": (GET + "X: å\r\n\r\n".encode(), b""),
    "as many headers as there may be": (GET + b"X: a\r\n" * 49 + b"\r\n", b""),
}


@pytest.mark.parametrize(("data", "body"), ACCEPTED.values(), ids=ACCEPTED)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "byte by byte"])
def test_unusual_but_unambiguous_request_ends_at_its_declared_length(data, body, cut):
    reader = RequestReader(Peer("test"), LIMITS)
    stream = data + INNOCENT
    for part in [stream[at : at + 1] for at in range(len(stream))] if cut else [stream]:
        reader.feed(part)
    assert [(item[0].path, item[0].body) for item in reader.queue] == [("/", body), ("/smuggled", b"")]
    assert reader.state == IDLE


def test_trailer_does_not_become_a_header_of_any_request():
    reader = RequestReader(Peer("test"), LIMITS)
    reader.feed(CHUNKED + b"0\r\nImpersonate-User: root\r\n\r\n" + INNOCENT)
    assert [item[0].headers for item in reader.queue] == [{"host": "h", "transfer-encoding": "chunked"}, {"host": "h"}]


def test_requests_before_the_ambiguous_one_are_answered_first():
    async def main():
        seen = []
        async with serving(seen) as server:
            answer = await send(server, GET + b"\r\n" + POST + b"Content-Length: x\r\n\r\n" + INNOCENT)
            assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"400"]
            assert seen == [("GET", "/", b"")]

    on_both_loops(main)


def test_body_in_a_million_one_byte_chunks_uses_bounded_memory():
    reader = RequestReader(Peer("test"), Limits())
    reader.feed(CHUNKED)
    for _ in range(100):
        reader.feed(b"1\r\nx\r\n" * 10_000)
    assert isinstance(reader._body, bytearray)
    reader.feed(b"0\r\n\r\n")
    assert reader.queue[0][0].body == b"x" * 1_000_000


@pytest.mark.parametrize("filler", [b"1;" + b"a" * 100, b"0\r\n" + b"X: y\r\n" * 16, b"0\r\nX: " + b"y" * 100])
def test_chunked_body_with_excessive_framing_is_refused(filler):
    reader = RequestReader(Peer("test"), LIMITS)
    reader.feed(CHUNKED + filler)
    fed = 0
    while not reader.ended:
        reader.feed(filler[-6:])
        fed += 6
    assert fed <= LIMITS.chunk_overhead + 100
    assert "too much that is not data" in reader.queue[0].message


@pytest.mark.parametrize(
    "last",
    [b"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"],
)
def test_nothing_is_read_after_the_last_request(last):
    reader = RequestReader(Peer("test"), LIMITS)
    reader.feed(last)
    assert reader.ended
    reader.feed(INNOCENT)
    whole = RequestReader(Peer("test"), LIMITS)
    whole.feed(last + INNOCENT)
    assert len(reader.queue) == len(whole.queue) == 1


def test_thousands_of_tiny_requests_in_one_read_are_not_all_parsed_at_once():
    reader = RequestReader(Peer("test"), Limits(pipeline=4))
    reader.feed(b"GET / HTTP/1.1\r\nHost:h\r\n\r\n" * 10_000)
    most = answered = 0
    while reader.queue:
        most = max(most, len(reader.queue))
        reader.queue.popleft()
        answered += 1
        reader.resume()
    assert answered == 10_000
    assert most < 1000


def test_unknown_header_names_do_not_grow_memory():
    for batch in range(100):
        reader = RequestReader(Peer("test"), Limits())
        names = b"".join(b"X-%d-%d: a\r\n" % (batch, number) for number in range(100))
        reader.feed(GET + names + b"X" * 5000 + b": a\r\n\r\n")
        assert len(reader.queue[0][0].headers) == 102
    assert len(_NAMES) <= 1024
    assert max(map(len, _NAMES)) <= 64


# Any input, cut anyhow.

TOKENS = st.sampled_from(
    [
        *(
            b"GET ",
            b"POST ",
            b"/",
            b" HTTP/1.1",
            b" HTTP/1.0",
            b"\r\n",
            b"\r\n\r\n",
            b"\n",
            b"\r",
            b" ",
            b"\t",
            b"\0",
            b":",
        ),
        *(b"Host: h\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n"),
        *(
            b"Connection: close\r\n",
            b"Connection: upgrade\r\nUpgrade: x\r\n",
            b"5\r\nhello\r\n",
            b"0\r\n\r\n",
            b"hello",
        ),
        *(INNOCENT, POST, CHUNKED, b"http://h", b"?q", b"#f", b"\xff"),
    ]
)
INPUT = st.lists(st.one_of(TOKENS, st.binary(max_size=20)), max_size=25)


def outcome(parts):
    reader = RequestReader(Peer("test"), Limits(pipeline=1000))
    for part in parts:
        reader.feed(part)
    items = [
        item.code
        if isinstance(item, Refusal)
        else (item[0].method, item[0].path, item[0].body, item[0].headers, *item[1:])
        for item in reader.queue
    ]
    return items, reader.ended


@settings(max_examples=300, deadline=None)
@given(INPUT, st.integers(min_value=1, max_value=7))
@example([POST + b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\n", b"hello", INNOCENT], 1)
@example([CHUNKED, b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", INNOCENT], 1)
def test_parsed_requests_do_not_depend_on_input_boundaries(parts, size):
    whole = b"".join(parts)
    assert outcome([whole]) == outcome(parts) == outcome([whole[at : at + size] for at in range(0, len(whole), size)])


@settings(max_examples=300, deadline=None)
@given(INPUT)
def test_nothing_is_read_after_a_refused_request(parts):
    items, ended = outcome(parts)
    refusals = [at for at, item in enumerate(items) if isinstance(item, int)]
    assert refusals in ([], [len(items) - 1])
    if refusals:
        assert ended
        assert outcome([*parts, INNOCENT])[0] == items


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_no_input_stops_the_server_from_serving_the_next_connection(factory):
    with asyncio.Runner(loop_factory=factory) as loop:
        seen = []
        context = serving(seen, Limits(idle_timeout=1.0, head_timeout=1.0, body_timeout=1.0, linger=0.01))
        server = loop.run(context.__aenter__())

        async def attack(parts):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for part in parts:
                writer.write(part)
            with contextlib.suppress(ConnectionError):
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 10)
            writer.transport.abort()
            answer = await send(server, GET + b"Connection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")

        @settings(max_examples=100, deadline=None)
        @given(INPUT)
        def fuzz(parts):
            loop.run(attack(parts))

        try:
            fuzz()
        finally:
            loop.run(context.__aexit__(None, None, None))
