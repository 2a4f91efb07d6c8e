"""The rows of the table, and the groups that are measured together.

A budget is how many times better than kube-apiserver, or than what the row names, Kapi must be; a limit is a figure it
has to stay below, for what nothing can be compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.runner import Bench
    from bench.settings import Settings

KAPI = "Kapi"
KUBE_APISERVER = "kube-apiserver + etcd"


@dataclass(frozen=True)
class Row:
    """A line of the table. The `id` never changes; the title has the numbers of this run."""

    id: str
    title: str
    unit: str
    """/s, s, ms, µs, MiB, KiB or B; times are kept in seconds and memory in bytes."""
    budget: float | None = None
    limit: float | None = None
    """In seconds or bytes, as figures are kept."""
    against: str = KUBE_APISERVER
    """Whose figure the budget is a multiple of."""
    more_budgets: tuple[tuple[str, float], ...] = ()
    """Others that it has to be so many times better than; below 1, that it may be worse by."""

    @property
    def budgets(self) -> dict[str, float]:
        """How many times better it has to be, by whose figure."""
        return {**({self.against: self.budget} if self.budget else {}), **dict(self.more_budgets)}

    @property
    def more_is_better(self) -> bool:
        """Return True if a larger figure is better."""
        return self.unit == "/s"


@dataclass(frozen=True)
class Group:
    """Rows that are measured together, chosen by `--rows`."""

    name: str
    rows: Callable[[Settings], list[Row]]
    measure: Callable[[Bench, Sequence[str]], None]
    """Given the bench and the ids of the rows."""


def connections(number: int) -> str:
    """So many connections, in words."""
    return f"{number} connection{'s' if number > 1 else ''}"
