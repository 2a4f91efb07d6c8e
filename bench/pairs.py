"""Two servers under the same load, taking turns: the processor time each of them needs for a request.

It runs in the load generator. Connections and watches are opened once for a row. Then the servers take turns, a chunk
of requests each, in the order A B, B A, A B and so on, so that whatever else the machine does concerns both alike.
Chunks are short, some ten milliseconds: many short turns give a steadier ratio than few long ones on a busy machine.
What a server does after its last answer (controllers, compaction) is part of its chunk: a chunk ends when the server
has nothing more to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from bench.client import Address, Caller, call, connect
from bench.fanout import WINDOW, WRITERS, Delivery, WatchConnection, open_streams, open_watches, open_writer
from bench.objects import FAN_NAMESPACE, collection, config_map, request
from bench.population import node_of
from bench.processes import is_asleep, processor_seconds
from bench.workload import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.client import Connection
    from bench.fanout import Writer
    from bench.figures import Figure
    from bench.workload import Job

WARM = 2
"""Rounds that do not count."""
IDLE_PAUSE = 0.003
IDLE_SECONDS = 0.0002
"""A server that uses less than this in a pause, and whose threads all sleep after it, has nothing to do."""
IDLE_PATIENCE = 0.5


class Load(Protocol):
    """A load on one server, with its connections open."""

    async def run(self, count: int) -> int:
        """Send so many requests; returns by how many the cost is divided."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


async def pair(address: Address, job: Job) -> Figure:
    """One kind of load on the servers `sides`: for each round the seconds of processor time that one request costs.

    It ends after the time `seconds`, but not before `rounds` rounds.
    """
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for side in job["sides"]:
            load = await _open(Address(**side["address"]), job)
            stack.callback(load.close)
            sides.append((load, side["pid"]))
        costs: list[list[float]] = [[] for _ in sides]
        end = perf_counter() + job["seconds"]
        for turn in itertools.count(-WARM):
            if turn >= job["rounds"] and perf_counter() >= end:
                break
            order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
            for number in order:
                cost = await _cost(*sides[number], job["count"])
                if turn >= 0:
                    costs[number].append(cost)
    return {"costs": costs}


async def _open(address: Address, job: Job) -> Load:
    match job["kind"]:
        case "watch":
            return await _Watched.open(address, job)
        case "nodes":
            return await _NodeWatched.open(address, job)
        case _:
            return await _Requests.open(address, job)


async def cost_of_requests(address: Address, pid: int, job: Job, count: int) -> float:
    """The seconds of processor time that one request costs a server."""
    load = await _open(address, job)
    try:
        await load.run(job["connections"])
        return await _cost(load, pid, count)
    finally:
        load.close()


async def _cost(load: Load, pid: int, count: int) -> float:
    before = processor_seconds(pid)
    done = await load.run(count)
    after = await idle(pid)
    return (after - before) / done


async def idle(pid: int, patience: float = IDLE_PATIENCE) -> float:
    """Wait until a process has nothing to do, but not for ever; returns the processor time it has used."""
    now, end = processor_seconds(pid), perf_counter() + patience
    while perf_counter() < end:
        await asyncio.sleep(IDLE_PAUSE)
        before, now = now, processor_seconds(pid)
        if now - before < IDLE_SECONDS and is_asleep(pid):
            break
    return now


class _Requests:
    """Requests of one kind, on connections that each send the next when the last is answered."""

    def __init__(self) -> None:
        self._callers: list[_Repeating] = []
        self._left = 0
        self._times: list[float] = []

    @classmethod
    async def open(cls, address: Address, job: Job) -> _Requests:
        """Connect."""
        made = cls()
        context = address.context()
        for index in range(job["connections"]):
            following = made._limited(KINDS[job["kind"]](job, index))
            caller = await connect(address, context, lambda one=following: _Repeating(one, made._times))  # type: ignore[misc]
            assert isinstance(caller, _Repeating)
            made._callers.append(caller)
        return made

    def _limited(self, source: Iterator[bytes]) -> Callable[[bytes], bytes | None]:
        def following(_: bytes) -> bytes | None:
            if not self._left:
                return None
            self._left -= 1
            return next(source)

        return following

    async def run(self, count: int) -> int:
        """Send so many requests."""
        self._left = count
        self._times.clear()
        for caller in self._callers:
            caller.again()
        await asyncio.gather(*(caller.ended for caller in self._callers))
        return len(self._times)

    def close(self) -> None:
        """Close the connections."""
        for caller in self._callers:
            caller.close()


class _Repeating(Caller):
    """A caller that can be started again."""

    def again(self) -> None:
        """Send requests until there are no more."""
        if self.ended.done():
            self.ended.result()
            self.ended = asyncio.get_running_loop().create_future()
        self.start()


class _Watched:
    """Writes of a few objects that are watched; the cost is that of one event that one watcher receives."""

    def __init__(self, delivery: Delivery, connections: list[Connection], writers: list[Writer]) -> None:
        self._delivery = delivery
        self._connections = connections
        self._writers = writers

    @classmethod
    async def open(cls, address: Address, job: Job) -> _Watched:
        """Create the objects, and watch them."""
        names = [f"{job['run']}-{index}" for index in range(WRITERS)]
        for name in names:
            await call(address, request("POST", collection(FAN_NAMESPACE), config_map(name)))
        found = json.loads(await call(address, request("GET", f"{collection(FAN_NAMESPACE)}?limit=1")))
        delivery = Delivery(job["watchers"])
        watches = await open_watches(address, delivery, found["metadata"]["resourceVersion"])
        context = address.context()
        writers = [await open_writer(address, context, name) for name in names]
        return cls(delivery, [*watches, *writers], writers)

    async def run(self, count: int) -> int:
        """Write so often, and wait for all events."""
        delivery, left = self._delivery, iter(range(count))

        async def write(writer: Writer) -> None:
            for _ in left:
                await delivery.until(WINDOW * delivery.watchers)
                delivery.written += 1
                await writer.put()

        await asyncio.gather(*map(write, self._writers))
        await delivery.until(0)
        return count * delivery.watchers

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()


class _NodeWatched:
    """Updates of the Pods of one node, while as many nodes as there are watchers each watch their own."""

    def __init__(self, watches: list[Connection], writes: _Requests) -> None:
        self._watches = watches
        self._writes = writes

    @classmethod
    async def open(cls, address: Address, job: Job) -> _NodeWatched:
        """Watch the Pods of each node."""
        path = f"{collection(resource='pods')}?watch=1&timeoutSeconds=3600&fieldSelector=spec.nodeName%3D"
        asks = [request("GET", path + node_of(number)) for number in range(job["watchers"])]
        watches = await open_streams(address, asks, lambda: WatchConnection(Delivery(0)))
        return cls([*watches], await _Requests.open(address, job | {"kind": "annotate"}))

    async def run(self, count: int) -> int:
        """Send so many updates."""
        return await self._writes.run(count)

    def close(self) -> None:
        """Close the connections."""
        self._writes.close()
        for connection in self._watches:
            connection.close()
