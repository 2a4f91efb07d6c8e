"""Finds the type of every part of an expression, and what its names and calls refer to.

The checker continues after an error, so that all of them are reported together; what is wrong has the type `!error!`
and fits everywhere. Trees from the parser are of limited depth, so the checker recurses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.check.literals import literal_issues
from kapi.schema.cel.check.substitutions import Substitutions, TooComplex, is_exact, most_general
from kapi.schema.cel.syntax.ast import (
    Call,
    Checked,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    StructField,
)
from kapi.schema.cel.syntax.identifiers import RESERVED
from kapi.schema.cel.syntax.issues import ExpressionErrors, Issue
from kapi.schema.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    LIST,
    MAP,
    NULL,
    OPTIONAL,
    TYPE,
    Object,
    Overload,
    Param,
    Type,
    list_of,
    map_of,
    optional_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kapi.schema.cel.check.declarations import Declarations

_ANYTHING: Final = (DYN.name, ERROR.name)
_PROTOBUF: Final = "google.protobuf."
_OPEN_ENDED: Final = (DYN.name, ERROR.name, NULL.name)
"""Types that may fit others of another name."""


class CheckErrors(ExpressionErrors):
    """The expression is well formed, but its types or names are wrong."""


def check(expr: Expr, source: str, declarations: Declarations) -> Checked:
    """The expression with its types and references. Raises CheckErrors with everything that is wrong.

    Calls of functions whose names have dots, such as `optional.of(x)`, are parsed as calls on a receiver; the tree is
    changed in place where the whole turns out to be the name.
    """
    checker = _Checker(source, declarations)
    try:
        checked = checker.run(expr)
        issues = checker.issues or literal_issues(checked)
    except (TooComplex, RecursionError):
        issues = [*checker.issues, Issue(None, "the types of the expression are too complex")]
    if issues:
        raise CheckErrors(source, issues)
    return checked


class _Checker:
    def __init__(self, source: str, declarations: Declarations) -> None:
        self.issues: list[Issue] = []
        self._source = source
        self._declarations = declarations
        self._functions = declarations.functions
        self._locals: dict[str, Type] = {}
        self._substitutions = Substitutions(len(source))
        self._types: dict[int, Type] = {}
        self._overloads: dict[int, tuple[str, ...]] = {}
        self._names: dict[int, str] = {}
        self._handlers: dict[type, Callable[[Any], Type]] = {
            Literal: self._literal,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            ListExpr: self._list,
            MapExpr: self._map,
            StructExpr: self._struct,
            Comprehension: self._comprehension,
        }

    def run(self, expr: Expr) -> Checked:
        self._check(expr)
        resolve = self._substitutions.resolve
        types = {id_: resolve(type_, or_dyn=True) for id_, type_ in self._types.items()}
        return Checked(self._source, expr, types, self._overloads, self._names)

    def _check(self, expr: Expr) -> Type:
        type_ = self._handlers[expr.__class__](expr)
        self._types[expr.id] = type_
        return type_

    def _report(self, at: Expr | StructField, message: str) -> None:
        self.issues.append(Issue(at.offset, message))

    def _mismatch(self, expr: Expr, expected: Type, found: Type) -> None:
        self._report(expr, f"expected type '{expected}' but found '{found}'")

    def _undeclared(self, expr: Expr, name: str) -> Type:
        self._report(expr, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    # Names and fields.

    def _literal(self, expr: Literal) -> Type:
        return expr.type

    def _ident(self, expr: Ident) -> Type:
        return self._declared(expr, expr.name) or self._undeclared(expr, expr.name)

    def _declared(self, expr: Expr, name: str) -> Type | None:
        name = name.removeprefix(".")
        found = self._locals.get(name) or self._declarations.find(name)
        if found is not None:
            self._names[expr.id] = name
        return found

    def _select(self, expr: Select) -> Type:
        qualified = self._qualified(expr)
        if qualified is not None:
            found = self._declared(expr, qualified)
            if found is not None:
                return found
        field = self._field(expr, self._check(expr.operand), expr.field)
        return BOOL if expr.test_only else field

    def _qualified(self, expr: Select) -> str | None:
        """The selection as one dotted name, if such a name may be declared."""
        name = qualified_name(expr)
        return name if name and self._declarations.may_qualify(name.removeprefix(".")) else None

    def _field(self, expr: Expr, operand: Type, field: str, *, is_optional: bool = False) -> Type:
        type_ = self._substitutions.resolve(operand)
        if type_.name == OPTIONAL and type_.params:
            type_, is_optional = type_.params[0], True
        found = self._substitutions.resolve(self._field_of(expr, type_, field))
        return optional_of(found) if is_optional else found

    def _field_of(self, expr: Expr, type_: Type, field: str) -> Type:
        if isinstance(type_, Object):
            found = type_.fields.get(field) or (type_.fields.get(f"__{field}__") if field in RESERVED else None)
            if found is None:
                self._report(expr, f"undefined field '{field}'")
                return ERROR
            return found
        if type_.name == MAP:
            return type_.params[1]
        if isinstance(type_, Param):
            # It may turn out to be anything, so it must not be bound to one type later.
            self._substitutions.is_assignable(DYN, type_)
        elif "." in type_.name and not type_.name.startswith(_PROTOBUF):
            # A type of a library, such as `net.IP`: cel-go looks for its fields, and finds no such type.
            self._report(expr, f"unexpected failed resolution of '{type_.name}'")
            return ERROR
        elif type_.name not in _ANYTHING:
            self._report(expr, f"type '{type_}' does not support field selection")
        return DYN

    # Calls.

    def _call(self, expr: Call) -> Type:
        if expr.function == "_?._":
            field = expr.args[1]
            assert isinstance(field, Literal)
            self._overloads[expr.id] = ("select_optional_field",)
            self._types[field.id] = field.type
            return self._field(expr, self._check(expr.args[0]), field.value, is_optional=True)
        args = []
        for arg in expr.args:
            args.append(self._check(arg))  # noqa: PERF401 - a comprehension would cost a stack frame in each level
        if expr.target is None:
            if expr.function.removeprefix(".") in self._functions:
                expr.function = expr.function.removeprefix(".")
            return self._resolve(expr, args)
        prefix = qualified_name(expr.target)
        if prefix is not None:
            name = f"{prefix.removeprefix('.')}.{expr.function}"
            if name in self._functions:
                expr.function, expr.target = name, None
                return self._resolve(expr, args)
        return self._resolve(expr, [self._check(expr.target), *args])

    def _resolve(self, expr: Call, args: list[Type]) -> Type:
        """The result type of a call: that of the matching overloads, `dyn` when they differ."""
        overloads = self._functions.get(expr.function)
        if overloads is None:
            return self._undeclared(expr, expr.function)
        if expr.function in ("_&&_", "_||_"):
            return self._logic(expr, args, overloads[0])
        is_member = expr.target is not None
        result: Type | None = None
        matching = []
        for overload in overloads:
            if overload.member != is_member:
                continue
            one = self._result_of(overload, args)
            if one is None:
                continue
            matching.append(overload.id)
            if result is None or (result.name != DYN.name and not is_exact(one, result)):
                result = one if result is None else DYN
        if result is None:
            return self._no_overload(expr, args)
        self._overloads[expr.id] = tuple(matching)
        return result

    def _logic(self, expr: Call, args: list[Type], overload: Overload) -> Type:
        is_fine = True
        for arg, type_ in zip(expr.args, args, strict=True):
            if not self._substitutions.is_assignable(type_, BOOL):
                self._mismatch(arg, BOOL, type_)
                is_fine = False
        if not is_fine:
            return ERROR
        self._overloads[expr.id] = (overload.id,)
        return BOOL

    def _result_of(self, overload: Overload, args: Sequence[Type]) -> Type | None:
        wanted, result = overload.args, overload.result
        names = overload.parameters
        fresh = {name: self._substitutions.fresh() for name in names} if names else None
        if len(wanted) != len(args) or _cannot_fit(args, wanted):
            return None
        if fresh:
            wanted = tuple([_instantiate(one, fresh) for one in wanted])
            result = _instantiate(result, fresh)
        return self._substitutions.resolve(result) if self._substitutions.are_assignable(args, wanted) else None

    def _no_overload(self, expr: Call, args: Sequence[Type]) -> Type:
        shown = [str(self._substitutions.resolve(arg, or_dyn=True)) for arg in args]
        receiver = f"{shown.pop(0)}." if expr.target is not None else ""
        signature = f"{receiver}({', '.join(shown)})"
        self._report(expr, f"found no matching overload for '{expr.function}' applied to '{signature}'")
        return ERROR

    # Lists, maps and objects.

    def _list(self, expr: ListExpr) -> Type:
        joined: Type | None = None
        for at, element in enumerate(expr.elements):
            type_ = self._check(element)
            joined = self._join(joined, self._present(element, type_) if at in expr.optional else type_)
        return list_of(joined or self._substitutions.fresh())

    def _map(self, expr: MapExpr) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in expr.entries:
            keys = self._join(keys, self._check(entry.key))
            type_ = self._check(entry.value)
            values = self._join(values, self._present(entry.value, type_) if entry.optional else type_)
        return map_of(keys or self._substitutions.fresh(), values or self._substitutions.fresh())

    def _present(self, expr: Expr, type_: Type) -> Type:
        """The type of an optional element when it is present."""
        if type_.name == OPTIONAL and type_.params:
            return type_.params[0]
        if type_.name != DYN.name:
            self._mismatch(expr, optional_of(type_), type_)
        return type_

    def _join(self, before: Type | None, type_: Type) -> Type:
        """The type of the elements so far. `literals` checks later that they are of one type."""
        if before is None:
            return type_
        return most_general(before, type_) if self._substitutions.is_assignable(before, type_) else DYN

    def _struct(self, expr: StructExpr) -> Type:
        found = self._declared(expr, expr.name)
        if found is None:
            return self._undeclared(expr, expr.name)
        made: Type = ERROR
        if found.name != TYPE:
            self._report(expr, f"'{found.name}' is not a type")
        elif isinstance(found.params[0], Object):
            made = found.params[0]
        else:
            self._report(expr, f"'{found.params[0].name}' is not a message type")
        for one in expr.fields:
            type_ = self._check(one.value)
            expected = self._initialized(expr, one, made)
            type_ = self._present(one.value, type_) if one.optional else type_
            if not self._substitutions.is_assignable(expected, type_):
                self._report(one, f"expected type of field '{one.name}' is '{expected}' but provided type is '{type_}'")
        return made

    def _initialized(self, expr: StructExpr, one: StructField, made: Type) -> Type:
        """The type of a field that an object is constructed with."""
        if not isinstance(made, Object):
            self._report(one, f"unexpected failed resolution of '{expr.name}'")
            return ERROR
        found = made.fields.get(one.name)
        if found is None:
            self._report(one, f"undefined field '{one.name}'")
        return found or ERROR

    # Loops.

    def _comprehension(self, expr: Comprehension) -> Type:
        over = self._substitutions.resolve(self._check(expr.range))
        folded = self._check(expr.init)
        outside = self._declare((expr.accumulator, folded))
        names = (expr.variable, expr.second) if expr.second else (expr.variable,)
        inside = self._declare(*zip(names, self._elements(expr, over), strict=False))
        self._assert(expr.condition, BOOL, self._check(expr.condition))
        self._assert(expr.step, folded, self._check(expr.step))
        self._restore(inside)
        result = self._check(expr.result)
        self._restore(outside)
        return self._substitutions.resolve(result)

    def _elements(self, expr: Comprehension, over: Type) -> tuple[Type, Type]:
        """The types of the variables of a loop."""
        if over.name == LIST:
            return (INT, over.params[0]) if expr.second else (over.params[0], DYN)
        if over.name == MAP:
            return over.params[0], over.params[1]
        if isinstance(over, Param) or over.name in _ANYTHING:
            self._substitutions.is_assignable(DYN, over)
            return DYN, DYN
        reason = "cannot be range of a comprehension (must be list, map, or dynamic)"
        self._report(expr.range, f"expression of type '{over}' {reason}")
        return ERROR, ERROR

    def _assert(self, expr: Expr, expected: Type, found: Type) -> None:
        if not self._substitutions.is_assignable(expected, found):
            self._mismatch(expr, expected, found)

    def _declare(self, *variables: tuple[str, Type]) -> list[tuple[str, Type | None]]:
        """Declare the variables of a loop; return the ones they hide."""
        hidden = [(name, self._locals.get(name)) for name, _ in variables]
        self._locals.update(variables)
        return hidden

    def _restore(self, hidden: Iterable[tuple[str, Type | None]]) -> None:
        for name, type_ in hidden:
            if type_ is None:
                self._locals.pop(name, None)
            else:
                self._locals[name] = type_


def qualified_name(expr: Expr) -> str | None:
    """The dotted name that a selection spells, if it consists of names only."""
    parts = []
    while isinstance(expr, Select) and not expr.test_only:
        parts.append(expr.field)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None
    return ".".join([expr.name, *reversed(parts)])


def _instantiate(type_: Type, fresh: Mapping[str, Param]) -> Type:
    if isinstance(type_, Param):
        return fresh[type_.name]
    if not type_.params:
        return type_
    return Type(type_.name, tuple([_instantiate(param, fresh) for param in type_.params]))


def _cannot_fit(args: Sequence[Type], wanted: Sequence[Type]) -> bool:
    """Return True if an overload is ruled out by the names of types alone, without the full comparison."""
    for have, want in zip(args, wanted, strict=True):
        if (
            have.name != want.name
            and not isinstance(have, Param)
            and not isinstance(want, Param)
            and have.name not in _OPEN_ENDED
            and want.name not in _OPEN_ENDED
        ):
            return True
    return False
