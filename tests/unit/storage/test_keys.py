from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.storage import keys
from kapi.storage.keys import ROOT, InvalidKey, Location, object_key, parse_key, prefix_end, resource_prefix

HOSTILE = ["", ".", "..", "a/b", "/", "../x", "a\0b", "%2e%2e", "%2f", "%00", "a%", "\n", "\x7f", "\ud800"]

segments = st.one_of(
    st.text(min_size=1, max_size=12),
    st.sampled_from(["pods", "pods.apps", "foo", "foos", "foo.bar", "...", "a:b", "日本", "registry", *HOSTILE]),
)


def built(*parts: str) -> str | None:
    try:
        return object_key(*parts)
    except InvalidKey:
        return None


def test_keys_have_the_documented_form():
    assert object_key("", "configmaps", "default", "a") == "/registry/core/configmaps/default/a"
    assert object_key("apps", "deployments", "prod", "web") == "/registry/apps/deployments/prod/web"
    assert object_key("", "nodes", "", "n1") == "/registry/core/nodes/n1"
    assert (
        object_key("rbac.authorization.k8s.io", "clusterroles", "", "system:node")
        == "/registry/rbac.authorization.k8s.io/clusterroles/system:node"
    )
    assert resource_prefix("", "pods") == "/registry/core/pods/"
    assert resource_prefix("", "pods", "default") == "/registry/core/pods/default/"
    assert resource_prefix("", "pods", "n" * 64) == f"/registry/core/pods/{'n' * 64}/"


@pytest.mark.parametrize("segment", HOSTILE)
@pytest.mark.parametrize("position", range(4))
def test_hostile_segments_are_refused_in_every_position(segment, position):
    parts = ["apps", "deployments", "default", "web"]
    parts[position] = segment
    if segment == "" and position in {0, 2}:
        return  # The core group, and no namespace.
    with pytest.raises(InvalidKey):
        object_key(*parts)
    if position < 3:
        with pytest.raises(InvalidKey):
            resource_prefix(*parts[:3])


def test_the_core_group_has_one_spelling():
    with pytest.raises(InvalidKey, match="empty string"):
        object_key("core", "pods", "default", "a")


@given(segments, segments, st.one_of(st.just(""), segments), segments)
def test_building_and_parsing_are_inverse(group, resource, namespace, name):
    for chosen in (group, ""):
        key = built(chosen, resource, namespace, name)
        if key is not None:
            assert parse_key(key) == Location(chosen, resource, namespace, name)


@given(
    st.one_of(st.text(), st.text().map(ROOT.__add__), st.lists(segments, max_size=5).map("/".join).map(ROOT.__add__))
)
def test_whatever_parses_is_built_back_to_itself(text):
    try:
        location = parse_key(text)
    except InvalidKey:
        return
    assert object_key(*location) == text


def test_parsing_keeps_scopes_apart():
    assert parse_key("/registry/core/nodes/n1") == Location("", "nodes", "", "n1")
    assert parse_key("/registry/apps/deployments/prod/web") == Location("apps", "deployments", "prod", "web")


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/registry/",
        "/registry/core/pods",
        "/registry/core/pods/",
        "/registry/core/pods//a",
        "/registry/core/pods/ns/",
        "/registry//pods/ns/a",
        "/registry/core/pods/ns/a/b",
        "/registry/core/pods/../a",
        "registry/core/pods/ns/a",
        "/Registry/core/pods/ns/a",
    ],
)
def test_what_is_not_a_key_does_not_parse(key):
    with pytest.raises(InvalidKey):
        parse_key(key)


@given(segments, segments, st.one_of(st.just(""), segments), segments)
def test_no_key_lies_outside_its_prefix(group, resource, namespace, name):
    key = built(group, resource, namespace, name)
    if key is None:
        return
    prefix = resource_prefix(group, resource, namespace)
    assert key.startswith(prefix)
    assert prefix.endswith("/")
    assert "/" not in key[len(prefix) :]


@given(st.tuples(segments, segments), st.tuples(segments, segments), segments, segments)
def test_no_key_of_one_resource_lies_in_the_prefix_of_another(one, other, namespace, name):
    key = built(*one, namespace, name)
    if key is None or one == other or built(*other, "", "x") is None:
        return
    assert not key.startswith(resource_prefix(*other))


@given(segments, segments, segments, segments)
def test_no_key_of_one_namespace_lies_in_the_prefix_of_another(resource, one, other, name):
    key = built("", resource, one, name)
    if key is None or "" in {one, other} or one == other or built("", resource, other, name) is None:
        return
    assert not key.startswith(resource_prefix("", resource, other))


ordered = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(ordered, ordered)
def test_the_end_of_a_prefix_separates_its_keys_from_all_others(prefix, text):
    end = prefix_end(prefix)
    within = text >= prefix and (end is None or text < end)
    assert within == text.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [
        ("", None),
        ("\U0010ffff", None),
        ("a", "b"),
        ("a\U0010ffff\U0010ffff", "b"),
        ("a\ud7ff", "a\ue000"),
        ("a/", "a0"),
    ],
)
def test_the_end_of_a_prefix_at_the_edges(prefix, end):
    assert prefix_end(prefix) == end
    if end is not None:
        assert prefix.encode() < end.encode()


def test_names_that_no_namespace_has_are_not_remembered():
    before = keys._cached_namespace_prefix.cache_info().currsize
    for number in range(10):
        resource_prefix("", "pods", f"{number}" * 8000)
    assert keys._cached_namespace_prefix.cache_info().currsize == before
