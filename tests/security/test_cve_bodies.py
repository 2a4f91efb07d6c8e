"""Bodies made to exhaust a server, sent to a real one: each is refused with the right status, and the server lives on.

CVE-2019-11253 and CVE-2019-11254 (YAML and JSON bombs), CVE-2021-3121 (malformed protobuf), CVE-2019-1002100 (JSON patches).
The decoders themselves are tried in test_bombs.py and test_protobuf_fuzz.py.
"""

import asyncio
import json
import random

import pytest

from tests.reliability.live_server import Disconnected, Line, LiveServer

CM = "/api/v1/namespaces/default/configmaps"
MIB = 1 << 20
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"

ALIASES = b"a: &a [x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 123)
)

BOMBS = {
    "deep yaml": (YAML, b"[" * 400_000),
    "deep yaml maps": (YAML, b"{a: " * 100_000),
    "aliases": (YAML, ALIASES),
    "an alias to itself": (YAML, b"a: &a [*a]"),
    "deep json": (JSON, b"[" * 1_000_000),
    "deep json in an object": (JSON, b'{"metadata":' + b'{"a":' * 200_000),
    "deep closed json": (JSON, b'{"data":' * 5000 + b"1" + b"}" * 5000),
    "a long number": (JSON, b'{"metadata":{"generation":' + b"9" * 1_000_000 + b"}}"),
    "surrogates": (JSON, b'{"data":{"a":"' + b"\\ud800" * 100_000 + b'"}}'),
    "not a number": (JSON, b'{"data":{"a":NaN}}'),
    "bad utf-8": (JSON, b'{"data":{"a":"\xff\xfe"}}'),
    "nothing": (JSON, b""),
    "a list": (JSON, b"[]"),
    "protobuf without a message": (PROTOBUF, b"k8s\0"),
    "protobuf of nothing but continuations": (PROTOBUF, b"k8s\0" + b"\x80" * 100_000),
    "protobuf with a length beyond its end": (PROTOBUF, b"k8s\0\x0a\xff\xff\xff\xff\x0f"),
    "protobuf with a negative length": (PROTOBUF, b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "protobuf of a map in a group": (PROTOBUF, b"k8s\0\x0b\x0c\x0b\x0c" * 1000),
    "not protobuf": (PROTOBUF, b'{"metadata":{}}'),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("bodies") / "data") as running:
        yield running


def ask(server, method, path, body, content_type, headers=()):
    """One request on a connection of its own, then a look at whether the server is well."""

    async def main():
        line = await Line.open(server)
        reply = await line.request(method, path, body, content_type, headers)
        line.close()
        probe = await Line.open(server)
        assert (await probe.request("GET", "/readyz")).body == b"ok"
        names = [item["metadata"]["name"] for item in (await probe.request("GET", CM)).json["items"]]
        probe.close()
        return reply, names

    return asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(("content_type", "body"), BOMBS.values(), ids=BOMBS)
def test_cve_2019_11253_and_11254_and_2021_3121_a_bomb_is_a_bad_request_and_the_server_continues(
    server, content_type, body
):
    for method, path in (("POST", CM), ("PUT", f"{CM}/x")):
        reply, names = ask(server, method, path, body, content_type)
        assert reply.status == 400, reply
        assert reply.json["kind"] == "Status"
        assert names == []


@pytest.mark.slow
def test_cve_2021_3121_random_protobuf_is_never_a_server_error(server):
    random_source = random.Random(3121)

    async def main():
        line = await Line.open(server)
        for _ in range(300):
            size = random_source.choice([1, 5, 20, 200])
            body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + random_source.randbytes(size)
            reply = await line.request("POST", f"{CM}?dryRun=All", body, PROTOBUF)
            assert reply.status < 500, (body, reply)
        line.close()

    asyncio.run(main())


@pytest.mark.slow
def test_cve_2019_11253_bodies_of_anonymous_requests_are_not_decoded(server):
    """Without credentials the answer is 403 before anything is parsed."""

    async def main():
        for content_type, body in BOMBS.values():
            line = await Line.open(server, token="")
            reply = await line.request("POST", CM, body, content_type)
            assert reply.status == 403, reply
            line.close()

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("content_type", [JSON, YAML, PROTOBUF])
def test_a_body_over_the_limit_is_answered_413_and_nothing_is_stored(server, content_type):
    for method, path in (("POST", CM), ("PUT", f"{CM}/x"), ("DELETE", CM), ("PATCH", f"{CM}/x")):
        media = MERGE if method == "PATCH" else content_type
        reply, names = ask(server, method, path, b" " * (3 * MIB + 1), media)
        assert (reply.status, reply.json["reason"]) == (413, "RequestEntityTooLarge"), reply
        assert names == []


@pytest.mark.slow
def test_a_chunked_body_over_the_limit_is_refused(server):
    """Chunked, so that its length is not known in advance."""

    async def main():
        line = await Line.open(server)
        writer = line._writer
        head = f"POST {CM} HTTP/1.1\r\nHost: kapi\r\nAuthorization: Bearer {server.token}\r\n"
        writer.write(f"{head}Content-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(50):
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        except ConnectionError:
            pass
        reply = await line.reply()
        line.close()
        return reply

    try:
        assert asyncio.run(main()).status == 413
    except Disconnected:
        pytest.fail("the connection was reset before the answer could be read")


# -- CVE-2019-1002100

PATCHES = {
    "too many operations": (413, [{"op": "test", "path": "/data", "value": {}}] * 10_001),
    "copies that double": (422, [{"op": "copy", "from": "/data", "path": f"/data/x{n}"} for n in range(60)]),
    "copies that add up": (422, [{"op": "copy", "from": "/data/big", "path": f"/data/c{n}"} for n in range(100)]),
    "a path without end": (422, [{"op": "add", "path": "/data" + "/a" * 100_000, "value": 1}]),
    "a value without end": (400, b'[{"op":"add","path":"/data/x","value":' + b"[" * 100_000),
    "an index beyond measure": (422, [{"op": "add", "path": "/metadata/finalizers/" + "9" * 1000, "value": "a/b"}]),
    "not a list": (400, {"op": "add"}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("status", "patch"), PATCHES.values(), ids=PATCHES)
def test_cve_2019_1002100_a_patch_cannot_exhaust_the_server(server, status, patch):
    body = {"metadata": {"name": "patched"}, "data": {"big": "x" * 100_000}}
    reply, _ = ask(server, "POST", CM, body, JSON)
    assert reply.status == 201
    before = server.memory("VmHWM")
    try:
        reply, _ = ask(server, "PATCH", f"{CM}/patched", patch, JSON_PATCH)
        assert reply.status == status, reply
        stored = asyncio.run(_get(server, f"{CM}/patched"))
        assert stored["data"] == body["data"]
        assert server.memory("VmHWM") - before < 64 * MIB
    finally:
        ask(server, "DELETE", f"{CM}/patched", b"", JSON)


async def _get(server, path):
    line = await Line.open(server)
    reply = await line.request("GET", path)
    line.close()
    return reply.json


@pytest.mark.slow
def test_cve_2019_1002100_ten_thousand_operations_are_allowed(server):
    """A control: the limit is kube-apiserver's, not lower."""
    ask(server, "POST", CM, {"metadata": {"name": "patched"}, "data": {"a": "b"}}, JSON)
    patch = json.dumps([{"op": "test", "path": "/data/a", "value": "b"}] * 10_000).encode()
    reply, _ = ask(server, "PATCH", f"{CM}/patched", patch, JSON_PATCH)
    assert reply.status == 200, reply
    ask(server, "DELETE", f"{CM}/patched", b"", JSON)
