"""Watchers that never read delay no other and take a bounded amount of memory."""

import asyncio
import contextlib
import os
import socket

import pytest
from live_server import PATIENCE, Line, LiveServer, metric, until
from recorded_load import END, WATCH, Gate, Recorder, Watcher, prepare

STALLED = int(os.environ.get("KAPI_STALLED", "20"))
WRITERS = 4
WRITES = 200
OBJECT = 100_000
MIB = 1 << 20
PER_WATCHER = MIB // 2
"""What one stalled watcher may cost: its send buffer, and what encryption and the allocator add."""
BUFFER = MIB // 16
"""What one stalled watcher is charged at least."""
ELSE = 96 * MIB
"""What the load itself may cost: objects of 20 MB in all, once in the history and once on their way."""


def stall(server):
    """A watch whose peer has the smallest receive buffer there is and does not read."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    plain.settimeout(PATIENCE)
    plain.connect(("127.0.0.1", server.port))
    tls = server.context.wrap_socket(plain, server_hostname="127.0.0.1")
    request = f"GET {WATCH} HTTP/1.1\r\nHost: kapi\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    tls.sendall(request.encode())
    assert tls.recv(12) == b"HTTP/1.1 200"
    return tls


async def _write(server, recorder, number):
    line = await Line.open(server)
    try:
        for _ in range(WRITES // WRITERS):
            await recorder.put(line, f"k-{number}")
    finally:
        line.close()


async def _run(server, stack):
    revision = await prepare(server)
    recorder, gate = Recorder(WRITERS, padding=OBJECT), Gate(server)
    gate.up.set()
    for _ in range(STALLED):
        stack.enter_context(contextlib.closing(stall(server)))
    line = await Line.open(server)
    series = 'apiserver_registered_watchers{resource="configmaps"}'

    async def are_there(count):
        return await metric(line, series) == count

    async def are_charged():
        return await metric(line, 'kapi_held_bytes{kind="watch-backlog"}') > STALLED * BUFFER

    await until(lambda: are_there(STALLED))
    healthy = Watcher(revision)
    before = server.memory()
    async with asyncio.TaskGroup() as group:
        group.create_task(healthy.run(gate))
        await until(lambda: are_there(STALLED + 1))
        writing = [group.create_task(_write(server, recorder, number)) for number in range(WRITERS)]
        await asyncio.wait(writing)
        await until(are_charged)
        growth = server.memory("VmHWM") - before
        await recorder.put(line, END)
    assert (await line.request("GET", "/readyz")).body == b"ok"
    line.close()
    return recorder, healthy, growth


@pytest.mark.slow
def test_watchers_that_never_read_delay_no_other_and_cost_their_send_buffer(tmp_path):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LiveServer(tmp_path / "data"))
        recorder, healthy, growth = asyncio.run(_run(server, stack))
        print(f"\n{STALLED} stalled watchers, {growth / MIB:.0f} MiB more at most")
    writes = [op for op in recorder.operations if op.action == "put"]
    assert len(writes) == WRITES + 1
    assert all(op.outcome == "ok" for op in writes), "a writer was disturbed"
    (session,) = healthy.sessions
    assert [event.revision for event in session.events] == sorted(op.revision for op in writes)
    assert {event.value for event in session.events} == {op.value for op in writes}
    assert growth < STALLED * PER_WATCHER + ELSE
