"""Quantities: `quantity('500m').isLessThan(quantity('1'))`. Exact; the numbers themselves are in `kapi.api.values`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.api.values import BINARY_SI, DECIMAL_EXPONENT, Quantity, parse_quantity
from kapi.schema.cel.cost.calls import one, read_argument
from kapi.schema.cel.cost.prices import reads
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import BOOL, DOUBLE, INT, STRING, Overload, Type
from kapi.schema.cel.values import MAX_INT, MIN_INT, EvaluationError, Opaque

if TYPE_CHECKING:
    from collections.abc import Callable

QUANTITY_TYPE: Final = Type("kubernetes.Quantity")
_LETTERS: Final = "numkKMGTPEi"


class Amount(Opaque):
    """A quantity as a value of expressions; `is_short` when cel-go would hold it in 64 bits."""

    __slots__ = ("is_short", "quantity")
    cel_type: ClassVar[Type] = QUANTITY_TYPE

    def __init__(self, quantity: Quantity, *, is_short: bool = True) -> None:
        self.quantity = quantity
        self.is_short = is_short

    def same(self, other: Amount) -> bool:
        """Return True if both are the same amount."""
        return self.quantity == other.quantity

    def __str__(self) -> str:
        return str(self.quantity)


def _parse(text: str) -> Amount:
    try:
        quantity = parse_quantity(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None
    return Amount(quantity, is_short=_is_short(text, quantity))


def _is_short(text: str, quantity: Quantity) -> bool:
    digits = text.lstrip("+-").rstrip(_LETTERS).partition("e")[0].partition("E")[0]
    whole, _, fraction = digits.partition(".")
    size = len(whole.lstrip("0") or "0") + len(fraction)
    if quantity.format != BINARY_SI:
        return size <= 18
    power = 10 * (1 + "KMGTPE".index(text[-2]))
    return not fraction and size + power * 3 // 10 <= 14


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True


def _compare(left: Amount, right: Amount) -> int:
    order = left.quantity.compare(right.quantity)
    return (order > 0) - (order < 0)


def _whole(amount: Amount) -> int | None:
    """The value as an integer; None where cel-go has none, which includes some integers."""
    mantissa, exponent = amount.quantity.mantissa, amount.quantity.exponent
    if not amount.is_short or not 0 <= exponent <= 18:
        return None
    value = mantissa * int(10**exponent)
    return value if MIN_INT <= value <= MAX_INT else None


def _plus(left: Amount, right: Quantity, *, is_short: bool) -> Amount:
    quantity = left.quantity
    is_short = is_short and left.is_short
    if is_short and not right:
        return Amount(Quantity(quantity.mantissa, quantity.exponent, quantity.format))
    if is_short and not quantity:
        return Amount(Quantity(right.mantissa, right.exponent, right.format))
    total = quantity + right
    return Amount(total, is_short=is_short and MIN_INT <= total.mantissa <= MAX_INT)


def _as_integer(amount: Amount) -> int:
    value = _whole(amount)
    if value is None:
        raise EvaluationError("cannot convert value to integer")
    return value


def _as_float(amount: Amount) -> float:
    mantissa, exponent = amount.quantity.mantissa, amount.quantity.exponent
    try:
        # As cel-go does it: the digits as a float, then scaled, both rounded.
        return float(mantissa) * float(f"1e{exponent}") if exponent else float(mantissa)
    except OverflowError:
        return math.copysign(math.inf, mantissa)


def _sign(amount: Amount) -> int:
    return (amount.quantity.mantissa > 0) - (amount.quantity.mantissa < 0)


def _count(value: int) -> Quantity:
    return Quantity(value, 0, DECIMAL_EXPONENT)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "quantity": (Overload("string_to_quantity", (STRING,), QUANTITY_TYPE),),
    "isQuantity": (Overload("is_quantity_string", (STRING,), BOOL),),
    "sign": (Overload("quantity_sign", (QUANTITY_TYPE,), INT),),
    "isGreaterThan": (Overload("quantity_is_greater_than", (QUANTITY_TYPE, QUANTITY_TYPE), BOOL, member=True),),
    "isLessThan": (Overload("quantity_is_less_than", (QUANTITY_TYPE, QUANTITY_TYPE), BOOL, member=True),),
    "compareTo": (Overload("quantity_compare_to", (QUANTITY_TYPE, QUANTITY_TYPE), INT, member=True),),
    "asApproximateFloat": (Overload("quantity_get_float", (QUANTITY_TYPE,), DOUBLE, member=True),),
    "asInteger": (Overload("quantity_get_int", (QUANTITY_TYPE,), INT, member=True),),
    "isInteger": (Overload("quantity_is_integer", (QUANTITY_TYPE,), BOOL, member=True),),
    "add": (
        Overload("quantity_add", (QUANTITY_TYPE, QUANTITY_TYPE), QUANTITY_TYPE, member=True),
        Overload("quantity_add_int", (QUANTITY_TYPE, INT), QUANTITY_TYPE, member=True),
    ),
    "sub": (
        Overload("quantity_sub", (QUANTITY_TYPE, QUANTITY_TYPE), QUANTITY_TYPE, member=True),
        Overload("quantity_sub_int", (QUANTITY_TYPE, INT), QUANTITY_TYPE, member=True),
    ),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "string_to_quantity": _parse,
    "is_quantity_string": _is_quantity,
    "quantity_sign": _sign,
    "quantity_is_greater_than": lambda left, right: _compare(left, right) > 0,
    "quantity_is_less_than": lambda left, right: _compare(left, right) < 0,
    "quantity_compare_to": _compare,
    "quantity_get_float": _as_float,
    "quantity_get_int": _as_integer,
    "quantity_is_integer": lambda amount: _whole(amount) is not None,
    "quantity_add": lambda left, right: _plus(left, right.quantity, is_short=right.is_short),
    "quantity_add_int": lambda left, right: _plus(left, _count(right), is_short=True),
    "quantity_sub": lambda left, right: _plus(left, -right.quantity, is_short=right.is_short),
    "quantity_sub_int": lambda left, right: _plus(left, -_count(right), is_short=True),
}

LIBRARY: Final = Library(
    name="kubernetes.quantity",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices=dict.fromkeys(("quantity", "isQuantity"), reads()),
    estimates=dict.fromkeys(("quantity", "isQuantity"), read_argument),
    equality={QUANTITY_TYPE: one},
    since=(1, 28),
)
