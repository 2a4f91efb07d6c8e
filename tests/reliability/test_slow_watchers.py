"""Watchers that never read are closed; they delay no other and take a bounded amount of memory."""

import asyncio
import contextlib
import socket
import ssl

import pytest
from live_server import PATIENCE, Line, LiveServer, metric, until
from recorded_load import END, WATCH, Gate, Recorder, Watcher, prepare

STALLED = 20
WRITERS = 4
WRITES = 200
OBJECT = 100_000
MIB = 1 << 20
PER_WATCHER = 8 * MIB
"""What one stalled watcher may cost: 4 MiB wait for it before it is cut off, and what encryption and the allocator add."""
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


def is_closed(tls):
    """Whether the server has ended the connection; takes in what was on its way."""
    try:
        while tls.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except (OSError, ssl.SSLError):
        return True
    return True


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
    stalled = [stack.enter_context(contextlib.closing(stall(server))) for _ in range(STALLED)]
    line = await Line.open(server)
    series = 'apiserver_registered_watchers{resource="configmaps"}'

    async def are_there(count):
        return await metric(line, series) == count

    await until(lambda: are_there(STALLED))
    healthy = Watcher(revision)
    before = server.memory()
    async with asyncio.TaskGroup() as group:
        group.create_task(healthy.run(gate))
        await until(lambda: are_there(STALLED + 1))
        writing = [group.create_task(_write(server, recorder, number)) for number in range(WRITERS)]
        await asyncio.wait(writing)
        # Only the one that reads is left, before any of the others has read anything.
        await until(lambda: are_there(1))
        growth = server.memory("VmHWM") - before
        await recorder.put(line, END)
    assert (await line.request("GET", "/readyz")).body == b"ok"
    line.close()
    return recorder, healthy, stalled, growth


@pytest.mark.slow
def test_watchers_that_never_read_are_closed_and_delay_no_other(tmp_path):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(LiveServer(tmp_path / "data"))
        recorder, healthy, stalled, growth = asyncio.run(_run(server, stack))
        print(f"\n{STALLED} stalled watchers, {growth / MIB:.0f} MiB more at most")
        assert all(is_closed(one) for one in stalled)
    writes = [op for op in recorder.operations if op.action == "put"]
    assert len(writes) == WRITES + 1
    assert all(op.outcome == "ok" for op in writes), "a writer was disturbed"
    (session,) = healthy.sessions
    assert [event.revision for event in session.events] == sorted(op.revision for op in writes)
    assert {event.value for event in session.events} == {op.value for op in writes}
    assert growth < STALLED * PER_WATCHER + ELSE
