"""Several API servers on three members of etcd, under faults: what all clients saw together is checked, in Jepsen's manner.

Registers are linearizable across servers, compare-and-swap loses no update, a name, a cluster IP or a node port is given
out once, and a watch that goes on at another server misses and repeats nothing. Bugs that are planted in the servers are
found by the same run.

The long form is `KAPI_SITE_SECONDS=300 pytest -s tests/wire/test_shared_histories.py -k one_history`; `KAPI_SEED` repeats the choices
of a run, `KAPI_SITE_SERVERS` is the number of servers, and `KAPI_SITE_FAULTS=kill_leader,kill_server` chooses faults.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from live_server import Disconnected
from recorded_load import END, prepare
from shared_load import AnyServer, Run, SharedRecorder, WanderingWatcher, allocate, check, read_log, write
from shared_site import FAULTS, Site, fill_disk, nothing, outlast_history, refuse_servers, skew_clocks

from etcd_cluster import PROGRAM
from peers import peer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECONDS = float(os.environ.get("KAPI_SITE_SECONDS", "8"))
SEED = int(os.environ.get("KAPI_SEED", "0")) or random.randrange(1, 2**32)
SERVERS = int(os.environ.get("KAPI_SITE_SERVERS", "2"))
CHOSEN = os.environ.get("KAPI_SITE_FAULTS", ",".join(FAULTS)).split(",")
ALWAYS = [skew_clocks, fill_disk, outlast_history]
"""Faults that every run begins with: clocks stay wrong from then on, and of the others there is no other test."""
LOST = {"reliable", "final", "order", "snapshot"}
WRITERS = 6
ALLOCATORS = 4
WATCHERS = 4
KEYS = 12
ENOUGH = 60
"""Acknowledged writes, at least, on a machine that is too slow for more."""
PATIENCE = 90.0
"""Seconds for what must happen when everything works again. A guard, not a measurement."""

ATTEMPTS = 3
"""Runs of three seconds in which a planted bug is found at least once: in a short one it may do no harm."""

pytestmark = pytest.mark.timeout(SECONDS + 300)


@pytest.fixture(autouse=True)
def _etcd_is_installed() -> None:
    peer(PROGRAM, "etcd")


async def _faults(site: Site, faults: Sequence[Any], seconds: float, done: list[str], recorder: SharedRecorder) -> None:
    """One fault after the other, with a little time in which nothing is wrong; until there was enough load, too."""
    dice = random.Random(SEED)
    end = time.perf_counter() + seconds
    first = [fault for fault in ALWAYS if fault in faults]
    while time.perf_counter() < end or recorder.acknowledged < ENOUGH or len(done) < 2 or first:
        fault = first.pop(0) if first else dice.choice(faults)
        done.append(fault.__name__)
        await fault(site, dice)
        await asyncio.sleep(dice.uniform(0.1, 1.0))


class _Gaps:
    """The longest time between two acknowledged writes."""

    def __init__(self, recorder: SharedRecorder) -> None:
        self._recorder = recorder
        self.longest = 0.0

    async def run(self) -> None:
        last = time.perf_counter()
        while not self._recorder.is_over:
            self._recorder.progress.clear()
            await self._recorder.progress.wait()
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now


async def _run(folder: Path, faults: Sequence[Any], seconds: float, *, members: int = 3, plant: str = "") -> Run:
    recorder = SharedRecorder(KEYS)
    done: list[str] = []
    started = time.perf_counter()
    async with Site(folder, servers=SERVERS, members=members, plant=plant) as site:
        servers = [AnyServer(site, random.Random(SEED + number)) for number in range(WRITERS + ALLOCATORS + WATCHERS)]
        revision = await prepare(site.servers[0])
        watchers = [WanderingWatcher(revision, random.Random(SEED + number)) for number in range(WATCHERS)]
        gaps = _Gaps(recorder)
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(watcher.run(servers.pop())) for watcher in watchers]
            clients = [
                group.create_task(write(servers.pop(), recorder, random.Random(SEED + number)))
                for number in range(WRITERS)
            ]
            clients += [
                group.create_task(allocate(servers.pop(), recorder, random.Random(SEED + number), number))
                for number in range(ALLOCATORS)
            ]
            measuring = group.create_task(gaps.run())
            await _faults(site, faults, seconds, done, recorder)
            async with asyncio.timeout(PATIENCE):
                # Everything works again: writes are acknowledged.
                recorder.progress.clear()
                await recorder.progress.wait()
                recorder.is_over = True
                await asyncio.wait(clients)
                measuring.cancel()
                final = await _finish(site, recorder)
            await asyncio.wait(watching, timeout=PATIENCE)
            for task in watching:
                task.cancel()
        log = await read_log(site)
        notes = _notes(site, watchers)
    return Run(recorder, watchers, final, log, done, time.perf_counter() - started, gaps.longest, notes)


def _notes(site: Site, watchers: Sequence[WanderingWatcher]) -> str:
    """What is to be known about the faults, beyond their names."""
    skews = [clock.seconds for clock in site.clocks]
    return (
        f"clocks wrong by {skews} s, those of members by {[member.skew for member in site.etcd.members]} s; the store was"
        f" read anew {sum(server.gaps for server in site.servers)} times, and watchers listed again"
        f" {sum(watcher.relists for watcher in watchers)} times"
    )


async def _finish(site: Site, recorder: SharedRecorder) -> dict[str, Any]:
    """Write the key that ends the watches, and read everything."""
    servers = AnyServer(site, random.Random(SEED))
    final: dict[str, Any] = {}
    while END not in final:
        line = await servers.connect()
        try:
            await recorder.put(line, END)
            final = await recorder.list(line)
        except Disconnected:
            continue
        finally:
            line.close()
    return final


def _report(run: Run, violations: Sequence[Any]) -> None:
    operations = run.recorder.operations
    unknown = sum(operation.outcome == "unknown" for operation in operations)
    refused = sum(operation.outcome == "refused" for operation in operations)
    events = sum(len(session.events) for watcher in run.watchers for session in watcher.sessions)
    sessions = sum(len(watcher.sessions) for watcher in run.watchers)
    faults = {name: run.faults.count(name) for name in sorted(set(run.faults))}
    print(
        f"\nseed {SEED}, {SERVERS} servers, {run.seconds:.0f} s, faults {faults}: {len(operations)} operations,"
        f" {run.recorder.acknowledged} writes acknowledged, {refused} refused, {unknown} without an answer,"
        f" {len(run.log.services)} writes of Services, {events} events in {sessions} watches;"
        f" longest time without an acknowledged write {run.longest_gap:.1f} s; {run.notes}; {len(violations)} violations"
    )
    for violation in violations[:10]:
        print(violation)


def test_under_faults_clients_of_all_servers_see_one_history(tmp_path: Path) -> None:
    run = asyncio.run(_run(tmp_path, [FAULTS[name] for name in CHOSEN], SECONDS))
    violations = check(run)
    _report(run, violations)
    assert violations == []
    assert run.recorder.problems == []
    assert run.recorder.acknowledged >= ENOUGH


@pytest.mark.parametrize(
    ("plant", "faults"),
    [
        ("stale-reads", [nothing]),
        ("blind-commits", [nothing]),
        ("lost-events", [refuse_servers]),
        ("skipped-gaps", [outlast_history]),
    ],
)
def test_a_planted_bug_is_found(tmp_path: Path, plant: str, faults: Sequence[Any]) -> None:
    # A server that has missed an event also shows old state to those who read.
    expected = {"stale-reads": {"order"}, "blind-commits": {"allocation"}}.get(plant, LOST)
    found: set[str] = set()
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        run = asyncio.run(_run(folder, faults, 3.0, members=1, plant=plant))
        violations = check(run)
        _report(run, violations)
        found |= {violation.rule for violation in violations}
        if found & expected:
            return
    pytest.fail(f"{ATTEMPTS} runs did not find it: {sorted(found)}")
