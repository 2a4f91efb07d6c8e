"""Answers of conversion webhooks that are no conversions: reviews that lie, errors, and no answer at all.

The messages are those a Kubernetes 1.36 server answered to the same response of its webhook.
"""

import re

import pytest
from converter_support import WHAT, converting, instead, message_of, stored

from kapi.server.webhooks import conversion
from webhook_server import (
    REVIEW,
    V1,
    Certificates,
    Gate,
    Hangup,
    Reply,
    Reset,
    converted,
    honest,
    lying,
    lying_about,
    true_answer,
)

TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
NOT_READ = "couldn't get version/kind; json parse error: "
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


# -- lies about the review --------------------------------------------------------------------------------------------


def review(**fields):
    return lying(lambda answer: answer.update(fields))


def response(**fields):
    return lying(lambda answer: answer["response"].update(fields))


def dropping(key):
    return lying(lambda answer: answer.pop(key) and None)


def body(data, status=200, media="application/json"):
    return lambda call: Reply(data, status, content_type=media)


EXPECTED = f"expected webhook response of {REVIEW}, Kind=ConversionReview, got "
FIELD = "Go struct field "

REVIEWS = [
    pytest.param(body(b""), "0-length response with status code: 200 and content type: application/json", id="empty"),
    pytest.param(
        body(b"", 204), "0-length response with status code: 204 and content type: application/json", id="no-content"
    ),
    pytest.param(body(b'{"kind":'), f"{NOT_READ}unexpected end of JSON input", id="cut-off"),
    pytest.param(
        body(b"<html>"), f"{NOT_READ}json: cannot unmarshal string into Go value of type {TYPE_META}", id="html"
    ),
    *(
        pytest.param(body(data), f"{NOT_READ}json: cannot unmarshal {kind} into Go value of type {TYPE_META}", id=kind)
        for data, kind in ((b"[]", "array"), (b'"x"', "string"), (b"3", "number"), (b"true", "bool"))
    ),
    pytest.param(body(b"null"), f"{EXPECTED}/, Kind=", id="null"),
    pytest.param(body(b"{}"), f"{EXPECTED}/, Kind=", id="nothing"),
    pytest.param(dropping("kind"), f"{EXPECTED}{REVIEW}, Kind=", id="no-kind"),
    pytest.param(dropping("apiVersion"), f"{EXPECTED}/, Kind=ConversionReview", id="no-apiVersion"),
    pytest.param(
        review(kind=3),
        f"{NOT_READ}json: cannot unmarshal number into {FIELD}.kind of type string",
        id="kind-not-text",
    ),
    pytest.param(review(kind="Foo"), f'no kind "Foo" is registered for version "{REVIEW}" {SCHEME}', id="another-kind"),
    pytest.param(
        review(apiVersion="foo/v1"),
        f'no kind "ConversionReview" is registered for version "foo/v1" {SCHEME}',
        id="another-group",
    ),
    pytest.param(
        review(apiVersion="apiextensions.k8s.io/v1beta1"),
        "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        id="another-version",
    ),
    pytest.param(dropping("response"), "no response provided", id="no-response"),
    pytest.param(review(response=None), "no response provided", id="response-null"),
    pytest.param(
        review(response=[]),
        f"json: cannot unmarshal array into {FIELD}ConversionReview.response of type v1.ConversionResponse",
        id="response-a-list",
    ),
    pytest.param(response(uid="xx"), 'expected response.uid="UID", got "xx"', id="another-uid"),
    pytest.param(response(uid=None), 'expected response.uid="UID", got ""', id="no-uid"),
    pytest.param(
        response(uid=3),
        f"json: cannot unmarshal number into {FIELD}ConversionResponse.response.uid of type types.UID",
        id="uid-not-text",
    ),
    pytest.param(response(result={"status": "Failure", "message": 'I "will" not'}), 'I "will" not', id="failure"),
    pytest.param(
        response(result={"status": "Failure"}),
        "response.result.status was 'Failure', not 'Success'",
        id="failure-without-a-word",
    ),
    pytest.param(response(result=None), "response.result.status was '', not 'Success'", id="no-result"),
    pytest.param(
        response(result="Success"),
        f"json: cannot unmarshal string into {FIELD}ConversionResponse.response.result of type v1.Status",
        id="result-text",
    ),
    pytest.param(
        response(result={"status": 3}),
        f"json: cannot unmarshal number into {FIELD}Status.response.result.status of type string",
        id="status-not-text",
    ),
    pytest.param(
        response(result={"status": "Failure", "message": 3}),
        f"json: cannot unmarshal number into {FIELD}Status.response.result.message of type string",
        id="message-not-text",
    ),
    pytest.param(
        response(convertedObjects={}),
        f"json: cannot unmarshal object into {FIELD}ConversionResponse.response.convertedObjects "
        "of type []runtime.RawExtension",
        id="objects-not-a-list",
    ),
]


@pytest.mark.parametrize(("script", "expected"), REVIEWS)
def test_a_response_that_is_not_the_requested_review_is_refused(certificates, script, expected):
    text = re.sub(r"uid=\"[0-9a-f-]{36}\"", 'uid="UID"', message_of(certificates, script))
    assert text == f"{WHAT} failed: {expected}"


@pytest.mark.parametrize(
    ("script", "count"),
    [
        (instead(), 0),
        (response(convertedObjects=None), 0),
        (lying(lambda answer: answer["response"].pop("convertedObjects") and None), 0),
        (lying(lambda answer: answer["response"]["convertedObjects"].append({})), 2),
    ],
    ids=["fewer", "null", "absent", "more"],
)
def test_the_response_must_have_as_many_objects_as_the_request(certificates, script, count):
    assert message_of(certificates, script) == f"{WHAT} returned {count} objects, expected 1"


@pytest.mark.parametrize("script", [dropping("kind"), dropping("apiVersion"), response(uid="xx"), response(uid=None)])
def test_v1beta1_reviews_may_omit_api_version_and_kind(certificates, script):
    async def test(webhook, convert):
        assert await convert([stored()], V1) == [converted(stored(), V1)]

    converting(certificates, test, "v1beta1", script=script)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (review(kind="Foo"), f'no kind "Foo" is registered for version "{REVIEW}beta1" {SCHEME}'),
        (
            review(apiVersion=REVIEW),
            "converting (v1.ConversionReview) to (v1beta1.ConversionReview): unknown conversion",
        ),
        (dropping("response"), "no response provided"),
    ],
)
def test_v1beta1_reviews_must_not_have_another_kind(certificates, script, expected):
    assert message_of(certificates, script, None, "v1beta1") == f"{WHAT} failed: {expected}"


def test_without_a_common_review_version_the_webhook_is_not_called(certificates):
    assert message_of(certificates, honest, None, "v7") == "no supported conversion review versions"


# -- answers that are errors ------------------------------------------------------------------------------------------

ILL = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "I am ill", "code": 500}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            body(b"boom\n", 500, "text/plain"),
            'an error on the server ("boom") has prevented the request from succeeding',
        ),
        (body(b"boom", 502, None), 'an error on the server ("boom") has prevented the request from succeeding'),
        (body(b"{}", 500), 'an error on the server ("unknown") has prevented the request from succeeding'),
        (lambda call: Reply(ILL, 500), "I am ill"),
        (lambda call: Reply(true_answer(call.review), 500), 'an error on the server ("unknown") has prevented the'),
        (body(b"nope", 404, "text/plain"), "the server could not find the requested resource"),
        (body(b"nope", 403, "text/plain"), "nope"),
        (body(b"{}", 403), "unknown"),
        (body(b"nope", 400, "text/plain"), "the server rejected our request for an unknown reason"),
        (body(b"nope", 401, "text/plain"), "the server has asked for the client to provide credentials"),
        (body(b"{}", 406), "the server was unable to respond with a content type that the client supports"),
        (
            body(b"nope", 418, "text/plain"),
            "the server responded with the status code 418 but did not return more information",
        ),
        (body(b"", 302), "the server responded with the status code 302 but did not return more information"),
        (body(b"a" * 5000, 500, "text/plain"), f'an error on the server ("{"a" * 2048}") has prevented the request'),
        (body(b"\xff\n", 500, "text/plain"), 'an error on the server ("\ufffd") has prevented the request'),
    ],
)
def test_an_error_status_is_reported_by_its_message_or_code(certificates, script, expected):
    assert message_of(certificates, script).startswith(f"{WHAT} failed: {expected}")


@pytest.mark.parametrize("media", ["text/plain", "application/yaml", None, "application/json; charset=utf-8"])
def test_the_content_type_of_the_response_is_ignored(certificates, media):
    async def test(webhook, convert):
        assert await convert([stored()], V1) == [converted(stored(), V1)]

    converting(certificates, test, script=lambda call: Reply(true_answer(call.review), 201, content_type=media))


# -- no answer --------------------------------------------------------------------------------------------------------


def raising(error):
    def script(call):
        raise error

    return script


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (raising(Hangup()), 'Post "URL?timeout=20s": EOF'),
        (raising(Reset()), 'Post "URL?timeout=20s": read tcp 127.0.0.1:PORT: read: connection reset by peer'),
    ],
    ids=["hangs-up", "resets"],
)
def test_a_broken_connection_is_reported_with_the_url(certificates, script, expected):
    assert message_of(certificates, script) == f"{WHAT} failed: {expected}"


def test_a_webhook_call_times_out(certificates):
    async def script(call):
        await Gate()(call)

    assert message_of(certificates, script, seconds=0.05) == (
        f'{WHAT} failed: Post "URL?timeout=0.05s": '
        "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
    )


def test_a_response_over_the_size_limit_is_refused(certificates, monkeypatch):
    monkeypatch.setattr(conversion, "ANSWER_BYTES", 10_000)
    script = lying_about(lambda obj: obj.update(spec={"host": "h" * 20_000}))
    assert message_of(certificates, script) == f"{WHAT} failed: the answer is larger than 10000 bytes"


@pytest.mark.parametrize(
    "config",
    [
        {"url": "https://127.0.0.1:1/", "caBundle": "a"},
        {"url": "https://127.0.0.1:1/", "caBundle": "anVuaw=="},
    ],
    ids=["not-base64", "not-pem"],
)
def test_an_invalid_ca_bundle_is_reported(certificates, config):
    assert message_of(certificates, honest, **config).startswith(f"{WHAT} failed: unable to load root certificates: ")


@pytest.mark.parametrize(
    "document",
    [b"[" * 100_000, b'{"response":' * 5000, b'{"a":1e999}', b'{"a":"\xff"}', b'{"kind":"\\ud800"}', b"9" * 100_000],
    ids=["deep", "deeper", "infinite", "not-text", "half-a-character", "long-number"],
)
def test_hostile_responses_are_refused(certificates, document):
    assert message_of(certificates, body(document)).startswith(f"{WHAT} failed: {NOT_READ}")
