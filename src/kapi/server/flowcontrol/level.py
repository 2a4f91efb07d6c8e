"""A priority level: its seats, those it may borrow or must lend, and the requests that run and wait in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from kapi.server.flowcontrol.fairqueue import FairQueues

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

DEFAULT_SHARES: Final = 30
_QUEUING: Final = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


class Level:
    """One PriorityLevelConfiguration, with the state of its requests.

    `nominal` seats are its own; it lends what it does not use beyond `minimum` and borrows up to `maximum`.
    """

    def __init__(self, obj: Mapping[str, Any]) -> None:
        self.name: str = obj["metadata"]["name"]
        self.uid: str = obj["metadata"].get("uid", "")
        self.nominal = self.minimum = self.maximum = 0
        self.seats_in_use = 0
        self.executing = 0
        self.dispatched = 0
        self.dispatched_by_schema: dict[str, int] = {}
        self.rejected: dict[tuple[str, str], int] = {}
        """The number of requests refused, by FlowSchema and reason."""
        self.is_retired = False
        """True once its object is deleted; what runs and waits in it is finished."""
        self._queuing: dict[str, int] = {}
        self.queues = FairQueues(1, 1, 0)
        self.configure(obj)

    def configure(self, obj: Mapping[str, Any]) -> None:
        """Take over a changed configuration, with the requests that run and wait."""
        spec = obj.get("spec") or {}
        self.uid = obj["metadata"].get("uid", "")
        self.is_exempt = spec.get("type") == "Exempt"
        part = spec.get("exempt" if self.is_exempt else "limited") or {}
        shares = part.get("nominalConcurrencyShares")
        self.shares: int = (0 if self.is_exempt else DEFAULT_SHARES) if shares is None else shares
        self.lendable_percent: int = part.get("lendablePercent") or 0
        self.borrowing_percent: int | None = part.get("borrowingLimitPercent")
        response = part.get("limitResponse") or {}
        self.can_queue = not self.is_exempt and response.get("type") == "Queue"
        """False if requests that cannot run at once are refused."""
        given = {key: value for key, value in (response.get("queuing") or {}).items() if value}
        queuing = {**_QUEUING, **given}
        if self.can_queue and queuing != self._queuing:
            waiting = list(self.queues)
            self._queuing = queuing
            self.queues = FairQueues(queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"])
            for request in waiting:
                self.queues.adopt(request)

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self.queues.length

    @property
    def lendable(self) -> int:
        """The seats that other levels may use now."""
        return max(0, self.nominal - max(self.seats_in_use, self.minimum))

    @property
    def borrowed(self) -> int:
        """The seats of other levels that this one uses now."""
        return 0 if self.is_exempt else max(0, self.seats_in_use - self.nominal)

    def forget_schemas(self, existing: Container[str]) -> None:
        """Drop the counts of FlowSchemas that were deleted, so that their number is bounded."""
        self.dispatched_by_schema = {
            schema: count for schema, count in self.dispatched_by_schema.items() if schema in existing
        }
        self.rejected = {key: count for key, count in self.rejected.items() if key[0] in existing}

    def reject(self, schema: str, reason: str) -> None:
        """Count a request that is refused."""
        key = (schema, reason)
        self.rejected[key] = self.rejected.get(key, 0) + 1

    def rejections(self, reason: str) -> int:
        """Return how many requests were refused for a reason."""
        return sum(count for (_, why), count in self.rejected.items() if why == reason)


def share_seats(levels: Iterable[Level], total: int) -> None:
    """Give each level its part of the server's seats."""
    levels = list(levels)
    shares = sum(level.shares for level in levels) or 1
    for level in levels:
        level.nominal = math.ceil(total * level.shares / shares)
        level.minimum = level.nominal - round(level.nominal * level.lendable_percent / 100)
        if level.borrowing_percent is None:
            level.maximum = total
        else:
            level.maximum = level.nominal + round(level.nominal * level.borrowing_percent / 100)
