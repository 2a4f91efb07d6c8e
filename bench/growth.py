"""What a growth table is: rows with the cost of an item at several sizes, and the bound on how it may grow.

The cost of a request should not depend on how much is stored, and that of a list, a start or the memory of a server
should be proportional to it. Either way the cost of one item, the request or the stored object, should stay what it is.
It is allowed to double from the smallest size to the largest: the caches of a processor hold fewer than 300,000
objects, sorted keys add a logarithm (1.4 times from 10,000 to 300,000), and on a busy machine figures vary by a fifth.
What grows faster than that, such as n * sqrt(n) or n * n, makes an item 5 or 30 times as expensive, and fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUND = 2.0
"""How many times as much an item may cost at the largest size as at the smallest."""


@dataclass
class Growth:
    """A row of the table. Costs are in seconds or bytes of one item, by size."""

    title: str
    item: str
    """What is counted: a request, a stored object, a connection."""
    unit: str = "µs"
    """µs, ns or B."""
    bound: float = BOUND
    costs: dict[int, float] = field(default_factory=dict)

    @property
    def growth(self) -> float:
        """The cost at the largest size, as a multiple of that at the smallest one at which there is any.

        What a few items add to a start may be less than by how much starts vary.
        """
        first = next((self.costs[size] for size in sorted(self.costs) if self.costs[size] > 0), 0.0)
        return self.costs[max(self.costs)] / first if first else 1.0

    @property
    def is_linear(self) -> bool:
        """Return True if the cost of an item grows no more than it may."""
        return self.growth <= self.bound

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "title": self.title,
            "item": self.item,
            "unit": self.unit,
            "costs": self.costs,
            "growth": self.growth,
            "bound": self.bound,
            "is_linear": self.is_linear,
        }


def table(what: str, rows: Sequence[Growth]) -> str:
    """The table of rows that were measured at the same sizes, in Markdown."""
    sizes = list(rows[0].costs)
    lines = [[what, "Cost of", *(f"{size:,}" for size in sizes), "Growth"]]
    lines.append(["---", "---", *("--:" for _ in sizes), "--:"])
    for row in rows:
        growth = f"{row.growth:.2f}" if row.is_linear else f"**{row.growth:.2f}**, more than {row.bound:g}"
        lines.append([row.title, row.item, *(_shown(cost, row.unit) for cost in row.costs.values()), growth])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(cost: float, unit: str) -> str:
    match unit:
        case "B":
            return f"{cost:,.0f} B"
        case "ns":
            return f"{cost * 1e9:,.3g} ns"
        case _:
            return f"{cost * 1e6:,.3g} µs" if cost < 1e-3 else f"{cost * 1e6:,.0f} µs"
