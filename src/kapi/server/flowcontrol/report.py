"""What flow control tells about itself: metrics, and the pages below /debug/api_priority_and_fairness."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from kapi.server.flowcontrol.control import FlowControl

PREFIX: Final = "/debug/api_priority_and_fairness/"
_LEVEL_COLUMNS: Final = (
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
)
_QUEUE_COLUMNS: Final = (
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
)
_REQUEST_COLUMNS: Final = (
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
)
_DETAIL_COLUMNS: Final = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")


def page(control: FlowControl, path: str, *, details: bool) -> str | None:
    """Return one of the pages, None if there is no such."""
    name = path.removeprefix(PREFIX)
    if name == "dump_priority_levels":
        return _table(_LEVEL_COLUMNS, _levels(control))
    if name == "dump_queues":
        return _table(_QUEUE_COLUMNS, _queues(control))
    if name == "dump_requests":
        return _table(_REQUEST_COLUMNS + (_DETAIL_COLUMNS if details else ()), _requests(control, details=details))
    return None


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Align columns that are separated by commas, as kube-apiserver does."""
    cells = [[str(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(cell) for cell in column) + 2 for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        *most, last = (f"{cell},".ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("".join(most) + last.rstrip().removesuffix(","))
    return "\n".join(lines) + "\n"


def _levels(control: FlowControl) -> Iterator[tuple[object, ...]]:
    for name, level in sorted(control.levels.items()):
        refused = level.rejections("queue-full") + level.rejections("concurrency-limit")
        active = sum(bool(queue.waiting or queue.executing) for queue in level.queues.queues.values())
        is_idle = not level.executing and not level.waiting
        flags = (str(is_idle).lower(), str(level.is_retired).lower())
        counts = (level.waiting, level.executing, level.dispatched, refused)
        yield name, active, *flags, *counts, level.rejections("time-out"), level.rejections("cancelled")


def _queues(control: FlowControl) -> Iterator[tuple[object, ...]]:
    for name, level in sorted(control.levels.items()):
        if level.can_queue:
            for _, queue in sorted(level.queues.queues.items()):
                start = f"{queue.next_start:.8f}ss"
                yield name, queue.index, len(queue.waiting), queue.executing, queue.seats_in_use, start


def _requests(control: FlowControl, *, details: bool) -> Iterator[tuple[object, ...]]:
    running = [ticket for ticket in control.running if not ticket.is_finished]
    for ticket in sorted(running, key=lambda one: one.started):
        row: tuple[object, ...] = (ticket.level.name, ticket.flow.schema, -1, -1, ticket.flow.distinguisher)
        row += (_wall_time(ticket.started), ticket.seats)
        if details:
            info = ticket.info
            row += (ticket.user.name, info.verb, info.path, info.namespace, info.name)
            row += (info.version, info.resource, info.subresource)
        yield row
    for name, level in sorted(control.levels.items()):
        for queue in level.queues.queues.values():
            for index, request in enumerate(queue.waiting):
                row = (name, request.flow.schema, queue.index, index, request.flow.distinguisher)
                row += (_wall_time(request.arrived), request.seats)
                yield (*row, *("",) * len(_DETAIL_COLUMNS)) if details else row


def _wall_time(moment: float) -> str:
    ago = dt.timedelta(seconds=time.perf_counter() - moment)
    return f"{(dt.datetime.now(dt.UTC) - ago).isoformat(timespec='microseconds')[:26]}Z"


class FlowControlMetrics(Collector):
    """The state of flow control, taken at each scrape so that requests do not pay for it."""

    def __init__(self, control: FlowControl) -> None:
        self._control = control

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        prefix = "apiserver_flowcontrol_"
        gauges = {
            "nominal_limit_seats": "Seats of each priority level.",
            "lower_limit_seats": "Seats of each priority level that it does not lend.",
            "upper_limit_seats": "Seats that each priority level can have with those it borrows.",
            "current_executing_requests": "Requests that run.",
            "current_executing_seats": "Seats of requests that run.",
            "current_inqueue_requests": "Requests that wait.",
        }
        families = {
            name: GaugeMetricFamily(prefix + name, text, labels=["priority_level"]) for name, text in gauges.items()
        }
        dispatched = CounterMetricFamily(
            f"{prefix}dispatched_requests", "Requests that ran.", labels=["priority_level", "flow_schema"]
        )
        rejected = CounterMetricFamily(
            f"{prefix}rejected_requests", "Requests refused.", labels=["priority_level", "flow_schema", "reason"]
        )
        for name, level in self._control.levels.items():
            values = (level.nominal, level.minimum, level.maximum, level.executing, level.seats_in_use, level.waiting)
            for family, value in zip(families.values(), values, strict=True):
                family.add_metric([name], value)
            if level.is_exempt:
                dispatched.add_metric([name, name], level.dispatched)
            for schema, count in level.dispatched_by_schema.items():
                dispatched.add_metric([name, schema], count)
            for (schema, reason), count in level.rejected.items():
                rejected.add_metric([name, schema, reason], count)
        return [*families.values(), dispatched, rejected]
