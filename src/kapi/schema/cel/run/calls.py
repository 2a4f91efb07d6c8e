"""Calls of operators and functions, with their costs; some operators do not evaluate all operands.

A call whose overload and argument types are certain calls the implementation directly. Otherwise the operators look
at the values, and functions are chosen by them. Errors travel as in cel-go: an operator evaluates both sides
before it gives up, a function of three or more arguments gives up at the first, and `&&`, `||` forgive an error when
the other side decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.prices import equality_price_of, text_price
from kapi.schema.cel.run.code import SPENT, Code, Frame, ProgramError, Run, attempt, constant, discard
from kapi.schema.cel.run.conversions import CONVERTERS
from kapi.schema.cel.run.paths import plan_index
from kapi.schema.cel.run.patterns import PATTERN_FUNCTIONS, compile_pattern
from kapi.schema.cel.types import BOOL, BYTES, INT, LIST, MAP, STRING, UINT, Object, Param, Type
from kapi.schema.cel.values import EvaluationError, Optional, Uint, equal, is_list, no_such_overload, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.schema.cel.cost.prices import Price
    from kapi.schema.cel.run.planner import Planner
    from kapi.schema.cel.syntax.ast import Call, Expr

    Implementation = Callable[..., Any]

_VARIADIC: Final = frozenset({"string_format"})
"""Overloads of two arguments that give up at the first error all the same."""

_SCALARS: Final = frozenset({BOOL, INT, UINT, STRING, BYTES})
"""Types whose values Python compares as expressions do, as long as both sides have the same one."""


def plan_call(planner: Planner, node: Call) -> Code:
    """The code of a call."""
    special = _SPECIAL.get(node.function)
    if special is not None:
        return special(planner, node)
    arguments = [node.target, *node.args] if node.target is not None else node.args
    args = [planner.plan(argument) for argument in arguments]
    implementation, variadic = _choose(planner, node, arguments)
    if node.function in CONVERTERS and len(args) == 1 and args[0].is_constant:
        return _folded(implementation, args[0].value)
    if node.function in PATTERN_FUNCTIONS and len(args) > 1 and isinstance(args[1].value, str):
        implementation, variadic = _with_pattern(node.function, args[1].value), True
    if node.function == "optional.ofNonZeroValue" and args[0].is_path and _is_collection(planner.type_of(arguments[0])):
        # Empty lists and maps of an object are not zero values; those that expressions make are.
        implementation = Optional
    overloads = planner.overloads(node)
    price = planner.functions.price(node.function, overloads[0] if len(overloads) == 1 else "")
    return _call(implementation, args, price, variadic=variadic or len(args) > 2)


def _is_collection(type_: Type) -> bool:
    return isinstance(type_, Object) or type_.name in {LIST, MAP}


def _folded(implementation: Implementation, value: Any) -> Code:
    try:
        return constant(implementation(value))
    except EvaluationError as error:
        raise ProgramError(error.text) from None


def _with_pattern(function: str, pattern: str) -> Implementation:
    try:
        return PATTERN_FUNCTIONS[function](compile_pattern(pattern))
    except EvaluationError as error:
        raise ProgramError(error.text) from None


# -- choosing ---------------------------------------------------------------------------------------------------------


def _choose(planner: Planner, node: Call, arguments: Sequence[Expr]) -> tuple[Implementation, bool]:
    """The implementation of a call, and True if it gives up at the first error."""
    candidates = planner.overloads(node)
    types = [planner.type_of(argument) for argument in arguments]
    if len(candidates) == 1:
        only = candidates[0]
        implementation = planner.functions.implementations.get(only)
        if implementation is None:
            raise ProgramError(f"no such overload: {node.function}")
        variadic = only in _VARIADIC
        signature = planner.functions.signatures.get(only)
        if not any(map(_is_open, types)) or (signature and all(map(_fits, signature, types))):
            return implementation, variadic
        if node.function not in planner.functions.general:
            return _dispatch(planner, node.function, candidates), variadic
    if node.function in planner.functions.general:
        return planner.functions.general[node.function], False
    return _dispatch(planner, node.function, candidates), True


def _is_open(type_: Type) -> bool:
    """Return True if the type of values is only known at run time."""
    return type_.name == "dyn" or isinstance(type_, Param) or any(map(_is_open, type_.params))


def _fits(wanted: Type, given: Type) -> bool:
    """Return True if an overload takes every value of a type."""
    if isinstance(wanted, Param):
        return True
    if wanted.name == "dyn":
        return True
    return wanted.name == given.name and all(map(_fits, wanted.params, given.params))


def _dispatch(planner: Planner, function: str, candidates: Sequence[str]) -> Implementation:
    choices = [
        (planner.functions.signatures.get(one, ()), planner.functions.implementations[one]) for one in candidates
    ]

    def choose(*values: Any) -> Any:
        for signature, implementation in choices:
            if len(signature) == len(values) and all(map(_takes, signature, values)):
                return implementation(*values)
        raise EvaluationError(f"no such overload: {function}({', '.join(type_of(value).name for value in values)})")

    return choose


def _takes(wanted: Type, value: Any) -> bool:
    """Return True if a value is of a type; of lists and maps the first item decides."""
    if isinstance(wanted, Param) or wanted.name == "dyn":
        return True
    if isinstance(wanted, Object) or wanted.name != type_of(value).name:
        return False
    if is_list(value):
        return not value or not wanted.params or _takes(wanted.params[0], value[0])
    if isinstance(value, dict) and value and wanted.params:
        return all(map(_takes, wanted.params, next(iter(value.items()))))
    return True


# -- calling ----------------------------------------------------------------------------------------------------------


def _call(implementation: Implementation, args: list[Code], price: Price, *, variadic: bool) -> Code:
    cost = sum(arg.cost for arg in args)
    if isinstance(price, int):
        cost += price
    if variadic and len(args) > 1:
        return Code(_many(implementation, args, price), cost)
    if not args:
        return Code(lambda frame: implementation(), cost)
    if len(args) == 1:
        return Code(_one(implementation, args[0].run, price), cost)
    return Code(_two(implementation, args[0], args[1], price), cost)


def _one(implementation: Implementation, arg: Run, price: Price) -> Run:
    if isinstance(price, int):
        return lambda frame: implementation(arg(frame))

    def run(frame: Frame) -> Any:
        value = attempt(arg, frame)
        if isinstance(value, EvaluationError):
            frame[SPENT] += price((value,), value)
            raise value
        return _priced(implementation, (value,), price, frame)

    return run


def _priced(implementation: Implementation, values: Sequence[Any], price: Callable[..., int], frame: Frame) -> Any:
    try:
        result = implementation(*values)
    except EvaluationError as error:
        frame[SPENT] += price(values, error)
        raise
    frame[SPENT] += price(values, result)
    return result


def _two(implementation: Implementation, left: Code, right: Code, price: Price) -> Run:
    first, second = left.run, right.run
    if not isinstance(price, int):
        return _two_priced(implementation, first, second, price)
    if right.is_constant:
        value = right.value
        return lambda frame: implementation(first(frame), value)

    def run(frame: Frame) -> Any:
        try:
            value = first(frame)
        except EvaluationError:
            discard(second, frame)
            raise
        return implementation(value, second(frame))

    return run


def _two_priced(implementation: Implementation, first: Run, second: Run, price: Callable[..., int]) -> Run:
    def run(frame: Frame) -> Any:
        left, right = attempt(first, frame), attempt(second, frame)
        if isinstance(left, EvaluationError) or isinstance(right, EvaluationError):
            frame[SPENT] += price((left, right), None)
            raise left if isinstance(left, EvaluationError) else right
        return _priced(implementation, (left, right), price, frame)

    return run


def _many(implementation: Implementation, args: list[Code], price: Price) -> Run:
    runs = [arg.run for arg in args]
    last = len(args) - 1
    fixed = price if isinstance(price, int) else 0
    owed = [sum(arg.cost for arg in args[place + 1 :]) + fixed for place in range(last)]

    def run(frame: Frame) -> Any:
        values: list[Any] = []
        for place, arg in enumerate(runs):
            try:
                values.append(arg(frame))
            except EvaluationError as error:
                if place < last:
                    frame[SPENT] -= owed[place]
                elif not isinstance(price, int):
                    frame[SPENT] += price([*values, error], error)
                raise
        if isinstance(price, int):
            return implementation(*values)
        return _priced(implementation, values, price, frame)

    return run


# -- logic ------------------------------------------------------------------------------------------------------------


def _plan_logic(planner: Planner, node: Call) -> Code:
    left, right = planner.plan(node.args[0]), planner.plan(node.args[1])
    certain = all(planner.type_of(argument) == BOOL for argument in node.args)
    decided = node.function == "_||_"
    run = _logic(left.run, right, decided=decided) if certain else _open_logic(left.run, right, decided=decided)
    return Code(run, left.cost)


def _logic(first: Run, right: Code, *, decided: bool) -> Run:
    """`||` or `&&` of operands of type bool; `decided` is the value that decides the result."""
    second, cost = right.run, right.cost

    def run(frame: Frame) -> Any:
        try:
            if first(frame) is decided:
                return decided
        except EvaluationError:
            frame[SPENT] += cost
            if attempt(second, frame) is decided:
                return decided
            raise
        frame[SPENT] += cost
        return second(frame)

    return run


def _open_logic(first: Run, right: Code, *, decided: bool) -> Run:
    second, cost = right.run, right.cost

    def run(frame: Frame) -> Any:
        left = attempt(first, frame)
        if left is decided:
            return decided
        frame[SPENT] += cost
        value = attempt(second, frame)
        if value is decided:
            return decided
        for side in (left, value):
            if isinstance(side, EvaluationError):
                raise side
            if not isinstance(side, bool):
                no_such_overload()
        return not decided

    return run


def _plan_condition(planner: Planner, node: Call) -> Code:
    test, *branches = (planner.plan(argument) for argument in node.args)
    condition = test.run
    (yes, yes_cost), (no, no_cost) = ((branch.run, branch.cost - branch.own) for branch in branches)

    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            frame[SPENT] += yes_cost
            return yes(frame)
        if value is False:
            frame[SPENT] += no_cost
            return no(frame)
        return no_such_overload()

    return Code(run, test.cost, is_path=True)


def _plan_not_false(planner: Planner, node: Call) -> Code:
    arg = planner.plan(node.args[0])
    inner = arg.run

    def run(frame: Frame) -> bool:
        value = attempt(inner, frame)
        return value if isinstance(value, bool) else True

    return Code(run, arg.cost + 1)


def _plan_or(planner: Planner, node: Call) -> Code:
    """`optional.or(optional)` and `optional.orValue(value)`: the right side only when it is needed, at no cost."""
    assert node.target is not None
    left, right = planner.plan(node.target), planner.plan(node.args[0])
    first, second, cost, unwraps = left.run, right.run, right.cost, node.function == "orValue"

    def run(frame: Frame) -> Any:
        value = first(frame)
        if not isinstance(value, Optional):
            return value
        if value.present:
            return value.value if unwraps else value
        frame[SPENT] += cost
        return second(frame)

    return Code(run, left.cost)


# -- equality and membership ------------------------------------------------------------------------------------------


def _plan_equality(planner: Planner, node: Call) -> Code:
    left, right = planner.plan(node.args[0]), planner.plan(node.args[1])
    left_type, right_type = (planner.type_of(argument) for argument in node.args)
    wanted = node.function == "_==_"
    if left_type == right_type == STRING:
        return Code(_equal_strings(left.run, right.run, wanted=wanted), left.cost + right.cost)
    price = equality_price_of(node.function, left_type.name, right_type.name)
    plain = left_type == right_type and left_type in _SCALARS
    return _call(_TESTS[plain, wanted], [left, right], price, variadic=False)


_TESTS: Final[dict[tuple[bool, bool], Callable[[Any, Any], bool]]] = {
    (True, True): lambda left, right: left == right,
    (True, False): lambda left, right: left != right,
    (False, True): equal,
    (False, False): lambda left, right: not equal(left, right),
}


def _equal_strings(first: Run, second: Run, *, wanted: bool) -> Run:
    def run(frame: Frame) -> bool:
        left, right = attempt(first, frame), attempt(second, frame)
        if isinstance(left, str) and isinstance(right, str):
            frame[SPENT] += text_price(min(len(left), len(right)))
            return (left == right) is wanted
        for side in (left, right):
            if isinstance(side, EvaluationError):
                others = [len(one) for one in (left, right) if isinstance(one, str)]
                frame[SPENT] += text_price(min([1, *others]))
                raise side
        return no_such_overload()

    return run


def _plan_in(planner: Planner, node: Call) -> Code:
    item, container = planner.plan(node.args[0]), planner.plan(node.args[1])
    overloads = planner.overloads(node)
    if overloads == ("in_list",):
        if container.is_constant:
            code = _constant_members(item, container.value, planner.type_of(node.args[0]))
            if code is not None:
                return code
        if planner.type_of(node.args[1]).params == (planner.type_of(node.args[0]),) and _is_plain(planner, node):
            return _call(
                lambda one, items: one in items,
                [item, container],
                planner.functions.price("@in", "in_list"),
                variadic=False,
            )
    implementation, _ = _choose(planner, node, node.args)
    price = planner.functions.price(node.function, overloads[0] if len(overloads) == 1 else "")
    return _call(implementation, [item, container], price, variadic=False)


def _is_plain(planner: Planner, node: Call) -> bool:
    return planner.type_of(node.args[1]).name == LIST and planner.type_of(node.args[0]) in _SCALARS


def _constant_members(item: Code, members: Any, type_: Type) -> Code | None:
    """Membership in a list of constants: a set lookup, at no cost."""
    if not members:
        return constant(False)
    if not all(type(member) in _HASHED for member in members):
        return None
    run = item.run
    if type_ in _SCALARS - {BYTES} and all(type_of(member) == type_ for member in members):
        known = frozenset(members)
        return Code(lambda frame: run(frame) in known, item.cost)
    return Code(lambda frame: any(equal(member, value) for value in (run(frame),) for member in members), item.cost)


_HASHED: Final = frozenset({bool, int, Uint, float, str})

_SPECIAL: Final[dict[str, Callable[[Planner, Call], Code]]] = {
    "_&&_": _plan_logic,
    "_||_": _plan_logic,
    "_?_:_": _plan_condition,
    "@not_strictly_false": _plan_not_false,
    "_==_": _plan_equality,
    "_!=_": _plan_equality,
    "@in": _plan_in,
    "_[_]": plan_index,
    "_[?_]": plan_index,
    "_?._": plan_index,
    "or": _plan_or,
    "orValue": _plan_or,
}
