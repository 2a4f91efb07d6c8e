"""Ranges of cost and of size, in whole numbers that stop at the largest unsigned 64-bit one.

The largest number stands for "no limit is known". Rounding and overflow follow cel-go exactly, because whether a
rule is accepted depends on them.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

LARGEST: Final = 2**64 - 1
_TWO_TO_64: Final = 2.0**64


class Estimate(NamedTuple):
    """From the least to the most: of cost, or of the size of a string, bytes, list or map."""

    min: int
    max: int

    def plus(self, other: Estimate) -> Estimate:
        """The sum of both."""
        return Estimate(min(self.min + other.min, LARGEST), min(self.max + other.max, LARGEST))

    def times(self, other: Estimate) -> Estimate:
        """The product of both."""
        return Estimate(min(self.min * other.min, LARGEST), min(self.max * other.max, LARGEST))

    def scaled(self, factor: float) -> Estimate:
        """Multiplied and rounded up."""
        return Estimate(_scaled(self.min, factor), _scaled(self.max, factor))

    def union(self, other: Estimate) -> Estimate:
        """The range that covers both."""
        return Estimate(min(self.min, other.min), max(self.max, other.max))


def exactly(number: int) -> Estimate:
    """A range of one number."""
    return Estimate(number, number)


def wrapped(number: int) -> int:
    """A number after unsigned 64-bit overflow."""
    return number & LARGEST


ZERO: Final = exactly(0)
ONE: Final = exactly(1)
UNKNOWN: Final = Estimate(0, LARGEST)
NOTHING_YET: Final = Estimate(LARGEST, 0)
"""The union of no ranges at all."""


def _scaled(number: int, factor: float) -> int:
    product = float(number) * factor
    return LARGEST if product >= _TWO_TO_64 else min(math.ceil(product), LARGEST)
