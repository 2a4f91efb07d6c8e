import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.go.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("1h30m", 5_400_000_000_000),
        ("1.5s", 1_500_000_000),
        ("-2m", -120_000_000_000),
        ("+20ms", 20_000_000),
        (".5h", 1_800_000_000_000),
        ("1us", 1_000),
        ("1\u00b5s", 1_000),
        ("1\u03bcs", 1_000),
        ("0.0000000001s", 0),
        ("0.3333333333333333333h", 1_200_000_000_000),
        ("0.830103483285477580700h", 2_988_372_539_827),
        ("0." + "0" * 5000 + "1h", 0),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("0000000000000000000000001s", 1_000_000_000),
    ],
)
def test_durations_are_read(text, nanoseconds):
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("1s ", 'time: unknown unit "s " in duration "1s "'),
        ("1", 'time: missing unit in duration "1"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1\u00b5", 'time: unknown unit "\\xc2\\xb5" in duration "1\\xc2\\xb5"'),
        ("9999999999h", 'time: invalid duration "9999999999h"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("99999999999999999999", 'time: invalid duration "99999999999999999999"'),
    ],
)
def test_invalid_durations_have_a_reason(text, message):
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (1_000_000_000, "1s"),
        (3_300_000_000, "3.3s"),
        (60_000_000_000, "1m0s"),
        (3_600_000_000_000, "1h0m0s"),
        (36_061_001_000_000, "10h1m1.001s"),
        (-90_000_000_000, "-1m30s"),
        (-(1 << 63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(nanoseconds, text):
    assert format_duration(nanoseconds) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_printed_durations_read_back(nanoseconds):
    # A fraction is scaled as a float, as Go does, so the last digit may be lost.
    assert abs(parse_duration(format_duration(nanoseconds)) - nanoseconds) <= 1
