"""Drives requests at a live server and collects findings."""

import asyncio
import contextlib
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field

from .connection import Closed, Connection, Hanging
from .findings import Finding, malformed_error, not_ready, server_error
from .kinds import CRDS, DEFINITIONS
from .model import Model, parse_path
from .monitor import CANARY, CANARY_OBJECT, Canary, Log, Process

MIB = 1 << 20
_LAG = re.compile(r"^kapi_event_loop_lag_longest_seconds (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Bounds:
    """What is a failure, and how often it is looked for."""

    stall: float = 0.25
    """Seconds of CPU that the event loop may spend while the canary waits for one answer."""
    memory: int = 1024 * MIB
    """Resident bytes of the server."""
    clients: int = 4
    compare: int = 1000
    """Requests between two comparisons of what was acknowledged with what is stored."""
    restart: int = 10
    """Comparisons between two restarts, by SIGKILL and SIGTERM in turn; one more is at the end."""
    is_durable: bool = True
    """False for a store that a restart empties: there is none then."""
    is_compared: bool = True
    """False for trials of the minimiser that look for another failure: they need neither comparison nor restart."""
    findings: int = 1
    """Different failures after which the run ends."""


@dataclass
class Statistics:
    """What the report prints."""

    requests: Counter = field(default_factory=Counter)
    """By verb, kind and class of status."""
    sent: int = 0
    restarts: int = 0
    compared: int = 0
    events: int = 0
    loop_step: float = 0.0
    lag: float = 0.0
    """The longest lag of the event loop by the server's own metric: time on the wall."""
    waits: list = field(default_factory=list)
    memory: list = field(default_factory=list)


class Answers:
    """What answers said about paths: revisions, uids, continue tokens; the references of later requests."""

    def __init__(self):
        self._known = {}

    def __call__(self, what, path):
        return self._known.get((what, path), {"rv": "1", "uid": "00000000-0000-0000-0000-000000000000"}.get(what, ""))

    def objects(self):
        """The paths of all objects that answers spoke of."""
        return [path for what, path in self._known if what == "uid"]

    def take(self, request, answer):
        """Remember what an answer says; large ones are not looked into."""
        place = parse_path(request.path)
        if place is None or answer.status >= 300 or len(answer.body) > MIB:
            return
        obj = answer.json
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(metadata, dict):
            return
        if "continue" in metadata:
            self._known["continue", request.path] = metadata["continue"]
        if "uid" in metadata:
            path = place[0].path(metadata.get("namespace", ""), metadata.get("name", ""))
            self._known["uid", path] = metadata["uid"]
            self._known["rv", path] = metadata.get("resourceVersion", "")


def hubs_of(requests):
    """The stored resources that requests are about."""
    places = [parse_path(request.path) for request in requests]
    return {place[0].hub for place in places if place and place[0].stored}


class Drive:
    """One run against one server, which is started by the caller."""

    def __init__(self, server, bounds, hubs=None):
        """`hubs` are the stored resources to compare; all by default."""
        self.server = server
        self.bounds = bounds
        self.findings = []
        self.statistics = Statistics()
        self._answers = Answers()
        self._process = Process(server)
        self._model = Model(server, hubs)
        self._log = Log(server.log_path)
        self._canary = Canary(server, self._process, bounds.stall, self._report_from_canary)
        self._in_flight = set()

    @property
    def is_over(self):
        return len(self.findings) >= self.bounds.findings or self._has_ended

    @property
    def _has_ended(self):
        return self.server.process.poll() is not None

    async def run(self, requests):
        """Send numbered requests until they end or enough has been found."""
        requests = iter(requests)
        await self._prepare()
        self._sample_memory()
        if self.bounds.is_compared:
            await self._model.start()
        try:
            await self._periods(requests)
        finally:
            await self._model.stop()
        self.statistics.waits = self._canary.waits
        self.statistics.loop_step = self._canary.cost
        self.statistics.compared = self._model.compared
        self.statistics.events = sum(follower.delivered for follower in self._model.followers.values())
        return self

    async def clean(self):
        """Delete what the requests created, so that the server can be used again."""
        connection = Connection(self.server)
        for path in self._answers.objects():
            await connection.put("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            await connection.put("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background", {})
        connection.close()

    async def _prepare(self):
        """Create the namespaces, the definitions and the canary's object, or what of them is missing."""
        connection = Connection(self.server)
        for name in ("fuzz-a", "fuzz-c", "fuzz-canary"):
            await connection.put("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for definition in DEFINITIONS:
            await connection.put("POST", CRDS, definition)
        answer = await connection.put(
            "PATCH", f"{CANARY}?fieldManager=fuzz&force=true", CANARY_OBJECT, "application/apply-patch+yaml"
        )
        assert answer.status in (200, 201), answer
        connection.close()

    async def _periods(self, requests):
        count = 0
        while not self.is_over:
            sent = await self._period(itertools.islice(requests, self.bounds.compare))
            count += 1
            is_last = sent < self.bounds.compare
            is_due = is_last or count % self.bounds.restart == 0
            if is_due and not self.is_over and self.bounds.is_compared and self.bounds.is_durable:
                await self._restart()
            if is_last:
                return

    async def _period(self, requests):
        """Send some requests next to the canary, then compare; how many were sent."""
        before = self.statistics.sent
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_canary())
            await asyncio.gather(*(self._client(requests) for _ in range(self.bounds.clients)))
            self._canary.stop()
        if self._has_ended:
            status = self.server.process.poll()
            self._report(Finding("exit", f"the server ended with status {status}", self.server.log[-4000:], ()))
        elif not self.is_over and self.bounds.is_compared:
            await self._compare()
        return self.statistics.sent - before

    async def _run_canary(self):
        try:
            await self._canary.run()
        except (OSError, EOFError, TimeoutError) as error:
            if not self._has_ended:
                self._report_from_canary(Finding("canary", f"not answered: {type(error).__name__}", repr(error), ()))

    async def _client(self, requests):
        connection = Connection(self.server)
        for number, request in requests:
            self._in_flight.add(number)
            try:
                await self._send(connection, number, request)
            finally:
                self._in_flight.discard(number)
            self._look(number)
            if self.is_over:
                break
        connection.close()

    async def _send(self, connection, number, request):
        self.statistics.sent += 1
        status = "closed"
        try:
            answer = await connection.exchange(request, self._answers)
        except Hanging:
            self._report(Finding("hanging", f"{request.verb} {request.kind}", str(request), (number,)))
        except Closed as error:
            if not request.raw and not self._has_ended:
                self._report(Finding("closed", f"{request.verb} {request.kind}", f"{request}\n{error}", (number,)))
        else:
            if answer is not None:
                status = f"{answer.status // 100}xx"
                self._check(number, request, answer)
        self.statistics.requests[request.verb, request.kind, status] += 1

    def _check(self, number, request, answer):
        for finding in (server_error(number, request, answer), malformed_error(number, request, answer)):
            if finding:
                self._report(finding)
        self._answers.take(request, answer)
        self._model.take(number, request, answer)

    def _look(self, number):
        """Look at the log and the memory of the server."""
        for finding in self._log.tracebacks(number):
            self._report(finding._replace(numbers=tuple(sorted(self._in_flight | {number}))))
        if not self._has_ended and (memory := self._sample_memory()) > self.bounds.memory:
            self._report(
                Finding("memory", "over the budget", f"{memory / MIB:.0f} MiB", tuple(self._in_flight | {number}))
            )

    def _sample_memory(self):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            self.statistics.memory.append(self._process.memory())
        return self.statistics.memory[-1]

    async def _compare(self):
        for finding in await self._model.compare():
            self._report(finding)
        connection = Connection(self.server)
        if (answer := await connection.get("/readyz")).status != 200:
            reasons = [await connection.get(f"/readyz/{name}") for name in not_ready(answer).signature.split()]
            self._report(not_ready(answer, f"{[reason.body for reason in reasons]}\n{self.server.log[-6000:]}"))
        metrics = (await connection.get("/metrics")).body.decode()
        self.statistics.lag = max(self.statistics.lag, float(_LAG.search(metrics)[1]))
        connection.close()

    async def _restart(self):
        """End the server, by SIGKILL and SIGTERM in turn, start it again, and compare once more."""
        if self.statistics.restarts % 2:
            self.server.terminate()
            status = await asyncio.to_thread(self.server.wait)
            if status != 0:
                self._report(
                    Finding("exit", f"SIGTERM ended the server with status {status}", self.server.log[-2000:], ())
                )
        else:
            await asyncio.to_thread(self.server.kill)
        self.statistics.restarts += 1
        await asyncio.to_thread(self.server.start)
        await self._compare()
        for finding in self._log.tracebacks(self.statistics.sent):
            self._report(finding)

    def _report_from_canary(self, finding):
        self._report(finding._replace(numbers=tuple(sorted(self._in_flight))))

    def _report(self, finding):
        """Keep a finding, unless there is one like it."""
        if not any(finding.is_same(other) for other in self.findings):
            self.findings.append(finding)
