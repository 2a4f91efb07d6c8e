"""The disk fails under load: the server stops acknowledging, reports that it is not ready, and exits; no acknowledged write is lost.

What a failed write has left on the disk is unknown, so nothing is retried: an answer after that would be a guess.
"""

import asyncio
import random

import pytest
from live_server import Disconnected, Line, LiveServer
from recorded_load import END, Gate, Recorder, prepare, read_log

from kapi.testing import history

WRITERS = 8


async def _write_until_it_fails(gate, recorder, random_source, readiness):
    line = await gate.connect()
    try:
        while True:
            answered = len(recorder.operations)
            await recorder.anything(line, random_source)
            failed = [op for op in recorder.operations[answered:] if op.outcome == "unknown" and op.action != "get"]
            if failed and failed[0].returned < float("inf"):
                # This write was answered, and not with success: from now on the server must not call itself ready.
                readiness.append((await line.request("GET", "/readyz")).status)
                return
    except Disconnected:
        return
    finally:
        line.close()


async def _fail(server, break_disk):
    recorder, gate, readiness = Recorder(40, padding=3000), Gate(server), []
    gate.up.set()
    async with asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(_write_until_it_fails(gate, recorder, random.Random(number), readiness))
        await recorder.progress.wait()
        break_disk()
    return recorder, readiness


def _check(server, recorder):
    """Start again on a disk that works, and compare."""
    server.environment = {}
    server.start()

    async def write_once_more():
        line = await Line.open(server)
        await recorder.put(line, END)
        line.close()

    asyncio.run(write_once_more())
    server.terminate()
    assert server.wait() == 0
    log = read_log(server.directory)
    operations = history.resolve(recorder.operations, log)
    assert history.linearizability(operations) == []
    assert history.unexplained(log, operations) == []
    assert recorder.problems == []
    assert recorder.operations[-1].outcome == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the file cannot grow", "the commit fails"])
def test_a_disk_failure_stops_the_server_and_loses_no_acknowledged_write(tmp_path, how):
    server = LiveServer(tmp_path / "data")
    with server:
        asyncio.run(prepare(server))
        if how == "the commit fails":
            server.kill()
            server.environment = {"KAPI_FAILPOINTS": "storage.before_commit=raise@50"}
            server.start()
        wal = tmp_path / "data/kapi.db-wal"
        grow = (lambda: server.limit_file_size(wal.stat().st_size + 600_000)) if "grow" in how else (lambda: None)
        recorder, readiness = asyncio.run(_fail(server, grow))
        assert server.wait() == 1
        assert "storage failed, refusing writes" in server.log
        assert 200 not in readiness
        assert recorder.acknowledged > 20
        _check(server, recorder)
