"""Writes syntax trees down as text, so that tests can say what they expect, and walks over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.schema.cel.syntax.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def show(expr: Expr) -> str:
    """Calls by the names of their functions, loops as `fold(...)`; no places and no ids."""
    match expr:
        case Literal():
            return f"{expr.value}u" if expr.type.name == "uint" else repr(expr.value)
        case Ident():
            return expr.name
        case Select():
            written = f"{show(expr.operand)}.{expr.field}"
            return f"has({written})" if expr.test_only else written
        case Call():
            receiver = f"{show(expr.target)}." if expr.target else ""
            return f"{receiver}{expr.function}({', '.join(map(show, expr.args))})"
        case ListExpr():
            marks = ("?" if at in expr.optional else "" for at in range(len(expr.elements)))
            return f"[{', '.join(mark + show(one) for mark, one in zip(marks, expr.elements, strict=True))}]"
        case MapExpr():
            return (
                f"{{{', '.join('?' * one.optional + show(one.key) + ': ' + show(one.value) for one in expr.entries)}}}"
            )
        case StructExpr():
            return f"{expr.name}{{{', '.join(f'{one.name}: {show(one.value)}' for one in expr.fields)}}}"
        case Comprehension():
            names = f"{expr.variable}, {expr.second}" if expr.second else expr.variable
            init, condition, step, result = map(show, (expr.init, expr.condition, expr.step, expr.result))
            return f"fold({names} in {show(expr.range)}; {expr.accumulator} = {init}; {condition}; {step}; {result})"


def nodes(expr: Expr) -> Iterator[Expr]:
    """The node and all below it."""
    yield expr
    match expr:
        case Select():
            below = [expr.operand]
        case Call():
            below = [*([expr.target] if expr.target else []), *expr.args]
        case ListExpr():
            below = expr.elements
        case MapExpr():
            below = [part for entry in expr.entries for part in (entry.key, entry.value)]
        case StructExpr():
            below = [one.value for one in expr.fields]
        case Comprehension():
            below = [expr.range, expr.init, expr.condition, expr.step, expr.result]
        case _:
            below = []
    for one in below:
        yield from nodes(one)
