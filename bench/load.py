"""The load generator: a process of its own that reads jobs as lines of JSON and answers each with one line.

It runs apart from the bench so that nothing else happens on its event loop while it measures. Every answer reports how
busy this process was (`client_cpu`, 1.0 is one whole core), because a row whose client was busy all the time measured
the client.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from time import perf_counter
from typing import TYPE_CHECKING

from bench.client import Address, Caller, LoadError, call, connect
from bench.crowd import crowd
from bench.definition_load import define, fetch, first, install, use
from bench.fanout import watch
from bench.figures import Figure, summary
from bench.garbage_collection import collect
from bench.objects import (
    FAN_NAMESPACE,
    NAMESPACE,
    POLICY_NAMESPACE,
    QUOTA_NAMESPACE,
    REFUSED,
    SEEDED,
    WEBHOOK_NAMESPACE,
    collection,
    config_map,
    namespace,
    pod,
    policies,
    quota,
    request,
    seeded,
    stamp,
)
from bench.pairs import pair
from bench.webhook import Endpoint, configurations
from bench.workload import KINDS, MERGE_PATCH, Job, sort_of
from kapi.base.loop import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

SEED_CONNECTIONS = 32
POLICY_ATTEMPTS = 300
"""A tenth of a second each: kube-apiserver reads its policies once a second."""


# -- requests ---------------------------------------------------------------------------------------------------------


async def requests(address: Address, job: Job) -> Figure:
    """One kind of request on a number of connections for a number of seconds, each connection in a closed loop."""
    end = math.inf
    times: list[float] = []

    def until_end(source: Iterator[bytes]) -> Callable[[bytes], bytes | None]:
        return lambda _: next(source) if perf_counter() < end else None

    sources = [until_end(KINDS[job["kind"]](job, index)) for index in range(job["connections"])]
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


async def limit(address: Address, job: Job) -> Figure:
    """Make a namespace with a quota, and write its status: not every server under measurement has controllers."""
    quotas = collection(QUOTA_NAMESPACE, "resourcequotas")
    await call(address, request("POST", "/api/v1/namespaces", namespace(QUOTA_NAMESPACE)))
    await call(address, request("POST", quotas, quota("quota")))
    await call(address, request("PUT", f"{quotas}/quota/status", quota("quota")))
    return {}


async def guard(address: Address, job: Job) -> Figure:
    """Make a namespace with ten admission policies, and wait until they are enforced."""
    await call(address, request("POST", "/api/v1/namespaces", namespace(POLICY_NAMESPACE)))
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    for number, obj in enumerate(policies()):
        await call(address, request("POST", f"{path}ybindings" if number % 2 else f"{path}ies", obj))
    probe = request("POST", f"{collection(POLICY_NAMESPACE)}?dryRun=All", config_map(REFUSED))
    for _ in range(POLICY_ATTEMPTS):
        try:
            await call(address, probe)
        except LoadError:
            return {}
        await asyncio.sleep(0.1)
    raise LoadError("admission policies are not enforced")


async def hook(address: Address, job: Job) -> Figure:
    """Make a namespace with a mutating and a validating webhook, and wait until they are called."""
    await call(address, request("POST", "/api/v1/namespaces", namespace(WEBHOOK_NAMESPACE)))
    for path, body in configurations(Endpoint(job["port"], job["bundle"]), WEBHOOK_NAMESPACE):
        await call(address, request("POST", path, body))
    probe = request("POST", f"{collection(WEBHOOK_NAMESPACE)}?dryRun=All", config_map("probe"))
    for _ in range(POLICY_ATTEMPTS):
        if b'"webhook"' in await call(address, probe):
            return {}
        await asyncio.sleep(0.1)
    raise LoadError("admission webhooks are not called")


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
    """The seeded objects, listed by one connection or `connections`, whole or in pages of `limit`.

    One walk through all pages counts as one.
    """
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
    context = address.context()

    def walker() -> Caller:
        return Caller(_walk(path, walks, end, paged=bool(limit)), pages, keeps=bool(limit))

    made = [await connect(address, context, walker) for _ in range(job.get("connections", 1))]
    callers = [caller for caller in made if isinstance(caller, Caller)]
    started = perf_counter()
    await _run_all(callers)
    received = sum(caller.received for caller in callers)
    return summary(walks, perf_counter() - started) | {"bytes": received // len(walks)}


def _walk(path: str, walks: list[float], end: float, *, paged: bool) -> Callable[[bytes], bytes | None]:
    """The requests of one connection: lists until the end; the time of each is appended to `walks`."""
    began = 0.0

    def following(last: bytes) -> bytes | None:
        nonlocal began
        token = _token(last) if paged else ""
        if token:
            return request("GET", f"{path}&continue={token}")
        now = perf_counter()
        if began:
            walks.append(now - began)
        began = now
        return request("GET", path) if now < end else None

    return following


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
    "guard": guard,
    "hook": hook,
    "limit": limit,
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
    "pair": pair,
    "crowd": crowd,
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
