"""How objects become bytes: the order that splicing relies on, and that nothing of an object is lost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.cache.watchcache import Selection
from kapi.registry.encoding import BodyReader, decode, draft, encode, head_of, ordered

HEAD = head_of("v1", "Thing")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
METADATA = st.fixed_dictionaries(
    {"name": TEXT},
    optional={
        "labels": st.dictionaries(TEXT, TEXT, max_size=3),
        "annotations": st.dictionaries(TEXT, st.sampled_from(['"resourceVersion":"5"', "x"]), max_size=2),
        "namespace": TEXT,
        "uid": TEXT,
        "generateName": st.just('"resourceVersion":"5"'),
        "resourceVersion": st.just("5"),
        "strange": VALUES,
    },
)
OBJECTS = st.builds(
    lambda metadata, fields: {**fields, "metadata": metadata, "apiVersion": "v1", "kind": "Thing"},
    METADATA,
    st.dictionaries(TEXT.filter(lambda key: key not in {"metadata", "kind", "apiVersion"}), VALUES, max_size=4),
)


@given(OBJECTS, st.integers(1, 10**9))
def test_stored_value_is_the_object_with_its_revision(obj, revision):
    expected = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
    value = draft(obj).render(revision)
    assert value.startswith(HEAD)
    assert json.loads(value) == expected
    reader = BodyReader(HEAD, None)
    assert decode(HEAD, reader.split(value)[1]) == expected
    assert reader.select(value).labels == obj["metadata"].get("labels")


@given(OBJECTS)
def test_order_is_kind_version_metadata_and_then_the_rest(obj):
    result = ordered(obj)
    assert list(result)[:3] == ["kind", "apiVersion", "metadata"]
    assert result == obj
    assert json.loads(encode(obj)) == obj


@given(OBJECTS)
def test_values_written_by_others_are_put_in_order(obj):
    shuffled = json.dumps({key: obj[key] for key in sorted(obj, reverse=True)}).encode()
    assert decode(HEAD, BodyReader(HEAD, None).split(shuffled)[1]) == obj


def test_revision_comes_before_anything_a_user_can_nest():
    obj = {
        "kind": "Thing",
        "apiVersion": "v1",
        "metadata": {"labels": {"resourceVersion": "9"}, "annotations": {"resourceVersion": "9"}, "name": "a"},
        "spec": {"resourceVersion": "9"},
    }
    value = draft(obj).render(5)
    assert value.index(b'"resourceVersion":"5"') < value.index(b'"resourceVersion":"9"')
    assert value.count(b'"resourceVersion":"5"') == 1


def test_selectable_fields_are_read_from_values_of_others():
    reader = BodyReader(HEAD, lambda obj: {"spec.x": obj["spec"]["x"]})
    obj = {"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"x": "y"}}
    assert reader.select(encode(obj)) == Selection({"l": "1"}, {"spec.x": "y"})


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Pod"), ("apps/v1", "Deployment")])
def test_head_opens_every_object_of_a_kind(api_version, kind):
    obj = {"kind": kind, "apiVersion": api_version, "metadata": {"name": "a"}}
    assert encode(obj).startswith(head_of(api_version, kind))


def test_every_decoded_object_is_its_own():
    body = encode({"kind": "Thing", "apiVersion": "v1", "metadata": {"name": "a"}})[len(HEAD) :]
    first, second = decode(HEAD, body), decode(HEAD, body)
    first["metadata"]["name"] = "changed"
    assert second["metadata"]["name"] == "a"
