"""A Status on the wire and the error on either side of it are the same thing."""

import pytest

from kapi.api import errors
from kapi.api.errors import ApiError
from kapi.api.meta import GroupResource
from kapi.client.errors import error_from_status, error_from_text

PODS = GroupResource("", "pods")
RAISED = [
    errors.BadRequest("bad"),
    errors.Unauthorized(),
    errors.Forbidden.of(PODS, "a", "no"),
    errors.NotFound.of(PODS, "a"),
    errors.MethodNotAllowed(),
    errors.NotAcceptable("no"),
    errors.RequestTimeout("slow"),
    errors.Conflict.modified(PODS, "a"),
    errors.AlreadyExists.of(PODS, "a"),
    errors.Expired("too old"),
    errors.RequestEntityTooLarge("limit is 1"),
    errors.UnsupportedMediaType.accepted(["application/json"]),
    errors.Invalid.generic(),
    errors.TooManyRequests("later", details={"retryAfterSeconds": 3}),
    errors.InternalError.of("oops"),
    errors.ServerTimeout("slow"),
    errors.NotImplemented501("no"),
    errors.ServiceUnavailable("no"),
    errors.Timeout.too_large_revision(9, 1),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_error_survives_the_wire(error):
    read = error_from_status(error.status(), error.code)
    assert type(read) is type(error)
    assert read.status() == error.status()
    assert read.retry_after == error.retry_after
    assert str(read) == error.message


def test_every_reason_has_its_class():
    apart = {errors.PageNotFound, errors.InternalServerError, errors.PlainError}
    ours = {cls for cls in ApiError.__subclasses__() if cls.__module__ == errors.__name__}
    assert {type(error) for error in RAISED} == ours - apart


def test_an_unknown_reason_is_classified_by_its_code():
    read = error_from_status({"reason": "StoreReadError", "message": "x", "code": 500})
    assert isinstance(read, errors.InternalError)
    assert (read.reason, read.code, read.message) == ("StoreReadError", 500, "x")
    odd = error_from_status({"message": "tea", "code": 418})
    assert isinstance(odd, errors.PlainError)
    assert (odd.reason, odd.code) == ("", 418)


def test_gone_is_expired():
    read = error_from_status({"reason": "Gone", "code": 410})
    assert isinstance(read, errors.Expired)
    assert read.reason == "Gone"


def test_the_reason_wins_over_the_code_and_both_are_kept():
    read = error_from_status({"reason": "AlreadyExists", "message": "x", "code": 400}, 409)
    assert isinstance(read, errors.AlreadyExists)
    assert read.status()["code"] == 400
    assert errors.AlreadyExists.code == 409


def test_code_of_the_answer_helps_a_status_without_one():
    assert isinstance(error_from_status({"message": "x"}, 404), errors.NotFound)


@pytest.mark.parametrize(
    ("code", "cls", "message"),
    [
        (404, errors.NotFound, "the server could not find the requested resource"),
        (409, errors.Conflict, "the server reported a conflict"),
        (502, errors.PlainError, "an error on the server ('bad gateway') has prevented the request from succeeding"),
        (418, errors.PlainError, "the server responded with the status code 418 but did not return more information"),
    ],
)
def test_answer_without_a_status_is_an_error_all_the_same(code, cls, message):
    error = error_from_text(code, "bad gateway\n")
    assert type(error) is cls
    assert (error.code, error.message) == (code, message)
