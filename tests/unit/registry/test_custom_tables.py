"""Tables of custom kinds: the columns of a definition, and what each type makes of what it finds."""

from __future__ import annotations

import datetime as dt

import pytest

from kapi.api.jsonpath.steps import MAX_TOUCHED
from kapi.api.limits import TABLE_ROW_CHARACTERS
from kapi.registry.tables import custom
from kapi.registry.tables.custom import SCALE_TABLE, custom_table

NOW = dt.datetime(2026, 5, 4, 12, 0, tzinfo=dt.UTC)
MISSING = object()


def column(kind, path=".spec.value", **more):
    return {"name": "C", "type": kind, "jsonPath": path, **more}


def cell(kind, value, path=".spec.value"):
    obj = {"metadata": {"name": "x"}, "spec": {} if value is MISSING else {"value": value}}
    return custom_table([column(kind, path)]).cells(obj, NOW)[1]


def test_the_name_comes_first_and_then_the_columns_of_the_definition():
    described = column("integer", priority=1, format="int32", description="How many.")
    table = custom_table([column("string"), described])
    assert [(each.name, each.type, each.format, each.priority) for each in table.columns] == [
        ("Name", "string", "name", 0),
        ("C", "string", "", 0),
        ("C", "integer", "int32", 1),
    ]
    assert table.columns[1].description == "Custom resource definition column (in JSONPath format): .spec.value"
    assert table.columns[2].description == "How many."


def test_without_columns_there_is_an_age():
    table = custom_table([])
    assert [(each.name, each.type) for each in table.columns] == [("Name", "string"), ("Age", "date")]
    obj = {"metadata": {"name": "x", "creationTimestamp": "2026-05-04T11:59:00Z"}}
    assert table.cells(obj, NOW) == ["x", "60s"]
    assert table.cells({"metadata": {"name": "x"}}, NOW) == ["x", None]


def test_columns_end_before_the_first_that_cannot_be_read():
    table = custom_table([column("string"), column("string", ".spec[?(@.a==]"), column("string")])
    assert len(table.columns) == 2
    assert table.cells({"metadata": {"name": "x"}, "spec": {"value": "v"}}, NOW) == ["x", "v"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        ("", ""),
        (5, "5"),
        (True, "true"),
        (None, "<no value>"),
        (MISSING, None),
        (1.0, "1"),
        (1234567.5, "1.2345675e+06"),
        (123456.5, "123456.5"),
        (-1e300, "-1e+300"),
        (0.00001, "1e-05"),
        ([], "[]"),
        ([{"name": "y<&"}], '[{"name":"y\\u003c\\u0026"}]'),
        ({"b": 1, "a": [1.0, 1e21, None, 1e-7]}, '{"a":[1,1e+21,null,1e-7],"b":1}'),
    ],
)
def test_a_string_cell_prints_whatever_it_finds(value, shown):
    assert cell("string", value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5, 5),
        (-7, -7),
        (7.9, 7),
        (-7.9, -7),
        (1e300, -(2**63)),
        (2**64, -(2**63)),
        ("5", None),
        (True, None),
        (None, None),
        (MISSING, None),
    ],
)
def test_an_integer_cell_takes_numbers_only_and_cuts_their_fractions(value, shown):
    found = cell("integer", value)
    assert (found, type(found)) == (shown, type(shown))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(5, 5), (5.0, 5), (0.25, 0.25), (1e300, 1e300), ("5", None), (False, None), (MISSING, None)],
)
def test_a_number_cell_is_written_without_a_fraction_when_it_has_none(value, shown):
    found = cell("number", value)
    assert (found, type(found)) == (shown, type(shown))


@pytest.mark.parametrize(("value", "shown"), [(True, True), (False, False), (1, None), ("true", None), (None, None)])
def test_a_boolean_cell_shows_booleans_only(value, shown):
    assert cell("boolean", value) is shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-05-04T11:55:00Z", "5m"),
        ("2026-05-04T13:55:00+02:00", "5m"),
        ("2026-05-04T11:59:58.750Z", "1s"),
        ("2026-05-04T12:00:10Z", "<invalid>"),
        ("2026-05-04 11:55:00Z", "<invalid>"),
        ("20260504T115500Z", "<invalid>"),
        ("yesterday", "<invalid>"),
        ("", "<unknown>"),
        ("null", "<unknown>"),
        ("0001-01-01T00:00:00Z", "<unknown>"),
        ("0001-01-01T00:00:01Z", "292y"),
        ("0000-01-01T00:00:00Z", "292y"),
        (1777000000, None),
        (None, None),
        (MISSING, None),
    ],
)
def test_a_date_cell_is_an_age(value, shown):
    assert cell("date", value) == shown


def test_of_several_values_the_first_is_shown():
    assert cell("string", [{"n": "a"}, {"n": "b"}], ".spec.value[*].n") == "a"


def test_a_path_without_a_match_leaves_the_cell_empty():
    assert cell("string", [], ".spec.value[0]") is None
    assert cell("string", {"a": 1}, ".spec.value[?(@.a)]") is None


def test_an_unknown_type_leaves_the_cell_empty():
    assert cell("colour", "red") is None


def test_the_status_of_a_condition_can_be_a_column():
    table = custom_table([column("string", '.status.conditions[?(@.type=="Ready")].status')])
    obj = {"metadata": {"name": "x"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert table.cells(obj, NOW) == ["x", "True"]
    assert table.cells({"metadata": {"name": "x"}}, NOW) == ["x", None]


def test_an_object_without_metadata_has_an_empty_name():
    assert custom_table([column("string")]).cells({}, NOW) == ["", None]


def test_the_table_of_a_scale():
    scale = {"metadata": {"name": "x"}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    assert [each.name for each in SCALE_TABLE.columns] == ["Name", "Desired", "Available", "Age"]
    assert SCALE_TABLE.cells(scale, NOW) == ["x", 3, 2, None]


# -- the cost of a row ------------------------------------------------------------------------------------------------


def test_the_columns_of_a_row_share_the_values_that_they_may_search():
    obj = {"metadata": {"name": "x"}, "spec": {"many": [{"a": 1} for _ in range(MAX_TOUCHED // 10)], "value": "v"}}
    columns = [column("integer", ".spec.many[*].a") for _ in range(30)]
    cells = custom_table([*columns, column("string")]).cells(obj, NOW)
    assert cells[1] == 1
    assert cells[-2] is None
    assert cells[-1] == "v", "a plain path searches nothing"
    assert 1 < cells.count(1) < 10


def test_the_texts_of_a_row_are_cut_at_a_size():
    size = TABLE_ROW_CHARACTERS
    table = custom_table([column("string", ".spec.value"), column("string", ".spec.text"), column("string")])
    for value in (["x" * 100] * (size // 50), "x" * (size * 2), {"a": "é" * size}):
        row = table.cells({"metadata": {"name": "x"}, "spec": {"value": value, "text": "t"}}, NOW)
        assert len(row[1]) == size + len("...")
        assert row[1].endswith("...")
        assert row[2:] == ["...", "..."]
    fits = table.cells({"metadata": {"name": "x"}, "spec": {"value": "x" * (size - 10), "text": "t"}}, NOW)
    assert fits[1:] == ["x" * (size - 10), "t", "x" * 9 + "..."]


def test_a_value_that_many_columns_show_is_printed_once(monkeypatch):
    printed = []
    monkeypatch.setattr(
        custom, "_encode_sorted", lambda value: printed.append(value) or b"x" * (TABLE_ROW_CHARACTERS + 1)
    )
    custom_table([column("string")] * 50).cells({"metadata": {"name": "x"}, "spec": {"value": [1]}}, NOW)
    assert len(printed) == 1
