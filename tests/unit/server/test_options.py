"""Query parameters by themselves: continue tokens and what selectors may name. The rest is tested through the API."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_client import Api
from kapi.api.errors import ApiError, BadRequest, Invalid
from kapi.registry.request import WriteOptions
from kapi.server.handlers.options import Token, list_options, parse_token, revision_of, write_options
from virtual_time import run


@pytest.fixture(scope="module")
def catalog():
    async def main():
        return Api().catalog

    return run(main())


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", fullmatch=True)


@given(st.integers(1, 2**60), NAMES, st.booleans(), NAMES)
def test_continue_tokens_round_trip(revision, name, namespaced, namespace):
    start = f"{namespace}/{name}\0" if namespaced else f"{name}\0"
    token = Token(revision, start)
    assert parse_token(token.encode()) == token
    assert "=" not in token.encode()


@given(st.binary(max_size=60))
def test_any_invalid_continue_token_is_a_bad_request(raw):
    for text in (base64.urlsafe_b64encode(raw).decode().rstrip("="), raw.decode("latin-1")):
        with contextlib.suppress(BadRequest):
            assert parse_token(text).revision >= -1


def test_watch_without_revision_means_initial_events(catalog):
    resource = catalog.find("", "v1", "configmaps")
    for text in ({}, {"resourceVersion": ""}, {"resourceVersion": "0"}):
        options = list_options(text, resource, watch=True)
        assert (options.initial_events, options.match) == (True, "NotOlderThan")
    options = list_options({"resourceVersion": "5"}, resource, watch=True)
    assert (options.initial_events, options.revision, options.match) == (None, 5, "")
    options = list_options({}, resource, watch=False)
    assert (options.initial_events, options.revision, options.selective) == (None, None, False)


def test_several_invalid_options_are_reported_together(catalog):
    resource = catalog.find("", "v1", "configmaps")
    query = {"resourceVersionMatch": "Foo", "continue": "x", "sendInitialEvents": "true"}
    with pytest.raises(Invalid) as caught:
        list_options(query, resource, watch=False)
    assert len(caught.value.details["causes"]) == 4
    assert "[" in caught.value.message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("limit", "9" * 30),
        ("timeoutSeconds", "1e3"),
        ("limit", " 1"),
        ("limit", "+-1"),
        ("limit", "-"),
        ("limit", "0x10"),
    ],
)
def test_odd_numbers_are_bad_requests(catalog, key, text):
    with pytest.raises(ApiError) as caught:
        list_options({key: text}, catalog.find("", "v1", "configmaps"), watch=False)
    assert caught.value.code == 400


@pytest.mark.parametrize(("text", "expected"), [("", None), ("0", 0), ("42", 42), ("007", 7)])
def test_revision_of_a_get(text, expected):
    assert revision_of(text) == expected


@pytest.mark.parametrize("text", ["-1", "1.0", "²", "1" * 40, "0x1"])
def test_revisions_that_are_no_numbers(text):
    with pytest.raises(ApiError) as caught:
        revision_of(text)
    assert (caught.value.code, caught.value.reason) == (500, "")


def test_write_options_default_to_warning():
    assert write_options({}, "CreateOptions") == WriteOptions()
    asked = {"dryRun": "All", "fieldManager": "me", "fieldValidation": "Strict"}
    strict = {"field_validation": "Strict", "given_validation": "Strict"}
    expected = WriteOptions(dry_run=True, field_manager="me", kind="UpdateOptions", **strict)
    assert write_options(asked, "UpdateOptions") == expected


def test_invalid_write_options_are_reported_together():
    with pytest.raises(Invalid) as caught:
        write_options({"dryRun": "", "fieldManager": "a\nb", "fieldValidation": "x", "force": "1"}, "PatchOptions")
    fields = [cause["field"] for cause in caught.value.details["causes"]]
    assert sorted(fields) == ["dryRun", "fieldManager", "fieldValidation", "force"]
