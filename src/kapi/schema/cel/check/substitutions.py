"""Substitutions of type parameters, found while an expression is checked, and assignability of types under them.

Parameters come from the overloads of functions and from empty lists and maps, whose elements are not known yet. Each
attempt to fit types together either succeeds and may teach something, or fails and leaves nothing behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.schema.cel.types import DYN, ERROR, LIST, MAP, NULL, TYPE, Param, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANYTHING: Final = frozenset({DYN.name, ERROR.name})
_NEVER_NULL: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", LIST, MAP, TYPE})
_LEAST_WORK: Final = 200_000
_WORK_PER_CHARACTER: Final = 100


class TooComplex(Exception):
    """The types of an expression are too large to be checked."""


def is_exact(left: Type, right: Type) -> bool:
    """Return True if two types are the same. Objects are the same when they have one name."""
    if left is right:
        return True
    if left.name != right.name or left.__class__ is not right.__class__ or len(left.params) != len(right.params):
        return False
    return all(map(is_exact, left.params, right.params))


def most_general(left: Type, right: Type) -> Type:
    """The more general of two types that are assignable to each other."""
    return left if _is_as_general(left, right) else right


def _is_as_general(left: Type, right: Type) -> bool:
    """Return True if the left type is as general as the right one, or more."""
    if left.name == DYN.name or isinstance(left, Param):
        return True
    if right.name == DYN.name or isinstance(right, Param) or left.name != right.name:
        return False
    return left.name == TYPE or (
        len(left.params) == len(right.params) and all(map(_is_as_general, left.params, right.params))
    )


def _is_nullable(type_: Type) -> bool:
    return type_.name not in _NEVER_NULL


class Substitutions:
    """The types that the parameters of one expression are bound to.

    Types may share parts, so that a short expression can have a type that is huge when it is written out. All walks
    over types count against one budget, in proportion to the source, and end in TooComplex.
    """

    def __init__(self, source_length: int) -> None:
        self._bound: dict[str, Type] = {}
        self._undo: list[tuple[str, Type | None]] = []
        self._parameters = 0
        self._work = _LEAST_WORK + _WORK_PER_CHARACTER * source_length

    def fresh(self) -> Param:
        """A new type parameter, bound to nothing."""
        self._parameters += 1
        return Param(f"_var{self._parameters - 1}")

    def is_assignable(self, left: Type, right: Type) -> bool:
        """Return True if one type is assignable to the other; binds parameters if so."""
        return self.are_assignable((left,), (right,))

    def are_assignable(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        """Return True if all types are assignable pairwise; binds parameters only if so."""
        fit = len(left) == len(right) and all(map(self._is_assignable, left, right))
        if not fit:
            for name, before in reversed(self._undo):
                if before is None:
                    del self._bound[name]
                else:
                    self._bound[name] = before
        self._undo.clear()
        return fit

    def resolve(self, type_: Type, *, or_dyn: bool = False) -> Type:
        """The type with parameters replaced by their bindings; with `or_dyn`, unbound ones by `dyn`."""
        while isinstance(type_, Param):
            found = self._bound.get(type_.name)
            if found is None:
                return DYN if or_dyn else type_
            self._spend()
            type_ = found
        params = type_.params
        if not params:
            return type_
        self._spend()
        resolved = tuple([self.resolve(param, or_dyn=or_dyn) for param in params])
        if all(new is old for new, old in zip(resolved, params, strict=True)):
            return type_
        return Type(type_.name, resolved)

    def _is_assignable(self, left: Type, right: Type) -> bool:
        if isinstance(right, Param):
            fits, is_known = self._assign(right, left)
            if fits or is_known:
                return fits
        if isinstance(left, Param):
            return self._assign(left, right)[0]
        if left.name in _ANYTHING or right.name in _ANYTHING:
            return True
        if left.name == NULL.name:
            return _is_nullable(right)
        if right.name == NULL.name:
            return _is_nullable(left)
        if left.name != right.name or left.__class__ is not right.__class__:
            return False
        if not left.params or left.name == TYPE:
            return len(left.params) == len(right.params) or left.name == TYPE
        self._spend()
        return len(left.params) == len(right.params) and all(map(self._is_assignable, left.params, right.params))

    def _assign(self, param: Param, type_: Type) -> tuple[bool, bool]:
        """Bind a parameter to a type: return True if that is possible, and True if it was bound before."""
        self._spend()
        if isinstance(type_, Param) and param.name == type_.name:
            return True, True
        known = self._bound.get(param.name)
        if known is None:
            if self._occurs(param, type_):
                return False, False
            self._bind(param, type_)
            return True, False
        if known is type_:
            return True, True
        if not self._is_assignable(type_, known):
            return False, True
        general = most_general(type_, known)
        if general is not known and not self._occurs(param, general):
            self._bind(param, general)
        return True, True

    def _bind(self, param: Param, type_: Type) -> None:
        self._undo.append((param.name, self._bound.get(param.name)))
        self._bound[param.name] = type_

    def _occurs(self, param: Param, within: Type) -> bool:
        """Return True if a parameter is part of a type, and so cannot be bound to it."""
        while isinstance(within, Param):
            if within.name == param.name:
                return True
            self._spend()
            found = self._bound.get(within.name)
            if found is None:
                return False
            within = found
        if not within.params:
            return False
        self._spend()
        return any(self._occurs(param, part) for part in within.params)

    def _spend(self) -> None:
        self._work -= 1
        if self._work < 0:
            raise TooComplex
