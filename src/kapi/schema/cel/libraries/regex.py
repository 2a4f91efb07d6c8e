"""Patterns: `find` and `findAll`, on RE2 as `matches` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.cost.calls import PATTERN_FACTOR, READ_FACTOR, CallCost, CallSite
from kapi.schema.cel.cost.estimates import ONE, Estimate
from kapi.schema.cel.cost.prices import pattern_price
from kapi.schema.cel.library import Library
from kapi.schema.cel.run.patterns import all_matches, compile_pattern, first_match
from kapi.schema.cel.types import INT, STRING, Overload, list_of
from kapi.schema.cel.values import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error.text}") from None


def _find(text: str, pattern: str) -> str:
    return first_match(_compiled(pattern), text)


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    return all_matches(_compiled(pattern), text, count)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "find": (Overload("string_find_string", (STRING, STRING), STRING, member=True),),
    "findAll": (
        Overload("string_find_all_string", (STRING, STRING), list_of(STRING), member=True),
        Overload("string_find_all_string_int", (STRING, STRING, INT), list_of(STRING), member=True),
    ),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}


def _estimate(site: CallSite) -> CallCost | None:
    if site.target is None or not site.args:
        return None
    size = site.size(site.target)
    cost = size.plus(ONE).scaled(READ_FACTOR).times(site.size(site.args[0]).scaled(PATTERN_FACTOR))
    return CallCost(cost, Estimate(0, size.max))


LIBRARY: Final = Library(
    name="kubernetes.regex",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={"find": pattern_price, "findAll": pattern_price},
    estimates={"find": _estimate, "findAll": _estimate},
)
