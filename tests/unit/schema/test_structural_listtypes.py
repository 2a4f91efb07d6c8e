import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.structural.listtypes import check_update, compile_list_types
from kapi.schema.structural.model import read

SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {"x-kubernetes-preserve-unknown-fields": True}}
ITEM = {"type": "object", "properties": {"k": {"type": "string"}, "p": {"type": "integer"}}}
BY_ONE = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": ITEM}
BY_TWO = {**BY_ONE, "x-kubernetes-list-map-keys": ["k", "p"]}
BY_NONE = {**BY_ONE, "x-kubernetes-list-map-keys": []}
ATOMIC = {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}}


def check_of(**properties):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return compile_list_types(read(schema))


def texts(schema, value, path=""):
    return [str(error) for error in check_of(l=schema)({"spec": {"l": value}}, path)]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (SET, ["x", "y"], []),
        (SET, ["x", "x"], ['spec.l[1]: Duplicate value: "x"']),
        (SET, ["x", "y", "x", "x"], ['spec.l[2]: Duplicate value: "x"']),
        (SET, [1, True, 1.5, "1", None], []),
        (SET, [1, 2, 2, 1], ["spec.l[2]: Duplicate value: 2", "spec.l[3]: Duplicate value: 1"]),
        (SET, [None, None], ["spec.l[1]: Duplicate value: null"]),
        (SET, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ['spec.l[1]: Duplicate value: {"a":1,"b":2}']),
        (SET, [["a"], ["a"]], ['spec.l[1]: Duplicate value: ["a"]']),
        (SET, "not a list", []),
        (BY_ONE, [{"k": "a"}, {"k": "b"}], []),
        (BY_ONE, [{"k": "a"}, {"k": "a", "p": 1}], ['spec.l[1]: Duplicate value: {"k":"a"}']),
        (BY_ONE, [{}, {"p": 1}, None], ["spec.l[1]: Duplicate value: {}"]),
        (BY_ONE, [{"k": None}, {}], []),
        (BY_ONE, [{"k": {"x": 1}}, {"k": {"x": 1}}], ['spec.l[1]: Duplicate value: {"k":{"x":1}}']),
        (BY_ONE, ["x", 1], ['spec.l[0]: Invalid value: "x": must be an object for an array of list-type map']),
        (BY_ONE, [{"k": "a"}], []),
        (
            BY_TWO,
            [{"k": "<", "p": 1}, {"k": "<", "p": 2}, {"p": 1, "k": "<"}],
            ['spec.l[2]: Duplicate value: {"k":"\\u003c","p":1}'],
        ),
        (BY_ONE, [{"k": 1}, {"k": True}, {"k": 1.5}], []),
        (BY_ONE, [{"k": 1}, {"k": True}, {"k": True}], ['spec.l[2]: Duplicate value: {"k":true}']),
        (BY_ONE, [{"k": "a"}, None], []),
        (BY_ONE, [7], ["spec.l[0]: Invalid value: 7: must be an object for an array of list-type map"]),
        (BY_TWO, [{"k": "a", "p": 1}, {"k": "a", "p": True}], []),
        (BY_TWO, [{"k": "a"}, {"k": "a", "p": None}], []),
        (BY_NONE, [{"k": "a"}], []),
        (BY_NONE, [{"k": "a"}, {"k": "b"}], ["spec.l[1]: Duplicate value: {}"]),
        (BY_TWO, [{}, {}], ["spec.l[1]: Duplicate value: {}"]),
        (BY_TWO, [{"k": "a"}, {"k": "a"}], ['spec.l[1]: Duplicate value: {"k":"a"}']),
        ({"type": "object", "additionalProperties": SET}, {"one": [1, 1]}, ["spec.l[one][1]: Duplicate value: 1"]),
        ({**ATOMIC, "items": SET}, [[1], [2, 2]], ["spec.l[1][1]: Duplicate value: 2"]),
        (
            {**BY_ONE, "items": {"type": "object", "properties": {"k": {"type": "string"}, "in": SET}}},
            [{"k": "a", "in": [1, 1]}, {"k": "a"}],
            ['spec.l[1]: Duplicate value: {"k":"a"}', "spec.l[0].in[1]: Duplicate value: 1"],
        ),
    ],
)
def test_what_stands_twice_is_reported_once(schema, value, expected):
    assert texts(schema, value) == expected


def test_a_schema_without_sets_and_maps_has_no_check():
    assert check_of(l=ATOMIC, m={"type": "object", "additionalProperties": {"type": "string"}}) is None


def test_a_path_comes_before_the_fields():
    assert texts(SET, [1, 1], "status") == ["status.spec.l[1]: Duplicate value: 1"]


def test_an_update_is_free_of_the_rule_when_the_stored_object_broke_it():
    check = check_of(l=SET, m=BY_ONE)
    broken, other, fine = {"spec": {"l": [1, 1]}}, {"spec": {"m": [{"k": "a"}, {"k": "a"}]}}, {"spec": {"l": [1]}}
    assert check_update(check, broken, fine) == check(broken, "")
    assert check(broken, "") != []
    assert check_update(check, broken, other) == []
    assert check_update(check, fine, broken) == []


@given(st.lists(st.one_of(st.integers(0, 3), st.booleans(), st.sampled_from(["0", "1"]), st.none())))
def test_one_error_for_each_value_that_stands_more_than_once(items):
    typed = [(type(item), item) for item in items]
    repeated = {item for item in typed if typed.count(item) > 1}
    found = texts(SET, items)
    assert len(found) == len(repeated)
    assert [text.split(":")[0] for text in found] == sorted(
        (text.split(":")[0] for text in found), key=lambda field: int(field[7:-1])
    )


KEY_VALUES = st.one_of(st.none(), st.booleans(), st.sampled_from([0, 1, 1.5, "a", "b"]), st.just(["a"]))


@given(st.lists(st.dictionaries(st.sampled_from(["k", "p"]), KEY_VALUES), max_size=6))
def test_items_are_told_apart_by_their_keys_to_the_letter(items):
    chosen = [tuple((key, type(item[key]), str(item[key])) for key in ("k", "p") if key in item) for item in items]
    assert len(texts(BY_TWO, items)) == len({one for one in chosen if chosen.count(one) > 1})


def test_long_lists_are_checked_in_one_pass():
    check = check_of(l=BY_ONE)
    items = [{"k": str(index)} for index in range(100_000)]
    assert check({"spec": {"l": items}}, "") == []
    assert len(check({"spec": {"l": [*items, {"k": "7"}]}}, "")) == 1
