import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.fielderror import too_long, too_many
from kapi.schema.structural.messages import canonical, json_text, show


@pytest.mark.parametrize(
    ("number", "plain", "as_json"),
    [
        (0.0, "0", "0"),
        (-2.5, "-2.5", "-2.5"),
        (100000.0, "100000", "100000"),
        (1000000.0, "1e+06", "1000000"),
        (1234567.5, "1.2345675e+06", "1234567.5"),
        (1e20, "1e+20", "100000000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1.5e-7, "1.5e-07", "1.5e-7"),
        (5e-324, "5e-324", "5e-324"),
    ],
)
def test_floats_are_written_as_go_does(number, plain, as_json):
    assert show(number) == plain
    assert json_text([number]) == f"[{as_json}]"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_digit_of_a_float_is_lost(number):
    assert float(show(number)) == number
    assert json.loads(json_text({"n": number}), parse_int=float)["n"] == number


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0.5, -1.25e-9]) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_values_are_shown_as_json_that_says_the_same(value):
    assert json.loads(json_text(value)) == value
    assert not set("<>&") & set(json_text(value))


@given(JSON, JSON)
def test_the_canonical_form_is_equal_for_equal_values_only(one, other):
    assert canonical(one) == canonical(json.loads(json.dumps(one)))
    if canonical(one) == canonical(other):
        assert one == other


def test_one_is_singular():
    assert too_long("a", 1).body == "Too long: may not be more than 1 byte"
    assert too_many("a", 2, 1).body == "Too many: 2: must have at most 1 item"
    assert too_many("a", 3, 2).body == "Too many: 3: must have at most 2 items"
