import asyncio

import pytest

from kapi.api.meta import GroupVersionKind
from kapi.client import AnswerError, ClientConfig, DiscoveryClient, NoMatch, RESTClient, RESTMapper
from kapi.client.discovery import APIResource
from kapi.informer.source import RESTSource, read_page, served_by
from reliability.recovery.scripted_server import ScriptedServer

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def test_a_page_keeps_items_as_bytes_and_knows_their_kind():
    page = read_page(
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a": 1},{}]}'
    )
    assert [bytes(item) for item in page.items] == [b'{"a": 1}', b"{}"]
    assert (page.resource_version, page.continue_) == ("7", "x")
    assert page.head == b'{"apiVersion":"v1","kind":"Pod",'


def test_a_list_of_anything_says_nothing_of_its_items():
    assert read_page(b'{"kind":"List","apiVersion":"v1","items":[]}').head == b""


@pytest.mark.parametrize("body", [b'{"items":null}', b"{}"])
def test_a_list_without_items_is_empty(body):
    assert read_page(body).items == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items":5}', b'{"kind":"Table","rows":[]}', b"\xff"])
def test_what_is_no_list_is_refused(body):
    with pytest.raises(AnswerError):
        read_page(body)


def asked(call, **options):
    """What a source sends for a call."""

    async def main():
        server = ScriptedServer()
        async with server.serving() as url, RESTClient(ClientConfig(url)) as rest:
            find = served_by(RESTMapper(DiscoveryClient(rest)), CONFIG_MAP)
            await call(RESTSource(rest, find, **options))
        return server.requests[-1]

    return asyncio.run(main())


async def _list(source):
    await source.list_page(resource_version="0", limit=500, continue_="")


async def _watch(source):
    async with source.watch(resource_version="7", timeout_seconds=300, initial_events=False):
        pass


async def _stream(source):
    async with source.watch(resource_version="", timeout_seconds=300, initial_events=True) as lines:
        assert b"initial-events-end" in await anext(aiter(lines))


@pytest.mark.parametrize(
    "call, query",
    [
        (_list, {"resourceVersion": "0", "limit": "500"}),
        (_watch, {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "300"}),
        (
            _stream,
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "timeoutSeconds": "300",
            },
        ),
    ],
    ids=["list", "watch", "stream"],
)
def test_only_what_is_meant_is_asked(call, query):
    assert asked(call).query == query


def test_selectors_and_namespace_are_asked_for():
    request = asked(_list, namespace="default", label_selector="a=b", field_selector="metadata.name=x")
    assert request.path == "/api/v1/namespaces/default/configmaps"
    assert request.query["labelSelector"] == "a=b"
    assert request.query["fieldSelector"] == "metadata.name=x"


@pytest.mark.parametrize(
    "call, form", [(_list, "as=PartialObjectMetadataList;"), (_watch, "as=PartialObjectMetadata;")]
)
def test_metadata_alone_is_asked_for_by_its_form(call, form):
    assert form in asked(call, metadata_only=True).headers["accept"]
    assert form not in asked(call).headers["accept"]


def test_a_namespace_is_left_out_for_kinds_that_have_none(admin):
    async def main():
        async with RESTClient(admin) as rest:

            async def find():
                return APIResource("", "v1", "namespaces", "Namespace", namespaced=False)

            page = await RESTSource(rest, find, namespace="default").list_page(
                resource_version="", limit=0, continue_=""
            )
            assert len(page.items) >= 4

    asyncio.run(main())


def test_where_a_kind_is_served_is_asked_until_it_is_known():
    async def main():
        server = ScriptedServer()
        async with server.serving() as url, RESTClient(ClientConfig(url)) as rest:
            source = RESTSource(
                rest, served_by(RESTMapper(DiscoveryClient(rest)), GroupVersionKind("", "v1", "Unknown"))
            )
            for _ in range(2):
                with pytest.raises(NoMatch):
                    await _list(source)

    asyncio.run(main())
