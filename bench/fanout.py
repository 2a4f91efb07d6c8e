"""Watch fan-out: many watchers of one namespace, few writers.

Two phases. First writers write as fast as the watchers are served: that is the rate of events. Then one writer writes,
and waits each time until every watcher has seen it: that is the time from a write to its event, without queues in it.

Writers stop when the slowest part is too far behind, so that what is measured is delivery and not the length of a
buffer, and no server has a reason to cut a watcher off.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from bench.client import Address, Connection, LoadError, call, connect
from bench.figures import Figure, quantile
from bench.objects import FAN_NAMESPACE, STAMP, STAMP_DIGITS, collection, config_map, request, stamp

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")

WRITERS = 8
WINDOW = 32
"""Writes that may be sent but not yet seen by all."""
PATIENCE = 30.0
"""Seconds without any event after which events count as lost."""
FEWEST_LATENCIES = 5
CONNECTING = 50
"""Watchers that connect at the same time."""


class Delivery:
    """Counts what all watchers together have seen."""

    def __init__(self, watchers: int) -> None:
        self.watchers = watchers
        self.delivered = 0
        self.written = 0
        self.latencies: list[float] | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def behind(self) -> int:
        """Events that are still to come."""
        return self.written * self.watchers - self.delivered

    def arrived(self, events: int) -> None:
        """A watcher has seen events."""
        self.delivered += events
        while self._waiting and self.behind <= self._waiting[0][0]:
            _, future = self._waiting.pop(0)
            if not future.done():
                future.set_result(None)

    async def until(self, behind: int) -> None:
        """Wait until no more than so many events are still to come."""
        while self.behind > behind:
            before = self.delivered
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((behind, future))
            done, _ = await asyncio.wait([future], timeout=PATIENCE)
            if not done and self.delivered == before:
                raise LoadError(f"{self.behind} of {self.written * self.watchers} events never came")


class WatchConnection(Connection):
    """One watcher: counts events by their stamps."""

    def __init__(self, delivery: Delivery) -> None:
        super().__init__()
        self._delivery = delivery
        self._rest = b""
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_headers_complete(self) -> None:
        if not self.open.done():
            self.open.set_result(None)

    def on_body(self, body: bytes) -> None:
        data = self._rest + body if self._rest else body
        # An event ends with its line; what is left of one waits for the rest of it.
        cut = data.rfind(b"\n") + 1
        self._rest = data[cut:] if cut < len(data) else b""
        if not cut:
            return
        delivery = self._delivery
        events = data.count(STAMP, 0, cut)
        if delivery.latencies is not None:
            now = time.monotonic_ns()
            at = data.find(STAMP)
            while at >= 0:
                at += len(STAMP)
                delivery.latencies.append((now - int(data[at : at + STAMP_DIGITS])) / 1e9)
                at = data.find(STAMP, at, cut)
        delivery.arrived(events)

    def on_message_complete(self) -> None:
        self.fail(LoadError("the server ended a watch"))

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        if not self.open.done():
            self.open.set_exception(error)


class Writer(Connection):
    """Replaces one object again and again, when told."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._path = f"{collection(FAN_NAMESPACE)}/{name}"
        self._answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def put(self) -> None:
        """Write once; returns when it is answered."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request("PUT", self._path, config_map(self._name, stamp())))
        await self._answer

    def on_message_complete(self) -> None:
        if self._answer.done():
            return
        if (status := self._parser.get_status_code()) < 300:
            self._answer.set_result(None)
        else:
            self._answer.set_exception(LoadError(f"a write was answered {status}"))

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        if not self._answer.done():
            self._answer.set_exception(error)

    def close(self) -> None:
        self._answer.cancel()
        super().close()


async def watch(address: Address, job: dict[str, Any]) -> Figure:
    """`watchers` watchers; events a second, and the time from write to event."""
    names = [f"{job['run']}-{index}" for index in range(WRITERS)]
    for name in names:
        await call(address, request("POST", collection(FAN_NAMESPACE), config_map(name)))
    revision = json.loads(await call(address, request("GET", f"{collection(FAN_NAMESPACE)}?limit=1")))
    delivery = Delivery(job["watchers"])
    watchers = await open_watches(address, delivery, revision["metadata"]["resourceVersion"])
    try:
        rate = await _phase(watchers, _flood(address, delivery, names, job["seconds"]))
        times = await _phase(watchers, _paced(address, delivery, names[0], job["seconds"]))
    finally:
        for watcher in watchers:
            watcher.close()
    return rate | {"p50": quantile(times, 0.5), "p99": quantile(times, 0.99), "latencies": len(times)}


async def _phase(watchers: list[WatchConnection], work: Coroutine[Any, Any, T]) -> T:
    """Do the work; a watcher that ends meanwhile ends it."""
    task = asyncio.ensure_future(work)
    ends = [watcher.ended for watcher in watchers]
    waited: list[asyncio.Future[Any]] = [task, *ends]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    for ended in ends:
        if ended.done():
            task.cancel()
            ended.result()
    return await task


async def open_watches(address: Address, delivery: Delivery, revision: str) -> list[WatchConnection]:
    """Connect all watchers of the namespace."""
    ask = request("GET", f"{collection(FAN_NAMESPACE)}?watch=1&resourceVersion={revision}&timeoutSeconds=3600")
    return await open_streams(address, [ask] * delivery.watchers, lambda: WatchConnection(delivery))


async def open_streams(
    address: Address, asks: Sequence[bytes], make: Callable[[], WatchConnection]
) -> list[WatchConnection]:
    """Connect a watcher for each request, and wait until each has its answer's head."""
    context = address.context()
    watchers: list[WatchConnection] = []
    for first in range(0, len(asks), CONNECTING):
        some = asks[first : first + CONNECTING]
        made = await asyncio.gather(*(connect(address, context, make) for _ in some))
        for watcher, ask in zip(made, some, strict=True):
            assert isinstance(watcher, WatchConnection)
            watcher.transport.write(ask)
            watchers.append(watcher)
        await asyncio.wait_for(asyncio.gather(*(watcher.open for watcher in watchers[first:])), PATIENCE)
    return watchers


async def _flood(address: Address, delivery: Delivery, names: list[str], seconds: float) -> Figure:
    """Write as fast as the watchers are served; events a second until the last one has arrived."""
    context = address.context()
    writers = [await open_writer(address, context, name) for name in names]
    started = perf_counter()
    end = started + seconds

    async def write(writer: Writer) -> None:
        while perf_counter() < end:
            await delivery.until(WINDOW * delivery.watchers)
            delivery.written += 1
            await writer.put()

    await asyncio.gather(*(write(writer) for writer in writers))
    await delivery.until(0)
    elapsed = perf_counter() - started
    for writer in writers:
        writer.close()
    return {
        "value": delivery.delivered / elapsed,
        "count": delivery.delivered,
        "seconds": elapsed,
        "writes": delivery.written / elapsed,
    }


async def _paced(address: Address, delivery: Delivery, name: str, seconds: float) -> list[float]:
    """One write at a time, the next when every watcher has seen it; the latencies of all events."""
    writer = await open_writer(address, address.context(), name)
    times = delivery.latencies = []
    end = perf_counter() + seconds
    for number in itertools.count():
        if perf_counter() >= end and number >= FEWEST_LATENCIES:
            break
        delivery.written += 1
        await writer.put()
        await delivery.until(0)
    writer.close()
    return times


async def open_writer(address: Address, context: ssl.SSLContext, name: str) -> Writer:
    writer = await connect(address, context, lambda: Writer(name))
    assert isinstance(writer, Writer)
    return writer
