"""Clients of several API servers that share a store: each uses any of them, and goes to another one after a failure.

What they do is recorded as in `recorded_load` and checked by `kapi.testing.history`, with the log of etcd as the truth.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from live_server import Disconnected, Line
from recorded_load import END, NAMESPACE, PATH, PREFIX, Recorder, Watcher

from kapi.testing import history
from kapi.testing.history import Commit, Violation

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Sequence

    from shared_site import Site

PATIENCE = 4.0
"""Seconds after which a client goes to another server. Outcomes are unknown then, so the figure matters little."""
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
SERVICES_PREFIX = f"/registry/core/services/{NAMESPACE}/"
MOST_SERVICES = 8


class ImpatientLine(Line):
    """A connection whose client does not wait for a server that does not answer."""

    async def request(self, *request: Any, **options: Any) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await super().request(*request, **options)
        except TimeoutError:
            raise Disconnected("no answer") from None
        return reply

    async def watch(self, path: str) -> AsyncIterator[Any]:
        events = super().watch(path)
        try:
            while True:
                async with asyncio.timeout(PATIENCE):
                    event = await anext(events)
                if event["type"] == "ERROR" and event["object"]["code"] != 410:
                    raise Disconnected(event["object"]["message"])
                yield event
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Disconnected("silence") from None
        except AssertionError as error:
            if not str(error).startswith(("a watch was answered 5", "a watch was answered 429")):
                raise
            raise Disconnected(str(error)) from None
        finally:
            with contextlib.suppress(RuntimeError):
                await events.aclose()


class AnyServer:
    """Connects to any server that answers."""

    def __init__(self, site: Site, dice: random.Random) -> None:
        self._site = site
        self._dice = dice

    async def connect(self) -> ImpatientLine:
        while True:
            server = self._dice.choice(self._site.servers)
            try:
                async with asyncio.timeout(PATIENCE):
                    return await ImpatientLine.open(server)
            except (Disconnected, TimeoutError):
                await asyncio.sleep(0.02)


class SharedRecorder(Recorder):
    """Records what clients of several servers do. An answer that says nothing about the object sends them elsewhere."""

    async def _perform(self, line: Any, operation: Any, method: str, path: str, body: Any = None) -> Any:
        operation.outcome = "unknown"
        self.operations.append(operation)
        reply = await line.request(method, path, body)
        if reply.status >= 500 or reply.status == 429:
            raise Disconnected(f"{reply.status}: {reply.body[:300]!r}")
        operation.returned = time.perf_counter()
        return reply


async def write(servers: AnyServer, recorder: SharedRecorder, dice: random.Random) -> None:
    """A client that writes and reads until the run is over, some requests on each server."""
    while not recorder.is_over:
        line = await servers.connect()
        try:
            for _ in range(dice.randrange(5, 30)):
                if recorder.is_over:
                    break
                await recorder.anything(line, dice, lists=0.05)
        except Disconnected:
            continue
        finally:
            line.close()


async def allocate(servers: AnyServer, recorder: SharedRecorder, dice: random.Random, client: int) -> None:
    """A client that creates and deletes Services; their addresses and ports are looked up in the log."""
    names: list[str] = []
    numbers = itertools.count()
    while not recorder.is_over:
        line = await servers.connect()
        try:
            for _ in range(dice.randrange(5, 15)):
                if recorder.is_over:
                    break
                if len(names) < MOST_SERVICES and dice.random() < 0.7:
                    names.append(f"s-{client}-{next(numbers)}")
                    await line.request("POST", SERVICES, _service(names[-1], dice))
                elif names:
                    await line.request("DELETE", f"{SERVICES}/{names.pop(dice.randrange(len(names)))}")
        except Disconnected:
            continue
        finally:
            line.close()


def _service(name: str, dice: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": dice.choice(["ClusterIP", "NodePort"]), "ports": [{"port": 80}]}
    # Few of them, so that clients of different servers want the same at the same time.
    if dice.random() < 0.6:
        spec["clusterIP"] = f"10.0.0.{dice.randrange(2, 10)}"
    if spec["type"] == "NodePort" and dice.random() < 0.6:
        spec["ports"][0]["nodePort"] = dice.randrange(30000, 30006)
    return {"metadata": {"name": name}, "spec": spec}


class WanderingWatcher(Watcher):
    """A client that watches, now on this server and now on that, always from the last revision that it has seen."""

    def __init__(self, since: int, dice: random.Random) -> None:
        super().__init__(since)
        self._dice = dice
        self._most = 0

    async def _relist(self, servers: Any) -> None:
        """List at any server; an answer that says nothing about the objects sends the client to another one."""
        self.relists += 1
        while True:
            line = await servers.connect()
            try:
                reply = await line.request("GET", PATH)
            except Disconnected:
                continue
            finally:
                line.close()
            if reply.status == 200:
                self.take_list(reply)
                return
            assert reply.status >= 500 or reply.status == 429, reply

    def is_enough(self, session: Any) -> bool:
        if not session.events[1:]:
            self._most = self._dice.randrange(10, 200)
        return len(session.events) > self._most


class Log(NamedTuple):
    """What etcd has: the writes to the registers, and those to Services."""

    registers: list[Commit]
    services: list[Commit]


async def read_log(site: Site) -> Log:
    """Every write since the beginning, from etcd itself."""
    assert site.log is not None
    log = Log([], [])
    for change in await site.log.complete():
        obj = None if change.value is None else json.loads(change.value)
        if change.key.startswith(PREFIX):
            name = change.key.removeprefix(PREFIX)
            log.registers.append(Commit(change.revision, name, None if obj is None else obj["data"]["v"]))
        elif change.key.startswith(SERVICES_PREFIX):
            log.services.append(Commit(change.revision, change.key, None if obj is None else obj["spec"]))
    return log


def double_allocations(services: Sequence[Commit]) -> list[Violation]:
    """The addresses and ports that two Services had at one time, by the log."""
    holders: dict[object, str] = {}
    held: dict[str, list[object]] = {}
    violations = []
    for commit in services:
        for value in held.pop(commit.key, ()):
            holders.pop(value, None)
        if commit.value is None:
            continue
        spec: Any = commit.value
        values = [*spec["clusterIPs"], *(port["nodePort"] for port in spec["ports"] if "nodePort" in port)]
        for value in values:
            if (other := holders.get(value)) is not None:
                text = f"{value} was given to {commit.key} at {commit.revision}, while {other} had it"
                violations.append(Violation("allocation", text))
            holders[value] = commit.key
        held[commit.key] = values
    return violations


class Run(NamedTuple):
    """What the clients of a run have seen."""

    recorder: SharedRecorder
    watchers: list[WanderingWatcher]
    final: dict[str, Any]
    log: Log
    faults: list[str]
    seconds: float
    longest_gap: float
    """The longest time without an acknowledged write."""
    notes: str
    """What happened besides."""


def check(run: Run) -> list[Violation]:
    """Everything that is wrong with a run."""
    log = run.log.registers
    operations = history.resolve(run.recorder.operations, log)
    violations = history.linearizability(operations)
    violations += history.unexplained(log, operations)
    violations += double_allocations(run.log.services)
    # A request that was not answered may be carried out when its client has long given up, even after the last list.
    listed = max(operation.revision for operation in operations if operation.action == "list")
    if run.final != _state(log, listed):
        violations.append(Violation("final", "the last list is not what the log amounts to"))
    wanted = history.events_of(log)
    for watcher in run.watchers:
        for session in watcher.sessions:
            violations += history.watch(session, wanted)
        if END not in watcher.cache:
            violations.append(Violation("reliable", f"a watcher has not got beyond {watcher.since}"))
        elif watcher.cache != _state(log, watcher.since):
            violations.append(Violation("final", "what a watcher holds is not what the servers hold"))
    return violations


def _state(log: Sequence[Commit], revision: int) -> dict[str, object]:
    """What the log amounts to, at a revision."""
    state = {}
    for commit in log:
        if commit.revision <= revision:
            state[commit.key] = commit.value
    return {key: value for key, value in state.items() if value is not None}
