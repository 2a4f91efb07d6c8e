"""Amounts by name, such as `{"requests.cpu": 500m, "pods": 1}`: the limits of a quota, and the usage of objects.

Values are `Quantity`, so sums are exact and printed as the API prints them. No function changes its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.values import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kapi.api.meta import Object

Amounts = dict[str, Quantity]

ZERO: Final = Quantity(0)
ONE: Final = Quantity(1)


def amounts_of(fields: Object | None) -> Amounts:
    """Parse a map of quantities in an object."""
    return {name: parse_quantity(text) for name, text in (fields or {}).items()}


def printed(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """Amounts as strings, as an object has them."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def added(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Amounts:
    """The sum, name by name."""
    return {**left, **{name: left[name] + amount if name in left else amount for name, amount in right.items()}}


def subtracted(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Amounts:
    """The difference, name by name; it may be negative."""
    return {**left, **{name: left.get(name, ZERO) - amount for name, amount in right.items()}}


def greater(*several: Mapping[str, Quantity]) -> Amounts:
    """The maximum, name by name."""
    result: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            if name not in result or amount > result[name]:
                result[name] = amount
    return result


def only(amounts: Mapping[str, Quantity], names: Collection[str]) -> Amounts:
    """The amounts of some names only."""
    return {name: amount for name, amount in amounts.items() if name in names}
