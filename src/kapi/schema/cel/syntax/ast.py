"""The syntax tree of an expression, after macros are expanded. Every node has an id and the place it was read at.

Macros (`all`, `exists`, `map` …) are expanded into `Comprehension` by the parser, as the language defines them, so that
checking and pricing know one loop only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.schema.cel.types import Type


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """The base of all nodes: an id, unique in its tree, and an offset in characters into the source."""

    id: int
    offset: int


@dataclass(slots=True, eq=False, kw_only=True)
class Literal(Node):
    """A constant: null, bool, int, uint, double, string or bytes; `type` tells int from uint."""

    value: Any
    type: Type


@dataclass(slots=True, eq=False, kw_only=True)
class Ident(Node):
    """A name."""

    name: str


@dataclass(slots=True, eq=False, kw_only=True)
class Select(Node):
    """`operand.field`; with `test_only`, `has(operand.field)`. `operand.?field` is a Call of `_?._`."""

    operand: Expr
    field: str
    test_only: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class Call(Node):
    """A function, or an operator by its function name: `_+_`, `_&&_`, `_?_:_`, `_[_]`, `_?._`, `!_`, `-_`, `@in`."""

    function: str
    args: list[Expr]
    target: Expr | None = None
    """The receiver of `target.function(args)`."""


@dataclass(slots=True, eq=False, kw_only=True)
class ListExpr(Node):
    """`[a, ?b]`; `optional` has the indices of the optional elements."""

    elements: list[Expr]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False, kw_only=True)
class Entry:
    """`key: value` of a map; `?key: value` when it is optional."""

    id: int
    key: Expr
    value: Expr
    optional: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class MapExpr(Node):
    """`{k: v}`."""

    entries: list[Entry]


@dataclass(slots=True, eq=False, kw_only=True)
class StructField:
    """`name: value` of a struct; `?name: value` when it is optional. The offset is that of the colon."""

    name: str
    value: Expr
    offset: int
    optional: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class StructExpr(Node):
    """`Type{field: value}`."""

    name: str
    fields: list[StructField]


@dataclass(slots=True, eq=False, kw_only=True)
class Comprehension(Node):
    """A fold over a list or a map: `accu` starts as `init`; while `condition`, it becomes `step`; then `result`.

    `variable` is the element (of a map: the key); with `second`, `variable` is the index or key and `second` the value.
    """

    range: Expr
    variable: str
    accumulator: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr
    second: str = ""
    macro: str = ""
    """The macro this came from, for messages and shortcuts."""


Expr = Literal | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension


def children(expr: Expr) -> Sequence[Expr]:
    """The nodes directly below a node."""
    match expr:
        case Select():
            return (expr.operand,)
        case Call():
            return expr.args if expr.target is None else (expr.target, *expr.args)
        case ListExpr():
            return expr.elements
        case MapExpr():
            return [part for entry in expr.entries for part in (entry.key, entry.value)]
        case StructExpr():
            return [field.value for field in expr.fields]
        case Comprehension():
            return expr.range, expr.init, expr.condition, expr.step, expr.result
    return ()


@dataclass(slots=True)
class Checked:
    """A checked tree: the type of every node, and what names and calls refer to."""

    source: str
    root: Expr
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Of a Call: the ids of the overloads that may apply, several where types are only known at run time."""
    names: dict[int, str] = field(default_factory=dict)
    """Of an Ident, or of a Select that is really a qualified name: the full name of the variable or type."""

    @property
    def type(self) -> Type:
        """The type of the whole."""
        return self.types[self.root.id]
