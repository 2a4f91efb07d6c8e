import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.patch.mergepatch import merge, without_nulls

scalars = st.one_of(st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x", "y"]))
keys = st.sampled_from("abc")
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)
patch_values = st.recursive(
    st.one_of(st.none(), scalars),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)
docs = st.dictionaries(keys, values, max_size=3)
patches = st.dictionaries(keys, patch_values, max_size=3)


@pytest.mark.parametrize(
    ("doc", "patch", "merged"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({}, {"a": {"b": None, "c": {"d": None}}}, {"a": {"c": {}}}),
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
    ],
)
def test_merge_patch_examples(doc, patch, merged):
    assert merge(doc, patch) == merged


@given(docs, patches)
def test_merging_twice_is_merging_once(doc, patch):
    once = merge(doc, patch)
    assert merge(once, patch) == once


@given(docs)
def test_the_empty_patch_changes_nothing_and_an_object_patches_emptiness_into_itself(doc):
    assert merge(doc, {}) == doc
    assert merge({}, doc) == doc


@given(docs, patches)
def test_arguments_are_left_alone(doc, patch):
    before = copy.deepcopy((doc, patch))
    merge(doc, patch)
    assert (doc, patch) == before


@given(docs, patches)
def test_keys_the_patch_does_not_name_are_shared_not_copied(doc, patch):
    merged = merge(doc, patch)
    for key in doc.keys() - patch.keys():
        assert merged[key] is doc[key]


@given(patch_values)
def test_nulls_go_from_objects_and_stay_in_lists(value):
    def null_keys(item):
        if isinstance(item, dict):
            return sum(each is None for each in item.values()) + sum(map(null_keys, item.values()))
        return sum(map(null_keys, item)) if isinstance(item, list) else 0

    assert null_keys(without_nulls(value)) == 0
