"""Numbers out of samples."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Figure = dict[str, Any]
"""One measurement: `value`, `p50` and `p99` where there are latencies (in seconds), and circumstances."""


def quantile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that `share` of all samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(times: Sequence[float], elapsed: float) -> Figure:
    """A rate and its latencies."""
    return {
        "value": len(times) / elapsed,
        "p50": quantile(times, 0.5),
        "p99": quantile(times, 0.99),
        "count": len(times),
        "seconds": elapsed,
    }


def median(rounds: Sequence[Figure]) -> Figure:
    """The median of each field over the rounds; fields that are not in every round are left out."""
    fields = [name for name in rounds[0] if all(name in figure for figure in rounds)]
    return {name: statistics.median(figure[name] for figure in rounds) for name in fields}


def times_better(ours: float, theirs: float, *, more_is_better: bool) -> float | None:
    """Return how many times better `ours` is: above 1 is a win, in either direction."""
    above, below = (ours, theirs) if more_is_better else (theirs, ours)
    return above / below if below > 0 else None
