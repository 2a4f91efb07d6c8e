"""The answers that a client's connection reads, in whatever pieces they arrive, and those it refuses."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.httpconnection import (
    MAX_HEAD,
    AnswerTooLargeError,
    Connection,
    ConnectionClosedError,
    DeadlineExceededError,
    MalformedAnswerError,
)
from virtual_time import run

LIMIT = 1000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


class Wire(asyncio.Transport):
    """What a connection writes to, and how it ended."""

    def __init__(self):
        super().__init__()
        self.sent = b""
        self.is_aborted = False

    def write(self, data):
        self.sent += data

    def abort(self):
        self.is_aborted = True


def exchange(*pieces, closes=False, error=None):
    """The result of an exchange whose answer arrives in these pieces, and its connection."""

    async def main():
        connection = Connection(lambda lost: None)
        connection.connection_made(Wire())
        task = asyncio.ensure_future(connection.exchange(b"GET / HTTP/1.1\r\n\r\n", LIMIT))
        await asyncio.sleep(0)
        for piece in pieces:
            connection.data_received(piece)
        if closes or error:
            connection.connection_lost(error)
        await asyncio.wait([task], timeout=0)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            return None, connection
        return task, connection

    return asyncio.run(main())


def answered(*pieces, **options):
    task, connection = exchange(*pieces, **options)
    return tuple(task.result()), connection.is_open


def failed(*pieces, **options):
    task, connection = exchange(*pieces, **options)
    assert not connection.is_open
    return type(task.exception())


WHOLE = {
    "length": (HEAD + b"Content-Length: 5\r\n\r\nhello", (200, "text/plain", b"hello"), True),
    "empty": (HEAD + b"content-length:0\r\n\r\n", (200, "text/plain", b""), True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, "", b""), True),
    "no reason": (b"HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", (500, "", b"x"), True),
    "chunked": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nX-Sum: 1\r\n\r\n",
        (200, "text/plain", b"hello"),
        True,
    ),
    "both": (
        HEAD + b"Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        (200, "text/plain", b"x"),
        False,
    ),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        + HEAD
        + b"Content-Length: 1\r\n\r\nx",
        (200, "text/plain", b"x"),
        True,
    ),
    "close": (HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\nx", (200, "text/plain", b"x"), False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", (200, "", b"x"), False),
}


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
def test_an_answer_is_the_same_in_whatever_pieces_it_arrives(name, data):
    raw, expected, is_open = WHOLE[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=6)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert answered(*pieces) == (expected, is_open)


@pytest.mark.parametrize("name", WHOLE)
def test_no_part_of_an_answer_is_taken_for_the_whole(name):
    raw = WHOLE[name][0]
    for length in range(len(raw)):
        assert exchange(raw[:length])[0] is None
        assert failed(raw[:length], closes=True) is ConnectionClosedError


def test_an_answer_without_a_length_ends_with_its_connection():
    assert exchange(HEAD + b"\r\nhel", b"lo")[0] is None
    assert answered(HEAD + b"\r\nhel", b"lo", closes=True) == ((200, "text/plain", b"hello"), False)
    assert failed(HEAD + b"\r\nhel", error=ConnectionResetError()) is ConnectionResetError


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + b"Content-Length: 1001\r\n\r\n",
        HEAD + b"\r\n" + b"x" * 1001,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + b"x" * 100 + b"\r\n" + b"3ff\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: 123456789\r\n" * 100,
    ],
)
def test_an_answer_above_the_limit_fails_before_it_is_read(raw):
    assert failed(raw) is AnswerTooLargeError


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-hello\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 9,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MAX_HEAD,
        b"x" * (MAX_HEAD + 1),
        HEAD + b" folded\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"Content-Length : 5\r\n\r\nhello",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: +5\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2000,
    ],
)
def test_an_answer_that_is_not_http_fails(raw):
    assert failed(raw) is MalformedAnswerError


@given(
    st.lists(st.binary(max_size=50), max_size=8),
    st.sampled_from([b"", HEAD, HEAD + b"Transfer-Encoding: chunked\r\n\r\n"]),
)
def test_random_bytes_fail_in_no_other_way(pieces, begin):
    task, _ = exchange(begin, *pieces, closes=True)
    assert isinstance(task.exception(), (MalformedAnswerError, AnswerTooLargeError, ConnectionClosedError, type(None)))


def test_a_connection_that_is_sent_more_than_its_answer_is_not_used_again():
    assert answered(HEAD + b"Content-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n") == ((200, "text/plain", b"x"), False)


def test_what_arrives_between_requests_closes_the_connection():
    async def main():
        connection = Connection(lambda lost: None)
        wire = Wire()
        connection.connection_made(wire)
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert wire.is_aborted
        with pytest.raises(ConnectionClosedError):
            await connection.exchange(b"GET / HTTP/1.1\r\n\r\n", LIMIT)
        assert wire.sent == b""

    asyncio.run(main())


def test_an_answer_that_is_not_whole_in_time_fails_and_closes_the_connection():
    async def main():
        loop = asyncio.get_running_loop()
        connection = Connection(lambda lost: None)
        connection.connection_made(Wire())
        task = asyncio.ensure_future(connection.exchange(b"GET / HTTP/1.1\r\n\r\n", LIMIT, until=loop.time() + 5))
        await asyncio.sleep(0)
        connection.data_received(HEAD + b"Content-Length: 5\r\n\r\nhel")
        await asyncio.wait([task])
        assert type(task.exception()) is DeadlineExceededError
        assert connection.has_begun
        assert not connection.is_open

    run(main())


def test_the_deadline_of_an_exchange_does_not_concern_the_next_one():
    async def main():
        loop = asyncio.get_running_loop()
        connection = Connection(lambda lost: None)
        connection.connection_made(Wire())
        for until in (loop.time() + 5, loop.time() + 60):
            task = asyncio.ensure_future(connection.exchange(b"GET / HTTP/1.1\r\n\r\n", LIMIT, until=until))
            await asyncio.sleep(0)
            if until > loop.time() + 5:
                await asyncio.wait([task], timeout=10)
            connection.data_received(HEAD + b"Content-Length: 5\r\n\r\nhello")
            assert (await task).body == b"hello"
        assert connection.is_open
        connection.connection_lost(None)

    run(main())


def test_an_answer_larger_than_its_limit_in_one_piece_has_begun():
    task, connection = exchange(HEAD + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1) + b"x" * (LIMIT + 1))
    assert type(task.exception()) is AnswerTooLargeError
    assert connection.has_begun
