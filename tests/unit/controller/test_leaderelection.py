"""Leader election against the real server, in virtual time: one leads at a time, and stops before the next one starts."""

import asyncio
import json

import pytest
from prometheus_client import CollectorRegistry

from api_client import LEASES, Api
from kapi.api.errors import ServiceUnavailable
from kapi.client.errors import error_from_status
from kapi.controller.manager.leaderelection import Election, LeaderElector
from virtual_time import run


class Leases:
    """The Leases of a server in this process, over a line that can be cut."""

    def __init__(self, api):
        self.api = api
        self.cut = False
        self.hang = False
        self.writes = 0

    async def _ask(self, method, path, body=b""):
        if self.hang:
            await asyncio.sleep(3600)
        if self.cut:
            raise ServiceUnavailable("the line is cut")
        answer = await self.api.request(method, path, body)
        if answer.status >= 300:
            raise error_from_status(answer.json)
        return json.loads(answer.raw)

    async def get(self, name):
        return await self._ask("GET", f"{LEASES}/{name}")

    async def create(self, obj):
        self.writes += 1
        return await self._ask("POST", LEASES, obj)

    async def replace(self, obj):
        self.writes += 1
        return await self._ask("PUT", f"{LEASES}/{obj['metadata']['name']}", obj)


class Worker:
    """Work that goes on until it is told to stop, and notes when it ran."""

    def __init__(self, clock, log, name, *, slow_to_stop=0.0):
        self.clock, self.log, self.name, self.slow = clock, log, name, slow_to_stop
        self.started = asyncio.Event()

    async def __call__(self):
        self.log.append((self.clock.monotonic(), self.name, "start"))
        self.started.set()
        try:
            await asyncio.sleep(10_000)
        finally:
            await asyncio.sleep(self.slow)
            self.log.append((self.clock.monotonic(), self.name, "stop"))


def elected(test):
    """Run a test with a server in virtual time."""

    def wrapper():
        async def main():
            api = Api()
            await api.start()
            try:
                await test(api)
            finally:
                await api.stop()

        run(main())

    wrapper.__name__ = test.__name__
    return wrapper


def candidate(api, identity, **times):
    leases = Leases(api)
    return leases, LeaderElector(leases, Election("the-lease", identity, **times), clock=api.clock)


def overlaps(log):
    """Whether two workers ever ran at once."""
    running = set()
    for _, name, what in sorted(log, key=lambda entry: entry[0]):
        if what == "start":
            if running:
                return True
            running.add(name)
        else:
            running.discard(name)
    return False


@elected
async def test_the_first_candidate_leads_and_says_so_in_the_lease(api):
    _, elector = candidate(api, "a")
    worker = Worker(api.clock, [], "a")
    task = asyncio.ensure_future(elector.run(worker))
    await worker.started.wait()
    assert elector.is_leading
    lease = (await api.get(f"{LEASES}/the-lease")).json
    assert lease["spec"]["holderIdentity"] == "a"
    assert lease["spec"]["leaseDurationSeconds"] == 15
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    released = (await api.get(f"{LEASES}/the-lease")).json
    assert released["spec"].get("holderIdentity", "") == ""
    assert not elector.is_leading


@elected
async def test_work_that_ends_by_itself_ends_the_term(api):
    _, elector = candidate(api, "a")

    async def work():
        await asyncio.sleep(60)

    assert await elector.run(work) is True
    assert (await api.get(f"{LEASES}/the-lease")).json["spec"].get("holderIdentity", "") == ""


@elected
async def test_what_the_work_raises_is_raised_and_the_lease_is_released(api):
    _, elector = candidate(api, "a")

    async def work():
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await elector.run(work)
    assert (await api.get(f"{LEASES}/the-lease")).json["spec"].get("holderIdentity", "") == ""


@elected
async def test_a_second_candidate_waits_and_takes_over_at_once_when_the_first_leaves(api):
    log = []
    _, first = candidate(api, "a")
    _, second = candidate(api, "b")
    a, b = Worker(api.clock, log, "a"), Worker(api.clock, log, "b")
    one = asyncio.ensure_future(first.run(a))
    await a.started.wait()
    two = asyncio.ensure_future(second.run(b))
    await asyncio.sleep(120)
    assert not b.started.is_set()
    assert second.leader == "a"
    left = api.clock.monotonic()
    one.cancel()
    await b.started.wait()
    assert api.clock.monotonic() - left < 3
    assert (await api.get(f"{LEASES}/the-lease")).json["spec"]["leaseTransitions"] == 1
    two.cancel()
    await asyncio.gather(one, two, return_exceptions=True)
    assert not overlaps(log)


@elected
async def test_a_leader_that_cannot_renew_stops_before_another_starts(api):
    log = []
    line, first = candidate(api, "a")
    _, second = candidate(api, "b")
    a, b = Worker(api.clock, log, "a", slow_to_stop=3), Worker(api.clock, log, "b")
    one = asyncio.ensure_future(first.run(a))
    await a.started.wait()
    two = asyncio.ensure_future(second.run(b))
    await asyncio.sleep(30)
    line.cut = True
    assert await one is False
    await b.started.wait()
    assert not overlaps(log), log
    two.cancel()
    await asyncio.gather(two, return_exceptions=True)


@elected
async def test_a_leader_whose_server_hangs_gives_up_in_time(api):
    log = []
    line, first = candidate(api, "a")
    _, second = candidate(api, "b")
    a, b = Worker(api.clock, log, "a"), Worker(api.clock, log, "b")
    one = asyncio.ensure_future(first.run(a))
    await a.started.wait()
    two = asyncio.ensure_future(second.run(b))
    await asyncio.sleep(30)
    line.hang = True
    assert await one is False
    await b.started.wait()
    assert not overlaps(log), log
    two.cancel()
    await asyncio.gather(two, return_exceptions=True)


@elected
async def test_a_short_outage_is_survived(api):
    line, elector = candidate(api, "a")
    worker = Worker(api.clock, [], "a")
    task = asyncio.ensure_future(elector.run(worker))
    await worker.started.wait()
    for _ in range(5):
        line.cut = True
        await asyncio.sleep(5)
        line.cut = False
        await asyncio.sleep(5)
        assert elector.is_leading
        assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@elected
async def test_a_lease_taken_over_by_force_ends_leadership(api):
    _, elector = candidate(api, "a")
    worker = Worker(api.clock, [], "a")
    task = asyncio.ensure_future(elector.run(worker))
    await worker.started.wait()
    lease = (await api.get(f"{LEASES}/the-lease")).json
    lease["spec"]["holderIdentity"] = "thief"
    assert (await api.put(f"{LEASES}/the-lease", lease)).status == 200
    assert await task is False
    assert elector.leader == "thief"
    assert (await api.get(f"{LEASES}/the-lease")).json["spec"]["holderIdentity"] == "thief"


@elected
async def test_ten_candidates_that_come_at_once_elect_one(api):
    log = []
    electors = [candidate(api, f"c{number}")[1] for number in range(10)]
    workers = [Worker(api.clock, log, f"c{number}") for number in range(10)]
    tasks = [asyncio.ensure_future(elector.run(worker)) for elector, worker in zip(electors, workers, strict=True)]
    for term in range(10):
        await asyncio.sleep(60)
        leading = [number for number, elector in enumerate(electors) if elector.is_leading]
        assert len(leading) == 1, (term, log)
        tasks[leading[0]].cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not overlaps(log), log
    assert len([entry for entry in log if entry[2] == "start"]) == 10


@pytest.mark.parametrize(
    "times",
    [{"lease_seconds": 5}, {"renew_seconds": 20}, {"retry_seconds": 9}, {"retry_seconds": 0}],
    ids=["lease shorter than renewal", "renewal longer than lease", "no time for a second try", "no pause"],
)
def test_times_that_cannot_work_are_refused(times):
    with pytest.raises(ValueError, match="does not hold"):
        Election("lease", "me", **times)


@elected
async def test_the_metric_shows_the_leader(api):
    registry = CollectorRegistry()
    _, elector = candidate(api, "a")
    elector.measure(registry)
    other = LeaderElector(Leases(api), Election("another-lease", "a"), clock=api.clock)
    other.measure(registry)

    def status(name):
        return registry.get_sample_value("leader_election_master_status", {"name": name})

    assert status("the-lease") == 0
    worker = Worker(api.clock, [], "a")
    task = asyncio.ensure_future(elector.run(worker))
    await worker.started.wait()
    assert status("the-lease") == 1
    assert status("another-lease") == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert status("the-lease") == 0
