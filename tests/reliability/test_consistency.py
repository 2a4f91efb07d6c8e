"""What many clients see together: reads are linearizable, and compare-and-swap loses no update."""

import asyncio
import copy
import os
import random

import pytest
from live_server import Line, LiveServer
from recorded_load import Recorder, prepare, read_log

from kapi.testing import history

CLIENTS = 16
OPERATIONS = int(os.environ.get("KAPI_OPERATIONS", "6000"))
KEYS = 50

INCREMENTERS = int(os.environ.get("KAPI_INCREMENTERS", "20"))
INCREMENTS = int(os.environ.get("KAPI_INCREMENTS", "50"))
COUNTERS = 10 if INCREMENTERS > 20 else 5
COUNTER_PATH = "/api/v1/namespaces/default/configmaps"


async def _mixed(server, recorder, number):
    random_source = random.Random(number)
    line = await Line.open(server)
    try:
        while len(recorder.operations) < OPERATIONS:
            await recorder.anything(line, random_source, lists=0.02)
    finally:
        line.close()


async def _increment(server, number):
    """Count up by compare and swap until enough of it went through; the number of refusals."""
    line = await Line.open(server)
    target = f"{COUNTER_PATH}/counter-{number % COUNTERS}"
    done = refused = 0
    try:
        while done < INCREMENTS:
            counter = (await line.request("GET", target)).json
            counter["data"]["n"] = str(int(counter["data"]["n"]) + 1)
            # A value of its own, or two clients that write the same would both be right.
            counter["data"]["by"] = f"{number}-{done}"
            reply = await line.request("PUT", target, counter)
            assert reply.status in (200, 409), reply
            done += reply.status == 200
            refused += reply.status == 409
    finally:
        line.close()
    return refused


async def _count(server):
    line = await Line.open(server)
    for number in range(COUNTERS):
        body = {"metadata": {"name": f"counter-{number}"}, "data": {"n": "0"}}
        assert (await line.request("POST", COUNTER_PATH, body)).status == 201
    refused = await asyncio.gather(*(_increment(server, number) for number in range(INCREMENTERS)))
    counters = [
        (await line.request("GET", f"{COUNTER_PATH}/counter-{number}")).json["data"]["n"] for number in range(COUNTERS)
    ]
    line.close()
    return sum(refused), [int(count) for count in counters]


@pytest.mark.slow
def test_increments_by_precondition_lose_no_update(tmp_path):
    with LiveServer(tmp_path / "data") as server:
        refused, counters = asyncio.run(_count(server))
    print(f"\n{INCREMENTERS * INCREMENTS} increments acknowledged, {refused} refused, counted {counters}")
    assert sum(counters) == INCREMENTERS * INCREMENTS
    assert refused > 0, "no two writers raced; the test has shown nothing"


async def _mix(server, recorder):
    await prepare(server)
    await asyncio.gather(*(_mixed(server, recorder, number) for number in range(CLIENTS)))


def _with_a_stale_read(operations):
    """The history with one answer exchanged: a read shows what the key was at before, though the change had been acknowledged."""
    operations = copy.copy(operations)
    puts = {op.revision: op for op in operations if op.action == "put" and op.outcome == "ok"}
    for at, op in enumerate(operations):
        write = puts.get(op.revision)
        before = puts.get(write.expected) if write is not None else None
        if op.action == "get" and before is not None and write.returned < op.called:
            stale = copy.copy(op)
            stale.revision, stale.value = before.revision, before.value
            operations[at] = stale
            return operations
    raise AssertionError("no read to make stale")


@pytest.mark.slow
def test_reads_and_writes_are_linearizable(tmp_path):
    recorder = Recorder(KEYS)
    with LiveServer(tmp_path / "data") as server:
        asyncio.run(_mix(server, recorder))
        server.terminate()
        assert server.wait() == 0
    log = read_log(server.directory)
    operations = history.resolve(recorder.operations, log)
    refused = sum(op.outcome == "refused" for op in operations)
    lists = sum(op.action == "list" for op in operations)
    print(f"\n{len(operations)} operations, {recorder.acknowledged} writes, {refused} refused, {lists} lists")
    assert history.linearizability(operations) == []
    assert history.unexplained(log, operations) == []
    assert recorder.problems == []
    assert not any(op.outcome == "unknown" for op in operations)
    assert min(refused, lists) > 20
    # The control: one stale read in all this is found.
    assert [violation.rule for violation in history.linearizability(_with_a_stale_read(operations))] == ["order"]
