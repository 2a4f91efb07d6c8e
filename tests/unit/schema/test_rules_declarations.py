"""Schemas as expressions see them: names, types, sizes, and the values behind them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.schema.cel.syntax.identifiers import escape, unescape
from kapi.schema.cel.syntax.parser import parse
from kapi.schema.cel.types import DYN, INT, STRING, Object, list_of, map_of
from kapi.schema.cel.values import Duration, MapList, SetList, Timestamp
from kapi.schema.rules.adapters import adapter, merge, used_fields
from kapi.schema.rules.declarations import declare
from kapi.schema.rules.fieldpaths import FieldPathError, resolve
from kapi.schema.structural.model import read

STRING_PROPS = {"type": "string"}


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("plain", "plain"),
        ("_", "_"),
        ("a.b", "a__dot__b"),
        ("a-b", "a__dash__b"),
        ("example.com/x-y", "example__dot__com__slash__x__dash__y"),
        ("a__b", "a__underscores__b"),
        ("a___b", "a__underscores___b"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("int", "int"),
        ("1a", None),
        ("é", None),
        ("a b", None),
        ("", None),
    ],
)
def test_names_are_escaped_as_the_language_needs_it(name: str, written: str | None) -> None:
    assert escape(name) == written


@given(st.text("ab_.-/i0n", min_size=1, max_size=12))
def test_escaping_is_undone_and_gives_identifiers(name: str) -> None:
    written = escape(name)
    if written is None:
        assert name[0] == "0"
    else:
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", written)
        assert unescape(written) == name


def test_words_that_escape_nothing_stand_for_themselves() -> None:
    assert unescape("a__in__b") == "a__in__b"
    assert unescape("__other__") == "__other__"


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "uuid"}, "string"),
        ({"type": "string", "format": "byte"}, "bytes"),
        ({"type": "string", "format": "date"}, "timestamp"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "duration"}, "duration"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "bool"),
        ({"x-kubernetes-int-or-string": True}, "dyn"),
        ({"type": "array", "items": {"type": "integer"}}, "list(int)"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map(string, string)"),
        ({"type": "object"}, "selfType"),
    ],
)
def test_types_follow_the_schema(props: dict[str, Any], text: str) -> None:
    declared = declare(read(props), root=False)
    assert declared is not None
    assert str(declared.type()) == text


@pytest.mark.parametrize(
    "props",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
    ],
)
def test_what_has_no_type_cannot_be_seen(props: dict[str, Any]) -> None:
    assert declare(read(props), root=False) is None
    declared = declare(read({"type": "object", "properties": {"hidden": props, "seen": STRING_PROPS}}), root=False)
    assert declared is not None
    assert declared.fields is not None
    assert list(declared.fields) == ["seen"]


def test_objects_are_named_by_their_path() -> None:
    inner = {"type": "object", "properties": {"x": STRING_PROPS}}
    props = {
        "type": "object",
        "properties": {
            "one": inner,
            "many": {"type": "array", "items": inner},
            "named": {"type": "object", "additionalProperties": inner},
        },
    }
    declared = declare(read(props), root=False)
    assert declared is not None
    of = declared.type()
    assert isinstance(of, Object)
    assert str(of.fields["one"]) == "selfType.one"
    assert str(of.fields["many"]) == "list(selfType.many.@idx)"
    assert str(of.fields["named"]) == "map(string, selfType.named.@elem)"


def test_resources_have_type_and_name_whatever_their_schema_says() -> None:
    of = declare(read({"type": "object"}), root=True)
    assert of is not None
    root = of.type()
    assert isinstance(root, Object)
    metadata = root.fields["metadata"]
    assert isinstance(metadata, Object)
    assert root.fields["kind"] == root.fields["apiVersion"] == STRING
    assert dict(metadata.fields) == {"name": STRING, "generateName": STRING}


def test_a_schema_that_describes_all_metadata_is_taken_as_it_is() -> None:
    metadata = {
        "type": "object",
        "properties": {"name": STRING_PROPS, "generateName": STRING_PROPS, "uid": STRING_PROPS},
    }
    props = {"type": "object", "properties": {"kind": STRING_PROPS, "apiVersion": STRING_PROPS, "metadata": metadata}}
    declared = declare(read(props), root=True)
    assert declared is not None
    assert declared.fields is not None
    seen = declared.fields["metadata"].fields
    assert seen is not None
    assert "uid" in seen


def test_embedded_resources_are_resources() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    declared = declare(read({"type": "object", "properties": {"template": embedded}}), root=False)
    assert declared is not None
    assert declared.fields is not None
    assert declared.fields["template"].fields is not None


# -- sizes: (most elements, fewest bytes), as cel-go estimates them ---------------------------------------------------


@pytest.mark.parametrize(
    ("props", "most", "fewest"),
    [
        ({"type": "string"}, 3145726, 2),
        ({"type": "string", "maxLength": 10}, 40, 2),
        ({"type": "string", "maxLength": -1}, 0, 2),
        ({"type": "string", "enum": ["a", "ççç"]}, 6, 2),
        ({"type": "string", "enum": ["a"], "maxLength": 3}, 12, 2),
        ({"type": "string", "format": "byte"}, 3145726, 2),
        ({"type": "string", "format": "byte", "maxLength": 9}, 9, 2),
        ({"type": "string", "format": "date"}, 12, 12),
        ({"type": "string", "format": "date-time"}, 32, 21),
        ({"type": "string", "format": "duration"}, 32, 3),
        ({"x-kubernetes-int-or-string": True}, 3145726, 1),
        ({"x-kubernetes-int-or-string": True, "maxLength": 3}, 12, 1),
        ({"type": "boolean"}, 0, 4),
        ({"type": "integer"}, 0, 1),
        ({"type": "array", "items": {"type": "string"}}, 1048575, 2),
        ({"type": "array", "items": {"type": "boolean"}}, 629145, 2),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 7}, 7, 2),
        ({"type": "object", "additionalProperties": {"type": "string"}}, 393215, 2),
        ({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 4}, 4, 2),
        ({"type": "object", "properties": {"ab": {"type": "string"}}, "required": ["ab"]}, 0, 10),
        ({"type": "object", "properties": {"ab": {"type": "string", "default": ""}}, "required": ["ab"]}, 0, 2),
        ({"type": "object", "properties": {"ab": {"type": "string"}}}, 0, 2),
    ],
)
def test_sizes_come_from_limits_or_from_the_largest_request(props: dict[str, Any], most: int, fewest: int) -> None:
    declared = declare(read(props), root=False)
    assert declared is not None
    assert (declared.max_elements, declared.min_size) == (most, fewest)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "props",
    [
        {"type": "string"},
        {"type": "integer"},
        {"x-kubernetes-int-or-string": True},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ],
)
def test_most_json_serves_as_it_is(props: dict[str, Any]) -> None:
    assert adapter(read(props)) is None


@pytest.mark.parametrize(
    ("props", "value", "adapted"),
    [
        ({"type": "number"}, 1, 1.0),
        ({"type": "string", "format": "byte"}, "YWJj", b"abc"),
        ({"type": "string", "format": "byte"}, "--8=", b"\xfb\xef"),
        ({"type": "string", "format": "byte"}, "?", "?"),
        ({"type": "string", "format": "date"}, "1970-01-02", Timestamp(86400 * 10**9)),
        ({"type": "string", "format": "date-time"}, "1970-01-01T00:00:01.5Z", Timestamp(1_500_000_000)),
        ({"type": "string", "format": "date-time"}, "1970-01-01T01:00:00+01:00", Timestamp(0)),
        ({"type": "string", "format": "date-time"}, "1970-01-01T00:00:01", Timestamp(10**9)),
        ({"type": "string", "format": "date-time"}, "never", "never"),
        ({"type": "string", "format": "duration"}, "1h", Duration(3600 * 10**9)),
        ({"type": "string", "format": "duration"}, "2 weeks 1 day", Duration(15 * 86400 * 10**9)),
        ({"type": "array", "items": {"type": "number"}}, [1, 2.5], [1.0, 2.5]),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, {"a": 1.0}),
        ({"type": "number", "nullable": True}, None, None),
        ({"type": "array", "nullable": True, "items": {"type": "number"}}, None, None),
    ],
)
def test_formats_and_numbers_become_values_of_their_type(props: dict[str, Any], value: Any, adapted: Any) -> None:
    adapt = adapter(read(props))
    assert adapt is not None
    found = adapt(value)
    assert found == adapted
    assert type(found) is type(adapted)


def test_lists_are_marked_as_sets_and_maps() -> None:
    items = {"type": "object", "properties": {"k": STRING_PROPS, "n": {"type": "number"}}, "required": ["k"]}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items}
    adapt = adapter(read(keyed))
    assert adapt is not None
    found = adapt([{"k": "a", "n": 1}])
    assert isinstance(found, MapList)
    assert found.keys == ("k",)
    assert found == [{"k": "a", "n": 1.0}]
    adapt = adapter(read({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}))
    assert adapt is not None
    assert isinstance(adapt([1, 2]), SetList)


def test_only_what_changes_is_copied() -> None:
    schema = read({"type": "object", "properties": {"n": {"type": "number"}, "o": {"type": "object"}}})
    adapt = adapter(schema)
    assert adapt is not None
    value = {"n": 1, "o": {}}
    found = adapt(value)
    assert found == {"n": 1.0, "o": {}}
    assert found["o"] is value["o"]
    assert value["n"] == 1
    untouched = {"o": {}}
    assert adapt(untouched) is untouched


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("self.a.b > 1 && self.c", {"a": {"b": None}, "c": None}),
        ("self.a.b == self.a", {"a": None}),
        ("self.l.all(x, x > self.m.n)", {"l": None, "m": {"n": None}}),
        ("has(self.a.b)", {"a": {"b": None}}),
        ("self.x__dash__y", {"x-y": None}),
        ("oldSelf.a == 1", {}),
        ("self == oldSelf", None),
        ("[self.a].all(self, self.b)", None),
        ("{'k': self.a}.size() > 0 && [self.b][0]", {"a": None, "b": None}),
    ],
)
def test_parts_that_no_expression_looks_at_are_known(source: str, parts: Any) -> None:
    assert used_fields(parse(source), "self") == parts


def test_what_is_not_looked_at_is_not_changed() -> None:
    schema = read({"type": "object", "properties": {"n": {"type": "number"}, "m": {"type": "number"}}})
    adapt = adapter(schema, merge({"m": None}, {}))
    assert adapt is not None
    assert type(adapt({"n": 1, "m": 1})["n"]) is int
    assert adapter(schema, {}) is None


# -- paths ------------------------------------------------------------------------------------------------------------

FIELDS = read(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"a.b": STRING_PROPS, "c": STRING_PROPS}},
            "labels": {"type": "object", "additionalProperties": STRING_PROPS},
            "list": {"type": "array", "items": STRING_PROPS},
        },
    }
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".spec.c", "spec.c"),
        (".spec['a.b']", "spec.a.b"),
        ("['spec'].c", "spec.c"),
        (".labels.x", "labels[x]"),
        (r".labels['it\'s']", "labels[it's]"),
        (".list", "list"),
        ("", ""),
    ],
)
def test_paths_lead_through_properties_and_keys(path: str, name: str) -> None:
    assert resolve(path, FIELDS).name == name


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("spec", "expected [ or . but got: spec"),
        (".spec.x", "does not refer to a valid field"),
        (".spec.c.d", "does not refer to a valid field"),
        (".list[0]", "expected single quoted string but got 0"),
        (".spec['c'", "unexpected end of JSON path"),
        (".spec['c'.x", "expected ] but got ."),
        (".spec.", "unexpected end of JSON path"),
        (r".labels['\q']", r"invalid string literal: invalid escape char \q"),
    ],
)
def test_paths_that_lead_nowhere_are_refused(path: str, problem: str) -> None:
    with pytest.raises(FieldPathError, match=re.escape(problem)):
        resolve(path, FIELDS)


def test_selectable_fields_use_no_brackets() -> None:
    with pytest.raises(FieldPathError, match="array notation is not allowed"):
        resolve("['spec'].c", FIELDS, brackets=False)


def test_types_of_lists_and_maps_are_values() -> None:
    declared = declare(read({"type": "array", "items": {"x-kubernetes-int-or-string": True}}), root=False)
    assert declared is not None
    assert declared.type() == list_of(DYN)
    assert map_of(STRING, INT) == map_of(STRING, INT)
