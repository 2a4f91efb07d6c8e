"""Selections from variables: `self.spec.ports[0]`, `has(self.a)`, `self.?a.b`, `(x ? a : b).c`.

A path costs one for its variable and one for each step that is taken. Objects, whose fields a schema names, treat null
as absent; maps do not. From the first optional step on the result is optional, and a missing value ends the walk for
free.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.run.code import SPENT, Code, Frame, Run
from kapi.schema.cel.run.objects import has_field, read_field
from kapi.schema.cel.syntax.identifiers import unescape
from kapi.schema.cel.types import INT, LIST, MAP, OPTIONAL, STRING, Object, Type
from kapi.schema.cel.values import NONE, Constructed, EvaluationError, Optional, Uint, find, is_list, show, type_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.schema.cel.run.planner import Planner
    from kapi.schema.cel.syntax.ast import Call, Select

    Step = Callable[[Any, Any], Any]
    """From a value and a key to what is there, or `_ABSENT`."""

_ABSENT: Final = object()


def variable(slot: int) -> Code:
    """A variable that always has a value."""
    return Code(itemgetter(slot), 1, 1, is_path=True, slot=slot)


def accumulator(slot: int) -> Code:
    """A variable of a fold, which may hold the error of an earlier round."""

    def run(frame: Frame) -> Any:
        value = frame[slot]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return Code(run, 1, 1, is_path=True)


# -- steps ------------------------------------------------------------------------------------------------------------


def _object_step(value: Any, key: str) -> Any:
    found = value.get(key)
    return _ABSENT if found is None else found


def _constructible_step(field: str) -> Step:
    """A step to a field of a dictionary, by its name, or of an object that was constructed, by how it is written."""

    def step(value: Any, key: str) -> Any:
        if isinstance(value, Constructed):
            return value.fields[field] if has_field(value, field) else _ABSENT
        return _object_step(value, key)

    return step


def _map_step(value: Any, key: Any) -> Any:
    if type(key) is str:  # as most are; a number is not found by a boolean, nor a boolean by a number
        try:
            return value[key]
        except (KeyError, TypeError):
            return _ABSENT
    found, item = find(value, key)
    return item if found else _ABSENT


def _list_step(value: Any, place: Any) -> Any:
    return value[place] if 0 <= place < len(value) else _ABSENT


def _any_step(value: Any, key: Any) -> Any:
    """A step from a value whose type is only known at run time."""
    if isinstance(value, dict):
        found = _map_step(value, key)
        # What a schema names is reached by its written name even where the type is not known.
        return _map_step(value, unescape(key)) if found is _ABSENT and isinstance(key, str) else found
    if is_list(value):
        return _list_step(value, _place(key))
    return read_field(value, key) if isinstance(value, Constructed) and isinstance(key, str) else _ABSENT


def _place(key: Any) -> int:
    if type(key) is int or type(key) is Uint:
        return int(key)
    if isinstance(key, float):
        if key.is_integer():
            return int(key)
        raise EvaluationError(f"unsupported index value {show(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_of(key).name}' in list")


def _missing(value: Any, key: Any) -> EvaluationError:
    return EvaluationError(f"{'index out of bounds' if is_list(value) else 'no such key'}: {show(key)}")


def _step_from(type_: Type, key: Type) -> Step:
    if type_.name == MAP:
        return _map_step
    return _list_step if type_.name == LIST and key == INT else _any_step


def _inside(type_: Type) -> Type:
    return type_.params[0] if type_.name == OPTIONAL and type_.params else type_


# -- selection --------------------------------------------------------------------------------------------------------


def plan_select(planner: Planner, node: Select) -> Code:
    """`operand.field` or `has(operand.field)`."""
    operand = planner.plan(node.operand)
    outer = planner.type_of(node.operand)
    inner = _inside(outer)
    key, step = _field(inner, node.field)
    cost, own = _path_cost(operand, 0)
    if node.test_only:
        # cel-go charges a test for its variable and gives it back.
        run = _presence(operand, key, step, optional=outer is not inner)
        return Code(run, cost - 1, own - 1, is_path=True)
    if outer is not inner or outer.name == "dyn":
        return Code(
            _optional_walk(operand, _fixed(key), 0, step, always=outer is not inner, shown=node.field),
            cost,
            own,
            is_path=True,
        )
    if isinstance(inner, Object) and not inner.keeps_null:
        run = (_constructible_field if inner.constructible else _object_field)(operand, key, node.field)
    else:
        run = _map_entry(operand, key) if inner.name == MAP else _walk(operand, _fixed(key), 0, step, node.field)
    return Code(run, cost, own, is_path=True)


def _field(type_: Type, field: str) -> tuple[str, Step]:
    if isinstance(type_, Object) and type_.keeps_null:
        return field, _map_step
    if isinstance(type_, Object):
        return unescape(field), _constructible_step(field) if type_.constructible else _object_step
    return field, _step_from(type_, STRING)


def _fixed(key: Any) -> Run:
    return lambda frame: key


def _path_cost(operand: Code, key: int) -> tuple[int, int]:
    """The cost of one step more, and how much of it is for the variable."""
    if operand.is_path:
        return operand.cost + 1 + key, operand.own
    return operand.cost + 2 + key, 1


def _object_field(operand: Code, key: str, field: str) -> Run:
    inner = operand.run

    def select(frame: Frame) -> Any:
        try:
            value = inner(frame).get(key)
        except EvaluationError:
            frame[SPENT] -= 1
            raise
        if value is None:
            raise EvaluationError(f"no such key: {field}")
        return value

    slot = operand.slot
    if slot is None:
        return select

    def select_from_variable(frame: Frame) -> Any:
        value = frame[slot].get(key)
        if value is None:
            raise EvaluationError(f"no such key: {field}")
        return value

    return select_from_variable


def _constructible_field(operand: Code, key: str, field: str) -> Run:
    inner = operand.run

    def select(frame: Frame) -> Any:
        try:
            value = inner(frame)
        except EvaluationError:
            frame[SPENT] -= 1
            raise
        if isinstance(value, Constructed):
            return read_field(value, field)
        found = value.get(key)
        if found is None:
            raise EvaluationError(f"no such key: {field}")
        return found

    return select


def _map_entry(operand: Code, key: str) -> Run:
    inner = operand.run

    def select(frame: Frame) -> Any:
        try:
            entries = inner(frame)
        except EvaluationError:
            frame[SPENT] -= 1
            raise
        try:
            return entries[key]
        except KeyError:
            raise EvaluationError(f"no such key: {key}") from None

    return select


def _walk(operand: Code, key: Run, key_cost: int, step: Step, shown: str | None = None) -> Run:
    inner = operand.run

    def walk(frame: Frame) -> Any:
        try:
            value = inner(frame)
        except EvaluationError:
            frame[SPENT] -= 1 + key_cost
            raise
        place = key(frame)
        found = step(value, place)
        if found is _ABSENT:
            raise _missing(value, place if shown is None else shown)
        return found

    return walk


def _optional_walk(operand: Code, key: Run, key_cost: int, step: Step, *, always: bool, shown: Any = None) -> Run:
    """A step that gives an optional: always, or when it starts from one."""
    inner = operand.run

    def walk(frame: Frame) -> Any:
        try:
            value = inner(frame)
        except EvaluationError:
            frame[SPENT] -= 1 + key_cost
            raise
        optional = always
        if isinstance(value, Optional):
            if not value.present:
                frame[SPENT] -= 1 + key_cost
                return value
            value, optional = value.value, True
        if optional:
            return _optional_found(frame, step, value, key)
        place = key(frame)
        found = step(value, place)
        if found is _ABSENT:
            raise _missing(value, place if shown is None else shown)
        return found

    return walk


def _optional_found(frame: Frame, step: Step, value: Any, key: Run) -> Any:
    try:
        found = step(value, key(frame))
    except EvaluationError:
        frame[SPENT] -= 1
        raise
    if found is _ABSENT:
        frame[SPENT] -= 1
        return NONE
    return Optional(found)


def _presence(operand: Code, key: str, step: Step, *, optional: bool) -> Run:
    inner = operand.run
    if step is _object_step and not optional:

        def has_key(frame: Frame) -> bool:
            try:
                return inner(frame).get(key) is not None
            except EvaluationError:
                frame[SPENT] -= 1
                raise

        return has_key

    def has(frame: Frame) -> bool:
        try:
            value = inner(frame)
        except EvaluationError:
            frame[SPENT] -= 1
            raise
        if not isinstance(value, Optional):
            return step(value, key) is not _ABSENT
        if value.present and step(value.value, key) is not _ABSENT:
            return True
        frame[SPENT] -= 1
        return False

    return has


# -- indexing ---------------------------------------------------------------------------------------------------------


def plan_index(planner: Planner, node: Call) -> Code:
    """`operand[key]`, `operand[?key]` and `operand.?field`."""
    operand, key = planner.plan(node.args[0]), planner.plan(node.args[1])
    outer = planner.type_of(node.args[0])
    inner = _inside(outer)
    always = node.function != "_[_]"
    key_cost = key.cost - (key.own if key.is_path else 0)
    cost, own = _path_cost(operand, key_cost)
    key_run = key.run
    if node.function == "_?._":
        name, step = _field(inner, key.value)
        key_run = _fixed(name)
    else:
        step = _step_from(inner, planner.type_of(node.args[1]))
    if always or outer is not inner or outer.name == "dyn":
        run = _optional_walk(operand, key_run, key_cost, step, always=always or outer is not inner)
    else:
        run = _walk(operand, key_run, key_cost, step)
    return Code(run, cost, own, is_path=True)
