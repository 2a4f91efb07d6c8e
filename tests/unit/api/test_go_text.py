import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.go.text import (
    format_syntax,
    format_value,
    plain_float,
    quote,
    quote_ascii,
    quote_character,
    short_float,
    to_single,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é☃", '"plain é☃"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x7f\x85\u200b\U000e0001", '"\\x00\\x7f\\u0085\\u200b\\U000e0001"'),
    ],
)
def test_strings_are_quoted_as_go_does(text, expected):
    assert quote(text) == expected


def test_the_time_package_quotes_by_bytes():
    assert quote_ascii('a"\\\n\u00e9') == '"a\\"\\\\\\x0a\\xc3\\xa9"'


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("a", "'a'"),
        ("'", "'\\''"),
        ('"', "'\"'"),
        ("\\", "'\\\\'"),
        ("\n", "'\\n'"),
        ("\x00", "'\\x00'"),
        ("\x80", "'\\u0080'"),
    ],
)
def test_characters_are_quoted_as_go_does(character, expected):
    assert quote_character(ord(character)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, "x"], "a": {"c": None, "d": True}}, "map[a:map[c:<nil> d:true] b:[1 x]]"),
        ([], "[]"),
        (1.5, "1.5"),
        (2.0, "2"),
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-07"),
        (0.0, "0"),
    ],
)
def test_values_print_as_go_prints_them(value, text):
    assert format_value(value) == text


def test_values_print_as_go_source():
    value = {"b": ["x", None, 1.5], "a": {"c": True}}
    expected = 'map[string]interface {}{"a":map[string]interface {}{"c":true}, "b":[]interface {}{"x", interface {}(nil), 1.5}}'
    assert format_syntax(value) == expected


@pytest.mark.parametrize(
    ("number", "short", "plain"),
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (100000.0, "100000", "100000"),
        (1000000.0, "1e+06", "1000000"),
        (1234567.5, "1.2345675e+06", "1234567.5"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (5e-324, "5e-324", "0." + "0" * 323 + "5"),
        (math.inf, "+Inf", "+Inf"),
        (-math.inf, "-Inf", "-Inf"),
        (math.nan, "NaN", "NaN"),
    ],
)
def test_floats_are_written_as_go_does(number, short, plain):
    assert short_float(number) == short
    assert plain_float(number) == plain


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_single_float_needs_fewer_digits(number):
    assert to_single(float(short_float(number, single=True))) == number
    assert len(short_float(number, single=True)) <= len(short_float(number))
