"""SIGTERM: what has begun is finished, what is idle is closed, watches end properly, and the exit status is 0."""

import asyncio
import os

import pytest
from live_server import Disconnected, Line, LiveServer, metric, until
from recorded_load import PATH, WATCH, prepare, read_log

IN_FLIGHT = int(os.environ.get("KAPI_IN_FLIGHT", "100"))
IDLE = 10
WATCHES = 10


async def _watched(server, revision, names):
    """The names a watch has shown when the server ended it; a watch that is cut off is an error."""
    line = await Line.open(server)
    async for event in line.watch(f"{WATCH}&resourceVersion={revision}"):
        names.append(event["object"]["metadata"]["name"])
    is_closed = await line.ended()
    line.close()
    return is_closed


async def _drain(server, revision):
    seen = [[] for _ in range(WATCHES)]
    watches = [asyncio.ensure_future(_watched(server, revision, names)) for names in seen]
    idle = [await Line.open(server) for _ in range(IDLE)]
    for line in idle:
        assert (await line.request("GET", "/readyz")).status == 200
    busy = [await Line.open(server) for _ in range(IN_FLIGHT)]
    probe = await Line.open(server)
    for number, line in enumerate(busy):
        body = {"metadata": {"name": f"k-{number}"}, "data": {"v": str(number)}}
        await line.send("POST", PATH, body)

    async def are_in_flight():
        # The server's own controllers may have requests in flight too.
        watching = await metric(probe, 'apiserver_registered_watchers{resource="configmaps"}') == WATCHES
        return (
            watching
            and await metric(probe, 'apiserver_current_inflight_requests{request_kind="mutating"}') >= IN_FLIGHT
        )

    await until(are_in_flight)
    server.terminate()
    replies = await asyncio.gather(*(line.reply() for line in busy))
    closed = await asyncio.gather(*(line.ended() for line in [*idle, *busy]), *watches)
    for line in [*idle, *busy, probe]:
        line.close()
    with pytest.raises(Disconnected):
        await Line.open(server)
    return replies, closed, seen


@pytest.mark.slow
def test_graceful_shutdown_on_sigterm_answers_requests_in_flight_and_ends_watches(tmp_path):
    server = LiveServer(tmp_path / "data")
    with server:
        revision = asyncio.run(prepare(server))
        server.kill()
        # Every commit takes a while, so that the requests are still in flight when the signal comes.
        server.environment = {"KAPI_FAILPOINTS": "storage.before_commit=sleep:1"}
        server.start()
        replies, closed, seen = asyncio.run(_drain(server, revision))
        assert server.wait() == 0
    assert [reply.status for reply in replies] == [201] * IN_FLIGHT
    assert all(reply.headers.get("connection") == "close" for reply in replies)
    assert all(closed)
    stored = {commit.key for commit in read_log(server.directory)}
    assert stored == {f"k-{number}" for number in range(IN_FLIGHT)}
    # A watch may end before the last event, but has no gap.
    names = [commit.key for commit in read_log(server.directory)]
    assert all(part == names[: len(part)] for part in seen)
