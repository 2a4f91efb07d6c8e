"""Between the bytes of a server and objects of a class: what is read, what is refused, what is sent."""

import asyncio
import json

import pytest

from kapi.api.builtin.core_v1 import ConfigMap, Pod
from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.errors import Expired
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.client import AnswerError, RESTClient
from kapi.client.documents import encode
from kapi.client.typed import TypedClient, class_decoder, dictionary_decoder

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
MAPS = GroupVersionResource("", "v1", "configmaps")
EXPIRED = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}


def _talk(script, conversation, answers):
    async def main():
        server = script(answers)
        async with server.serving() as config, RESTClient(config) as rest:
            client = TypedClient(rest, MAPS, class_decoder(ConfigMap), "n")
            result = await conversation(client)
        return result, [request.split(" ", 2)[1] for request in server.requests]

    return asyncio.run(main())


def _map(name, version=1):
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def _page(http, *names, **metadata):
    return http(200, json.dumps({"metadata": metadata, "items": [_map(name) for name in names]}).encode())


def _chunk(*frames):
    lines = b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
    return f"{len(lines):x}\r\n".encode() + lines + b"\r\n"


def test_pages_go_on_from_each_other_at_one_revision(script, http):
    answers = [_page(http, "a", **{"continue": "t", "resourceVersion": "9", "remainingItemCount": 1})]
    answers += [_page(http, "b", resourceVersion="9")]

    async def conversation(client):
        return await client.list(limit=1, resource_version="7", resource_version_match="Exact", labels={"k": "v"})

    listed, paths = _talk(script, conversation, answers)
    assert [each.metadata.name for each in listed] == ["a", "b"]
    assert listed.resource_version == "9"
    assert paths == [
        "/api/v1/namespaces/n/configmaps?labelSelector=k%3Dv&limit=1&resourceVersion=7&resourceVersionMatch=Exact",
        "/api/v1/namespaces/n/configmaps?labelSelector=k%3Dv&limit=1&continue=t",
    ]


def test_list_whose_revision_is_gone_halfway_is_fetched_at_once(script, http):
    expired = http(410, json.dumps(EXPIRED).encode())
    answers = [_page(http, "a", **{"continue": "t"}), expired, _page(http, "a", "b", resourceVersion="20")]
    listed, paths = _talk(script, lambda client: client.list(), answers)
    assert [each.metadata.name for each in listed] == ["a", "b"]
    assert listed.resource_version == "20"
    assert "limit" not in paths[2]


def test_list_that_cannot_even_begin_is_an_error(script, http):
    async def conversation(client):
        with pytest.raises(Expired):
            await client.list()

    _, paths = _talk(script, conversation, [http(410, json.dumps(EXPIRED).encode())])
    assert len(paths) == 1


def test_bookmarks_move_a_watch_on_and_are_not_shown(script):
    frames = [
        {"type": "ADDED", "object": _map("a", 3)},
        {"type": "DELETED", "object": _map("b", 5)},
        {"type": "BOOKMARK", "object": {"kind": "ConfigMap", "metadata": {"resourceVersion": "8"}}},
    ]

    async def conversation(client):
        async with client.watch(resource_version="1", timeout_seconds=5) as events:
            versions = [events.resource_version]
            seen = [(event.type, event.object.metadata.name, events.resource_version) async for event in events]
        return [*versions, *seen, events.resource_version]

    seen, paths = _talk(script, conversation, [[STREAM, _chunk(*frames[:2]), _chunk(*frames[2:]), b"0\r\n\r\n"]])
    assert seen == ["1", ("ADDED", "a", "3"), ("DELETED", "b", "5"), "8"]
    assert paths == [
        "/api/v1/namespaces/n/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds=5"
    ]


@pytest.mark.parametrize(
    ("frame", "cls"),
    [
        ({"type": "ERROR", "object": EXPIRED}, Expired),
        ({"type": "ADDED"}, AnswerError),
        ({"object": {}}, AnswerError),
        ({"type": "ADDED", "object": {"metadata": "no"}}, AnswerError),
        ([], AnswerError),
    ],
    ids=str,
)
def test_event_that_is_an_error_is_raised(script, frame, cls):
    async def conversation(client):
        async with client.watch() as events:
            with pytest.raises(cls):
                await anext(events)

    _talk(script, conversation, [[STREAM, _chunk(frame)]])


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"{", "does not fit the class ConfigMap"),
        (b'{"metadata":{"name":7}}', r"does not fit the class ConfigMap: Expected .* - at `\$.metadata.name`"),
        (b'{"kind":"Status","status":{}}', "answered with a Status where a ConfigMap was expected"),
        (b'{"data":' + b"[" * 100_000, "does not fit"),
        (b'{"kind":"\xff"}', "does not fit"),
    ],
)
def test_answer_that_is_no_object_of_the_class_is_said(body, what):
    with pytest.raises(AnswerError, match=what):
        class_decoder(ConfigMap)(body)


def test_unknown_fields_are_kept_by_classes_and_by_dictionaries():
    body = b'{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"},"novelty":1}'
    assert encode(class_decoder(ConfigMap)(body)) == body
    assert dictionary_decoder(GroupVersionKind("", "v1", "ConfigMap"))(body)["novelty"] == 1


def test_dictionary_says_what_it_is_and_must_be_one():
    read = dictionary_decoder(GroupVersionKind("apps", "v1", "Deployment"))
    assert read(b'{"spec":{}}') == {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}
    for body in (b"[]", b"oops"):
        with pytest.raises(AnswerError):
            read(body)


def test_what_a_class_leaves_at_its_default_is_not_sent():
    assert json.loads(encode(Pod(metadata=ObjectMeta(name="a")))) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
    }


def test_nothing_is_sent_without_a_name(script):
    async def conversation(client):
        for call in (client.get, client.delete):
            with pytest.raises(ValueError, match="a name is needed"):
                await call("")
        with pytest.raises(ValueError, match="a name is needed"):
            await client.update(ConfigMap())
        with pytest.raises(ValueError, match="cannot be part of a path"):
            await client.get("../secrets")

    assert _talk(script, conversation, [])[1] == []
