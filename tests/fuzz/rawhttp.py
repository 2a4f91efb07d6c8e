"""Broken HTTP: requests that no client library would send.

Each is sent on a connection of its own. What is complete must be answered or the connection closed; what is cut off is followed
by the end of the connection, and must leave nothing behind.
"""

HOST = b"Host: kapi\r\n"
POST = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

COMPLETE = (
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    b"GET /%zz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /api/v1/%00 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET //api//v1/ HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /api/v1/../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET http://other/api HTTP/1.1\r\n" + HOST + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    b"CONNECT kapi:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 300_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 2_000 + b"\r\n",
    b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /?" + b"a=b&" * 8_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X : y\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    b"GET / HTTP/1.1\nHost: kapi\n\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: \x00\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + b"a." * 20_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Basic !!!\r\n\r\n",
    b"GET /api HTTP/1.1\r\n" + HOST + b"Accept: " + b"application/json;q=0.1," * 3_000 + b"\r\n\r\n",
    POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    POST + b"Content-Length: -1\r\n\r\n",
    POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    POST + b"Transfer-Encoding: gzip\r\n\r\n",
    CHUNKED + b"x\r\n",
    CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    CHUNKED + b"0\r\nContent-Length: 40\r\n\r\n",
)
CUT = (
    b"",
    b"\r\n\r\n\r\n",
    b"G",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    b"GET / HT",
    b"GET / HTTP/1.1\r\n" + HOST,
    POST + b"Content-Length: 1000\r\n\r\n{",
    POST + b"Content-Length: 3000000\r\n\r\n" + b'{"data":{"a":"' + b"x" * 100_000,
    CHUNKED + b"5\r\nab",
    CHUNKED + b"ffffffffffffffff\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"\r\n" * 2 + b"GET / HT",
)
END = b"\x00CUT"
"""At the end of raw bytes: the connection is dropped after them, nothing is waited for."""


def broken(rng):
    """Bytes of a broken request, sometimes damaged further; see `END`."""
    if rng.random() < 0.3:
        return rng.choice(CUT) + END
    data = rng.choice(COMPLETE)
    if rng.random() < 0.3:
        at = rng.randrange(len(data) + 1)
        data = data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 6))) + data[at:]
        return data + END
    return data
