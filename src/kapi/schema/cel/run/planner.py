"""Turns a checked tree into code, node by node, from the leaves up.

The planner knows the types and overloads that the checker found, which place of the frame each name has, and what each
overload does. Nodes are planned in `paths`, `calls`, `loops` and `objects` by kind; literals, lists and maps here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.prices import LIST_CREATION, MAP_CREATION, OBJECT_CREATION
from kapi.schema.cel.run.calls import plan_call
from kapi.schema.cel.run.code import FIRST_VARIABLE, SPENT, Code, Frame, ProgramError, Run, constant
from kapi.schema.cel.run.loops import plan_loop
from kapi.schema.cel.run.objects import object_builder
from kapi.schema.cel.run.paths import plan_select, variable
from kapi.schema.cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kapi.schema.cel.types import DYN, TYPE, UINT, Object, Type
from kapi.schema.cel.values import EvaluationError, Optional, Uint, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.schema.cel.library import Functions
    from kapi.schema.cel.syntax.ast import Checked


class Planner:
    """Plans one tree. `variables` are the variables that it uses, in the order of their slots."""

    def __init__(self, checked: Checked, functions: Functions) -> None:
        self.checked = checked
        self.functions = functions
        self.variables: dict[str, Code] = {}
        self.slots = FIRST_VARIABLE
        self._scopes: list[dict[str, Code]] = []

    def plan(self, node: Expr) -> Code:
        """The code of a node."""
        return _PLANS[type(node)](self, node)

    def type_of(self, node: Expr) -> Type:
        """The type that the checker found."""
        return self.checked.types.get(node.id, DYN)

    def overloads(self, node: Expr) -> tuple[str, ...]:
        """The overloads that a call may resolve to."""
        return self.checked.overloads.get(node.id, ())

    def new_slot(self) -> int:
        """A slot in the frame for a variable of a loop."""
        self.slots += 1
        return self.slots - 1

    @contextmanager
    def scope(self, names: dict[str, Code]) -> Iterator[None]:
        """Names that are known while a part is planned."""
        self._scopes.append(names)
        try:
            yield
        finally:
            self._scopes.pop()

    def name(self, node: Ident | Select, fallback: str) -> Code:
        """The code of a name: a type, a variable of an enclosing loop, or a variable of the environment."""
        name = self.checked.names.get(node.id, fallback)
        for known in self._scopes[::-1]:
            if (code := known.get(name)) is not None:
                return code
        type_ = self.type_of(node)
        if type_.name == TYPE:
            of = type_.params[0] if type_.params else Type(TYPE)
            if isinstance(of, Object):
                # Object types can be constructed, and cel-go does not know them as values.
                raise ProgramError(f"reference to undefined type: {of.name}")
            return constant(Type(of.name))
        if name not in self.variables:
            # Counted from the end of the frame, where they are put; how many there are is only known at last.
            self.variables[name] = variable(-1 - len(self.variables))
        return self.variables[name]


def _literal(planner: Planner, node: Literal) -> Code:
    return constant(Uint(node.value) if node.type == UINT else node.value)


def _ident(planner: Planner, node: Ident) -> Code:
    return planner.name(node, node.name)


def _select(planner: Planner, node: Select) -> Code:
    if node.id in planner.checked.names:
        return planner.name(node, node.field)
    return plan_select(planner, node)


# -- lists, maps and objects ------------------------------------------------------------------------------------------


def _list(planner: Planner, node: ListExpr) -> Code:
    elements = [planner.plan(element) for element in node.elements]
    build = _list_builder([element.run for element in elements], _owed(elements), node.optional)
    return _literal_or(build, elements, LIST_CREATION)


def _map(planner: Planner, node: MapExpr) -> Code:
    parts = [planner.plan(part) for entry in node.entries for part in (entry.key, entry.value)]
    build = _map_builder([part.run for part in parts], _owed(parts), [entry.optional for entry in node.entries])
    return _literal_or(build, parts, MAP_CREATION)


def _object(planner: Planner, node: StructExpr) -> Code:
    values = [planner.plan(one.value) for one in node.fields]
    made = planner.type_of(node)
    assert isinstance(made, Object)
    build = object_builder(made, node.fields, [value.run for value in values], _owed(values))
    return Code(build, OBJECT_CREATION + sum(value.cost for value in values))


def _literal_or(build: Run, parts: list[Code], price: int) -> Code:
    """A constant when all parts are; its value is shared by all runs and never changed."""
    if not all(part.is_constant for part in parts):
        return Code(build, price + sum(part.cost for part in parts))
    try:
        return constant(build([0]))
    except EvaluationError as error:
        # A failing literal fails when it is reached, not before.
        text = error.text
        return Code(lambda frame: _fail(text), is_constant=False)


def _fail(text: str) -> None:
    raise EvaluationError(text)


def _owed(parts: list[Code]) -> list[int]:
    """For each part, what the parts after it cost: given back when it fails, because they are not evaluated then."""
    owed, total = [0] * len(parts), 0
    for place in range(len(parts) - 1, -1, -1):
        owed[place] = total
        total += parts[place].cost
    return owed


def _list_builder(parts: list[Run], owed: list[int], optional: frozenset[int]) -> Run:
    def build(frame: Frame) -> list[Any]:
        items: list[Any] = []
        for place, part in enumerate(parts):
            try:
                item = part(frame)
            except EvaluationError:
                frame[SPENT] -= owed[place]
                raise
            if place not in optional:
                items.append(item)
                continue
            if not isinstance(item, Optional):
                frame[SPENT] -= owed[place]
                raise EvaluationError(f"cannot initialize optional list element from non-optional value {show(item)}")
            if item.present:
                items.append(item.value)
        return items

    return build


def _map_builder(parts: list[Run], owed: list[int], optional: list[bool]) -> Run:
    def build(frame: Frame) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        place = 0
        try:
            for is_optional in optional:
                key = parts[place](frame)
                place += 1
                value = parts[place](frame)
                _put(entries, key, value, is_optional)
                place += 1
        except EvaluationError:
            frame[SPENT] -= owed[place]
            raise
        return entries

    return build


def _put(entries: dict[Any, Any], key: Any, value: Any, is_optional: bool) -> None:
    if not is_optional:
        entries[key] = value
    elif not isinstance(value, Optional):
        raise EvaluationError(f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}")
    elif value.present:
        entries[key] = value.value
    else:
        entries.pop(key, None)


_PLANS: Final[dict[type, Callable[[Planner, Any], Code]]] = {
    Literal: _literal,
    Ident: _ident,
    Select: _select,
    Call: plan_call,
    ListExpr: _list,
    MapExpr: _map,
    Comprehension: plan_loop,
    StructExpr: _object,
}
