"""Sets of fields: the algebra against plain sets of paths, the wire form, the text of conflicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.ownership import fieldset as fs

steps = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"s"', "v:1"])
paths = st.lists(steps, min_size=1, max_size=4).map(tuple)
plain_sets = st.frozensets(paths, max_size=8)


def as_set(plain):
    return fs.ordered(fs.of(*plain))


def as_plain(fields):
    return frozenset(fs.paths(fields))


def no_idle_places(node, *, root=True):
    return all(step == fs.SELF or no_idle_places(below, root=False) for step, below in node.items()) and (
        root or node != {fs.SELF: {}}
    )


@given(plain_sets)
def test_a_set_has_the_paths_it_was_made_of(plain):
    assert as_plain(as_set(plain)) == plain
    assert all(fs.contains(as_set(plain), path) for path in plain)


@given(plain_sets, plain_sets)
def test_union_intersection_and_difference_are_those_of_paths(one, other):
    for operation, expected in (
        (fs.union, one | other),
        (fs.intersection, one & other),
        (fs.difference, one - other),
    ):
        result = operation(as_set(one), as_set(other))
        assert as_plain(result) == expected
        assert result == as_set(expected)
        assert no_idle_places(result)
        assert list(result) == list(as_set(expected)), "operations keep the order of the wire"


@given(plain_sets, plain_sets)
def test_recursive_difference_takes_what_is_below(one, other):
    expected = {path for path in one if not any(path[: length + 1] in other for length in range(len(path)))}
    assert fs.recursive_difference(as_set(one), as_set(other)) == as_set(expected)


@given(plain_sets)
def test_leaves_have_nothing_of_the_set_below_them(plain):
    expected = {path for path in plain if not any(other != path and other[: len(path)] == path for other in plain)}
    assert as_plain(fs.leaves(as_set(plain))) == expected


@given(plain_sets, plain_sets)
def test_operations_leave_their_arguments_alone(one, other):
    first, second = as_set(one), as_set(other)
    for operation in (fs.union, fs.intersection, fs.difference, fs.recursive_difference):
        operation(first, second)
    assert first == as_set(one)
    assert second == as_set(other)
    assert fs.LEAF == {}


@given(plain_sets)
def test_sets_round_trip(plain):
    assert fs.parse(as_set(plain)) == as_set(plain)


def test_reading_brings_steps_into_one_form():
    document = {"f:a": {'k:{"b": 1.0, "a": "x"}': {}, "v:2.5": {".": {}}, 'v:"<"': None}, "x:later": {"f:b": {}}}
    assert fs.parse(document) == {"f:a": {'k:{"a":"x","b":1}': {}, "v:2.5": {}, 'v:"\\u003c"': {}}}


@pytest.mark.parametrize(
    "document",
    [[], "f:a", {"f:a": 1}, {"a": {}}, {"ab": {}}, {"k:[]": {}}, {"k:{": {}}, {"v:": {}}, {"i:x": {}}],
)
def test_malformed_documents_are_refused(document):
    with pytest.raises(ValueError):
        fs.parse(document)


def test_steps_are_written_fields_first_and_numbers_by_size():
    document = {
        "i:1": {},
        "v:10": {},
        "v:9": {},
        'v:"a"': {},
        'k:{"p":443}': {},
        'k:{"p":80}': {},
        "f:b": {},
        "f:a": {},
    }
    assert list(fs.parse(document)) == [
        "f:a",
        "f:b",
        'k:{"p":80}',
        'k:{"p":443}',
        "v:9",
        "v:10",
        'v:"a"',
        "i:1",
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b", '"a b"'),
        ('"\\', '"\\"\\\\"'),
        ("\x01\n", '"\\u0001\\n"'),
        (True, "true"),
        (None, "null"),
        (80, "80"),
        (80.0, "80"),
        (1.5, "1.5"),
        (1e-05, "0.00001"),
        (1e21, "1e+21"),
        (1e-07, "1e-7"),
        ("é", '"é"'),
    ],
)
def test_values_are_encoded_as_structured_merge_diff_does(value, written):
    assert fs.scalar_json(value) == written


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (fs.fields("metadata", "labels", "app"), ".metadata.labels.app"),
        (("f:spec", "f:containers", 'k:{"name":"c"}', "f:image"), '.spec.containers[name="c"].image'),
        (
            ("f:spec", "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name"),
            '.spec.ports[containerPort=80,protocol="TCP"].name',
        ),
        (("f:metadata", "f:finalizers", 'v:"x"'), '.metadata.finalizers[="x"]'),
        (("f:a", "i:3"), ".a[3]"),
        (('k:{"n":1234567}', "v:true", "v:null"), "[n=1.234567e+06][=true][=null]"),
    ],
)
def test_conflicts_show_paths(path, text):
    assert fs.text(path) == text


def test_paths_come_level_by_level():
    fields = fs.of(("f:b",), ("f:a", "f:x"), ("f:a",), ("f:a", "f:y", "f:z"))
    assert list(fs.paths(fields)) == [("f:a",), ("f:b",), ("f:a", "f:x"), ("f:a", "f:y", "f:z")]


def test_a_pattern_keeps_matching_paths_and_those_below():
    owned = fs.parse(
        {
            "f:spec": {
                ".": {},
                "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}},
                "f:volumes": {},
            },
            "f:status": {},
        }
    )
    pattern = fs.of(("f:spec", "f:containers", fs.ANY, "f:resources"))
    assert fs.matching(owned, pattern) == {
        "f:spec": {".": {}, "f:containers": {'k:{"name":"c"}': {".": {}, "f:resources": {"f:limits": {}}}}}
    }
