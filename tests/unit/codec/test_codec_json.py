"""JSON: equal to the Go library's reading on a corpus made with it, and quick about duplicates."""

from __future__ import annotations

import base64
import json as stdlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.limits import JSON_DEPTH, JSON_EXPLAINED_BYTES
from kapi.codec import json, syntax
from kapi.codec.errors import DecodeError

CORPUS = stdlib.loads((Path(__file__).parent / "text_corpus.json").read_bytes())["json"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda children: st.lists(children) | st.dictionaries(TEXT, children),
)


def as_go_reads(value: Any) -> Any:
    """The corpus was written by Go, which prints large floats without a point."""
    if isinstance(value, dict):
        return {key: as_go_reads(child) for key, child in value.items()}
    if isinstance(value, list):
        return [as_go_reads(child) for child in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: repr(base64.b64decode(case["input"])))
def test_a_document_is_read_as_go_reads_it(case):
    data = base64.b64decode(case["input"])
    if "error" in case:
        with pytest.raises(DecodeError) as caught:
            json.decode(data)
        assert caught.value.message == case["error"]
        return
    value, duplicates = json.decode_with_duplicates(data)
    expected = as_go_reads(case["value"])
    assert value == expected
    assert type(value) is type(expected)
    assert duplicates == case.get("strict", [])


@given(VALUES)
def test_values_round_trip(value):
    assert json.decode(json.encode(value)) == value
    assert json.decode(json.encode_pretty(value)) == value


@given(VALUES)
def test_an_ordinary_document_has_no_duplicates(value):
    assert json.decode_with_duplicates(stdlib.dumps(value).encode()) == (value, [])


@given(st.lists(st.tuples(TEXT, st.integers(0, 3)), max_size=6), st.booleans())
def test_duplicates_are_found_for_any_keys(pairs, escaped):
    data = "{" + ", ".join(f"{stdlib.dumps(key, ensure_ascii=escaped)}: {value}" for key, value in pairs) + "}"
    if escaped:
        data = data.replace("::", "\\u003a:")
    value, duplicates = json.decode_with_duplicates(data.encode())
    assert value == dict(pairs)
    repeated = {key for key in dict(pairs) if [name for name, _ in pairs].count(key) > 1}
    assert len(duplicates) == len(repeated)


def test_an_escaped_colon_does_not_hide_a_duplicate():
    data = b'{"a":"\\u003a","a":1}'
    assert json.decode_with_duplicates(data) == ({"a": 1}, ['duplicate field "a"'])


def test_at_most_a_hundred_duplicates_are_reported():
    data = b"{" + b",".join(b'"k%d":1,"k%d":2' % (i, i) for i in range(150)) + b"}"
    assert len(json.decode_with_duplicates(data)[1]) == 100


@pytest.mark.parametrize("data", [b'"\\ud800"', b'{"\\udc00":1}', b'"\\ud800\\u0041"', b'["\\ud800", "later text"]'])
def test_lone_surrogates_are_refused(data):
    with pytest.raises(DecodeError):
        json.decode(data)


@pytest.mark.parametrize("data", [b'"\xff"', b'{"\xc3":1}', b'"\xed\xa0\x80"'])
def test_bad_utf8_is_refused(data):
    with pytest.raises(DecodeError, match="invalid UTF-8"):
        json.decode(data)


def test_integers_beyond_int64_are_floats_wherever_they_are():
    value = json.decode(b'{"a":[9223372036854775808,{"b":-9223372036854775809}],"c":9223372036854775807,"d":true}')
    assert value == {"a": [2.0**63, {"b": -(2.0**63)}], "c": 2**63 - 1, "d": True}
    assert isinstance(value["a"][0], float)
    assert isinstance(value["c"], int)
    assert value["d"] is True


def test_integral_floats_are_integers():
    value = json.decode(b"[1.0, 1e3, 1.5, 1e300]")
    assert value == [1, 1000, 1.5, 1e300]
    assert [type(number) for number in value] == [int, int, float, float]


def test_depth_is_counted_outside_strings_only():
    deep = b"[" * JSON_DEPTH + b"]" * JSON_DEPTH
    assert json.decode(deep)
    with pytest.raises(DecodeError, match="exceeded max depth"):
        json.decode(b"[" + deep + b"]")
    brackets = b'"' + b"[" * 1000 + b'\\"' + b"{" * 1000 + b'\\\\"'
    assert json.decode(b"[" + brackets + b",{}]")[0].startswith("[[")


def test_many_siblings_are_not_depth():
    assert len(json.decode(b"[" + b",".join([b"{}"] * 1000) + b"]")) == 1000


def test_the_error_of_a_large_document_gives_its_place():
    with pytest.raises(DecodeError, match=r"invalid JSON: .*byte \d+"):
        json.decode(b"[" + b"1," * JSON_EXPLAINED_BYTES + b"x]")
    with pytest.raises(DecodeError, match="unexpected end of JSON input"):
        json.decode(b"[" + b"1," * JSON_EXPLAINED_BYTES)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:\\u0123eE+-.tfnrul \n', max_size=30).map(str.encode))
def test_the_error_message_agrees_with_the_parser(data):
    refusal = ""
    try:
        json.decode(data)
    except DecodeError as error:
        refusal = error.message
    explanation = syntax.explain(data)
    if explanation is None:
        assert not refusal or any(word in refusal for word in ("UTF-8", "surrogate", "number"))
    else:
        assert refusal == explanation


def test_pretty_json_is_indented_by_two_and_ends_without_a_newline():
    assert json.encode_pretty({"a": [1, {}], "b": {}, "c": "<&>"}) == (
        b'{\n  "a": [\n    1,\n    {}\n  ],\n  "b": {},\n  "c": "<&>"\n}'
    )
