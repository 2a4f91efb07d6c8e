"""Strings and patterns: against what Python makes of the same questions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.libraries.formatting import format_string
from kapi.schema.cel.libraries.regex import IMPLEMENTATIONS as REGEX
from kapi.schema.cel.libraries.strings import IMPLEMENTATIONS as STRINGS
from kapi.schema.cel.run.code import BudgetExceeded
from kapi.schema.cel.types import Type
from kapi.schema.cel.values import NONE, Duration, EvaluationError, Timestamp, Uint

TEXT = st.text(alphabet="ab\u00e9\U0001f600 ", max_size=8)
PLACES = st.integers(-3, 10)


def call(overload: str, *args: Any) -> Any:
    return STRINGS[overload](*args)


@given(TEXT, TEXT)
def test_places_are_found_from_both_ends(text: str, part: str) -> None:
    assert call("string_index_of_string", text, part) == text.find(part)
    assert call("string_last_index_of_string", text, part) == text.rfind(part)


@given(TEXT, TEXT.filter(bool), PLACES)
def test_places_are_found_from_a_start(text: str, part: str, start: int) -> None:
    if start < 0:
        for overload in ("string_index_of_string_int", "string_last_index_of_string_int"):
            with pytest.raises(EvaluationError, match=f"index out of range: {start}"):
                call(overload, text, part, start)
        return
    found = [place for place in range(len(text)) if text.startswith(part, place)]
    after = [place for place in found if place >= start]
    before = [place for place in found if place <= start] if start < len(text) else []
    assert call("string_index_of_string_int", text, part, start) == (after[0] if after else -1)
    assert call("string_last_index_of_string_int", text, part, start) == (before[-1] if before else -1)


def test_nothing_is_found_wherever_it_is_looked_for() -> None:
    assert call("string_index_of_string_int", "abc", "", 99) == 99
    assert call("string_last_index_of_string_int", "abc", "", -1) == -1
    assert call("string_last_index_of_string", "abc", "") == 3


@given(TEXT, PLACES, PLACES)
def test_parts_are_slices_or_errors(text: str, start: int, end: int) -> None:
    if 0 <= start <= end <= len(text):
        assert call("string_substring_int_int", text, start, end) == text[start:end]
    else:
        with pytest.raises(EvaluationError, match=r"index out of range|invalid substring range"):
            call("string_substring_int_int", text, start, end)
    if 0 <= start <= len(text):
        assert call("string_substring_int", text, start) == text[start:]
        assert call("string_char_at_int", text, start) == text[start : start + 1]


@given(TEXT, TEXT, TEXT, st.integers(-2, 4))
def test_replacing_is_that_of_python(text: str, old: str, new: str, count: int) -> None:
    assert call("string_replace_string_string", text, old, new) == text.replace(old, new)
    assert call("string_replace_string_string_int", text, old, new, count) == text.replace(old, new, count)


@given(TEXT, TEXT.filter(bool))
def test_splitting_and_joining_undo_each_other(text: str, separator: str) -> None:
    parts = call("string_split_string", text, separator)
    assert parts == text.split(separator)
    assert call("list_join_string", parts, separator) == text


@given(TEXT, st.integers(-1, 5))
def test_splitting_into_characters_keeps_the_rest_together(text: str, count: int) -> None:
    parts = call("string_split_string_int", text, "", count)
    assert "".join(parts) == (text if count else "")
    assert len(parts) <= count or count < 0


@pytest.mark.parametrize(("count", "parts"), [(-1, ["a", "b", "c"]), (0, []), (1, ["a,b,c"]), (2, ["a", "b,c"])])
def test_splitting_can_be_limited(count: int, parts: list[str]) -> None:
    assert call("string_split_string_int", "a,b,c", ",", count) == parts


@given(st.text())
def test_cases_change_in_ascii_only(text: str) -> None:
    changed = "".join(one.upper() if one.isascii() else one for one in text)
    assert call("string_upper_ascii", text) == changed
    assert call("string_lower_ascii", changed) == "".join(one.lower() if one.isascii() else one for one in changed)


@pytest.mark.parametrize("text", [" \t\r\n\v\fa\u0085\u00a0", "\u2028a\u3000", "\u2003a\u205f"])
def test_space_is_what_unicode_calls_so(text: str) -> None:
    assert call("string_trim", text) == "a"


def test_control_characters_are_no_space() -> None:
    assert call("string_trim", "\x1ca\x1f") == "\x1ca\x1f"


def test_long_results_are_refused_before_they_are_made() -> None:
    with pytest.raises(BudgetExceeded):
        call("string_replace_string_string", "x" * 10_000, "", "y" * 10_000)
    with pytest.raises(BudgetExceeded):
        call("list_join_string", [""] * 10_000, "y" * 10_000)
    assert len(call("string_replace_string_string", "x" * 10_000, "", "y" * 10)) == 110_010


def test_only_strings_are_joined() -> None:
    with pytest.raises(EvaluationError, match="join: invalid input: 1"):
        call("list_join", ["a", 1])


# -- formatting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "items", "expected"),
    [
        ("%s", ["a"], "a"),
        ("%s", [b"a"], "a"),
        ("%s", [1e6], "1e+06"),
        ("%s", [Uint(3)], "3"),
        ("%s", [Type("int")], "int"),
        ("%s", [Duration(1_500_000_000)], "1.5s"),
        ("%s", [Timestamp(0)], "1970-01-01T00:00:00Z"),
        ("%s", [["a", 1.0, None, {"k": b"\x01"}]], r'["a", 1.000000, null, {"k":b"\x01"}]'),
        ("%s", [{True: 1, False: 2}], "{false:2, true:1}"),
        ("%d%%", [-5], "-5%"),
        ("%.3f", [1234.5678], "1,234.568"),
        ("%.0f", [0.5], "0"),
        ("%b %o %x %X", [5, 8, -255, 255], "101 10 -ff FF"),
        ("%x", ["\u00e9"], "c3a9"),
        ("", [1], ""),
    ],
)
def test_clauses_show_values(text: str, items: list[Any], expected: str) -> None:
    assert format_string(text, items) == expected


@pytest.mark.parametrize(
    ("text", "items", "complaint"),
    [
        ("%s", [], "index 0 out of range"),
        ("%", [1], "unexpected end of string"),
        ("%q", [1], 'could not parse formatting clause: unrecognized formatting clause "q"'),
        ("%.5", [1], "could not find end of precision specifier"),
        ("%.2000f", [1.0], "more than 1000 digits"),
        ("%.99999999999999999999f", [1.0], "value out of range"),
        ("%d", ["a"], "error during formatting: decimal clause can only be used on integers, was given string"),
        ("%s", [NONE], "was given optional_type"),
        ("%s", [b"\xff"], "invalid UTF-8 in bytes"),
        ("%s", [{1.5: 1}], "no formatting function for map key of type double"),
    ],
)
def test_clauses_refuse_values_of_other_types(text: str, items: list[Any], complaint: str) -> None:
    with pytest.raises(EvaluationError, match=re.escape(complaint)):
        format_string(text, items)


# -- patterns ---------------------------------------------------------------------------------------------------------


@given(
    st.text(alphabet="abc\u00e9", max_size=10), st.sampled_from(["a+", "[bc]", "\u00e9?c", "a|b"]), st.integers(-1, 3)
)
def test_patterns_find_what_python_finds(text: str, pattern: str, count: int) -> None:
    found = [match[0] for match in re.finditer(pattern, text)]
    assert REGEX["string_find_string"](text, pattern) == (found[0] if found else "")
    limited = found if count < 0 else found[:count]
    assert REGEX["string_find_all_string_int"](text, pattern, count) == limited


def test_an_empty_match_after_a_match_is_none() -> None:
    assert REGEX["string_find_all_string"]("baac", "a*") == ["", "aa", ""]


def test_a_broken_pattern_is_an_error() -> None:
    with pytest.raises(
        EvaluationError, match="Illegal regex: error parsing regexp: missing argument to repetition operator"
    ):
        REGEX["string_find_string"]("a", "*")
