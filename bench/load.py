"""The load generator: a process of its own that reads jobs as lines of JSON and answers each with one line.

It runs apart from the bench so that nothing else happens on its event loop while it measures. Every answer reports how
busy this process was (`client_cpu`, 1.0 is one whole core), because a row whose client was busy all the time measured
the client.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import sys
import time
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.client import Address, Caller, LoadError, call, connect
from bench.definition_load import define, fetch, first, install, use
from bench.definitions import SMALL, large_collection, large_object, small_collection, small_object
from bench.fanout import watch
from bench.figures import Figure, summary
from bench.garbage_collection import collect
from bench.objects import (
    FAN_NAMESPACE,
    NAMESPACE,
    SEEDED,
    ZERO_STAMP,
    collection,
    config_map,
    namespace,
    pod,
    request,
    seeded,
    stamp,
    typical_pod,
)
from kapi.base.loop import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

Job = dict[str, Any]

SEED_CONNECTIONS = 32
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Sort:
    """A kind of object in the load: its constructor by name, and its path."""

    make: Callable[[str], bytes]
    path: Callable[[], str]


_SORTS = {
    "configmaps": Sort(config_map, collection),
    "pods": Sort(pod, partial(collection, resource="pods")),
    "typical": Sort(typical_pod, partial(collection, resource="pods")),
    "small": Sort(partial(small_object, SMALL, 0), partial(small_collection, SMALL, 0)),
    "large": Sort(large_object, large_collection),
}


def sort_of(job: Job) -> Sort:
    """Return the kind of object of a job; ConfigMaps by default."""
    return _SORTS[job.get("of", "configmaps")]


# -- requests ---------------------------------------------------------------------------------------------------------


def creates(job: Job, index: int) -> Iterator[bytes]:
    """New objects, under names no other connection or round uses."""
    sort = sort_of(job)
    path = sort.path()
    for number in itertools.count():
        yield request("POST", path, sort.make(f"{job['run']}-{index}-{number}"))


def gets(job: Job, index: int) -> Iterator[bytes]:
    """Seeded objects in random order."""
    numbers = random.Random(index).sample(range(job["keys"]), min(1000, job["keys"]))
    path = sort_of(job).path()
    return itertools.cycle([request("GET", f"{path}/{seeded(number)}") for number in numbers])


def _own(job: Job, index: int) -> Iterator[str]:
    """Seeded objects that belong to one connection alone, so that writers do not meet."""
    return itertools.cycle([seeded(number) for number in range(index, job["keys"], job["connections"])])


def updates(job: Job, index: int) -> Iterator[bytes]:
    """Whole objects with a new stamp."""
    for name in _own(job, index):
        yield request("PUT", f"{collection()}/{name}", config_map(name, stamp()))


def patches(job: Job, index: int) -> Iterator[bytes]:
    """Merge patches of one field."""
    for name in _own(job, index):
        yield request("PATCH", f"{collection()}/{name}", b'{"data":{"stamp":"%b"}}' % stamp().encode(), MERGE_PATCH)


def _applied(name: str, value: str = ZERO_STAMP) -> bytes:
    query = "fieldManager=bench&force=true"
    return request("PATCH", f"{collection()}/{name}?{query}", config_map(name, value), APPLY_PATCH)


def applies_new(job: Job, index: int) -> Iterator[bytes]:
    """Objects created by server-side apply."""
    for number in itertools.count():
        yield _applied(f"{job['run']}-apply-{index}-{number}")


def applies_same(job: Job, index: int) -> Iterator[bytes]:
    """The same configuration again and again: the first time it is taken over, from then on nothing changes."""
    for name in _own(job, index):
        yield _applied(name)


def applies_field(job: Job, index: int) -> Iterator[bytes]:
    """A configuration with one field changed."""
    for name in _own(job, index):
        yield _applied(name, stamp())


_KINDS = {
    "create": creates,
    "get": gets,
    "update": updates,
    "patch": patches,
    "apply.new": applies_new,
    "apply.same": applies_same,
    "apply.field": applies_field,
}


async def requests(address: Address, job: Job) -> Figure:
    """One kind of request on a number of connections for a number of seconds, each connection in a closed loop."""
    end = math.inf
    times: list[float] = []

    def until_end(source: Iterator[bytes]) -> Callable[[bytes], bytes | None]:
        return lambda _: next(source) if perf_counter() < end else None

    sources = [until_end(_KINDS[job["kind"]](job, index)) for index in range(job["connections"])]
    callers = await _callers(address, sources, times)
    started = perf_counter()
    end = started + job["seconds"]
    await _run_all(callers)
    if not times:
        raise LoadError("nothing was answered in time")
    return summary(times, perf_counter() - started)


async def _callers(
    address: Address, sources: Sequence[Callable[[bytes], bytes | None]], times: list[float]
) -> list[Caller]:
    context = address.context()
    made = await asyncio.gather(
        *(connect(address, context, lambda source=source: Caller(source, times)) for source in sources)  # type: ignore[misc]
    )
    return [caller for caller in made if isinstance(caller, Caller)]


async def _run_all(callers: Sequence[Caller]) -> None:
    """Start all and wait for all; the first error is raised."""
    for caller in callers:
        caller.start()
    results = await asyncio.gather(*(caller.ended for caller in callers), return_exceptions=True)
    for caller in callers:
        caller.close()
    for result in results:
        if isinstance(result, BaseException):
            raise result


# -- preparing --------------------------------------------------------------------------------------------------------


async def prepare(address: Address, job: Job) -> Figure:
    """Make the namespaces."""
    for name in (NAMESPACE, FAN_NAMESPACE):
        await call(address, request("POST", "/api/v1/namespaces", namespace(name)))
    return {}


async def seed(address: Address, job: Job) -> Figure:
    """Create objects `first` to `count`; every `pods_every`-th is a Pod if that is given."""
    every = job.get("pods_every", 0)
    sort = sort_of(job)
    path = sort.path()
    numbers = iter(range(job["first"], job["count"]))

    def following(_: bytes) -> bytes | None:
        number = next(numbers, None)
        if number is None:
            return None
        if every and number % every == 0:
            return request("POST", collection(resource="pods"), pod(seeded(number)))
        return request("POST", path, sort.make(seeded(number)))

    times: list[float] = []
    await _run_all(await _callers(address, [following] * SEED_CONNECTIONS, times))
    return {"count": len(times)}


async def touch(address: Address, job: Job) -> Figure:
    """Change `count` Pods from number `first` on, each once, saying when; with a `pause` between any two if given."""
    numbers = iter(range(job["first"], job["first"] + job["count"]))

    def following(_: bytes) -> bytes | None:
        number = next(numbers, None)
        if number is None:
            return None
        # A waiting connection delays no other; nothing else runs in this process meanwhile.
        time.sleep(job.get("pause", 0.0))
        body = b'{"metadata":{"annotations":{"stamp":"%b"}}}' % stamp().encode()
        return request("PATCH", f"{collection(resource='pods')}/{seeded(number)}", body, MERGE_PATCH)

    times: list[float] = []
    started = perf_counter()
    await _run_all(await _callers(address, [following] * job["connections"], times))
    return summary(times, perf_counter() - started)


# -- lists ------------------------------------------------------------------------------------------------------------


async def lists(address: Address, job: Job) -> Figure:
    """The seeded objects, listed by one connection: whole, or in pages of `limit`, where one walk counts as one."""
    limit = job.get("limit", 0)
    whole_path = sort_of(job).path()
    path = f"{whole_path}?limit={limit}" if limit else whole_path
    whole = json.loads(await call(address, request("GET", whole_path)))
    # A control plane may put something of its own into a namespace.
    held = sum(item["metadata"]["name"].startswith(SEEDED) for item in whole["items"])
    if held != job["keys"]:
        raise LoadError(f"the list holds {held} objects instead of {job['keys']}")
    walks: list[float] = []
    pages: list[float] = []
    end = perf_counter() + job["seconds"]
    began = 0.0

    def following(last: bytes) -> bytes | None:
        nonlocal began
        token = _token(last) if limit else ""
        if token:
            return request("GET", f"{path}&continue={token}")
        now = perf_counter()
        if began:
            walks.append(now - began)
        began = now
        return request("GET", path) if now < end else None

    caller = await connect(address, address.context(), lambda: Caller(following, pages, keeps=bool(limit)))
    assert isinstance(caller, Caller)
    started = perf_counter()
    await _run_all([caller])
    return summary(walks, perf_counter() - started) | {"bytes": caller.received // len(walks)}


def _token(body: bytes) -> str:
    """Return the continue token of a page: a field of the list's metadata, which comes before its items."""
    head = body[: body.find(b'"items":')]
    start = head.find(b'"continue":"')
    if start < 0:
        return ""
    start += len(b'"continue":"')
    return head[start : head.index(b'"', start)].decode()


# -- the process ------------------------------------------------------------------------------------------------------


_ACTIONS: dict[str, Callable[[Address, Job], Awaitable[Figure]]] = {
    "prepare": prepare,
    "seed": seed,
    "requests": requests,
    "touch": touch,
    "lists": lists,
    "watch": watch,
    "define": define,
    "install": install,
    "first": first,
    "use": use,
    "fetch": fetch,
    "collect": collect,
}


async def perform(job: Job) -> Figure:
    """Do one job."""
    address = Address(**job["address"])
    began, busy = perf_counter(), time.process_time()
    answer = await _ACTIONS[job["action"]](address, job)
    answer["client_cpu"] = (time.process_time() - busy) / (perf_counter() - began)
    return answer


def main() -> None:
    """Answer jobs until there are no more."""
    for line in sys.stdin:
        try:
            answer = run(perform(json.loads(line)))
        except Exception as error:
            answer = {"error": str(error) or type(error).__name__}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
