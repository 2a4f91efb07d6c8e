"""The pipeline: the order of its stages, its headers, its deadline, and that every failure inside is an answer."""

import asyncio
import re

import pytest

from api_client import CM, TOKEN, Api, cm, served, serving
from kapi.server.authz.authorizer import Authorizer
from kapi.server.pipeline import Pipeline
from kapi.server.routes import router
from kapi.server.transport.message import Request
from kapi.storage.interface import StorageBusy, StorageFailed
from kapi.storage.memory import MemoryStorage
from virtual_time import run
from webhook_server import DEFINITIONS, V1, V1BETA1, definition, listener
from webhook_server import path as listeners


class Glacier(MemoryStorage):
    """A store whose writes take minutes."""

    slow = False

    async def put(self, key, draft, expected, note=None):
        if self.slow:
            await asyncio.sleep(300)
        return await super().put(key, draft, expected, note)


class Broken(MemoryStorage):
    """A store whose writes fail in a chosen way."""

    error = None

    async def put(self, key, draft, expected, note=None):
        if self.error is not None:
            raise self.error
        return await super().put(key, draft, expected, note)


@served
async def test_every_answer_has_an_id_of_its_own(api):
    ids = {(await api.get(path)).header("Audit-Id") for path in (CM, "/nope", "/healthz", f"{CM}/x", "/version")}
    assert len(ids) == 5
    assert all(
        re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", text) for text in ids
    )
    refused = await api.as_peer("GET", CM, headers={"authorization": "Bearer nope"})
    assert refused.header("Audit-Id")


@served
async def test_id_of_the_client_is_kept(api):
    assert (await api.get(CM, headers={"audit-id": "mine"})).header("Audit-Id") == "mine"


@served
async def test_responses_are_not_cacheable_by_default(api):
    for path in (CM, "/nope", f"{CM}/x"):
        assert (await api.get(path)).header("Cache-Control") == "no-cache, private"


@served
async def test_authentication_precedes_authorization_precedes_routing(api):
    # Wrong token, no permission, no such resource, no such method, no such media type: in this order.
    path = "/api/v1/namespaces/default/foos"
    anonymous = await api.as_peer("PUT", path, headers={"authorization": "Bearer nope", "impersonate-user": "x"})
    assert anonymous.status == 401
    assert (await api.as_peer("PUT", path, headers={"authorization": f"Bearer {TOKEN}"})).status == 403
    assert (await api.put(path, {})).status == 404
    assert (await api.put(CM, {}, headers={"content-type": "text/plain"})).status == 405
    answer = await api.request("POST", CM, b"{", headers={"content-type": "text/plain"})
    assert answer.status == 415


@pytest.mark.parametrize("path", ["/version", CM, "/nope"])
@served
async def test_bad_timeout_is_a_bad_request(api, path):
    answer = await api.get(path, timeout="abc")
    why = 'invalid timeout specified in the request URL - time: invalid duration "abc"'
    assert answer.error == (400, "BadRequest", why)


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("", 60), ("1s", 1), ("500ms", 0.5), ("0s", 60), ("10m", 60), ("-1s", 60)]
)
def test_deadline_is_a_minute_or_less(timeout, seconds):
    @served(storage=Glacier)
    async def main(api):
        api.storage.slow = True
        started = api.clock.monotonic()
        answer = await api.post(CM, cm("a"), timeout=timeout)
        assert answer.error[:2] == (504, "Timeout")
        assert answer.message == "Timeout: request did not complete within the allotted timeout"
        assert api.clock.monotonic() - started == pytest.approx(seconds, abs=0.01)

    main()


class _Unresponsive:
    """A conversion webhook that never answers."""

    async def convert(self, objects, api_version):
        await asyncio.Event().wait()


@pytest.mark.parametrize("name", ["", "a"], ids=["list", "get"])
def test_read_that_asks_a_conversion_webhook_has_a_deadline(name):
    async def main():
        async with serving(converter_for=lambda *_: _Unresponsive()) as api:
            url = {"url": "https://127.0.0.1:1/convert", "caBundle": ""}
            webhook = {"conversionReviewVersions": ["v1"], "clientConfig": url}
            await api.made(DEFINITIONS, definition({"strategy": "Webhook", "webhook": webhook}))
            await api.made(listeners(V1), listener("a", V1, host="h", port=1))
            started = api.clock.monotonic()
            answer = await api.get(listeners(V1BETA1, name))
            assert answer.error[:2] == (504, "Timeout")
            assert api.clock.monotonic() - started == pytest.approx(60, abs=0.01)

    run(main())


def test_every_request_has_a_deadline_where_authorization_may_wait():
    class Webhook:
        async def authorize(self, attributes):
            await asyncio.Event().wait()

        def rules(self, user, namespace):
            raise NotImplementedError

    @served
    async def main(api):
        api.services.authorizer = Authorizer(Webhook())
        pipeline = Pipeline(api.services, router(api.services))
        started = api.clock.monotonic()
        response = await pipeline(Request("GET", CM))
        assert response.status == 504
        assert api.clock.monotonic() - started == pytest.approx(60, abs=0.01)

    main()


def test_storage_that_has_failed_is_unavailable():
    @served(storage=Broken)
    async def main(api):
        api.storage.error = StorageFailed("the disk is gone")
        answer = await api.post(CM, cm("a"))
        assert answer.error[:2] == (503, "ServiceUnavailable")
        assert "disk" not in answer.message

    main()


def test_busy_storage_is_too_many_requests_with_retry_after():
    @served(storage=Broken)
    async def main(api):
        api.storage.error = StorageBusy("full")
        answer = await api.post(CM, cm("a"))
        assert answer.error[:2] == (429, "TooManyRequests")
        assert answer.header("Retry-After") == "1"

    main()


def test_unexpected_exception_is_an_internal_error_without_details(capsys):
    @served(storage=Broken)
    async def main(api):
        api.storage.error = RuntimeError("secret detail")
        answer = await api.post(CM, cm("a"), headers={"audit-id": "abc"})
        assert answer.error[:2] == (500, "InternalError")
        assert answer.message == "Internal error occurred: RuntimeError, see the log for abc"
        assert b"secret" not in answer.raw
        api.storage.error = None
        assert (await api.post(CM, cm("a"))).status == 201

    main()


def test_cancelled_request_is_counted_and_cancelled():
    async def main():
        api = Api(Glacier())
        await api.start()
        api.storage.slow = True
        task = asyncio.ensure_future(api.pipeline(Request("POST", CM, headers={"authorization": "x"})))
        await task
        task = asyncio.ensure_future(api.post(CM, cm("a")))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert b'code="499"' in api.metrics.render()
        assert b'apiserver_current_inflight_requests{request_kind="mutating"} 0.0' in api.metrics.render()
        await api.stop()

    run(main())


@served
async def test_query_with_too_many_parameters_is_a_bad_request(api):
    answer = await api.get(CM, **{f"p{n}": "1" for n in range(300)})
    assert answer.error[:2] == (400, "BadRequest")


@served
async def test_warnings_are_sent_once_each(api):
    answer = await api.request("POST", CM, b'{"metadata":{"name":"a"},"x":1,"y":{"x":1},"x":2}')
    assert answer.status == 201
    assert len(answer.warnings) == len(set(answer.warnings)) >= 2


@served
async def test_total_length_of_warnings_is_bounded(api):
    body = {"metadata": {"name": "a"}, **{f"unknown-{n:03}-{'x' * 300}": 1 for n in range(100)}}
    answer = await api.post(CM, body)
    assert answer.status == 201
    assert 0 < sum(len(text) for text in answer.warnings) <= 4096
    assert max(len(text) for text in answer.warnings) <= 256


@served
async def test_warnings_are_escaped_in_their_header(api):
    answer = await api.post(CM, {"metadata": {"name": "a"}, 'x"\r\nSet-Cookie: y\\': 1})
    assert answer.status == 201
    value = answer.header("Warning")
    assert "\r" not in value
    assert "\n" not in value
    assert value.startswith('299 - "')
    assert value.endswith('"')
