"""The bounds of a client against a server that lies: every answer is a typed error after a bounded number of bytes."""

import asyncio
import gzip
import itertools
import tracemalloc
import zlib

import pytest

from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.errors import ServiceUnavailable
from kapi.api.meta import GroupVersionResource
from kapi.client import Client, ConfigError
from kapi.client import wait as wait_module
from kapi.client.config import ClientConfig
from kapi.client.dynamic import DynamicClient
from kapi.client.errors import AnswerError, AnswerTooLarge, EndlessList
from kapi.client.rest import RESTClient
from lying_server import MIB, LyingServer, bomb, chunk, config_map, event, head, page, send

MAPS = "/api/v1/namespaces/default/configmaps"
GVR = GroupVersionResource("", "v1", "configmaps")
RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]}],
}


def ask(server, call, **bounds):
    """Run `call(rest)` against a server and return what it returns."""

    async def main():
        async with server.serving(**bounds) as config, RESTClient(config) as rest:
            return await call(rest)

    return asyncio.run(main())


def peak_memory(function):
    """The most memory that was allocated while a function ran."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def get(rest):
    return rest.request("GET", MAPS)


async def list_typed(rest):
    async with Client(rest.config) as client:
        return await client.list(ConfigMap, namespace="default")


async def list_dynamic(rest):
    return [page async for page in DynamicClient(rest).resource(GVR, namespace="default").pages()]


def listing(answer):
    """A server that serves discovery, and `answer(server, path, query, writer)` for everything else."""

    async def respond(server, path, query, writer):
        if path == "/api":
            send(writer, {"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            send(writer, {"kind": "APIGroupList", "groups": []})
        elif path == "/api/v1":
            send(writer, RESOURCES)
        else:
            await answer(server, path, query, writer)

    return LyingServer(respond)


# -- one answer -------------------------------------------------------------------------------------------------------


def test_an_answer_without_end_is_cut_at_the_bound():
    async def answer(server, path, query, writer):
        writer.write(head(transfer_encoding="chunked"))
        await server.endless(writer, chunk(b" " * 65536), 64 * MIB)
        writer.write(chunk(b"{}") + b"0\r\n\r\n")

    server = LyingServer(answer)
    with pytest.raises(AnswerTooLarge, match="larger than 1048576 bytes \\(max_response_bytes\\)"):
        ask(server, get, max_response_bytes=MIB)
    assert server.sent < 32 * MIB  # what was under way in sockets' buffers


def test_an_answer_that_announces_too_much_is_not_read():
    async def answer(server, path, query, writer):
        writer.write(head(content_length=MIB + 1))

    with pytest.raises(AnswerTooLarge):
        ask(LyingServer(answer), get, max_response_bytes=MIB)


def test_an_answer_of_just_the_bound_is_read():
    async def answer(server, path, query, writer):
        send(writer, b'"' + b"a" * (MIB - 2) + b'"')

    assert ask(LyingServer(answer), get, max_response_bytes=MIB) == "a" * (MIB - 2)


def test_zero_is_no_bound():
    async def answer(server, path, query, writer):
        send(writer, b" " * MIB + b'"a"')

    assert ask(LyingServer(answer), get, max_response_bytes=0) == "a"


def test_a_negative_bound_is_refused():
    with pytest.raises(ConfigError, match="max_pages must not be negative; zero means no bound"):
        ClientConfig("https://example", max_pages=-1)


def test_a_gzip_bomb_is_cut_at_the_bound():
    packed = bomb(128)
    assert len(packed) < MIB

    async def answer(server, path, query, writer):
        send(writer, packed, content_encoding="gzip")

    def attempt():
        with pytest.raises(AnswerTooLarge):
            ask(LyingServer(answer), get, max_response_bytes=4 * MIB)

    assert peak_memory(attempt) < 24 * MIB


@pytest.mark.parametrize("members", [1, 3])
def test_a_compressed_answer_is_read(members):
    text = b'"' + b"a" * MIB + b'"'
    cuts = [len(text) * index // members for index in range(members + 1)]
    packed = b"".join(gzip.compress(text[a:b]) for a, b in itertools.pairwise(cuts))

    async def answer(server, path, query, writer):
        send(writer, packed, content_encoding="gzip")

    assert ask(LyingServer(answer), get) == "a" * MIB


@pytest.mark.parametrize(
    ("packed", "encoding", "message"),
    [
        (b"no gzip at all", "gzip", "gzip that cannot be read"),
        (bomb(1)[:-20], "gzip", "in the middle of compressed data"),
        (b"{}", "br", "content encoding 'br', which was not asked for"),
    ],
)
def test_a_broken_compression_is_an_answer_error(packed, encoding, message):
    async def answer(server, path, query, writer):
        send(writer, packed, content_encoding=encoding)

    with pytest.raises(AnswerError, match=message):
        ask(LyingServer(answer), get)


def test_an_error_with_a_page_without_end_is_still_that_error():
    async def answer(server, path, query, writer):
        writer.write(head(503, "text/html", transfer_encoding="chunked"))
        await server.endless(writer, chunk(b"<p>sorry</p>" * 5000), 64 * MIB)

    server = LyingServer(answer)
    with pytest.raises(ServiceUnavailable):
        ask(server, get)
    assert server.sent < 32 * MIB


def test_headers_without_end_are_an_answer_error():
    async def answer(server, path, query, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        await server.endless(writer, b"X-Header: value\r\n" * 1000, 64 * MIB)

    server = LyingServer(answer)
    with pytest.raises(AnswerError, match="breaks HTTP"):
        ask(server, get)
    assert server.sent < 32 * MIB


def test_a_header_without_end_is_an_answer_error():
    async def answer(server, path, query, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nX-Header: ")
        await server.endless(writer, b"a" * 65536, 64 * MIB)

    server = LyingServer(answer)
    with pytest.raises(AnswerError, match="breaks HTTP"):
        ask(server, get)
    assert server.sent < 32 * MIB


@pytest.mark.parametrize("call", [get, list_typed])
def test_a_page_of_html_instead_of_json_is_an_answer_error(call):
    async def answer(server, path, query, writer):
        send(writer, b"<!DOCTYPE html><title>Sign in</title>", content_type="text/html; charset=utf-8")

    with pytest.raises(AnswerError, match="answered with text/html where application/json was asked for: '<!DOCTYPE"):
        ask(listing(answer), call)


def test_a_watch_that_is_answered_with_html_is_an_answer_error():
    async def answer(server, path, query, writer):
        send(writer, b"<!DOCTYPE html>", content_type="text/html")

    async def watch(rest):
        async with rest.stream(MAPS) as lines:
            return [line async for line in lines]

    with pytest.raises(AnswerError, match="answered with text/html"):
        ask(LyingServer(answer), watch)


@pytest.mark.parametrize("call", [get, list_typed, list_dynamic])
@pytest.mark.parametrize("body", [b"<html>", b'{"items":[', b"[" * 100_000, b'{"items":[]}\xff'])
def test_what_is_not_json_is_an_answer_error(call, body):
    async def answer(server, path, query, writer):
        send(writer, body)

    with pytest.raises(AnswerError):
        ask(listing(answer), call)


# -- watches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [chunk(b"a" * 65536), chunk(b"a" * MIB)])
def test_an_event_without_end_is_cut_at_the_bound(piece):
    async def answer(server, path, query, writer):
        writer.write(head(transfer_encoding="chunked"))
        await server.endless(writer, piece, 64 * MIB)

    async def watch(rest):
        async with rest.stream(MAPS) as lines:
            return [line async for line in lines]

    server = LyingServer(answer)
    with pytest.raises(AnswerTooLarge, match="a line of more than 65536 bytes \\(max_event_bytes\\)"):
        ask(server, watch, max_event_bytes=65536)
    assert server.sent < 32 * MIB


def test_a_gzip_bomb_in_a_watch_is_cut_at_the_bound():
    packed = bomb(128)

    async def answer(server, path, query, writer):
        send(writer, packed, content_encoding="gzip")

    async def watch(rest):
        async with rest.stream(MAPS) as lines:
            return [line async for line in lines]

    def attempt():
        with pytest.raises(AnswerTooLarge):
            ask(LyingServer(answer), watch, max_event_bytes=MIB)

    assert peak_memory(attempt) < 16 * MIB


def test_a_compressed_watch_is_read_event_by_event():
    packer = zlib.compressobj(wbits=31)
    lines = [event("ADDED", config_map(name)) for name in "abc"]

    async def answer(server, path, query, writer):
        writer.write(head(content_encoding="gzip", transfer_encoding="chunked"))
        for line in lines:
            writer.write(chunk(packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH)))
            await writer.drain()
        writer.write(chunk(packer.flush()) + b"0\r\n\r\n")

    async def watch(rest):
        async with rest.stream(MAPS) as found:
            return [line async for line in found]

    assert ask(LyingServer(answer), watch) == [line.strip() for line in lines]


@pytest.mark.parametrize("lines", [b"", event("MODIFIED", config_map("a", 11))])
def test_waiting_backs_off_from_a_watch_that_ends_at_once_for_ever(monkeypatch, lines):
    failures = []

    async def back_off(count):
        failures.append(count)
        if len(failures) == 5:
            raise TimeoutError

    async def answer(server, path, query, writer):
        send(writer, lines if "watch" in query else page(["a"]))

    async def wait(rest):
        async with Client(rest.config) as client:
            await client.wait_for(ConfigMap, "a", lambda found: False, namespace="default", timeout=None)

    monkeypatch.setattr(wait_module, "_back_off", back_off)
    with pytest.raises(TimeoutError):
        ask(listing(answer), wait)
    assert failures == [1, 2, 3, 4, 5]


# -- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [list_typed, list_dynamic])
def test_a_continue_token_that_comes_again_ends_the_list(call):
    async def answer(server, path, query, writer):
        names = [f"{query.get('continue', '')}{len(server.requests)}"]
        send(writer, page(names, {None: "a", "a": "b", "b": "a"}[query.get("continue")]))

    server = listing(answer)
    with pytest.raises(EndlessList, match="the continue token of page 3 is that of an earlier page"):
        ask(server, call)
    assert server.verbs() == ["list", "continue", "continue"]


@pytest.mark.parametrize("call", [list_typed, list_dynamic])
def test_the_same_page_with_ever_new_tokens_ends_the_list(call):
    async def answer(server, path, query, writer):
        send(writer, page(["one", "two"], f"token-{len(server.requests)}"))

    server = listing(answer)
    with pytest.raises(EndlessList, match="page 2 has the objects of the page before it"):
        ask(server, call)
    assert server.verbs() == ["list", "continue"]


@pytest.mark.parametrize("call", [list_typed, list_dynamic])
def test_empty_pages_with_ever_new_tokens_end_the_list(call):
    async def answer(server, path, query, writer):
        send(writer, page([], f"token-{len(server.requests)}"))

    server = listing(answer)
    with pytest.raises(EndlessList, match="100 pages in a row have no objects"):
        ask(server, call)
    assert len(server.verbs()) == 100


@pytest.mark.parametrize("call", [list_typed, list_dynamic])
def test_a_list_has_at_most_max_pages_pages(call):
    async def answer(server, path, query, writer):
        number = int(query.get("continue", 0)) + 1
        send(writer, page([f"object-{number:09}"], str(number)))

    server = listing(answer)
    with pytest.raises(EndlessList, match="more than 20 pages \\(max_pages\\)"):
        ask(server, call, max_pages=20)
    assert len(server.verbs()) == 20


def test_a_list_that_is_kept_in_memory_has_at_most_max_list_bytes():
    async def answer(server, path, query, writer):
        number = int(query.get("continue", 0)) + 1
        send(writer, page([f"object-{number:09}", "x" * 1000], str(number)))

    server = listing(answer)
    with pytest.raises(EndlessList, match="larger than 100000 bytes \\(max_list_bytes\\)"):
        ask(server, list_typed, max_list_bytes=100_000)
    assert len(server.verbs()) < 100


def test_a_continue_token_too_long_for_a_url_is_not_sent():
    async def answer(server, path, query, writer):
        send(writer, page(["a"], "t" * 20_000))

    server = listing(answer)
    with pytest.raises(EndlessList, match="the continue token has 20000 characters"):
        ask(server, list_typed)
    assert server.verbs() == ["list"]


@pytest.mark.parametrize("call", [list_typed, list_dynamic])
def test_a_list_of_many_pages_is_read_to_its_end(call):
    # 600 pages, as 300,000 objects in pages of 500 are.
    async def answer(server, path, query, writer):
        number = int(query.get("continue", 0)) + 1
        send(writer, page([f"object-{number:09}"], str(number) if number < 600 else ""))

    assert len(ask(listing(answer), call)) == 600


# -- discovery --------------------------------------------------------------------------------------------------------


def test_discovery_does_not_ask_about_group_versions_without_end():
    async def answer(server, path, query, writer):
        if path == "/api":
            send(writer, {"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            groups = [{"name": f"g{n}.io", "versions": [{"version": "v1"}]} for n in range(5000)]
            send(writer, {"kind": "APIGroupList", "groups": groups})
        else:
            send(writer, RESOURCES)

    server = LyingServer(answer)
    with pytest.raises(AnswerError, match="5000 group versions; at most 4096 are asked about"):
        ask(server, list_typed)
    assert len(server.requests) < 10


def test_a_group_that_answers_nonsense_leaves_the_others_usable():
    async def answer(server, path, query, writer):
        if path == "/api":
            send(writer, {"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            send(writer, {"kind": "APIGroupList", "groups": [{"name": "bad.io", "versions": [{"version": "v1"}]}]})
        elif path == "/apis/bad.io/v1":
            send(writer, b"<html>", content_type="text/html")
        else:
            send(writer, RESOURCES if path == "/api/v1" else page(["a"]))

    assert len(ask(LyingServer(answer), list_typed)) == 1
