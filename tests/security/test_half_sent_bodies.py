"""Clients that send most of a body and wait, at a real server: what they cost is bounded, and given back."""

import asyncio
import contextlib

import pytest

from tests.reliability.live_server import Line, LiveServer, metric, until

CM = "/api/v1/namespaces/default/configmaps"
MIB = 1 << 20
LENGTH = 3_000_000
SENT = 2_900_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("half") / "data", "--storage=memory") as running:
        yield running


async def half_sent(server, token=None):
    """A connection on which all but the end of a body was sent, as far as the server took it."""
    line = await Line.open(server, token)
    await line.send("POST", CM, headers={"Content-Type": "application/json", "Content-Length": LENGTH})
    line._writer.write(b"{" + b" " * SENT)
    with contextlib.suppress(ConnectionError):
        await line._writer.drain()
    return line


def test_bodies_of_anonymous_clients_are_refused_and_not_held(server):
    async def main():
        before = server.memory()
        lines = await asyncio.gather(*[half_sent(server, token="") for _ in range(40)])
        replies = [await line.reply() for line in lines]
        assert {reply.status for reply in replies} == {403}
        assert server.memory() - before < 40 * MIB
        for line in lines:
            line.close()

    asyncio.run(main())


@pytest.mark.slow
def test_bodies_of_one_user_stay_within_the_budget_and_their_memory_is_given_back(server):
    async def main():
        probe = await Line.open(server)
        budget = await metric(probe, 'kapi_held_bytes_budget{scope="peer"}')
        before = server.memory()
        lines = []
        for _ in range(12):
            lines += await asyncio.gather(*[half_sent(server) for _ in range(10)])
            assert (await probe.request("GET", "/version")).status == 200
        assert len(lines) * SENT > budget

        async def slowest_closed():
            return await metric(probe, 'kapi_held_bytes_closures_total{kind="request",reason="peer-budget"}') > 0

        await until(slowest_closed)
        assert await metric(probe, 'kapi_held_bytes{kind="request"}') <= budget
        assert server.memory() - before < 2 * budget
        for line in lines:
            line.close()

        async def given_back():
            return server.memory() - before < budget / 4

        await until(given_back)
        assert await metric(probe, 'kapi_held_bytes{kind="request"}') == 0
        probe.close()

    asyncio.run(main())
