"""The status endpoint of custom kinds: what it lets through, and what the main endpoint leaves to it."""

import pytest

from api_client import APPLY, JSON_PATCH, served
from custom_kinds import GROUP, INTEGER, WIDGETS, defined, definition, record, version, widget

W = f"{WIDGETS}/w"


async def stored(api, obj):
    answer = await api.post(WIDGETS, obj)
    assert answer.status == 201, answer
    return answer


@pytest.mark.parametrize("method", ["put", "merge", "json", "apply"])
@served
async def test_the_status_subresource_changes_only_the_status(api, method):
    await defined(api, definition())
    first = (await stored(api, widget(spec={"size": 1}, metadata={"labels": {"a": "b"}}))).json
    path = f"{W}/status"
    body = {
        **first,
        "metadata": {**first["metadata"], "labels": {"via": "status"}, "finalizers": ["example.com/x"]},
        "spec": {"size": 9},
        "status": {"ready": True},
    }
    if method == "put":
        answer = await api.put(path, body)
    elif method == "apply":
        config = widget(spec={"size": 9}, metadata={"labels": {"via": "status"}}, status={"ready": True})
        answer = await api.patch(path, config, APPLY, fieldManager="m", force="true")
    elif method == "merge":
        patch = {key: body[key] for key in ("spec", "status")} | {"metadata": {"labels": {"via": "status"}}}
        answer = await api.patch(path, patch)
    else:
        operations = [
            {"op": "add", "path": "/metadata/labels/via", "value": "status"},
            {"op": "replace", "path": "/spec/size", "value": 9},
            {"op": "add", "path": "/status", "value": {"ready": True}},
        ]
        answer = await api.patch(path, operations, JSON_PATCH)
    assert answer.status == 200, answer
    assert answer["status"] == {"ready": True}
    assert answer["spec"] == first["spec"]
    kept = ("labels", "generation", "uid", "creationTimestamp")
    assert {key: answer.metadata.get(key) for key in kept} == {key: first["metadata"].get(key) for key in kept}
    assert "finalizers" not in answer.metadata
    entry = next(one for one in answer.metadata["managedFields"] if one.get("subresource") == "status")
    assert set(entry["fieldsV1"]) == {"f:status"}


@served
async def test_the_main_resource_ignores_the_status(api):
    await defined(api, definition())
    await stored(api, widget(spec={"size": 1}))
    current = (await api.patch(f"{W}/status", {"status": {"ready": True}})).json
    answer = await api.put(W, {**current, "spec": {"size": 2}, "status": {"ready": False}})
    assert (answer["spec"]["size"], answer["status"]) == (2, {"ready": True})
    del current["status"]
    current["metadata"]["resourceVersion"] = answer.version
    assert (await api.put(W, current))["status"] == {"ready": True}


@served
async def test_the_status_is_validated_by_its_schema(api):
    await defined(api, definition())
    await stored(api, widget())
    wrong = await api.patch(f"{W}/status", {"status": {"ready": "x"}})
    assert wrong.message == (
        'Widget.example.com "w" is invalid: status.ready: Invalid value: "string": '
        'ready in body must be of type boolean: "string"'
    )
    unknown = await api.patch(f"{W}/status", {"status": {"zz": 1, "ready": True}})
    assert unknown.warnings == ['unknown field "status.zz"']
    assert unknown["status"] == {"ready": True}


@served
async def test_a_status_update_needs_the_current_resource_version(api):
    await defined(api, definition())
    first = (await stored(api, widget())).json
    assert (await api.put(f"{W}/status", widget(status={"ready": True}))).status == 422
    await api.patch(W, {"spec": {"size": 1}})
    assert (await api.put(f"{W}/status", {**first, "status": {"ready": True}})).status == 409
    assert (await api.put(f"{WIDGETS}/x/status", {**first, "metadata": {"name": "x"}})).status == 404
    assert (await api.get(f"{W}/status")).json == (await api.get(W)).json


NEVER_SEEN = {**record(observedGeneration=INTEGER), "default": {"observedGeneration": -1}}


@pytest.mark.parametrize("storage", ["v1", "v2"])
@served
async def test_default_of_the_status_shows_wherever_the_object_does(api, storage):
    root = record(spec=record(size=INTEGER), status=NEVER_SEEN)
    parts = {"root": root, "subresources": {"status": {}}}
    await defined(api, definition(versions=[version(name, storage=name == storage, **parts) for name in ("v1", "v2")]))
    watch = await api.watch(WIDGETS, resourceVersion=api.revision)
    dry = await api.post(WIDGETS, widget(spec={"size": 1}), dryRun="All")
    made = await stored(api, widget(spec={"size": 1}, status={"observedGeneration": 7}))
    patched = await api.patch(W, {"spec": {"size": 2}})
    cleared = await api.patch(f"{W}/status", {"status": None})
    listed = (await api.get(WIDGETS))["items"]
    events = await watch.take(2)
    other = await api.get(W.replace("/v1/", "/v2/"))
    shown = [dry, made, patched, cleared, await api.get(W), *listed, *(one["object"] for one in events), other]
    assert [one["status"] for one in shown] == [{"observedGeneration": -1}] * len(shown)
    assert other["apiVersion"] == f"{GROUP}/v2"
