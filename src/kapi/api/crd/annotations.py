"""Taking annotations apart: the type, what was noted about it, and whether it may be None."""

from __future__ import annotations

import sys
import types
from typing import Annotated, Any, Final, Literal, NamedTuple, NewType, TypeVar, Union, get_args, get_origin

import msgspec

_ALIASES: Any = ()
if sys.version_info >= (3, 12):
    from typing import TypeAliasType

    _ALIASES = TypeAliasType


class Unfolded(NamedTuple):
    """An annotation, taken apart. The notes stand in the order in which they are to be applied."""

    type: Any
    notes: tuple[Any, ...] = ()
    nullable: bool = False


def is_union(annotation: Any) -> bool:
    """Return True if it is `A | B`, in either of Python's spellings."""
    return get_origin(annotation) in (Union, types.UnionType)


def unfold(annotation: Any) -> Unfolded:
    """Look through `Annotated`, aliases and new types, and take None and `UNSET` out of unions."""
    notes: tuple[Any, ...] = ()
    nullable = False
    while True:
        args = get_args(annotation)
        if get_origin(annotation) is Annotated:
            annotation, notes = args[0], (*args[1:], *notes)
        elif get_origin(annotation) is Final:
            annotation = args[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, _ALIASES):
            annotation = annotation.__value__
        elif isinstance(annotation, TypeVar):
            annotation = _bound(annotation)
        elif is_union(annotation) and (kept := _without_absence(args)) != args:
            nullable |= type(None) in args
            annotation = Union[kept]  # noqa: UP007 - a union of what is left, however many
        elif get_origin(annotation) is Literal and None in args:
            nullable = True
            annotation = Literal[tuple(one for one in args if one is not None)]
        else:
            return Unfolded(annotation, notes, nullable)


def _without_absence(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(one for one in args if one is not type(None) and one is not msgspec.UnsetType)


def _bound(variable: TypeVar) -> Any:
    """Return the type that msgspec takes for an unbound type variable."""
    if variable.__constraints__:
        return Union[variable.__constraints__]  # noqa: UP007
    return Any if variable.__bound__ is None else variable.__bound__
