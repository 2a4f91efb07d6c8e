"""A reflector against a server that lies, over real connections: it backs off, says why, and keeps what it knew.

The reflector's waits are counted instead of waited for, so that an hour of a server that lies takes no time.
"""

import asyncio
import types
from typing import NamedTuple

import pytest

from kapi.api.errors import Expired
from kapi.client.discovery import APIResource
from kapi.client.errors import AnswerError, AnswerTooLarge, EndlessList
from kapi.client.rest import RESTClient
from kapi.codec import json
from kapi.codec.errors import DecodeError
from kapi.informer import reflector as reflector_module
from kapi.informer.cached import revision_number
from kapi.informer.informer import SharedInformer
from kapi.informer.reflector import Pace
from kapi.informer.source import RESTSource
from lying_server import MIB, LyingServer, chunk, config_map, event, head, page, send

CONFIG_MAPS = APIResource(group="", version="v1", resource="configmaps", kind="ConfigMap", namespaced=True)
END = {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}
WAITS = 8


class Clock:
    """A clock that only the reflector's waits move."""

    def __init__(self):
        self.time = 0.0
        self.waits = []
        self.enough = asyncio.Event()

    def monotonic(self):
        return self.time

    async def sleep(self, seconds):
        if seconds:
            self.time += seconds
            self.waits.append(seconds)
            if len(self.waits) >= WAITS:
                self.enough.set()
                await asyncio.Event().wait()
        await asyncio.sleep(0)


async def found():
    return CONFIG_MAPS


class Run(NamedTuple):
    """What was seen of an informer and of the server it followed."""

    names: list
    error: Exception | None
    waits: list
    requests: list
    limits: list


def run(answer, monkeypatch, *, until_synced=False, page_size=500, **bounds):
    """Let an informer follow a server until it has waited `WAITS` times, or until it is synced."""

    async def main():
        clock, server = Clock(), LyingServer(answer)
        monkeypatch.setattr(
            reflector_module,
            "asyncio",
            types.SimpleNamespace(
                sleep=clock.sleep, timeout=asyncio.timeout, get_running_loop=asyncio.get_running_loop
            ),
        )
        async with server.serving(**bounds) as config, RESTClient(config) as rest:
            source = RESTSource(rest, found)
            informer = SharedInformer(source, json.decode, name="maps", pace=Pace(page_size=page_size), clock=clock)
            informer.start()
            try:
                await (informer.wait_for_sync() if until_synced else clock.enough.wait())
                names = sorted(key.name for key in list(informer.indexer.keys()))
                limits = [query.get("limit") for _, query in server.requests if "watch" not in query]
                return Run(names, informer.reflector.last_error, clock.waits, server.verbs(), limits)
            finally:
                await informer.stop()

    return asyncio.run(main())


def assert_backs_off(result, requests_per_wait):
    """Check that the waits grow as those of client-go's reflector do, and the requests between them."""
    bases = [min(30.0, 0.8 * 2**index) for index in range(WAITS)]
    assert all(base <= wait <= 2 * base for base, wait in zip(bases, result.waits, strict=True))
    assert len(result.requests) <= requests_per_wait * WAITS


def refuse_streams(writer):
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422}
    body = json.encode(status)
    writer.write(head(422, content_length=len(body)) + body)


def only_lists(answer):
    """A server that cannot stream a list."""

    async def respond(server, path, query, writer):
        if "sendInitialEvents" in query:
            refuse_streams(writer)
        else:
            await answer(server, path, query, writer)

    return respond


def stream_of(*names):
    return b"".join(event("ADDED", config_map(name)) for name in names) + event(
        "BOOKMARK", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": END}
    )


def watching(answer):
    """A server that streams one object, ends, and then lets `answer` answer the watches."""

    async def respond(server, path, query, writer):
        if "sendInitialEvents" in query:
            send(writer, stream_of("kept"))
        else:
            await answer(server, path, query, writer)

    return respond


# -- lists ------------------------------------------------------------------------------------------------------------


def test_a_repeated_continue_token_is_a_back_off(monkeypatch):
    @only_lists
    async def answer(server, path, query, writer):
        send(writer, page([f"object-{len(server.requests)}"], "again"))

    result = run(answer, monkeypatch)
    assert isinstance(result.error, EndlessList)
    assert_backs_off(result, requests_per_wait=3)
    assert result.names == []


def test_the_same_page_with_ever_new_tokens_is_a_back_off(monkeypatch):
    @only_lists
    async def answer(server, path, query, writer):
        send(writer, page(["a", "b"], f"token-{len(server.requests)}"))

    result = run(answer, monkeypatch)
    assert isinstance(result.error, EndlessList)
    assert_backs_off(result, requests_per_wait=3)


def test_pages_without_end_are_a_back_off(monkeypatch):
    @only_lists
    async def answer(server, path, query, writer):
        number = int(query.get("continue", 0)) + 1
        send(writer, page([f"object-{number:09}"], str(number)))

    result = run(answer, monkeypatch, max_pages=5)
    assert isinstance(result.error, EndlessList)
    assert_backs_off(result, requests_per_wait=6)


def test_initial_events_without_end_are_a_back_off(monkeypatch):
    async def answer(server, path, query, writer):
        writer.write(head(transfer_encoding="chunked"))
        number = 0
        while not writer.is_closing() and number < 100_000:
            number += 1
            writer.write(chunk(event("ADDED", config_map(f"object-{number}"))))
            await writer.drain()

    result = run(answer, monkeypatch, max_list_bytes=100_000, max_response_bytes=100_000)
    assert isinstance(result.error, EndlessList | AnswerTooLarge)
    assert_backs_off(result, requests_per_wait=1)


def test_a_collection_larger_than_one_answer_is_listed_in_pages(monkeypatch):
    names = [f"object-{number:03}" for number in range(100)]

    @only_lists
    async def answer(server, path, query, writer):
        if "watch" in query:
            await asyncio.Event().wait()
        # From its memory a server sends everything, whatever the limit.
        limit = len(names) if query.get("resourceVersion") == "0" else int(query["limit"])
        start = int(query.get("continue", 0))
        end = start + limit
        send(writer, page(names[start:end], str(end) if end < len(names) else ""))

    result = run(answer, monkeypatch, until_synced=True, page_size=80, max_response_bytes=4000)
    assert result.names == names
    # All at once, 80 objects, and 20 objects at a time.
    assert result.limits == ["80", "80", "20", "20", "20", "20", "20"]
    assert len(result.waits) == 2


def test_an_object_larger_than_one_answer_is_a_back_off(monkeypatch):
    @only_lists
    async def answer(server, path, query, writer):
        send(writer, page(["x" * 10_000]))

    result = run(answer, monkeypatch, max_response_bytes=4000)
    assert isinstance(result.error, AnswerTooLarge)
    assert_backs_off(result, requests_per_wait=2)
    assert result.limits[-1] == "1"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>", "text/html"),
        (b"<html>", "application/json"),
        (b"[]", "application/json"),
        (b'{"items":[{"metadata":{}}]}', "application/json"),
        (b'{"items":[' + b"[" * 100_000, "application/json"),
    ],
)
def test_what_is_not_a_list_is_a_back_off(monkeypatch, body, content_type):
    async def answer(server, path, query, writer):
        send(writer, body, content_type=content_type)

    result = run(answer, monkeypatch)
    assert isinstance(result.error, AnswerError | DecodeError)
    assert_backs_off(result, requests_per_wait=1)


# -- watches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [b"", event("MODIFIED", config_map("kept", 11))])
def test_a_watch_that_ends_at_once_for_ever_is_a_back_off(monkeypatch, lines):
    @watching
    async def answer(server, path, query, writer):
        send(writer, lines)

    result = run(answer, monkeypatch)
    assert result.requests == ["stream", *["watch"] * (WAITS - 1)]
    assert_backs_off(result, requests_per_wait=1)
    assert result.names == ["kept"]


@pytest.mark.parametrize(
    "line",
    [
        b"<html>\n",
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":[]}\n',
        b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n",
        b'{"type":"BOOKMARK","object":7}\n',
        b'{"type":"ADDED","object":{}',
    ],
)
def test_what_is_not_an_event_is_a_back_off(monkeypatch, line):
    @watching
    async def answer(server, path, query, writer):
        send(writer, line)

    result = run(answer, monkeypatch)
    assert_backs_off(result, requests_per_wait=1)
    assert result.names == ["kept"]


def test_an_event_without_end_is_a_back_off(monkeypatch):
    @watching
    async def answer(server, path, query, writer):
        writer.write(head(transfer_encoding="chunked"))
        await server.endless(writer, chunk(b"a" * 65536), 256 * MIB)

    result = run(answer, monkeypatch, max_event_bytes=100_000)
    assert_backs_off(result, requests_per_wait=1)
    assert result.names == ["kept"]


def test_revisions_that_go_backwards_are_a_back_off(monkeypatch):
    @watching
    async def answer(server, path, query, writer):
        send(writer, b"".join(event("MODIFIED", config_map("kept", revision)) for revision in (9, 8, 7)))

    result = run(answer, monkeypatch)
    assert "the watch began at 10" in str(result.error)
    assert_backs_off(result, requests_per_wait=2)
    assert result.names == ["kept"]


def test_a_revision_too_long_for_a_url_is_not_sent(monkeypatch):
    asked = []

    @watching
    async def answer(server, path, query, writer):
        asked.append(query["resourceVersion"])
        send(writer, event("MODIFIED", config_map("kept", "1" * 20_000)))

    result = run(answer, monkeypatch)
    assert set(asked) == {"10"}
    assert_backs_off(result, requests_per_wait=2)


def test_410_for_ever_is_a_back_off(monkeypatch):
    async def answer(server, path, query, writer):
        status = json.encode({"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410})
        writer.write(head(410, content_length=len(status)) + status)

    result = run(answer, monkeypatch)
    assert isinstance(result.error, Expired)
    assert_backs_off(result, requests_per_wait=2)


def test_only_a_number_of_64_bits_is_compared_as_a_revision():
    assert revision_number("18446744073709551615") == 2**64 - 1
    assert revision_number("1" * 5000) is None
    assert revision_number("٣") is None
