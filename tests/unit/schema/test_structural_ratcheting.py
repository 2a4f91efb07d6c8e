import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.structural.correlation import (
    Comparison,
    correlate_items,
    same,
)
from kapi.schema.structural.model import MISSING, read
from kapi.schema.structural.validator import compile_validator

TEXT = {"type": "string"}
SHORT = {"type": "string", "maxLength": 2}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "required": ["k", "must"], "properties": {"k": TEXT, "v": SHORT, "must": TEXT}},
}


def unchanged(schema, new, old):
    return Comparison().unchanged(schema, new, old)


def obj(**properties):
    return {"type": "object", "properties": properties}


def update(spec, old, new):
    """The errors of an update of `spec`, as the server would find them."""
    schema = read(obj(spec=spec))
    whole = {"apiVersion": "g/v1", "kind": "Kind", "metadata": {"name": "x"}}
    errors = compile_validator(schema)({**whole, "spec": new}, {**whole, "spec": old}, "")
    return [str(error) for error in errors]


LONG_A = "spec.a: Too long: may not be more than 2 bytes"

PAIR = obj(a=SHORT, b=SHORT)
NESTED = obj(o={**obj(a=SHORT, b=SHORT, c=SHORT), "required": ["r"], "maxProperties": 2}, z=TEXT)
ALL_LONG = {"a": "long", "b": "long", "c": "long"}
LISTED = obj(l={"type": "array", "items": SHORT}, z=TEXT)
BY_KEY = obj(l=KEYED, z=TEXT)
TWO = [{"k": "a", "v": "long"}, {"k": "b", "v": "x"}]
MAPPED = obj(m={"type": "object", "additionalProperties": SHORT})
CHOSEN = obj(
    o={
        **obj(a=TEXT, b=TEXT),
        "anyOf": [{"properties": {"a": {"maxLength": 2}}}, {"properties": {"a": {"enum": ["zz"]}}}],
    }
)
KEPT = obj(o={**obj(a=SHORT), "x-kubernetes-preserve-unknown-fields": True, "minProperties": 3}, z=TEXT)


@pytest.mark.parametrize(
    ("spec", "old", "new", "expected"),
    [
        pytest.param(PAIR, {"a": "long", "b": "x"}, {"a": "long", "b": "y"}, [], id="an old error next to a change"),
        pytest.param(PAIR, {"a": "long"}, {"a": "other"}, [LONG_A], id="a changed fault"),
        pytest.param(PAIR, {"b": "x"}, {"a": "long", "b": "x"}, [LONG_A], id="a new fault"),
        pytest.param(NESTED, {"o": ALL_LONG}, {"o": ALL_LONG, "z": "1"}, [], id="an untouched object"),
        pytest.param(
            NESTED,
            {"o": ALL_LONG},
            {"o": {**ALL_LONG, "c": "x"}},
            ["spec.o: Too many: 3: must have at most 2 items", "spec.o.r: Required value"],
            id="the rules of a touched object, not those of its untouched fields",
        ),
        pytest.param(LISTED, {"l": ["long", "x"]}, {"l": ["long", "x"], "z": "1"}, [], id="an untouched list"),
        pytest.param(
            LISTED,
            {"l": ["long", "x"]},
            {"l": ["long", "y"]},
            ["spec.l[0]: Too long: may not be more than 2 bytes"],
            id="a list without keys is one thing",
        ),
        pytest.param(BY_KEY, {"l": TWO}, {"l": TWO[::-1]}, [], id="a list with keys in another order"),
        pytest.param(
            BY_KEY,
            {"l": TWO},
            {"l": [TWO[0], {"k": "b", "v": "y"}]},
            ["spec.l[1].must: Required value"],
            id="a touched item of a list with keys",
        ),
        pytest.param(
            BY_KEY,
            {"l": TWO},
            {"l": [*TWO, {"k": "c", "v": "long"}]},
            ["spec.l[2].v: Too long: may not be more than 2 bytes", "spec.l[2].must: Required value"],
            id="a new item of a list with keys",
        ),
        pytest.param(BY_KEY, {"l": TWO}, {"l": TWO[:1]}, [], id="an item taken from a list with keys"),
        pytest.param(MAPPED, {"m": {"a": "long"}}, {"m": {"a": "long", "b": "x"}}, [], id="an old key of a map"),
        pytest.param(
            MAPPED,
            {"m": {"a": "long"}},
            {"m": {"a": "long", "b": "long"}},
            ["spec.m.b: Too long: may not be more than 2 bytes"],
            id="a new key of a map",
        ),
        pytest.param(CHOSEN, {"o": {"a": "long"}}, {"o": {"a": "long"}}, [], id="a junctor of an untouched object"),
        pytest.param(
            CHOSEN,
            {"o": {"a": "long", "b": "x"}},
            {"o": {"a": "long", "b": "y"}},
            [
                '<nil>: Invalid value: "": "spec.o" must validate at least one schema (anyOf)',
                "spec.o.a: Too long: may not be more than 2 bytes",
            ],
            id="inside a junctor nothing is forgiven",
        ),
        pytest.param(
            KEPT,
            {"o": {"a": "long", "u": 1}},
            {"o": {"a": "long", "u": 1}, "z": "1"},
            ["spec.o: Invalid value: 2: spec.o in body should have at least 3 properties"],
            id="an object with fields that no schema describes never counts as unchanged",
        ),
        pytest.param(
            obj(n={"type": "integer", "maximum": 3}),
            {"n": True},
            {"n": 1.5},
            [
                'spec.n: Invalid value: "number": spec.n in body must be of type integer: "number"',
                '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.n',
            ],
            id="a fault of another kind",
        ),
        pytest.param(obj(a=TEXT), {"a": None}, {"a": None, "b": 1}, [], id="a null that was there"),
    ],
)
def test_only_what_has_changed_is_held_against_the_writer(spec, old, new, expected):
    assert update(spec, old, new) == expected


def test_version_and_kind_of_the_root_are_always_validated():
    schema = read(obj(apiVersion=SHORT, kind=SHORT, spec=obj(kind=SHORT)))
    thing = {"apiVersion": "long/v1", "kind": "Long", "spec": {"kind": "long"}}
    errors = compile_validator(schema)({**thing, "more": 1}, thing, "")
    assert [error.field for error in errors] == ["apiVersion", "kind"]


def test_a_valid_object_may_follow_an_invalid_one():
    assert update(PAIR, {"a": "long", "b": 7}, {"a": "x"}) == []


# --- correlation ------------------------------------------------------------------------------------------------------


def test_items_are_correlated_by_their_keys_alone():
    schema = read({**KEYED, "x-kubernetes-list-map-keys": ["k", "n"]})
    old = [
        {"k": "a", "n": 1, "v": "first"},
        {"k": "a", "n": 1, "v": "second"},
        {"k": "b", "n": True},
        {"k": "c"},
        "odd",
    ]
    new = [
        {"k": "b", "n": True},
        {"k": "b", "n": 1},
        {"n": 1, "k": "a"},
        {"k": "c"},
        {"k": "c", "n": None},
        {"k": [], "n": 1},
        7,
    ]
    assert correlate_items(schema, new, old) == [old[2], MISSING, old[0], *[MISSING] * 4]


def test_items_of_other_lists_are_not_correlated():
    for kind in ("set", "atomic"):
        schema = read({"type": "array", "x-kubernetes-list-type": kind, "items": TEXT})
        assert correlate_items(schema, ["a", "b"], ["a", "b"]) == [MISSING, MISSING]
    assert correlate_items(read(KEYED), TWO, None) == [MISSING, MISSING]
    assert correlate_items(read(KEYED), None, TWO) == []


def test_equal_means_equal_to_the_letter():
    assert same({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
    assert not same(1, 1.0)
    assert not same(1, True)
    assert not same([1], [1.0])
    assert not same({"a": 0}, {"a": False})
    assert not same(["a", "b"], ["b", "a"])
    assert not same(None, MISSING)


def test_what_the_schema_does_not_describe_is_never_unchanged():
    assert unchanged(read(obj(a=TEXT)), {"a": 1}, {"a": 1})
    assert not unchanged(read(obj(a=TEXT)), {"a": 1, "b": 1}, {"a": 1, "b": 1})
    assert not unchanged(read(obj(a=TEXT)), {"a": 1}, {"a": 1, "b": 1})
    assert unchanged(read({"type": "array", "items": obj()}), [{"b": 1}], [{"b": 1}])
    assert not unchanged(read(obj(a=TEXT)), {"a": 1}, MISSING)


ITEMS = st.dictionaries(st.text("abc", min_size=1, max_size=2), st.text("x", max_size=4), max_size=5).map(
    lambda pairs: [{"k": key, "v": value} for key, value in pairs.items()]
)


@given(ITEMS, st.randoms())
def test_the_order_of_a_list_with_keys_does_not_matter(items, random):
    other = copy.deepcopy(items)
    random.shuffle(other)
    assert unchanged(read(KEYED), items, other)
    assert compile_validator(read(obj(l=KEYED)))({"l": items}, {"l": other}, "") == []


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.text("x", max_size=4),
        "m": st.dictionaries(st.sampled_from("pq"), st.text("x", max_size=4)),
        "l": ITEMS,
    },
)
MIXED = read(
    obj(a=SHORT, m={"type": "object", "additionalProperties": SHORT, "maxProperties": 1}, l={**KEYED, "maxItems": 2})
)


@given(SPECS, SPECS)
def test_an_update_never_has_more_errors_than_a_create(new, old):
    validate = compile_validator(MIXED)
    assert set(validate(new, old, "")) <= set(validate(new, MISSING, ""))


@given(SPECS)
def test_what_stays_as_it_is_stays_allowed(spec):
    assert compile_validator(MIXED)(spec, copy.deepcopy(spec), "") == []


@given(SPECS, SPECS)
def test_remembered_comparisons_are_those_made_afresh(new, old):
    comparison = Comparison()
    first = comparison.unchanged(MIXED, new, old)
    assert comparison.unchanged(MIXED, new, old) == first == unchanged(MIXED, new, old)


def test_long_lists_with_keys_are_compared_in_one_pass():
    items = [{"k": str(index), "v": "long", "must": ""} for index in range(50_000)]
    validate = compile_validator(read(obj(l=KEYED)))
    assert validate({"l": items}, {"l": items[::-1]}, "") == []
    changed = [*items[:-1], {**items[-1], "v": "other"}]
    assert [error.field for error in validate({"l": changed}, {"l": items[::-1]}, "")] == ["l[49999].v"]
