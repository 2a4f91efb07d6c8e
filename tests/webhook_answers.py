"""Every kind of answer that a webhook may give, and the words of kube-apiserver v1.36 about it.

Kapi is tested against them in `tests/unit/server/test_admission_webhook_answers.py`, and kube-apiserver itself in
`tests/contract/test_webhook_answers_parity.py`. Each case is `(script, code, message)`.
"""

import asyncio
import base64

from admission_webhook import allow, allowing, patching
from kapi.api.go.types import TYPE_META
from webhook_server import Hangup, Reply, Reset

FAILED = 'failed calling webhook "hook.example.dev": '
NOT_CALLED = f"{FAILED}failed to call webhook: "
INVALID = f"{FAILED}received invalid webhook response: "
PARSE = f"{NOT_CALLED}couldn't get version/kind; json parse error: "
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
DENIED = 'admission webhook "hook.example.dev" denied the request'
ADD = [{"op": "add", "path": "/data/x", "value": "y"}]


def raising(error):
    def script(call):
        raise error

    return script


def changed(**fields):
    """The review of an answer that allows, with other fields."""
    return lambda call: Reply({**allow(call), **fields})


def page(status, body=b"no way", content_type="text/plain", **headers):
    return lambda call: Reply(body, status, content_type=content_type, **headers)


def body(data):
    return lambda call: Reply(data)


async def hanging(call):
    """A script that never answers."""
    await asyncio.Event().wait()


def internal(script, message):
    return script, 500, f"500 {message}"


UNREADABLE = {
    "garbage": internal(body(b"not json"), f"{PARSE}json: cannot unmarshal string into Go value of type {TYPE_META}"),
    "list": internal(body(b"[]"), f"{PARSE}json: cannot unmarshal array into Go value of type {TYPE_META}"),
    "half": internal(body(b'{"kind":"AdmissionReview"'), f"{PARSE}unexpected end of JSON input"),
    "empty": internal(
        body(b""), f"{NOT_CALLED}0-length response with status code: 200 and content type: application/json"
    ),
    "null": internal(body(b"null"), f"{INVALID}webhook response was absent"),
    "nothing": internal(body(b"{}"), f"{INVALID}webhook response was absent"),
    "other kind": internal(
        changed(kind="Pod"),
        f'{NOT_CALLED}no kind "Pod" is registered for version "admission.k8s.io/v1" {SCHEME}',
    ),
    "other version": internal(
        changed(apiVersion="admission.k8s.io/v1beta1"),
        f"{NOT_CALLED}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    "unknown version": internal(
        changed(apiVersion="admission.k8s.io/v2"),
        f'{NOT_CALLED}no kind "AdmissionReview" is registered for version "admission.k8s.io/v2" {SCHEME}',
    ),
    "no kind": internal(
        lambda call: Reply({"response": allow(call)["response"]}),
        f"{INVALID}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
    ),
    "other uid": internal(
        changed(response={"uid": "x", "allowed": True}), f'{INVALID}expected response.uid="UID", got "x"'
    ),
    "uid of a wrong type": internal(
        changed(response={"uid": 5}),
        f"{NOT_CALLED}json: cannot unmarshal number into Go struct field AdmissionResponse.response.uid of type "
        "types.UID",
    ),
    "allowed of a wrong type": internal(
        allowing(allowed="yes"),
        f"{NOT_CALLED}json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type "
        "bool",
    ),
    "response of a wrong type": internal(
        changed(response=[]),
        f"{NOT_CALLED}json: cannot unmarshal array into Go struct field AdmissionReview.response of type "
        "v1.AdmissionResponse",
    ),
    "warnings of a wrong type": internal(
        allowing(warnings="w"),
        f"{NOT_CALLED}json: cannot unmarshal string into Go struct field AdmissionResponse.response.warnings of type "
        "[]string",
    ),
    "as text": (lambda call: Reply(allow(call), content_type="text/plain"), 201, ""),
    "created": (lambda call: Reply(allow(call), 201), 201, ""),
}

FAILURES = {
    "500": internal(
        page(500), f'{NOT_CALLED}an error on the server ("no way") has prevented the request from succeeding'
    ),
    "500 with JSON": internal(
        page(500, content_type="application/json"),
        f'{NOT_CALLED}an error on the server ("unknown") has prevented the request from succeeding',
    ),
    "500 with a Status": internal(
        lambda call: Reply({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "mine"}, 500),
        f"{NOT_CALLED}mine",
    ),
    "400": internal(page(400), f"{NOT_CALLED}the server rejected our request for an unknown reason"),
    "401": internal(page(401), f"{NOT_CALLED}the server has asked for the client to provide credentials"),
    "403": internal(page(403), f"{NOT_CALLED}no way"),
    "404": internal(page(404), f"{NOT_CALLED}the server could not find the requested resource"),
    "418": internal(
        page(418), f"{NOT_CALLED}the server responded with the status code 418 but did not return more information"
    ),
    "503": internal(page(503), f"{NOT_CALLED}the server is currently unable to handle the request"),
    "reset": internal(
        raising(Reset()),
        f'{NOT_CALLED}Post "URL?timeout=30s": read tcp 127.0.0.1:PORT: read: connection reset by peer',
    ),
    "closed": internal(raising(Hangup()), f'{NOT_CALLED}Post "URL?timeout=30s": EOF'),
    "cut off": internal(
        raising(Hangup(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{")),
        f"{NOT_CALLED}unexpected error when reading response body. Please retry. Original error: unexpected EOF",
    ),
}

REFUSALS = {
    "no reason": (lambda call: Reply(allow(call, allowed=False)), 400, f"{DENIED} without explanation"),
    "a message": (allowing(allowed=False, status={"message": "because"}), 400, f"{DENIED}: because"),
    "a reason": (allowing(allowed=False, status={"reason": "because"}), 400, f"{DENIED}: because"),
    "a code": (allowing(allowed=False, status={"message": "x", "code": 418}), 418, f"{DENIED}: x"),
    "a code of success": (allowing(allowed=False, status={"message": "x", "code": 200}), 400, f"{DENIED}: x"),
    "no HTTP code": (allowing(allowed=False, status={"message": "x", "code": 70000}), 500, f"{DENIED}: x"),
}

PATCHES = {
    "no type": internal(allowing(patch="W10="), f"{INVALID}webhook returned response.patch but not response.patchType"),
    "no patch": internal(
        allowing(patchType="JSONPatch"), f"{INVALID}webhook returned response.patchType but not response.patch"
    ),
    "empty type": internal(
        allowing(patchType="", patch="W10="), f'{INVALID}webhook returned invalid response.patchType of ""'
    ),
    "other type": internal(
        allowing(patchType="Merge", patch=base64.b64encode(b'[{"op":"add","path":"/data/x","value":"y"}]').decode()),
        f'{FAILED}unsupported patch type "Merge"',
    ),
    "not base64": internal(
        allowing(patchType="JSONPatch", patch="!!!"), f"{NOT_CALLED}illegal base64 data at input byte 0"
    ),
    "no text": internal(
        allowing(patchType="JSONPatch", patch=5),
        f"{NOT_CALLED}json: cannot unmarshal number into Go struct field AdmissionResponse.response.patch of type "
        "[]uint8",
    ),
    "garbage": internal(
        patching(b"hello"),
        f"{FAILED}received undecodable patch in webhook response: invalid character 'h' looking for beginning of value",
    ),
    "no list": internal(
        patching(b"{}"),
        f"{FAILED}received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type "
        "jsonpatch.Patch",
    ),
    "null": (patching(b"null"), 201, ""),
    "no operation": (patching(), 201, ""),
    "unknown operation": internal(patching({"op": "frob", "path": "/a"}), "Unexpected kind: frob"),
    "missing key": internal(
        patching({"op": "remove", "path": "/data/z"}),
        "error in remove for path: '/data/z': Unable to remove nonexistent key: z: missing value",
    ),
    "missing parent": internal(
        patching({"op": "add", "path": "/metadata/labels/x", "value": "y"}),
        'add operation does not apply: doc is missing path: "/metadata/labels/x": missing value',
    ),
    "failed test": internal(
        patching({"op": "test", "path": "/data/a", "value": "c"}), "testing value /data/a failed: test failed"
    ),
    "wrong type of a value": internal(
        patching({"op": "add", "path": "/data/n", "value": 5}),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    "wrong type of metadata": internal(
        patching({"op": "replace", "path": "/metadata", "value": []}),
        "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
    ),
    "a list for an object": internal(
        patching({"op": "replace", "path": "", "value": []}),
        f"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type {TYPE_META}",
    ),
    "another kind": (
        patching({"op": "replace", "path": "/kind", "value": "Pod"}),
        500,
        "converting (v1.Pod) to (core.ConfigMap): unknown conversion",
    ),
    "another version": internal(
        patching({"op": "replace", "path": "/apiVersion", "value": "v7"}),
        f'no kind "ConfigMap" is registered for version "v7" {SCHEME}',
    ),
    "another namespace": (
        patching({"op": "replace", "path": "/metadata/namespace", "value": "other"}),
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "no name": (
        patching({"op": "remove", "path": "/metadata/name"}),
        422,
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "no metadata at all": (
        patching({"op": "replace", "path": "", "value": {}}),
        422,
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "a resourceVersion": (
        patching({"op": "add", "path": "/metadata/resourceVersion", "value": "1"}),
        500,
        "resourceVersion should not be set on objects to be created",
    ),
    "a uid": (patching({"op": "add", "path": "/metadata/uid", "value": "u"}), 201, ""),
    "an unknown field": (patching({"op": "add", "path": "/foo", "value": "x"}), 201, ""),
}

MAY_NOT_PATCH = {
    "a patch": internal(
        patching({"op": "add", "path": "/data/x", "value": "y"}),
        f"{INVALID}validating webhook may not return response.patch",
    ),
    "a type": internal(
        allowing(patchType="JSONPatch"), f"{INVALID}validating webhook may not return response.patchType"
    ),
}

HANGS = {"hang": internal(hanging, f'{NOT_CALLED}Post "URL?timeout=1s": context deadline exceeded')}
"""For webhooks with a timeout of a second."""
