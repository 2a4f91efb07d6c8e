"""YAML: equal to sigs.k8s.io/yaml on a corpus made with it, both ways."""

from __future__ import annotations

import base64
import contextlib
import json as stdlib
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.limits import YAML_ALIASED_NODES, YAML_BYTES, YAML_DEPTH, YAML_NODES
from kapi.codec import json, yaml
from kapi.codec.errors import DecodeError
from kapi.codec.scalars import format_float, needs_quotes, resolve

CORPUS = stdlib.loads((Path(__file__).parent / "text_corpus.json").read_bytes())

# Where we differ on purpose: what go-yaml prints of a bad key is Go syntax, an escaped slash is legal YAML 1.2 (and JSON),
# text after the document and custom tags are refused rather than dropped.
DIFFERENT = {
    b"~: a\n": "unsupported map key",
    b"null: a\n": "unsupported map key",
    b"~: v\n": "unsupported map key",
    b"null: v\n": "unsupported map key",
    b"Null: v\n": "unsupported map key",
    b"NULL: v\n": "unsupported map key",
    b"9223372036854775808: v\n": "unsupported map key",
    b"18446744073709551615: v\n": "unsupported map key",
    b"? [a]\n: b\n": "invalid map key",
    b"? {a: b}\n: c\n": "invalid map key",
    b"[a, b]: c\n": "invalid map key",
    b'"a":1\n': "did not find expected <document start>",
    b"!: v\n": "the tag !: is not accepted",
}
ACCEPTED_HERE = {b'a: "\\/"\n': {"a": "/"}, b"[!, x]\n": ["", "x"]}

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2028\u2029\x85\ufeff\r"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXT, children, max_size=4),
    max_leaves=20,
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


@pytest.mark.parametrize("case", CORPUS["yaml"], ids=lambda case: repr(base64.b64decode(case["input"])))
def test_a_document_is_read_as_go_reads_it(case):
    data = base64.b64decode(case["input"])
    if data in ACCEPTED_HERE:
        assert yaml.decode(data) == ACCEPTED_HERE[data]
        return
    if data in DIFFERENT or "error" in case:
        with pytest.raises(DecodeError) as caught:
            yaml.decode(data)
        if data in DIFFERENT:
            assert DIFFERENT[data] in caught.value.message
        else:
            assert caught.value.message == case["error"]
        return
    value, problems = yaml.decode_with_duplicates(data)
    assert stdlib.dumps(value, sort_keys=True) == stdlib.dumps(as_go_reads(case["value"]), sort_keys=True)
    assert ([yaml.strict_error(problems)] if problems else []) == case.get("strict", [])


@pytest.mark.parametrize("case", CORPUS["yaml_written"], ids=lambda case: base64.b64decode(case["input"]).decode()[:40])
def test_a_value_is_written_as_go_writes_it(case):
    value = json.decode(base64.b64decode(case["input"]))
    written = yaml.encode(value).decode()
    # Differences of the emitters: blanks after a Unicode line separator; and integral floats are integers here already.
    expected = case["value"].replace("'\u2028'", "'\u2028  '").replace("'\u2029'", "'\u2029  '")
    expected = expected.replace("h: 1e+06", "h: 1000000").replace("j: -0\n", "j: 0\n")
    assert written == expected.replace("18446744073709551615", "1.8446744073709552e+19")


@given(VALUES)
def test_values_round_trip(value):
    expected = json.decode(json.encode(value))
    assert yaml.decode(yaml.encode(value)) == expected


@given(VALUES)
def test_json_is_read_the_same_with_and_without_the_fast_path(value):
    # Escapes for surrogate pairs are JSON and not YAML, so the text is written as it is.
    data = stdlib.dumps({"value": value}, ensure_ascii=False).encode()
    assert yaml.decode(data) == json.decode(data)


def test_duplicates_in_json_sent_as_yaml_are_reported_by_line():
    value, problems = yaml.decode_with_duplicates(b'{"a": 1,\n"a": 2}')
    assert value == {"a": 2}
    assert problems == ['line 2: key "a" already set in map']


@given(TEXT)
def test_a_string_written_without_quotes_is_a_string(text):
    if not needs_quotes(text):
        assert resolve(text) == text


@given(FLOATS)
def test_floats_are_written_with_the_digits_that_identify_them(value):
    assert float(format_float(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.inf, ".inf"), (-math.inf, "-.inf"), (math.nan, ".nan"), (0.0, "0"), (-0.0, "-0"), (100000.5, "100000.5")],
)
def test_odd_floats_have_their_yaml_names(value, text):
    assert format_float(value) == text


def test_single_precision_keys_have_single_precision_digits():
    assert yaml.decode(b"0.1: a\n0.30000000000000004: b\n1e39: c\n") == {"0.1": "a", "0.3": "b", ".inf": "c"}


def test_aliases_are_copies():
    value = yaml.decode(b"a: &x {k: [1]}\nb: *x\nc: [*x, *x]\n")
    value["b"]["k"].append(2)
    assert value["a"] == {"k": [1]}
    assert value["c"] == [{"k": [1]}, {"k": [1]}]
    assert value["c"][0] is not value["c"][1]


def test_tags_of_other_types_are_refused():
    for data in (b"a: !!python/object:os.system x", b"a: !foo x", b"a: !!binary AAAA", b"!foo {a: b}", b"a: !!set {b}"):
        with pytest.raises(DecodeError, match="is not accepted"):
            yaml.decode(data)


def test_a_second_document_is_refused_in_a_request_and_read_from_a_file():
    data = b"a: 1\n---\nb: 2\n---\n"
    with pytest.raises(DecodeError, match="more than one document"):
        yaml.decode(data)
    assert yaml.decode_all(data) == [{"a": 1}, {"b": 2}, None]
    assert yaml.decode(b"a: 1\n---\n") == {"a": 1}


def test_an_empty_body_is_none():
    assert yaml.decode_with_duplicates(b"") == (None, [])
    assert yaml.decode_all(b"") == []


def test_depth_is_bounded_also_through_aliases():
    assert yaml.decode(b"[" * YAML_DEPTH + b"]" * YAML_DEPTH)
    with pytest.raises(DecodeError, match="exceeded max depth"):
        yaml.decode(b"[" * (YAML_DEPTH + 1) + b"]" * (YAML_DEPTH + 1))
    half = YAML_DEPTH // 2
    with pytest.raises(DecodeError, match="exceeded max depth"):
        yaml.decode(b"a: &x " + b"[" * half + b"]" * half + b"\nb: " + b"[" * half + b"*x" + b"]" * half)


def test_nodes_aliases_and_bytes_are_bounded():
    with pytest.raises(DecodeError, match="nodes"):
        yaml.decode(b"[" + b"a," * YAML_NODES + b"]")
    with pytest.raises(DecodeError, match="excessive aliasing"):
        yaml.decode(b"- &a x\n" + b"- *a\n" * (YAML_ALIASED_NODES + 1))
    with pytest.raises(DecodeError, match="larger than"):
        yaml.decode(b"a: " + b"x" * YAML_BYTES)


@given(st.binary(max_size=60) | st.text(alphabet="ab1:-?[]{},&*!|>'\"%@#~<. \n\t", max_size=40).map(str.encode))
def test_any_bytes_are_a_value_or_a_decode_error(data):
    with contextlib.suppress(DecodeError):
        value = yaml.decode(data)
        assert json.decode(json.encode(value)) == value
