"""JSON patches between any two documents, and changes carried over to what was not seen."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.patch.jsonpatch import apply, decode_operations
from kapi.controller.webhook.diff import carried_over, diff, same

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("a/~0", max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text("ab/~01", max_size=3), inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text("ab/~01", min_size=1, max_size=3), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_the_patch_takes_the_first_document_to_the_second(before, after):
    patch = diff(before, after)
    assert {operation["op"] for operation in patch} <= {"add", "remove", "replace"}
    assert same(apply(copy.deepcopy(before), decode_operations(patch)), after)


@given(OBJECTS)
def test_there_is_no_patch_between_equal_documents(value):
    assert diff(value, copy.deepcopy(value)) == []


@pytest.mark.parametrize(
    "before, after, patch",
    [
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": 0}, {"a": False}, [{"op": "replace", "path": "/a", "value": False}]),
        ({"a/b~": 1}, {}, [{"op": "remove", "path": "/a~1b~0"}]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [{"op": "remove", "path": "/a/1"}]),
        ({"a": [1, 3]}, {"a": [1, 2, 3]}, [{"op": "add", "path": "/a/1", "value": 2}]),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1, "c": 3}]}, [{"op": "replace", "path": "/a/0/c", "value": 3}]),
    ],
)
def test_patches_say_no_more_than_what_changed(before, after, patch):
    assert diff(before, after) == patch


@given(OBJECTS, OBJECTS)
def test_a_change_of_the_whole_document_is_carried_over_whole(before, after):
    assert same(carried_over(before, before, after), after)


@given(OBJECTS, OBJECTS)
def test_no_change_leaves_the_original_unchanged(original, seen):
    assert carried_over(original, seen, copy.deepcopy(seen)) is original


def test_what_was_not_seen_stays():
    original = {"spec": {"size": 1, "unseen": True}, "items": [{"name": "a", "x": 1, "unseen": 2}, {"name": "b"}]}
    before = {"spec": {"size": 1}, "items": [{"name": "a", "x": 1}, {"name": "b"}]}
    after = {"spec": {"size": 2}, "items": [{"name": "new"}, {"name": "a", "x": 5}]}
    assert carried_over(original, before, after) == {
        "spec": {"size": 2, "unseen": True},
        "items": [{"name": "new"}, {"name": "a", "x": 5, "unseen": 2}],
    }


def test_items_without_names_are_known_again_by_being_the_same():
    original = {"rules": [{"port": 1, "unseen": 1}, {"port": 2, "unseen": 2}]}
    before = {"rules": [{"port": 1}, {"port": 2}]}
    assert carried_over(original, before, {"rules": [{"port": 2}]}) == {"rules": [{"port": 2, "unseen": 2}]}
