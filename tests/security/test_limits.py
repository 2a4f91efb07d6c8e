"""Requests beyond all measure: each gets the right 4xx as a Status, stores nothing, and leaves the server as it was."""

import asyncio
import json

import pytest

from api_client import CM, DEPLOY, JSON, JSON_PATCH, MERGE, NS, PODS, STRATEGIC, cm, deployment, served
from tests.reliability.live_server import Line, LiveServer

LONG = "a" * 100_000
YAML = "application/yaml"
MIB = 1 << 20


def deep(levels):
    return b'{"metadata":{"name":"a"},"data":' + b'{"a":' * levels + b'"x"' + b"}" * levels + b"}"


QUERIES = {
    "a limit beyond 64 bits": (400, "limit=99999999999999999999"),
    "a limit that is no number": (400, "limit=1e3"),
    "a timeout beyond 64 bits": (400, "watch=true&timeoutSeconds=99999999999999999999"),
    "a deadline that is none": (400, "timeout=forever"),
    "a deadline beyond measure": (400, "timeout=" + "9" * 10_000 + "h"),
    "a revision that is no number": (400, "resourceVersion=abc"),
    "a revision below zero": (400, "resourceVersion=-1"),
    "a revision match that is none": (422, "resourceVersion=1&resourceVersionMatch=Sometimes"),
    "a thousand parameters": (400, "&".join(f"p{number}=1" for number in range(1000))),
    "a thousand selectors": (400, "&".join(["labelSelector=a"] * 1000)),
    "bad utf-8": (400, "labelSelector=%ff%fe"),
    "a lone surrogate": (400, "labelSelector=%ed%a0%80"),
    "a selector that is none": (400, "labelSelector=((("),
    "a selector of a very long key": (400, f"labelSelector={LONG[:30_000]}"),
    "a field that is not selectable": (400, "fieldSelector=spec.nothing%3D1"),
    "a token that is none": (400, "continue=%00%01"),
    "a token of something else": (400, "continue=e30"),
    "a token that nests": (400, "continue=" + "W1tb" * 5000),
}


@pytest.mark.parametrize(("status", "query"), QUERIES.values(), ids=QUERIES)
@served
async def test_an_invalid_query_is_refused(api, status, query):
    answer = await api.request("GET", f"{CM}?{query}")
    assert answer.error[0] == status, answer
    assert (await api.get(CM)).status == 200


BODIES = {
    "a name of a hundred thousand letters": (422, JSON, json.dumps(cm(LONG)).encode()),
    "a generated name of as many": (422, JSON, json.dumps({"metadata": {"generateName": LONG + "/"}}).encode()),
    "a label of as many": (422, JSON, json.dumps(cm("a", metadata={"labels": {"a": LONG}})).encode()),
    "a label key of as many": (422, JSON, json.dumps(cm("a", metadata={"labels": {LONG: "a"}})).encode()),
    "annotations beyond their total": (422, JSON, json.dumps(cm("a", metadata={"annotations": {"a": "x" * 300_000}})).encode()),
    "data beyond its total": (422, JSON, json.dumps(cm("a", data={"a": "x" * 1_100_000})).encode()),
    "a finalizer that is none": (422, JSON, json.dumps(cm("a", metadata={"finalizers": [LONG]})).encode()),
    "ten thousand finalizers": (422, JSON, json.dumps(cm("a", metadata={"finalizers": ["no name"] * 10_000})).encode()),
    "data that is deep": (400, JSON, deep(200)),
    "data deeper than anything": (400, JSON, deep(10_000)),
    "a kind that is a number": (400, JSON, b'{"kind":1,"metadata":{"name":"a"}}'),
    "a kind that is an object": (400, JSON, b'{"kind":{},"metadata":{"name":"a"}}'),
    "a version that is a list": (400, JSON, b'{"apiVersion":[],"metadata":{"name":"a"}}'),
    "a version with three parts": (400, JSON, b'{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"a"}}'),
    "metadata that is a list": (400, JSON, b'{"metadata":[]}'),
    "a name that is a number": (400, JSON, b'{"metadata":{"name":1}}'),
    "labels that are a list": (400, JSON, b'{"metadata":{"name":"a","labels":["a"]}}'),
    "data of a number": (400, JSON, b'{"metadata":{"name":"a"},"data":{"a":1}}'),
    "no name at all": (422, JSON, b"{}"),
    "null": (400, JSON, b"null"),
    "two documents": (400, YAML, b"metadata: {name: a}\n---\nmetadata: {name: b}\n"),
    "yaml over its limit": (400, YAML, b'a: "' + b"x" * MIB + b'"'),
    "yaml with a tag": (400, YAML, b"!!python/object/apply:os.system [id]"),
    "a media type that is none": (415, "text/plain", b"{}"),
    "a media type beyond measure": (415, "a" * 10_000, b"{}"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [pytest.param(*case, id=name) for name, case in BODIES.items()],
)
@served
async def test_an_invalid_body_is_refused_and_nothing_is_stored(api, status, content_type, body):
    before = api.revision
    answer = await api.request("POST", CM, body, headers={"content-type": content_type})
    assert answer.error[0] == status, answer
    assert api.revision == before
    assert (await api.post(CM, cm("fine"))).status == 201


@served
async def test_an_object_over_the_storage_limit_is_refused(api):
    """1.5 MiB is where etcd stops, so nothing larger can exist on a real cluster."""
    obj = deployment("large")
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 2_000_000}]
    before = api.revision
    answer = await api.post(DEPLOY, obj)
    assert answer.status == 413, answer.status
    assert api.revision == before


PATCHES = {
    "a merge patch that is a list": (400, MERGE, b"[]"),
    "a merge patch that is a number": (400, MERGE, b"1"),
    "a merge patch that is deep": (400, MERGE, b'{"data":' * 1000 + b"1" + b"}" * 1000),
    "a strategic patch that is deep": (400, STRATEGIC, b'{"data":' * 1000 + b"1" + b"}" * 1000),
    "a json patch of nothing known": (422, JSON_PATCH, b'[{"op":"explode","path":"/"}]'),
    "a json patch of itself": (422, JSON_PATCH, b'[{"op":"copy","from":"","path":"/data/a"}]'),
    "a json patch that moves a parent into its child": (422, JSON_PATCH, b'[{"op":"move","from":"/data","path":"/data/a"}]'),
    "a json patch of the root": (422, JSON_PATCH, b'[{"op":"replace","path":"","value":[]}]'),
    "a name that changes": (400, MERGE, b'{"metadata":{"name":"b"}}'),
    "a namespace that changes": (400, MERGE, b'{"metadata":{"namespace":"kube-system"}}'),
    "a patch of no known type": (415, JSON, b"{}"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "content_type", "body"), PATCHES.values(), ids=PATCHES)
@served
async def test_an_invalid_patch_is_refused_and_changes_nothing(api, status, content_type, body):
    await api.made(CM, cm("a", data={"k": "v"}))
    before = api.revision
    answer = await api.request("PATCH", f"{CM}/a", body, headers={"content-type": content_type})
    assert answer.error[0] == status, answer
    assert api.revision == before


@pytest.mark.parametrize("method", ["BREW", "PROPFIND", "TRACE", "LINK", "get", "OPTIONS", "X" * 10_000])
@served
async def test_an_unknown_method_is_not_allowed(api, method):
    for path in (CM, f"{CM}/a", f"{PODS}/a/status", f"{NS}/default/finalize", "/api", "/version", "/metrics"):
        answer = await api.request(method, path, b"{}")
        assert answer.error[:2] == (405, "MethodNotAllowed"), (path, answer)


@served
async def test_oversized_names_in_a_path_are_not_found(api):
    for path in (f"{CM}/{LONG}", f"{NS}/{LONG}/configmaps/a", f"/apis/{LONG}/v1/things", f"/api/v1/{LONG}", f"/{LONG}"):
        assert (await api.get(path)).status == 404
    assert (await api.get("/a" * 10_000)).status == 404


@served
async def test_a_watch_from_a_future_revision_is_not_sent_past_events(api):
    """A watch from a revision must never be sent events of earlier revisions."""
    future = api.revision + 5
    watch = await api.watch(CM, resourceVersion=str(future))
    for number in range(8):
        await api.made(CM, cm(f"c{number}"))
    event = await watch.next()
    assert int(event["object"]["metadata"]["resourceVersion"]) > future


@pytest.mark.slow
def test_long_queries_of_anonymous_clients_are_not_cached(tmp_path):
    """Anonymous requests with many different long queries leave bounded memory."""

    async def main(server):
        line = await Line.open(server, token="")
        for number in range(3000):
            reply = await line.request("GET", f"/api/v1/pods?labelSelector={number}" + "x" * 30_000)
            assert reply.status == 403
        line.close()

    with LiveServer(tmp_path / "data") as server:
        before = server.memory()
        asyncio.run(main(server))
        assert server.memory() - before < 48 * MIB
