"""Reviews and answers of admission webhooks: what is put together, or read at once, is as if it were not."""

import base64
import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.meta import GroupVersionKind
from kapi.api.user import User
from kapi.base.clock import ManualClock
from kapi.codec import json
from kapi.registry.catalog import Catalog
from kapi.registry.deletion import DeleteOptions
from kapi.registry.request import CONNECT, CREATE, DELETE, UPDATE, Write, WriteOptions
from kapi.server.admission.request import admission_request, encode_request
from kapi.server.admission.webhooks.errors import InvalidResponse
from kapi.server.admission.webhooks.review import encode_review, read_plain_response, read_response
from kapi.server.webhooks.answer import Refused
from kapi.storage.memory import MemoryStorage

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
UID = "0b1c"
USER = User('a"b', ("one", "two"), "7", {"k": ["v"]})
OBJ = {"metadata": {"name": "ä"}}


@pytest.fixture(scope="module")
def catalog():
    return Catalog(MemoryStorage(), ManualClock(NOW))


WRITES = {
    "creation": {"operation": CREATE, "namespace": "a"},
    "creation with options": {
        "operation": CREATE,
        "namespace": "a",
        "options": WriteOptions(dry_run=True, field_manager="me", given_validation="Strict"),
    },
    "update": {"operation": UPDATE, "namespace": "a", "name": "b", "subresource": "status"},
    "deletion": {"operation": DELETE, "namespace": "a", "name": "b", "options": DeleteOptions(grace_period=5)},
    "collection": {"operation": DELETE, "namespace": "a", "verb": "deletecollection", "options": DeleteOptions()},
    "connection": {
        "operation": CONNECT,
        "namespace": "a",
        "name": "b",
        "subresource": "exec",
        "kind": GroupVersionKind("", "v1", "PodExecOptions"),
    },
}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("fields", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("resource", ["pods", "namespaces"])
def test_a_review_has_the_fields_of_the_request_in_their_order(catalog, resource, fields, version):
    served = catalog.groups[""]["v1"][resource]
    write = Write(resource=served, lookup=catalog, now=NOW, user=USER, **fields)
    for _ in range(2):  # The second time parts of it are remembered.
        request = encode_request(write, OBJ, served, served.gvk)
        review = encode_review(version, UID, request, json.encode(OBJ), None)
        expected = {
            "kind": "AdmissionReview",
            "apiVersion": f"admission.k8s.io/{version}",
            "request": {
                "uid": UID,
                **admission_request(write, OBJ, served, served.gvk),
                "object": OBJ,
                "oldObject": None,
            },
        }
        assert review == json.encode(expected)


def plain(response, *, version="v1", mutating=True, **review):
    body = json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response, **review})
    return read_plain_response(body, version, UID, mutating=mutating)


PATCH = {"patch": base64.b64encode(b"[]").decode(), "patchType": "JSONPatch"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        PATCH,
        {"status": {"metadata": {}, "code": 200}},  # as controller-runtime answers
        {"warnings": ["one", ""], "auditAnnotations": {"a": "b"}},
    ],
)
def test_an_ordinary_answer_is_read_at_once(fields):
    found = plain({"uid": UID, "allowed": True, **fields})
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "response": {"uid": UID, "allowed": True, **fields},
    }
    assert found == read_response(review, "v1", UID, mutating=True)._replace(status=None)


@pytest.mark.parametrize(
    "response",
    [
        {"uid": UID, "allowed": False},
        {"uid": "other", "allowed": True},
        {"uid": UID, "allowed": True, "patch": PATCH["patch"]},
        {"uid": UID, "allowed": True, "patchType": "JSONPatch"},
        {"uid": UID, "allowed": True, "patchType": ""},
        {"uid": UID, "allowed": True, "patch": PATCH["patch"], "patchType": "Other"},
        {"uid": UID, "allowed": True, "patch": "?", "patchType": "JSONPatch"},
        {"uid": UID, "allowed": True, "warnings": [None]},
        {"uid": UID, "allowed": True, "status": {"code": 2**31}},
        {"uid": UID, "allowed": True, "other": 1},
        {"uid": UID, "allowed": 1},
        None,
    ],
)
def test_any_other_answer_is_not_read_at_once(response):
    assert plain(response) is None


def test_an_answer_to_a_validating_webhook_has_no_patch():
    assert plain({"uid": UID, "allowed": True, **PATCH}, mutating=False) is None
    assert plain({"uid": UID, "allowed": True}, mutating=False) is not None


def test_an_answer_of_another_version_or_kind_is_not_read_at_once():
    response = {"uid": UID, "allowed": True}
    assert plain(response, version="v1beta1") is None
    assert plain(response, apiVersion="admission.k8s.io/v1beta1") is None
    assert plain(response, kind="Pod") is None


@given(st.text(alphabet="AQab+/=\r\n-_ ", max_size=12))
def test_a_patch_that_is_read_at_once_is_what_it_is_otherwise(text):
    response = {"uid": UID, "allowed": True, "patch": text, "patchType": "JSONPatch"}
    found = plain(response)
    if found is not None:
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        try:
            assert found == read_response(review, "v1", UID, mutating=True)
        except (Refused, InvalidResponse) as error:
            raise AssertionError(text) from error
