"""Tolerations of Pods: comparison, merge, and the tolerations that plug-ins add."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kapi.api.meta import Object

EXISTS: Final = "Exists"
EQUAL: Final = "Equal"
NO_EXECUTE: Final = "NoExecute"
NO_SCHEDULE: Final = "NoSchedule"


class _Fields(NamedTuple):
    """The fields of a toleration, with the values that missing ones stand for."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None


def _fields(toleration: Object) -> _Fields:
    key, operator, value, effect = (toleration.get(field) or "" for field in ("key", "operator", "value", "effect"))
    return _Fields(key, operator, value, effect, toleration.get("tolerationSeconds"))


def is_superset(greater: Object, toleration: Object) -> bool:
    """Return True if a toleration tolerates all that another does."""
    return _Index([_fields(greater)]).has_superset(_fields(toleration))


class _Index:
    """Tolerations, such that one which includes a given one is found without a look at all of them.

    A Pod may have tens of thousands. What includes a toleration has its key or none, its effect or none, and tolerates
    all values or the same; where those agree, only the seconds matter, so the two longest are enough to know.
    """

    def __init__(self, tolerations: Iterable[_Fields] = ()) -> None:
        self._all: set[_Fields] = set()
        self._longest: dict[tuple[str, ...], list[_Fields]] = {}
        for one in tolerations:
            self.add(one)

    def add(self, one: _Fields) -> None:
        """Add a toleration."""
        if one in self._all:
            return
        self._all.add(one)
        if one.operator == EXISTS:
            group: tuple[str, ...] = (EXISTS, one.key, one.effect)
        elif one.operator in ("", EQUAL):
            group = (EQUAL, one.key, one.effect, one.value)
        else:
            return  # Includes nothing but itself.
        longest = self._longest.setdefault(group, [])
        longest.append(one)
        longest.sort(key=_reach, reverse=True)
        del longest[2:]

    def has_superset(self, one: _Fields, *, other: bool = False) -> bool:
        """Return True if a toleration includes this one; with `other`, one that is not equal to it."""
        if not other and one in self._all:
            return True
        return any(
            found != one and _is_long_enough(found, one)
            for group in _groups(one)
            for found in self._longest.get(group, ())
        )


def _groups(one: _Fields) -> Iterator[tuple[str, ...]]:
    """Yield the groups that the tolerations which may include this one are in."""
    effects = {one.effect, ""}
    for effect in effects:
        for key in {one.key, ""}:
            yield EXISTS, key, effect
        if one.operator == EQUAL:
            yield EQUAL, one.key, effect, one.value


def _reach(one: _Fields) -> float:
    return inf if one.seconds is None else one.seconds


def _is_long_enough(outer: _Fields, inner: _Fields) -> bool:
    return outer.effect != NO_EXECUTE or _reach(inner) <= _reach(outer)


def merge_tolerations(first: Sequence[Object], second: Sequence[Object]) -> list[Object]:
    """Return both in one list, without those that another one includes; of equal ones the first stays."""
    everything = [(one, _fields(one)) for one in (*first, *second)]
    later, candidates = _Index(), []
    for one, fields in reversed(everything):
        if not later.has_superset(fields, other=True):
            candidates.append((one, fields))
        later.add(fields)
    kept, merged = _Index(), []
    for one, fields in reversed(candidates):
        if not kept.has_superset(fields):
            merged.append(one)
            kept.add(fields)
    return merged


def are_allowed(tolerations: Sequence[Object], allowed: Sequence[Object]) -> bool:
    """Return True if each toleration is included in one that is allowed; an empty list allows all."""
    if not allowed:
        return True
    index = _Index(map(_fields, allowed))
    return all(index.has_superset(_fields(one)) for one in tolerations)


def add_or_replace(tolerations: Iterable[Object], added: Sequence[Object]) -> list[Object]:
    """Return tolerations with more, each in the place of those with the same key, operator, value and effect."""
    wanted = {_fields(one)[:4]: one for one in added}
    result: list[Object] = []
    present: set[tuple[str, ...]] = set()
    for toleration in tolerations:
        identity = _fields(toleration)[:4]
        result.append(dict(wanted[identity]) if identity in wanted else toleration)
        present.add(identity)
    return result + [dict(one) for identity, one in wanted.items() if identity not in present]
