import base64 as standard

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.builtin import scalars
from kapi.schema.builtin.scalars import TypeMismatch


def refusal(reader, value):
    with pytest.raises(TypeMismatch) as raised:
        reader(value)
    return raised.value.message


def test_integers_have_a_range():
    read = scalars.integer("int32", 32)
    assert read(2**31 - 1) == 2**31 - 1
    assert read(-(2**31)) == -(2**31)
    assert refusal(read, 2**31) == "json: cannot unmarshal number 2147483648 into Go value of type int32"
    assert scalars.integer("int64", 64)(2**63 - 1) == 2**63 - 1
    assert "number 9223372036854775808" in refusal(scalars.integer("int64", 64), 2**63)


def test_a_whole_float_is_no_integer():
    assert refusal(scalars.integer("int32", 32), 1.0) == "json: cannot unmarshal number 1.0 into Go value of type int32"


def test_booleans_are_no_numbers():
    assert (
        refusal(scalars.integer("int32", 32), value=True) == "json: cannot unmarshal bool into Go value of type int32"
    )
    assert refusal(scalars.floating, value=True) == "json: cannot unmarshal bool into Go value of type float64"


def test_floats_are_written_without_an_empty_fraction():
    assert type(scalars.floating(2.0)) is int
    assert scalars.floating(2.5) == 2.5
    assert scalars.floating(3) == 3


def test_an_int_or_string_is_either():
    assert scalars.int_or_string("http") == "http"
    assert scalars.int_or_string(80) == 80
    assert "number 1.5" in refusal(scalars.int_or_string, 1.5)


@pytest.mark.parametrize("value, kept", [("0.5", "500m"), (0.5, "500m"), (2, "2"), ("1024Mi", "1Gi"), ("100m", "100m")])
def test_quantities_become_canonical(value, kept):
    assert scalars.quantity(value) == kept


@pytest.mark.parametrize("value", ["x", "1.2.3", True, [], {}])
def test_bad_quantities_name_their_format(value):
    assert refusal(scalars.quantity, value) == scalars.QUANTITY_FORMAT


@given(st.binary(max_size=40))
def test_encoded_bytes_are_kept_as_they_are(data):
    text = standard.b64encode(data).decode()
    assert scalars.base64(text) is text


def test_line_breaks_and_unused_bits_in_base64_are_normalised():
    assert scalars.base64("aGVs\nbG8=\r\n") == "aGVsbG8="
    assert scalars.base64("YR==") == "YQ=="


@pytest.mark.parametrize(
    "text, place",
    [
        ("aGVsbG8", 4),
        ("a", 0),
        ("ab=", 3),
        ("!!!!", 0),
        ("abc!", 3),
        ("aGVsbG8=x", 8),
        ("ab=c", 2),
        ("abcd=", 4),
        ("=abc", 0),
        ("a=b=", 1),
        ("ab\n=", 4),
    ],
)
def test_bad_base64_says_where(text, place):
    assert refusal(scalars.base64, text) == f"illegal base64 data at input byte {place}"


@given(st.text(alphabet="aB+/=\n!", max_size=12))
def test_any_text_is_base64_or_refused(text):
    try:
        kept = scalars.base64(text)
    except TypeMismatch:
        assert refusal(scalars.base64, text).startswith("illegal base64 data at input byte ")
    else:
        assert standard.b64encode(standard.b64decode(kept, validate=True)).decode() == kept


def test_a_time_must_be_a_string():
    assert refusal(scalars.time, 5) == "json: cannot unmarshal number into Go value of type string"
    assert refusal(scalars.micro_time, {}) == "json: cannot unmarshal object into Go value of type string"
