"""Estimates of the cost of calls, and of the size of their results.

The numbers are part of the contract: what takes one look costs 1, what reads a string costs a tenth per character, and
patterns cost the product of both lengths. A `CallEstimator` tells it of one overload or function; those of the standard
functions are here, with the ones that several libraries share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.schema.cel.cost.estimates import ONE, UNKNOWN, Estimate, wrapped
from kapi.schema.cel.syntax.ast import Literal
from kapi.schema.cel.types import BYTES, INT, STRING

if TYPE_CHECKING:
    from kapi.schema.cel.syntax.ast import Expr
    from kapi.schema.cel.types import Type

READ_FACTOR: Final = 0.1
"""The cost of reading one character."""
PATTERN_FACTOR: Final = 0.25
"""The cost that one character of a pattern adds to each tenth of the text."""

Sizes = Callable[[Sequence[str]], Estimate | None]
"""The size that the value at a path may have; the first step of a path is a variable."""


class Operand(NamedTuple):
    """An argument or the receiver of a call."""

    expr: Expr
    type: Type
    path: Sequence[str]
    """From a variable; empty when the value is not an input."""
    size: Estimate | None

    @property
    def written_int(self) -> int | None:
        """The number that the operand is written as, if it is one."""
        return self.expr.value if isinstance(self.expr, Literal) and self.expr.type == INT else None


class CallSite(NamedTuple):
    """One call whose cost is estimated."""

    overload: str
    target: Operand | None
    args: Sequence[Operand]
    sizes: Sizes

    def size(self, operand: Operand) -> Estimate:
        """The size of an operand, as library functions see it."""
        return operand.size or self.sizes(operand.path) or UNKNOWN

    def items(self, operand: Operand) -> tuple[Type, Estimate] | None:
        """The type and the size of the items, when the operand is a list."""
        if not operand.type.params:
            return None
        size = self.sizes([*operand.path, "@items"]) if operand.path else None
        return operand.type.params[0], size or UNKNOWN


class CallCost(NamedTuple):
    """The cost of a call without its arguments, and the size of its result where it is known."""

    cost: Estimate
    result: Estimate | None = None


CallEstimator = Callable[[CallSite], CallCost | None]
"""None where the call has not the shape that the estimator is for; it costs 1 then."""


def estimate_call(
    function: str,
    site: CallSite,
    costs: Sequence[Estimate],
    estimators: Mapping[str, CallEstimator],
    equality: Mapping[Type, CallEstimator],
) -> CallCost:
    """The cost of a call with its arguments, and the size of its result; the receiver is paid for by the caller."""
    args = site.args
    if site.overload in ("logical_or", "logical_and"):
        return CallCost(Estimate(costs[0].min, costs[0].plus(costs[1]).max))
    if site.overload == "conditional":
        result = (args[1].size or UNKNOWN).union(args[2].size or UNKNOWN)
        return CallCost(costs[0].plus(costs[1].union(costs[2])), result)
    estimator = estimators.get(site.overload) or estimators.get(function)
    if site.overload == "equals" and args[0].type == args[1].type:
        estimator = equality.get(args[0].type, estimator)
    own = estimator(site) if estimator else None
    total = own.cost if own else ONE
    for cost in costs:
        total = total.plus(cost)
    return CallCost(total, own.result if own else None)


# -- shared by several libraries --------------------------------------------------------------------------------------


def one(_: CallSite) -> CallCost:
    """A call that costs 1."""
    return CallCost(ONE)


def read_argument(site: CallSite) -> CallCost | None:
    """Reads its argument once."""
    return CallCost(site.size(site.args[0]).scaled(READ_FACTOR)) if site.args else None


def rewrite_argument(site: CallSite) -> CallCost | None:
    """Reads its argument once and returns something as large."""
    if len(site.args) != 1:
        return None
    size = site.size(site.args[0])
    return CallCost(size.scaled(READ_FACTOR), size)


def rewrite_target(site: CallSite) -> CallCost | None:
    """Reads its receiver once and returns something as large."""
    if site.target is None:
        return None
    size = site.size(site.target)
    return CallCost(size.scaled(READ_FACTOR), size)


def traverse(site: CallSite) -> CallCost | None:
    """Visits every item of a list, or every character of a string."""
    if site.target is None:
        return None
    items = site.items(site.target)
    if items is None:
        return CallCost(site.size(site.target).scaled(READ_FACTOR))
    item, size = items
    each = ONE.plus(size.scaled(READ_FACTOR)) if item in (STRING, BYTES) else ONE
    return CallCost(site.size(site.target).times(each))


# -- standard functions -----------------------------------------------------------------------------------------------


def _string_to_bytes(site: CallSite) -> CallCost:
    size = site.args[0].size or UNKNOWN
    return CallCost(size.scaled(READ_FACTOR), Estimate(size.min, wrapped(size.max * 4)))


def _bytes_to_string(site: CallSite) -> CallCost:
    size = site.args[0].size or UNKNOWN
    return CallCost(size.scaled(READ_FACTOR), Estimate(size.min // 4, size.max))


def _starts_with(site: CallSite) -> CallCost:
    return CallCost((site.args[0].size or UNKNOWN).scaled(READ_FACTOR))


def _in_list(site: CallSite) -> CallCost:
    return CallCost((site.args[1].size or UNKNOWN).scaled(1))


def _matches(site: CallSite) -> CallCost | None:
    if site.target is None:
        return None
    # One more than the text, so that a pattern costs something on an empty one.
    text = (site.target.size or UNKNOWN).plus(ONE).scaled(READ_FACTOR)
    return CallCost(text.times((site.args[0].size or UNKNOWN).scaled(PATTERN_FACTOR)))


def _contains(site: CallSite) -> CallCost | None:
    if site.target is None:
        return None
    text = (site.target.size or UNKNOWN).scaled(READ_FACTOR)
    return CallCost(text.times((site.args[0].size or UNKNOWN).scaled(READ_FACTOR)))


def _add_text(site: CallSite) -> CallCost:
    size = (site.args[0].size or UNKNOWN).plus(site.args[1].size or UNKNOWN)
    return CallCost(size.scaled(READ_FACTOR), size)


def _add_list(site: CallSite) -> CallCost:
    return CallCost(ONE, (site.args[0].size or UNKNOWN).plus(site.args[1].size or UNKNOWN))


def _compare(site: CallSite) -> CallCost:
    most = min((arg.size or UNKNOWN).max for arg in site.args)
    return CallCost(Estimate(1 if most > 0 else 0, most).scaled(READ_FACTOR))


_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")

STANDARD_ESTIMATES: Final[dict[str, CallEstimator]] = {
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "starts_with_string": _starts_with,
    "ends_with_string": _starts_with,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _add_text,
    "add_bytes": _add_text,
    "add_list": _add_list,
    **dict.fromkeys([f"{order}_{of}" for order in _ORDERS for of in ("string", "bytes")], _compare),
    "equals": _compare,
    "not_equals": _compare,
}
"""By overload id."""
