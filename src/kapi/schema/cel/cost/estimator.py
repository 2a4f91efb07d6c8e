"""Estimates of the cost of an expression, from its tree and from how large its inputs may be.

A definition whose rules could cost too much is refused, so an estimate decides what is accepted and must come out as in
cel-go, to the unit. One walk over the tree adds up costs and, on the way, keeps what is known of sizes: of
literals, of inputs by their path (`self`, `spec`, `@items`), of variables of macros, and of results of calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.schema.cel.cost.calls import CallSite, Operand, estimate_call
from kapi.schema.cel.cost.estimates import NOTHING_YET, ONE, UNKNOWN, ZERO, Estimate, exactly
from kapi.schema.cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kapi.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    UINT,
    Object,
    Param,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.schema.cel.cost.calls import CallEstimator, Sizes
    from kapi.schema.cel.syntax.ast import Checked
    from kapi.schema.cel.types import Type

_LIST_COST: Final = exactly(10)
_MAP_COST: Final = exactly(30)
_STRUCT_COST: Final = exactly(40)
_ACCUMULATORS: Final = frozenset({"@result", "__result__"})
_ONE_SIZED: Final = frozenset({BOOL, DOUBLE, DURATION, INT, TIMESTAMP, UINT})


def estimate(
    checked: Checked, sizes: Sizes, calls: Mapping[str, CallEstimator], equality: Mapping[Type, CallEstimator]
) -> Estimate:
    """The least and the most that running the expression may cost."""
    return _Walk(checked, sizes, calls, equality).cost(checked.root)


class _Path:
    """The path from a variable to a value.

    Two paths that grow from one share their buffer, so that the later may overwrite the last step of the earlier.
    cel-go does this with its slices; estimates of nested macros differ without it.
    """

    __slots__ = ("buffer", "length")

    def __init__(self, buffer: list[str], length: int) -> None:
        self.buffer = buffer
        self.length = length

    def then(self, step: str) -> _Path:
        buffer, length = self.buffer, self.length
        if length == len(buffer):
            buffer = buffer + [""] * max(length, 1)
        buffer[length] = step
        return _Path(buffer, length + 1)

    def steps(self) -> list[str]:
        return self.buffer[: self.length]


_NOWHERE: Final = _Path([], 0)


class _Entries(NamedTuple):
    """The sizes of the keys and values of a list or map that is written in the expression."""

    is_list: bool
    keys: Estimate
    values: Estimate

    def union(self, other: _Entries) -> _Entries:
        return _Entries(self.is_list, self.keys.union(other.keys), self.values.union(other.values))


class _Variable(NamedTuple):
    path: _Path
    size: Estimate | None
    entries: _Entries | None


@dataclass(slots=True)
class _Walk:
    """The state of one estimate. Nodes are identified by their ids."""

    checked: Checked
    input_size: Sizes
    calls: Mapping[str, CallEstimator]
    equality: Mapping[Type, CallEstimator]
    paths: dict[int, _Path] = field(default_factory=dict)
    sizes: dict[int, Estimate] = field(default_factory=dict)
    entries: dict[int, _Entries] = field(default_factory=dict)
    variables: dict[str, list[_Variable]] = field(default_factory=dict)

    def cost(self, expr: Expr) -> Estimate:
        """The cost of one node with everything below it."""
        match expr:
            case Literal():
                return ZERO
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
            case Call():
                return self._call(expr)
            case ListExpr():
                return self._list(expr)
            case MapExpr():
                return self._map(expr)
            case StructExpr():
                return self._sum([one.value for one in expr.fields], _STRUCT_COST)
            case Comprehension():
                return self._bind(expr) if _is_bind(expr) else self._comprehension(expr)

    def _sum(self, exprs: list[Expr], base: Estimate) -> Estimate:
        total = ZERO
        for one in exprs:
            total = total.plus(self.cost(one))
        return total.plus(base)

    def _ident(self, expr: Ident) -> Estimate:
        variable = self._variable(expr.name)
        self.paths[expr.id] = variable.path if variable else _Path([expr.name], 1)
        return ONE

    def _select(self, expr: Select) -> Estimate:
        if expr.id in self.checked.names:
            self.paths[expr.id] = _Path([self.checked.names[expr.id]], 1)
            return ONE
        total = self.cost(expr.operand)
        if expr.test_only:
            return total
        if _has_fields(self.checked.types[expr.operand.id]):
            total = total.plus(ONE)
        self.paths[expr.id] = self._path(expr.operand).then(expr.field)
        return total

    def _list(self, expr: ListExpr) -> Estimate:
        total, values = ZERO, NOTHING_YET if expr.elements else ZERO
        for element in expr.elements:
            total = total.plus(self.cost(element))
            values = values.union(self._size_or_unknown(element))
        self.entries[expr.id] = _Entries(True, ONE, values)
        return total.plus(_LIST_COST)

    def _map(self, expr: MapExpr) -> Estimate:
        total = ZERO
        keys = values = NOTHING_YET if expr.entries else ZERO
        for entry in expr.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size_or_unknown(entry.key))
            values = values.union(self._size_or_unknown(entry.value))
        self.entries[expr.id] = _Entries(False, keys, values)
        return total.plus(_MAP_COST)

    def _call(self, expr: Call) -> Estimate:
        if expr.function == "dyn":
            total = self.cost(expr.args[0]).plus(ONE)
            self._copy_sizes(expr, expr.args[0])
            return total
        costs, operands = [], []
        for arg in expr.args:
            costs.append(self.cost(arg))
            operands.append(self._operand(arg))
        overloads = self.checked.overloads.get(expr.id, ())
        if not overloads:
            return ZERO
        base, target = ZERO, None
        if expr.target is not None:
            base = self.cost(expr.target)
            target = self._operand(expr.target)
        total, size = NOTHING_YET, None
        for overload in overloads:
            site = CallSite(overload, target, operands, self.input_size)
            cost, result = estimate_call(expr.function, site, costs, self.calls, self.equality)
            total = total.union(cost)
            if result is not None:
                size = result if size is None else size.union(result)
            size = self._after_call(expr, overload, size)
        if size is not None:
            self.sizes[expr.id] = size
        return base.plus(total)

    def _after_call(self, expr: Call, overload: str, size: Estimate | None) -> Estimate | None:
        """The size of the result after one overload; also records its path and the sizes of its entries."""
        if overload in ("index_list", "index_map"):
            entries = self._entries(expr.args[0])
            size = entries.values if entries else None
            self.paths[expr.id] = self._path(expr.args[0]).then("@items" if overload == "index_list" else "@values")
        elif overload == "conditional":
            self._join_entries(expr, expr.args[1], expr.args[2])
        elif overload in ("add_string", "add_bytes", "add_list"):
            self._join_entries(expr, expr.args[0], expr.args[1])
        return size if size is not None else self._size(expr)

    def _join_entries(self, expr: Expr, left: Expr, right: Expr) -> None:
        first, second = self._entries(left), self._entries(right)
        if first and second:
            self.entries[expr.id] = first.union(second)

    def _comprehension(self, expr: Comprehension) -> Estimate:
        total = self.cost(expr.range).plus(self.cost(expr.init))
        self._push(expr.accumulator, expr.init)
        self._push_iteration(expr)
        each = self.cost(expr.condition)
        each = self.cost(expr.step).plus(each)
        self._pop(expr.variable)
        if expr.second:
            self._pop(expr.second)
        total = total.plus(self.cost(expr.result))
        self._pop(expr.accumulator)
        times = self._size_or_unknown(expr.range)
        if isinstance(expr.init, Literal):
            self._copy_size(expr, expr.init)
        elif isinstance(expr.init, ListExpr | MapExpr):
            self.sizes[expr.id] = times
            step = self._entries(expr.step)
            if step:
                self.entries[expr.id] = step
        return total.plus(times.times(each))

    def _push_iteration(self, expr: Comprehension) -> None:
        entries = self._entries(expr.range)
        is_list = entries.is_list if entries else self.checked.types[expr.range.id].name == LIST
        keys, values = (entries.keys, entries.values) if entries else (None, None)
        path = self._path(expr.range)
        item = "@items" if is_list else "@values"
        if expr.second:
            self._declare(expr.variable, path.then("@indices" if is_list else "@keys"), keys)
            self._declare(expr.second, path.then(item), values)
        elif is_list:
            self._declare(expr.variable, path.then(item), values)
        else:
            self._declare(expr.variable, path.then("@keys"), keys)

    def _bind(self, expr: Comprehension) -> Estimate:
        total = self.cost(expr.range).plus(self.cost(expr.init))
        self._push(expr.accumulator, expr.init)
        total = total.plus(self.cost(expr.result))
        self._pop(expr.accumulator)
        self._copy_sizes(expr, expr.result)
        return total

    def _push(self, name: str, expr: Expr) -> None:
        self.variables.setdefault(name, []).append(_Variable(self._path(expr), self._size(expr), self._entries(expr)))

    def _declare(self, name: str, path: _Path, size: Estimate | None) -> None:
        self.variables.setdefault(name, []).append(_Variable(path, size, None))

    def _pop(self, name: str) -> None:
        self.variables[name].pop()

    def _variable(self, name: str) -> _Variable | None:
        stack = self.variables.get(name)
        return stack[-1] if stack else None

    def _path(self, expr: Expr) -> _Path:
        variable = self._variable(expr.name) if isinstance(expr, Ident) else None
        return variable.path if variable else self.paths.get(expr.id, _NOWHERE)

    def _operand(self, expr: Expr) -> Operand:
        path = self._path(expr).steps()
        size = self._size(expr)
        # The field of `a.?b` is written as a literal and has no type of its own.
        return Operand(
            expr, self.checked.types.get(expr.id, DYN), [] if path and path[0] in _ACCUMULATORS else path, size
        )

    def _size_or_unknown(self, expr: Expr) -> Estimate:
        return self._size(expr) or UNKNOWN

    def _size(self, expr: Expr) -> Estimate | None:
        known = self.sizes.get(expr.id) or _written_size(expr)
        if known is not None:
            return known
        known = self.input_size(self._path(expr).steps())
        if known is not None:
            self.sizes[expr.id] = known
            return known
        if _is_one_sized(self.checked.types[expr.id]):
            return ONE
        variable = self._variable(expr.name) if isinstance(expr, Ident) else None
        return variable.size if variable else None

    def _entries(self, expr: Expr) -> _Entries | None:
        known = self.entries.get(expr.id)
        if known is None and isinstance(expr, Ident):
            variable = self._variable(expr.name)
            return variable.entries if variable else None
        return known

    def _copy_size(self, to: Expr, source: Expr) -> None:
        size = self._size(source)
        if size is not None:
            self.sizes[to.id] = size

    def _copy_sizes(self, to: Expr, source: Expr) -> None:
        self._copy_size(to, source)
        entries = self._entries(source)
        if entries is not None:
            self.entries[to.id] = entries


def _is_bind(expr: Comprehension) -> bool:
    """Return True if the loop never runs and only names a value."""
    return (
        isinstance(expr.range, ListExpr)
        and not expr.range.elements
        and isinstance(expr.condition, Literal)
        and expr.condition.value is False
        and expr.accumulator != "__result__"
    )


def _has_fields(of: Type) -> bool:
    return isinstance(of, Object | Param) or of.name == MAP


def _is_one_sized(of: Type) -> bool:
    return of in _ONE_SIZED or (of.name == OPTIONAL and _is_one_sized(of.params[0]))


def _written_size(expr: Expr) -> Estimate | None:
    match expr:
        case Literal(value=value, type=of):
            return exactly(len(value)) if of in (STRING, BYTES) else ONE
        case ListExpr(elements=elements):
            return exactly(len(elements))
        case MapExpr(entries=entries):
            return exactly(len(entries))
    return None
