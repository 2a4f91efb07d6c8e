"""Media types, pretty printing and compression of answers; errors in the form asked for."""

import gzip
import json

import pytest

from api_client import CM, NS, TABLE, cm, served

ACCEPTED = "only the following media types are accepted: application/json, application/yaml"


@pytest.mark.parametrize(
    "accept", [None, "*/*", "application/json", "application/json;charset=utf-8", "text/html,*/*;q=0.1"]
)
@served
async def test_json_is_the_default_format(api, accept):
    await api.made(CM, cm("a"))
    answer = await api.get(f"{CM}/a", headers={"accept": accept} if accept else {})
    assert answer.header("Content-Type") == "application/json"
    assert answer.raw.endswith(b"}\n")
    assert b'": "' not in answer.raw


@served
async def test_protobuf_clients_get_json_when_they_take_it(api):
    accept = "application/vnd.kubernetes.protobuf,application/json"
    assert (await api.get(CM, headers={"accept": accept})).header("Content-Type") == "application/json"


@served
async def test_yaml_is_served_with_sorted_keys(api):
    await api.made(CM, cm("a", data={"k": "v", "b": "1"}))
    answer = await api.get(f"{CM}/a", headers={"accept": "application/yaml"})
    assert answer.header("Content-Type") == "application/yaml"
    assert answer.text.startswith('apiVersion: v1\ndata:\n  b: "1"\n  k: v\nkind: ConfigMap\nmetadata:\n')
    listed = await api.get(CM, headers={"accept": "application/yaml"})
    assert "kind: ConfigMapList" in listed.text


@served
async def test_errors_are_in_the_requested_form(api):
    answer = await api.get(f"{CM}/none", headers={"accept": "application/yaml"})
    assert (answer.status, answer.header("Content-Type")) == (404, "application/yaml")
    assert "reason: NotFound" in answer.text


@pytest.mark.parametrize(
    "accept", ["text/html", "application/cbor", "application/vnd.kubernetes.protobuf", "application/*"]
)
@served
async def test_unsupported_media_types_are_not_acceptable(api, accept):
    answer = await api.get(CM, headers={"accept": accept})
    assert answer.error[:2] == (406, "NotAcceptable")
    assert answer.message.startswith(
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
    )
    assert answer["details"] == {}
    # Said in the one form everybody reads, and indented.
    assert answer.raw.startswith(b'{\n  "kind": "Status",\n')
    assert answer.header("Content-Type") == "application/json"


@pytest.mark.parametrize("form", ["as=Table;v=v2;g=meta.k8s.io", "as=Frob;v=v1;g=meta.k8s.io", "as=Table;v=v1;g=nope"])
@served
async def test_unsupported_forms_are_not_acceptable(api, form):
    answer = await api.get(CM, headers={"accept": f"application/json;{form}"})
    assert answer.error == (406, "NotAcceptable", ACCEPTED)
    assert "details" not in answer.json


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ({}, "", False),
        ({"pretty": "true"}, "", True),
        ({"pretty": "1"}, "", True),
        ({"pretty": "0"}, "", False),
        ({}, "curl/8.0", True),
        ({}, "Wget/1.2", True),
        ({}, "Mozilla/5.0 (X11)", True),
        ({"pretty": "0"}, "curl/8.0", False),
        ({}, "kubectl/v1.36.4", False),
    ],
)
@served
async def test_browsers_and_curl_get_indented_json(api, query, agent, pretty):
    await api.made(CM, cm("a"))
    for path in (f"{CM}/a", CM, f"{CM}/none", "/apis/apps"):
        answer = await api.get(path, headers={"user-agent": agent}, **query)
        assert answer.raw.startswith(b'{\n  "kind"') is pretty, path
        # Only the compact form ends with a newline.
        assert answer.raw.endswith(b"\n") is not pretty
        assert json.loads(answer.raw)["kind"]


@served
async def test_accept_can_ask_for_indentation(api):
    answer = await api.get(CM, headers={"accept": "application/json;pretty=1"})
    assert answer.raw.startswith(b'{\n  "kind"')


@served
async def test_large_answers_are_compressed_on_request(api):
    for index in range(4):
        await api.made(CM, cm(f"c{index}", data={"x": "y" * 40_000}))
    plain = await api.get(CM)
    assert plain.header("Content-Encoding") is None
    assert plain.header("Vary") is None
    answer = await api.get(CM, headers={"accept-encoding": "deflate, gzip"})
    assert answer.header("Content-Encoding") == "gzip"
    assert answer.header("Vary") == "Accept-Encoding"
    assert gzip.decompress(answer.raw) == plain.raw


@served
async def test_large_single_objects_are_compressed_on_request(api):
    await api.made(CM, cm("big", data={"x": "y" * 200_000}))
    answer = await api.get(f"{CM}/big", headers={"accept-encoding": "gzip"})
    assert answer.header("Content-Encoding") == "gzip"
    assert json.loads(gzip.decompress(answer.raw))["metadata"]["name"] == "big"


@served
async def test_large_tables_are_compressed_on_request(api):
    for index in range(4):
        await api.made(CM, cm(f"c{index}", metadata={"annotations": {"x": "y" * 40_000}}))
    answer = await api.get(CM, headers={"accept-encoding": "gzip", "accept": TABLE})
    assert answer.header("Content-Encoding") == "gzip"
    assert b"c3" in gzip.decompress(answer.raw)


@served
async def test_small_answers_are_not_compressed(api):
    await api.made(CM, cm("a"))
    answer = await api.get(CM, headers={"accept-encoding": "gzip"})
    assert answer.header("Content-Encoding") is None
    assert answer.header("Vary") is None


@served
async def test_gzip_with_quality_zero_is_not_used(api):
    for index in range(4):
        await api.made(CM, cm(f"c{index}", data={"x": "y" * 40_000}))
    answer = await api.get(CM, headers={"accept-encoding": "gzip;q=0, identity"})
    assert answer.header("Content-Encoding") is None


@served
async def test_status_of_an_error_has_its_keys_in_order(api):
    answer = await api.get(f"{NS}/none")
    assert list(answer.json) == ["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"]
    assert (answer["apiVersion"], answer["status"], answer.metadata) == ("v1", "Failure", {})
