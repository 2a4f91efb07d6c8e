from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.values import (
    BINARY_SI,
    Quantity,
    canonical_quantity,
    label_selector_to_text,
    parse_quantity,
    scale_int_or_percent,
)

FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "E-2", "e+6"]

quantity_texts = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**12).map(str),
    st.one_of(st.just(""), st.integers(0, 999999).map(".{}".format)),
    st.sampled_from(SUFFIXES),
)


def exact(quantity):
    return Fraction(quantity.mantissa) * Fraction(10) ** quantity.exponent


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("1000e0", "1e3"),
        ("12e6", "12e6"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("0.0001Ki", "102400u"),
        ("9223372036854775807", "9223372036854775807"),
        ("100Ei", "9223372036854775807"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        # Short texts that look canonical are kept, whatever stands in front or behind.
        ("+5", "+5"),
        ("1.500", "1.500"),
        ("1E3", "1E3"),
        (" 5 ", "5"),
    ],
)
def test_quantities_print_canonically(text, canonical):
    assert canonical_quantity(text) == canonical


def test_values_past_the_largest_suffix_are_not_changed():
    assert canonical_quantity("1000E") == "1000E"
    assert Quantity.parse("1000E") == Quantity.parse("1e21")


@pytest.mark.parametrize(
    ("number", "canonical"),
    [(5, "5"), (-3, "-3"), (0.5, "500m"), (1e3, "1k"), (5.0, "5"), (1e-7, "100n"), (1e25, "10000000E")],
)
def test_json_numbers_are_quantities_too(number, canonical):
    assert canonical_quantity(number) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT),
        ("x", FORMAT),
        ("1.2.3", FORMAT),
        ("1 G", FORMAT),
        ("1Gb", FORMAT),
        ("1e", "unable to parse quantity's suffix"),
        ("1ki", "unable to parse quantity's suffix"),
        ("1eE3", "unable to parse quantity's suffix"),
        ("1e99999999999", "unable to parse quantity's suffix"),
        ("Ei", "unable to parse numeric part of quantity"),
        ("9" * 5000, "unable to parse numeric part of quantity"),
    ],
)
def test_invalid_quantities_have_a_reason(text, message):
    with pytest.raises(ValueError) as caught:
        canonical_quantity(text)
    assert str(caught.value) == message


@given(quantity_texts)
def test_printing_loses_nothing_and_is_stable(text):
    quantity = Quantity.parse(text)
    printed = str(Quantity(quantity.mantissa, quantity.exponent, quantity.format))
    again = Quantity.parse(printed)
    assert again == quantity
    assert str(Quantity(again.mantissa, again.exponent, again.format)) == printed
    assert canonical_quantity(printed) == printed


@given(quantity_texts, quantity_texts)
def test_order_and_sums_agree_with_fractions(left, right):
    first, second = Quantity.parse(left), Quantity.parse(right)
    assert (first < second) == (exact(first) < exact(second))
    assert (first == second) == (exact(first) == exact(second))
    assert (first >= second) == (exact(first) >= exact(second))
    assert exact(first + second) == exact(first) + exact(second)
    assert exact(first - second) == exact(first) - exact(second)
    if first == second:
        assert hash(first) == hash(second)


@given(quantity_texts)
def test_whole_and_milli_values_round_away_from_zero(text):
    quantity = Quantity.parse(text)
    for value, size in ((quantity.value(), Fraction(1)), (quantity.milli_value(), Fraction(1, 1000))):
        if abs(value) < 2**63 - 1:
            assert abs(exact(quantity)) <= abs(value * size) < abs(exact(quantity)) + size


def test_far_apart_exponents_compare_without_being_multiplied_out():
    huge, tiny = Quantity.parse("1e1000"), Quantity.parse("1e-99999999")
    assert str(tiny) == "1e-9"
    assert huge > tiny
    assert -huge < tiny
    assert huge.value() == 2**63 - 1
    assert (-huge).value() == -(2**63)


def test_sums_keep_the_format_of_the_left_side_unless_it_is_zero():
    assert str(Quantity.parse("512Mi") + Quantity.parse("512Mi")) == "1Gi"
    assert str(Quantity.parse("1Gi") - Quantity.parse("1G")) == "73741824"
    assert (Quantity.parse("0") + Quantity.parse("1Gi")).format == BINARY_SI
    assert str(Quantity.parse("250m") * 4) == "1"
    assert not Quantity.parse("0")


def test_parsed_quantities_are_shared():
    assert parse_quantity("77m") is parse_quantity("77m")


# -- int or percent ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "round_up", "scaled"),
    [(3, True, 3), ("25%", True, 3), ("25%", False, 2), ("100%", False, 10), ("0%", True, 0)],
)
def test_percentages_scale(value, round_up, scaled):
    assert scale_int_or_percent(value, 10, round_up=round_up) == scaled


def test_only_percentages_scale():
    with pytest.raises(ValueError, match=r"^invalid value for IntOrString: invalid type: string is not a percentage$"):
        scale_int_or_percent("10", 10, round_up=True)
    with pytest.raises(ValueError) as caught:
        scale_int_or_percent("a%", 10, round_up=True)
    assert str(caught.value) == (
        'invalid value for IntOrString: invalid value "a%": strconv.Atoi: parsing "a": invalid syntax'
    )


# -- durations --------------------------------------------------------------------------------------------------------


# -- selectors --------------------------------------------------------------------------------------------------------


def test_label_selectors_print_for_tables():
    expression = {"key": "tier", "operator": "In", "values": ["b", "a"]}
    assert (
        label_selector_to_text({"matchLabels": {"app": "x"}, "matchExpressions": [expression]}) == "app=x,tier in (a,b)"
    )
    assert label_selector_to_text({}) == "<none>"
    assert label_selector_to_text(None) == "<none>"
    assert label_selector_to_text({"matchExpressions": [{"key": "a", "operator": "Like"}]}) == "<error>"
