"""Watch, compaction and reconnection together: a watcher that falls behind is answered 410 and lists again; none has a gap.

Most bugs of stores like this one were found here. The server keeps a second of history under constant writes; one watcher keeps
up, one is ended again and again by its timeout, others leave and come back at once or too late.
"""

import asyncio
import contextlib
import random

import pytest
from live_server import PATIENCE, Line, LiveServer, until
from recorded_load import END, WATCH, Gate, Recorder, Watcher, prepare, write

from kapi.testing import history

WRITERS = 6
LAGGARDS = 4


class Laggard(Watcher):
    """Leaves after a few events; stays away for a moment or for too long."""

    def __init__(self, since, recorder, seed):
        super().__init__(since)
        self._recorder = recorder
        self._random = random.Random(seed)

    def is_enough(self, session):
        return len(session.events) >= 20

    async def pause(self):
        """Longer than history, in time and in writes, every second time."""
        if self._random.random() < 0.5 or self._recorder.is_over:
            return
        before = self._recorder.acknowledged
        await asyncio.sleep(2)

        async def have_written():
            return self._recorder.acknowledged > before + 200 or self._recorder.is_over

        await until(have_written)

    @property
    def has_seen_enough(self):
        return self.relists >= 2 and self.resumes >= 3


async def _run(server):
    revision = await prepare(server)
    recorder, gate = Recorder(30), Gate(server)
    gate.up.set()
    healthy, patient = Watcher(revision), Watcher(revision, timeout=3)
    laggards = [Laggard(revision, recorder, number) for number in range(LAGGARDS)]
    async with asyncio.TaskGroup() as group:
        for watcher in (healthy, patient):
            group.create_task(watcher.run(gate))
        for laggard in laggards:
            group.create_task(laggard.run(gate, laggard.pause))
        writing = [group.create_task(write(gate, recorder, random.Random(number))) for number in range(WRITERS)]

        async def have_seen_enough():
            return all(laggard.has_seen_enough for laggard in laggards) and len(patient.sessions) > 1

        await until(have_seen_enough)
        recorder.is_over = True
        await asyncio.wait(writing)
        line = await Line.open(server)
        await recorder.put(line, END)
        final = await recorder.list(line)
        line.close()
    return revision, recorder, healthy, patient, laggards, final


async def _watch_once(server, revision):
    """The first event of a watch."""
    line = await Line.open(server)
    async with (
        asyncio.timeout(PATIENCE),
        contextlib.aclosing(line.watch(f"{WATCH}&resourceVersion={revision}")) as events,
    ):
        first = await anext(events)
    line.close()
    return first


@pytest.mark.slow
def test_a_watcher_that_falls_behind_relists_and_no_watcher_has_a_gap(tmp_path):
    with LiveServer(tmp_path / "data", "--history-seconds", "1") as server:
        revision, recorder, healthy, patient, laggards, final = asyncio.run(_run(server))
        # What was forgotten before a restart is forgotten after it.
        server.kill()
        server.start()
        first = asyncio.run(_watch_once(server, revision))
        assert (first["type"], first["object"]["code"]) == ("ERROR", 410)
    (session,) = healthy.sessions
    # The watcher that was never interrupted is the witness; that it speaks the truth is checked against what the writers know.
    log = [
        history.Commit(event.revision, event.key, None if event.kind == "DELETED" else event.value)
        for event in session.events
        if event.kind != "BOOKMARK"
    ]
    operations = history.resolve(recorder.operations, log)
    assert history.linearizability(operations) == []
    assert history.unexplained(log, operations) == []
    wanted = history.events_of(log)
    for watcher in (healthy, patient, *laggards):
        for session in watcher.sessions:
            assert history.watch(session, wanted) == []
        assert watcher.cache == final
    relists = sum(laggard.relists for laggard in laggards)
    resumes = sum(laggard.resumes for laggard in laggards)
    bookmarks = sum(event.kind == "BOOKMARK" for session in patient.sessions for event in session.events)
    print(f"\n{len(log)} writes, {relists} times too late, {resumes} times resumed, {bookmarks} bookmarks")
    assert healthy.relists == patient.relists == 0
    assert bookmarks > 0
