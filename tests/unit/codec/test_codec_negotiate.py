"""Content negotiation: kube-apiserver's order of preference and its messages."""

from __future__ import annotations

import pytest

from kapi.api.errors import NotAcceptable, UnsupportedMediaType
from kapi.codec import negotiate
from kapi.codec.negotiate import (
    COLLECTION,
    JSON,
    OBJECTS,
    PLAIN,
    PROTOBUF,
    YAML,
    Accepted,
    Offer,
    accept,
    accept_stream,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("application/yaml", YAML),
        ("application/yaml, application/json", YAML),
        ("application/yaml;q=0.5, application/json", JSON),
        ("application/json;q=0.1,application/yaml;q=0.2", YAML),
        ("*/*, application/yaml", YAML),
        ("application/*, application/yaml", YAML),
        ("text/html, application/*;q=0.9, */*;q=0.8", JSON),
        ("application/vnd.kubernetes.protobuf,application/json", JSON),
        ("application/json;charset=utf-8", JSON),
        ("application/json; charset=utf-8 ; q=1", JSON),
        ("application/json;q=bogus,application/yaml;q=0.1", YAML),
        ("application/json;sv=v1", JSON),
        ("garbage, application/json", JSON),
        ("a/b/c, application/json", JSON),
    ],
)
def test_the_best_format_is_chosen(header, media_type):
    assert accept(header) == Accepted(media_type)


def test_kubectl_gets_a_table_where_there_is_one():
    assert accept(KUBECTL) == Accepted(JSON, "Table", "meta.k8s.io", "v1")


def test_an_unsupported_form_falls_through_to_the_next_clause():
    assert accept(KUBECTL, PLAIN) == Accepted(JSON)
    assert accept("application/json;as=Table;v=v2;g=meta.k8s.io,application/yaml") == Accepted(YAML)
    assert accept("application/json;as=Table,application/yaml") == Accepted(YAML)
    assert accept("application/json;sv=v2,application/yaml") == Accepted(YAML)


def test_forms_work_in_yaml_and_any_endpoint_may_have_its_own():
    header = "application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    assert accept(header) == Accepted(YAML, "PartialObjectMetadataList", "meta.k8s.io", "v1")
    discovery = Offer((JSON,), frozenset({("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")}))
    header = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    assert accept(header, discovery).as_kind == "APIGroupDiscoveryList"
    assert accept(header, PLAIN) == Accepted(JSON)


@pytest.mark.parametrize("header", ["text/html", "application/*", "application/cbor", PROTOBUF, "*", "json"])
def test_no_common_format_is_not_acceptable(header):
    with pytest.raises(NotAcceptable) as caught:
        accept(header)
    assert caught.value.message == (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml"
    )
    assert caught.value.details == {}


def test_a_collection_lists_its_streams_too():
    with pytest.raises(NotAcceptable, match=r"application/yaml, application/json;stream=watch$"):
        accept("text/html", COLLECTION)


def test_a_known_format_in_an_unknown_form_is_refused_by_the_handler():
    with pytest.raises(NotAcceptable) as caught:
        accept("application/json;as=Table;v=v2;g=meta.k8s.io")
    assert caught.value.message == "only the following media types are accepted: application/json, application/yaml"
    assert caught.value.details is None


def test_a_watch_is_json_only():
    assert accept_stream(None).media_type == JSON
    assert accept_stream("application/json;stream=watch").media_type == JSON
    assert accept_stream("application/vnd.kubernetes.protobuf;stream=watch,application/json").media_type == JSON
    assert accept_stream(KUBECTL).as_kind == "Table"
    for header in (YAML, "application/yaml;stream=watch", "application/json;stream=other"):
        with pytest.raises(NotAcceptable) as caught:
            accept_stream(header)
        assert caught.value.message == "only the following media types are accepted: application/json;stream=watch"
    with pytest.raises(NotAcceptable, match="Available representations"):
        accept_stream("text/html")


def test_the_wrong_form_for_a_list_or_an_object_is_named():
    one = accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
    many = accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
    assert negotiate.wrong_form(one, "*core.ConfigMapList").message == (
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    )
    assert negotiate.wrong_form(many, "*core.ConfigMap").message == (
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    )


def test_a_header_seen_before_is_not_parsed_again():
    negotiate._accept.cache_clear()
    assert accept(KUBECTL) is accept(KUBECTL)
    assert negotiate._accept.cache_info().hits == 1
    for number in range(2000):
        accept(f"application/json;x={number}")
    assert negotiate._accept.cache_info().currsize <= 512


def test_a_clause_asks_for_indentation():
    assert accept("application/json;pretty=1").pretty
    assert not accept("application/json;pretty=true").pretty


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ("", "kubectl/v1.36", False),
        ("", "curl/8.5.0", True),
        ("", "Wget/1.21", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("pretty=true", "kubectl", True),
        ("pretty=1&limit=5", "kubectl", True),
        ("pretty=0", "curl/8.5.0", False),
        ("pretty=yes", "curl/8.5.0", False),
        ("pretty=", "curl/8.5.0", True),
        ("notpretty=1", "kubectl", False),
        ("limit=5", "curl/8", True),
    ],
)
def test_browsers_and_curl_get_indented_json(query, agent, pretty):
    assert negotiate.is_pretty(query, agent) is pretty


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, JSON),
        ("", JSON),
        ("application/json", JSON),
        ("application/json; charset=utf-8", JSON),
        ('application/json; charset="utf-8";', JSON),
        ("Application/JSON", JSON),
        ("application/yaml", YAML),
        (PROTOBUF, PROTOBUF),
    ],
)
def test_a_body_is_decoded_by_its_content_type(header, media_type):
    assert negotiate.body_type(header) == media_type


@pytest.mark.parametrize(
    "header", ["text/plain", "application/cbor", "json", "application/json; charset", "application/json,x"]
)
def test_unsupported_content_types_are_refused(header):
    with pytest.raises(UnsupportedMediaType) as caught:
        negotiate.body_type(header)
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_patches_are_known_by_their_content_type():
    assert negotiate.patch_type("application/merge-patch+json; charset=utf-8") == negotiate.MERGE_PATCH
    assert negotiate.patch_type(negotiate.STRATEGIC_MERGE_PATCH) == negotiate.STRATEGIC_MERGE_PATCH
    assert negotiate.patch_type(negotiate.APPLY_PATCH, custom=True) == negotiate.APPLY_PATCH
    for header in (None, "", "application/json"):
        with pytest.raises(UnsupportedMediaType) as caught:
            negotiate.patch_type(header)
        assert (caught.value.message, caught.value.details) == ("415: Unsupported Media Type", {})
    with pytest.raises(UnsupportedMediaType) as caught:
        negotiate.patch_type(negotiate.STRATEGIC_MERGE_PATCH, custom=True)
    assert caught.value.message.endswith(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_long_accept_headers_are_truncated():
    header = "text/x," * 1000 + "application/json"
    with pytest.raises(NotAcceptable, match="only the following"):
        accept(header, OBJECTS)
