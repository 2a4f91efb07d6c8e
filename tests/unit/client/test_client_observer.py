"""Those who follow requests: what they see, what they never see, and what client-go's metrics say of it."""

import asyncio
import dataclasses

import pytest
from prometheus_client import CollectorRegistry

from kapi.api import errors
from kapi.client import RESTClient
from kapi.client.errors import ConnectionLost
from kapi.client.transport.metrics import RequestMeter
from kapi.client.transport.observer import Outgoing

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"


class Notes:
    """An observer that writes everything down, and adds a header."""

    def __init__(self, *headers):
        self.begun = []
        self.ended = []
        self.headers = headers

    def begin(self, outgoing, headers, /):
        self.begun.append((outgoing, list(headers)))
        headers.extend(self.headers)
        return lambda status, failure: self.ended.append((status, failure))


def talk(script, conversation, answers, *observers, files=None, **config):
    """Run a conversation that observers follow; the server, which knows what it was asked."""

    async def main():
        server = script(answers, files)
        async with server.serving() as plain, RESTClient(dataclasses.replace(plain, **config)) as rest:
            rest.observers = observers
            await conversation(rest)
        return server

    return asyncio.run(main())


def test_an_observer_sees_method_host_and_path_and_nothing_secret(script, http, authority):
    notes = Notes(("traceparent", "00-1"))

    async def conversation(rest):
        await rest.request("POST", "/api/v1/namespaces/x/secrets", query={"fieldManager": "me"}, body={"data": "hush"})

    certificate, files = authority
    server = talk(script, conversation, [http(201, b"{}")], notes, files=files, ca_file=certificate, token="hush")
    host = server.url.removeprefix("https://")
    assert notes.begun == [(Outgoing("POST", host, "/api/v1/namespaces/x/secrets"), [])]
    assert notes.ended == [(201, None)]
    assert "hush" not in repr(notes.begun)
    assert "\r\nAuthorization: Bearer hush\r\n" in server.requests[0]
    assert "\r\ntraceparent: 00-1\r\n" in server.requests[0]


def test_every_observer_is_called_for_each_try(script, http, cut):
    first, second = Notes(), Notes()

    async def conversation(rest):
        await rest.request("GET", "/api")

    # The HTTP library tries a broken connection once more by itself, and says nothing of it.
    talk(script, conversation, [cut, cut, http(429, b"", Retry_After="0"), http(200, b"{}")], first, second)
    for notes in (first, second):
        [(lost, failure), (refused, no_failure), (done, _)] = notes.ended
        assert (lost, refused, done) == (0, 429, 200)
        assert isinstance(failure, ConnectionLost)
        assert no_failure is None


def test_a_stream_is_followed_until_it_has_begun(script):
    notes = Notes()

    async def conversation(rest):
        async with rest.stream("/api/v1/pods", query={"watch": True}) as lines:
            assert notes.ended == [(200, None)]
            assert [line async for line in lines] == []

    talk(script, conversation, [STREAM], notes)
    assert [outgoing.is_watch for outgoing, _ in notes.begun] == [True]


def test_requests_are_counted_as_client_go_counts_them(script, http, cut):
    registry = CollectorRegistry()

    async def conversation(rest):
        await rest.request("GET", "/api")
        with pytest.raises(errors.NotFound):
            await rest.request("GET", "/apis")
        with pytest.raises(ConnectionLost):
            await rest.request("POST", "/apis", body={})

    answers = [cut, cut, http(200, b"{}"), http(404), cut]
    server = talk(script, conversation, answers, RequestMeter(registry), RequestMeter(CollectorRegistry()))
    host = server.url.removeprefix("http://")

    def total(code, method):
        labels = {"code": code, "method": method, "host": host}
        return registry.get_sample_value("rest_client_requests_total", labels)

    assert total("200", "GET") == total("404", "GET") == total("<error>", "GET") == total("<error>", "POST") == 1
    seconds = {"verb": "GET", "host": host}
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", seconds) == 3
    assert registry.get_sample_value("rest_client_request_duration_seconds_bucket", {**seconds, "le": "60.0"}) == 3


def test_several_meters_share_a_registry(script, http):
    registry = CollectorRegistry()

    async def conversation(rest):
        await rest.request("GET", "/api")

    talk(script, conversation, [http(200, b"{}")], RequestMeter(registry), RequestMeter(registry))
    [family] = [one for one in registry.collect() if one.name == "rest_client_requests"]
    assert [sample.value for sample in family.samples if sample.name.endswith("_total")] == [2]
