"""What is printed, to the character."""

import pytest

from kapi.api.errors import Invalid, NotFound, PlainError, Unauthorized
from kapi.api.meta import GroupResource
from kapi.cli.printer import CommandError, ObjectPrinter, TablePrinter, as_list, error_text, with_source
from kapi.client import ConnectError, NoMatch, TransportTimeout

COLUMNS = [
    {"name": "Name", "type": "string", "format": "name", "priority": 0},
    {"name": "Ready", "type": "integer", "priority": 0},
    {"name": "Images", "type": "string", "priority": 1},
    {"name": "Age", "type": "string", "priority": 0},
]


def _table(*rows, columns=COLUMNS):
    listed = [
        {"cells": list(cells), "object": {"metadata": {"namespace": "ns", "labels": {"b": "2", "a": "1"}}}}
        for cells in rows
    ]
    return {"kind": "Table", "columnDefinitions": columns, "rows": listed}


def _text(*tables, event="", **options):
    printer = TablePrinter(**options)
    for table in tables:
        printer.add(table, event)
    return printer.flush()


A, LONG = ("a", 1, "nginx", "5s"), ("a-long-name", 10, "nginx:1.27", "100d")


def test_columns_are_as_wide_as_their_widest_cell_and_three():
    assert _text(_table(A, LONG)) == (
        "NAME          READY   AGE\n"
        "a             1       5s\n"
        "a-long-name   10      100d\n"
    )  # fmt: skip


def test_columns_are_never_narrower_than_six():
    assert _text(_table(A), headers=False) == "a     1     5s\n"


def test_wide_shows_every_column():
    assert _text(_table(A), wide=True) == "NAME   READY   IMAGES   AGE\na      1       nginx    5s\n"


def test_the_namespace_is_the_first_column_and_labels_are_the_last():
    assert _text(_table(A), with_namespace=True, with_labels=True) == (
        "NAMESPACE   NAME   READY   AGE   LABELS\n"
        "ns          a      1       5s    a=1,b=2\n"
    )  # fmt: skip


def test_object_without_labels_says_so():
    table = _table(A)
    table["rows"][0]["object"] = {"metadata": {}}
    assert _text(table, with_labels=True).endswith("5s    <none>\n")


def test_kind_is_put_before_the_name():
    assert _text(_table(A), kind="deployment.apps", headers=False).startswith("deployment.apps/a   ")


def test_pages_share_one_header_and_one_layout():
    assert _text(_table(A), _table(LONG)) == _text(_table(A, LONG))


def test_table_without_rows_prints_nothing():
    assert _text(_table()) == ""


def test_events_of_a_watch_are_a_column_and_keep_their_layout():
    printer = TablePrinter()
    printer.add(_table(LONG), "ADDED")
    first = printer.flush()
    # Later events bring no columns of their own.
    printer.add(_table(A, columns=None), "DELETED")
    assert first + printer.flush() == (
        "EVENT      NAME          READY   AGE\n"
        "ADDED      a-long-name   10      100d\n"
        "DELETED    a             1       5s\n"
    )  # fmt: skip


def test_widths_only_grow():
    printer = TablePrinter(headers=False)
    printer.add(_table(A))
    printer.flush()
    printer.add(_table(LONG))
    assert printer.flush() == "a-long-name   10    100d\n"
    printer.add(_table(A))
    assert printer.flush() == "a             1     5s\n"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, ""),
        (True, "true"),
        (1.5, "1.5"),
        ("one\ntwo", "one..."),
        ("a\x1b[31mb", "a^[[31mb"),
        ("a\tb", "a b"),
        ("été", "été"),
    ],
)
def test_cell_cannot_break_the_table_or_the_terminal(cell, shown):
    columns = [{"name": "A", "type": "string"}, {"name": "B", "type": "string"}]
    assert _text(_table((cell, "x"), columns=columns), headers=False) == shown.ljust(max(6, len(shown) + 3)) + "x\n"


def test_row_longer_than_its_columns_is_cut():
    assert _text(_table((*A, "more", "and more")), headers=False) == "a     1     5s\n"


def test_server_without_tables_still_gives_names_and_ages():
    created = "2020-01-01T00:00:00Z"
    listed = {"kind": "ThingList", "items": [{"metadata": {"name": "a", "creationTimestamp": created}}]}
    text = _text(listed)
    assert text.startswith("NAME   AGE\na      ")
    assert _text({"kind": "Thing", "metadata": {"name": "b"}}, headers=False) == "b     <unknown>\n"


# -- objects ----------------------------------------------------------------------------------------------------------

OBJECT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "web", "managedFields": [{"manager": "x"}]},
    "spec": {"text": "<a&b>", "replicas": 1},
}


def test_yaml_is_sorted_and_without_managed_fields():
    assert ObjectPrinter("yaml").text(OBJECT) == (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 1\n  text: <a&b>\n"
    )
    assert "manager: x" in ObjectPrinter("yaml", managed_fields=True).text(OBJECT)
    assert "managedFields" in OBJECT["metadata"]


def test_several_yaml_objects_are_documents():
    printer = ObjectPrinter("yaml")
    assert printer.text({"a": 1}) + printer.text({"b": 2}) == "a: 1\n---\nb: 2\n"


def test_json_is_indented_by_four_and_escaped_as_go_does():
    assert ObjectPrinter("json").text({"b": ["<&>"], "a": {}}) == (
        '{\n    "a": {},\n    "b": [\n        "\\u003c\\u0026\\u003e"\n    ]\n}\n'
    )


def test_list_is_one_object_but_for_names():
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "managedFields": []}}
    listed = as_list([OBJECT, pod])
    assert ObjectPrinter("name").text(listed) == "deployment.apps/web\npod/a\n"
    text = ObjectPrinter("yaml").text(listed)
    assert text.startswith("apiVersion: v1\nitems:\n- apiVersion: apps/v1\n")
    assert text.endswith('kind: List\nmetadata:\n  resourceVersion: ""\n')
    assert "managedFields" not in text


# -- errors -----------------------------------------------------------------------------------------------------------

PODS = GroupResource("", "pods")


def _invalid(causes, **details):
    return Invalid("m", details={"kind": "Pod", "name": "a", "causes": causes, **details})


CAUSE, OTHER = {"field": "spec.x", "message": "bad"}, {"field": "spec.y", "message": "worse"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFound.of(PODS, "a"), 'Error from server (NotFound): pods "a" not found'),
        (PlainError("odd"), "Error from server: odd"),
        (Unauthorized(), "error: You must be logged in to the server (Unauthorized)"),
        (_invalid([CAUSE]), 'The Pod "a" is invalid: spec.x: bad'),
        (_invalid([CAUSE, CAUSE, OTHER]), 'The Pod "a" is invalid: \n* spec.x: bad\n* spec.y: worse'),
        (_invalid([]), 'The Pod "a" is invalid'),
        (_invalid([CAUSE], kind="", name=""), "The request is invalid: spec.x: bad"),
        (Invalid.generic(), "The request is invalid: the server rejected our request due to an error in our request"),
        (Invalid("m"), "The request is invalid: m"),
        (NoMatch("the server doesn't have x"), "error: the server doesn't have x"),
        (CommandError("no"), "error: no"),
        (
            ConnectError("x", host="h:1", refused=True),
            "The connection to the server h:1 was refused - is the control plane running? kapi up",
        ),
        (ConnectError("no route"), "Unable to connect to the server: no route"),
        (TransportTimeout("slow"), "Unable to connect to the server: slow"),
    ],
)
def test_error_reads_as_kubectl_words_it(error, text):
    assert error_text([error]) == text + "\n"


def test_several_errors_have_a_line_each():
    errors = [_invalid([CAUSE]), CommandError("no"), NotFound.of(PODS, "a")]
    assert (
        error_text(errors) == 'Error from server (Invalid): m\nno\nError from server (NotFound): pods "a" not found\n'
    )


def test_error_names_the_file_it_is_about():
    error = with_source(NotFound.of(PODS, "a"), "deleting", "a.yaml")
    assert error_text([error]) == 'Error from server (NotFound): error when deleting "a.yaml": pods "a" not found\n'
