"""Macros: `has`, `all`, `map` and others, which the parser replaces by their expansions.

The shapes are those that the language defines, down to the order of operands, because an expression costs what its
expansion costs. Everything that a macro makes is placed at the opening parenthesis of its call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kapi.schema.cel.syntax.ast import (
    Call,
    Comprehension,
    Entry,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from kapi.schema.cel.types import BOOL, INT

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kapi.schema.cel.types import Type

ACCUMULATOR: Final = "@result"
"""The variable that macros fold into. Expressions cannot spell it."""

_VISIBLE_ACCUMULATOR: Final = "__result__"
_SORTED: Final = "@__sortBy_input__"
UNUSED: Final = "#unused"
"""The element of a loop over nothing, which macros use to bind a name."""

LARGEST_TREE: Final = 200_000
"""In nodes. Macros that repeat their receiver could else grow a tree exponentially."""


class MacroError(Exception):
    """A macro was called with arguments that it cannot expand."""

    def __init__(self, at: Expr, message: str) -> None:
        super().__init__(message)
        self.offset = at.offset


class TreeTooLarge(Exception):
    """An expression expands to more than `LARGEST_TREE` nodes."""


class Ids:
    """Numbers the nodes of one tree."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """An id that no other node of the tree has. TreeTooLarge when there are too many."""
        self.last += 1
        if self.last > LARGEST_TREE:
            raise TreeTooLarge
        return self.last


class _Nodes:
    """Makes the nodes of one expansion, all of them at one place."""

    __slots__ = ("_ids", "_offset")

    def __init__(self, ids: Ids, offset: int) -> None:
        self._ids = ids
        self._offset = offset

    def literal(self, value: Any, type_: Type) -> Literal:
        return Literal(id=self._ids.next(), offset=self._offset, value=value, type=type_)

    def bool(self, value: bool) -> Literal:
        return self.literal(value, BOOL)

    def ident(self, name: str) -> Ident:
        return Ident(id=self._ids.next(), offset=self._offset, name=name)

    def accumulator(self) -> Ident:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> Call:
        return Call(id=self._ids.next(), offset=self._offset, function=function, args=[*args])

    def member(self, function: str, target: Expr, *args: Expr) -> Call:
        return Call(id=self._ids.next(), offset=self._offset, function=function, args=[*args], target=target)

    def list(self, *elements: Expr) -> ListExpr:
        return ListExpr(id=self._ids.next(), offset=self._offset, elements=[*elements])

    def map(self) -> MapExpr:
        return MapExpr(id=self._ids.next(), offset=self._offset, entries=[])

    def presence(self, select: Select) -> Select:
        return Select(
            id=self._ids.next(), offset=self._offset, operand=select.operand, field=select.field, test_only=True
        )

    def fold(
        self,
        over: Expr,
        variables: tuple[str, str],
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
        *,
        macro: str,
        accumulator: str = ACCUMULATOR,
    ) -> Comprehension:
        return Comprehension(
            id=self._ids.next(),
            offset=self._offset,
            range=over,
            variable=variables[0],
            second=variables[1],
            accumulator=accumulator,
            init=init,
            condition=condition,
            step=step,
            result=result,
            macro=macro,
        )

    def copy(self, expr: Expr) -> Expr:
        """The same tree with ids of its own, at the places of the original."""
        new, copy = self._ids.next(), self.copy
        match expr:
            case Select():
                return replace(expr, id=new, operand=copy(expr.operand))
            case Call():
                target = expr.target and copy(expr.target)
                return replace(expr, id=new, target=target, args=[*map(copy, expr.args)])
            case ListExpr():
                return replace(expr, id=new, elements=[*map(copy, expr.elements)])
            case MapExpr():
                return replace(expr, id=new, entries=[*map(self._copy_entry, expr.entries)])
            case StructExpr():
                return replace(expr, id=new, fields=[replace(one, value=copy(one.value)) for one in expr.fields])
            case Comprehension():
                over, init, result = copy(expr.range), copy(expr.init), copy(expr.result)
                condition, step = copy(expr.condition), copy(expr.step)
                return replace(expr, id=new, range=over, init=init, condition=condition, step=step, result=result)
        return replace(expr, id=new)

    def _copy_entry(self, entry: Entry) -> Entry:
        return replace(entry, id=self._ids.next(), key=self.copy(entry.key), value=self.copy(entry.value))


def expand(ids: Ids, offset: int, function: str, target: Expr | None, args: list[Expr]) -> Expr | None:
    """The expansion of a macro; None when it is a plain call. Raises MacroError when its arguments are wrong."""
    if target is None:
        return _has(_Nodes(ids, offset), args[0]) if function == "has" and len(args) == 1 else None
    macro = _MACROS.get((function, len(args)))
    return macro(_Nodes(ids, offset), target, args) if macro else None


def _has(make: _Nodes, arg: Expr) -> Expr:
    if not isinstance(arg, Select):
        raise MacroError(arg, "invalid argument to has() macro")
    return make.presence(arg)


def _variable(arg: Expr, message: str = "argument must be a simple name") -> tuple[str, str]:
    if not isinstance(arg, Ident):
        raise MacroError(arg, message)
    if arg.name == _VISIBLE_ACCUMULATOR:
        raise MacroError(arg, "iteration variable overwrites accumulator variable")
    return arg.name, ""


def _variables(first: Expr, second: Expr) -> tuple[str, str]:
    names = []
    for arg in (first, second):
        if not isinstance(arg, Ident):
            raise MacroError(arg, "argument must be a simple name")
        names.append(arg.name)
    if names[0] == names[1]:
        raise MacroError(second, f"duplicate variable name: {names[0]}")
    return _variable(first)[0], _variable(second)[0]


def _names(args: list[Expr]) -> tuple[str, str]:
    """The variables of a test: of `x, test` or of `i, x, test`."""
    return _variable(args[0]) if len(args) == 2 else _variables(args[0], args[1])


def _all(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _names(args)
    init = make.bool(True)
    condition = make.call("@not_strictly_false", make.accumulator())
    step = make.call("_&&_", make.accumulator(), args[-1])
    return make.fold(target, names, init, condition, step, make.accumulator(), macro="all")


def _exists(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _names(args)
    init = make.bool(False)
    condition = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
    step = make.call("_||_", make.accumulator(), args[-1])
    return make.fold(target, names, init, condition, step, make.accumulator(), macro="exists")


def _exists_one(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _names(args)
    more = make.call("_+_", make.accumulator(), make.literal(1, INT))
    step = make.call("_?_:_", args[-1], more, make.accumulator())
    result = make.call("_==_", make.accumulator(), make.literal(1, INT))
    return make.fold(target, names, make.literal(0, INT), make.bool(True), step, result, macro="exists_one")


def _map(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    return _collect(make, target, names, make.list(), args[1:-1], step, "map")


def _filter(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[0]))
    return _collect(make, target, names, make.list(), args[1:], step, "filter")


def _transform_list(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _variables(args[0], args[1])
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    return _collect(make, target, names, make.list(), args[2:-1], step, "transformList")


def _transform_map(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _variables(args[0], args[1])
    step = make.call("cel.@mapInsert", make.accumulator(), make.ident(names[0]), args[-1])
    return _collect(make, target, names, make.map(), args[2:-1], step, "transformMap")


def _transform_map_entry(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    names = _variables(args[0], args[1])
    step = make.call("cel.@mapInsert", make.accumulator(), args[-1])
    return _collect(make, target, names, make.map(), args[2:-1], step, "transformMapEntry")


def _collect(
    make: _Nodes, target: Expr, names: tuple[str, str], init: Expr, filters: list[Expr], step: Expr, macro: str
) -> Expr:
    for test in filters:
        step = make.call("_?_:_", test, step, make.accumulator())
    return make.fold(target, names, init, make.bool(True), step, make.accumulator(), macro=macro)


def _optional_map(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    value = make.call("optional.of", _bind_value(make, target, args, "optMap"))
    return make.call("_?_:_", make.member("hasValue", target), value, make.call("optional.none"))


def _optional_flat_map(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    value = _bind_value(make, target, args, "optFlatMap")
    return make.call("_?_:_", make.member("hasValue", target), value, make.call("optional.none"))


def _bind_value(make: _Nodes, target: Expr, args: list[Expr], macro: str) -> Expr:
    """The last argument, with the value of the optional bound to a name: a loop that never runs."""
    name = args[0]
    if not isinstance(name, Ident):
        raise MacroError(name, f"{macro}() variable name must be a simple identifier")
    init = make.member("value", make.copy(target))
    parts = (make.list(), (UNUSED, ""), init, make.bool(False), make.ident(name.name), args[1])
    return make.fold(*parts, macro=macro, accumulator=name.name)


def _sort_by(make: _Nodes, target: Expr, args: list[Expr]) -> Expr:
    """Binds the list to a name, so that it is computed once and used twice: for its elements and for their keys."""
    if isinstance(target, (Literal, MapExpr, StructExpr)):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _map(make, make.ident(_SORTED), args)
    result = make.member("@sortByAssociatedKeys", make.ident(_SORTED), keys)
    parts = (make.list(), (UNUSED, ""), target, make.bool(False), make.ident(_SORTED), result)
    return make.fold(*parts, macro="sortBy", accumulator=_SORTED)


_MACROS: Final[dict[tuple[str, int], Callable[[_Nodes, Expr, list[Expr]], Expr]]] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _optional_map,
    ("optFlatMap", 2): _optional_flat_map,
}
