"""Macros stand for the trees that the language defines, and refuse arguments that they cannot expand."""

from __future__ import annotations

import pytest
from cel_trees import nodes, show

from kapi.schema.cel.syntax.ast import Comprehension, Select
from kapi.schema.cel.syntax.parser import SyntaxErrors, parse


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("has(a.b)", "has(a.b)"),
        ("has(a.b.c)", "has(a.b.c)"),
        ("has(has(a.b))", "has(a.b)"),
        (
            "a.all(x, t)",
            "fold(x in a; @result = True; @not_strictly_false(@result); _&&_(@result, t); @result)",
        ),
        (
            "a.all(i, x, t)",
            "fold(i, x in a; @result = True; @not_strictly_false(@result); _&&_(@result, t); @result)",
        ),
        (
            "a.exists(x, t)",
            "fold(x in a; @result = False; @not_strictly_false(!_(@result)); _||_(@result, t); @result)",
        ),
        (
            "a.exists(i, x, t)",
            "fold(i, x in a; @result = False; @not_strictly_false(!_(@result)); _||_(@result, t); @result)",
        ),
        (
            "a.exists_one(x, t)",
            "fold(x in a; @result = 0; True; _?_:_(t, _+_(@result, 1), @result); _==_(@result, 1))",
        ),
        (
            "a.exists_one(i, x, t)",
            "fold(i, x in a; @result = 0; True; _?_:_(t, _+_(@result, 1), @result); _==_(@result, 1))",
        ),
        (
            "a.existsOne(i, x, t)",
            "fold(i, x in a; @result = 0; True; _?_:_(t, _+_(@result, 1), @result); _==_(@result, 1))",
        ),
        ("a.map(x, f)", "fold(x in a; @result = []; True; _+_(@result, [f]); @result)"),
        ("a.map(x, t, f)", "fold(x in a; @result = []; True; _?_:_(t, _+_(@result, [f]), @result); @result)"),
        ("a.filter(x, t)", "fold(x in a; @result = []; True; _?_:_(t, _+_(@result, [x]), @result); @result)"),
        ("a.transformList(i, x, f)", "fold(i, x in a; @result = []; True; _+_(@result, [f]); @result)"),
        (
            "a.transformList(i, x, t, f)",
            "fold(i, x in a; @result = []; True; _?_:_(t, _+_(@result, [f]), @result); @result)",
        ),
        (
            "a.transformMap(k, v, f)",
            "fold(k, v in a; @result = {}; True; cel.@mapInsert(@result, k, f); @result)",
        ),
        (
            "a.transformMap(k, v, t, f)",
            "fold(k, v in a; @result = {}; True; _?_:_(t, cel.@mapInsert(@result, k, f), @result); @result)",
        ),
        (
            "a.transformMapEntry(k, v, f)",
            "fold(k, v in a; @result = {}; True; cel.@mapInsert(@result, f); @result)",
        ),
        (
            "a.transformMapEntry(k, v, t, f)",
            "fold(k, v in a; @result = {}; True; _?_:_(t, cel.@mapInsert(@result, f), @result); @result)",
        ),
        (
            "a.optMap(x, f)",
            "_?_:_(a.hasValue(), optional.of(fold(#unused in []; x = a.value(); False; x; f)), optional.none())",
        ),
        (
            "a.optFlatMap(x, f)",
            "_?_:_(a.hasValue(), fold(#unused in []; x = a.value(); False; x; f), optional.none())",
        ),
        (
            "a.sortBy(x, f)",
            (
                "fold(#unused in []; @__sortBy_input__ = a; False; @__sortBy_input__; "
                "@__sortBy_input__.@sortByAssociatedKeys("
                "fold(x in @__sortBy_input__; @result = []; True; _+_(@result, [f]); @result)))"
            ),
        ),
    ],
)
def test_macros_expand_to_the_trees_of_the_language(source: str, tree: str) -> None:
    assert show(parse(source)) == tree


@pytest.mark.parametrize(
    "source",
    [
        "has()",
        "has(a.b, c)",
        "a.has(b.c)",
        ".has(a.b)",
        "all(x, t)",
        "a.all(x)",
        "a.all(x, y, z, t)",
        "a.existsOne(x, t)",
        "a.map(x)",
        "a.map(w, x, y, z)",
        "a.filter(x, y, z)",
        "a.transformMap(x, y)",
        "a.optMap(x)",
        "cel.bind(x, 1, x)",
    ],
)
def test_other_numbers_of_arguments_are_plain_calls(source: str) -> None:
    assert show(parse(source)) == source


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("has(a)", 5, "invalid argument to has() macro"),
        ("has(a[0])", 6, "invalid argument to has() macro"),
        ("has(a.?b)", 6, "invalid argument to has() macro"),
        ("a.all(1, t)", 7, "argument must be a simple name"),
        ("a.all(x.y, t)", 8, "argument must be a simple name"),
        ("a.exists('x', t)", 10, "argument must be a simple name"),
        ("a.exists_one(1, t)", 14, "argument must be a simple name"),
        ("a.all(x, 1, t)", 10, "argument must be a simple name"),
        ("a.all(1, x, t)", 7, "argument must be a simple name"),
        ("a.all(x, x, t)", 10, "duplicate variable name: x"),
        ("a.map(1, f)", 7, "argument is not an identifier"),
        ("a.filter(1, t)", 10, "argument is not an identifier"),
        ("a.transformList(i, i, f)", 20, "duplicate variable name: i"),
        ("a.all(__result__, t)", 7, "iteration variable overwrites accumulator variable"),
        ("a.map(__result__, f)", 7, "iteration variable overwrites accumulator variable"),
        ("a.all(__result__, x, t)", 7, "iteration variable overwrites accumulator variable"),
        ("a.all(x, __result__, t)", 10, "iteration variable overwrites accumulator variable"),
        ("a.optMap(1, f)", 10, "optMap() variable name must be a simple identifier"),
        ("a.optFlatMap(b.c, f)", 15, "optFlatMap() variable name must be a simple identifier"),
        (
            "'a'.sortBy(x, x)",
            1,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
        ("a.sortBy(1, x)", 10, "argument is not an identifier"),
    ],
)
def test_wrong_arguments_are_refused_where_they_stand(source: str, column: int, message: str) -> None:
    with pytest.raises(SyntaxErrors) as caught:
        parse(source)
    assert str(caught.value).splitlines()[0] == f"ERROR: <input>:1:{column}: {message}"


def test_an_expansion_stands_at_the_parenthesis_of_its_call() -> None:
    tree = parse("aaa.all(x, bbb)")
    assert isinstance(tree, Comprehension)
    written = {"aaa": 0, "bbb": 11}
    assert {show(node): node.offset for node in nodes(tree) if show(node) in written} == written
    assert {node.offset for node in nodes(tree) if show(node) not in written} == {7}


def test_a_receiver_that_is_repeated_keeps_its_places_and_gets_new_ids() -> None:
    tree = parse("a.b[c].optMap(x, x)")
    twins = [node for node in nodes(tree) if show(node) == "a.b"]
    assert len(twins) == 2
    assert isinstance(twins[0], Select)
    assert twins[0].offset == twins[1].offset == 1
    ids = [node.id for node in nodes(tree)]
    assert len(ids) == len(set(ids))


def test_all_kinds_of_receivers_can_be_repeated() -> None:
    source = "{1: [a, ?b].map(x, has(x.y)), ?f(-2): T{z: 'q'}}.g(null)"
    tree = parse(f"{source}.optFlatMap(v, w)")
    assert show(tree).count(show(parse(source))) == 2


def test_loops_remember_the_macro_they_came_from() -> None:
    made = [
        node.macro
        for node in nodes(parse("a.all(x, b.filter(y, t).map(z, f) == c)"))
        if isinstance(node, Comprehension)
    ]
    assert sorted(made) == ["all", "filter", "map"]
