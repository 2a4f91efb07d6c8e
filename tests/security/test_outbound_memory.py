"""Clients that do not read: lists, initial events and watches cost a stated number of bytes, and nothing once they end.

The store has 40 MB. Before these bounds, every client below cost the server a copy of it.
"""

import asyncio
import contextlib
import json
import socket

import pytest

from tests.reliability.live_server import PATIENCE, Line, LiveServer, metric, until

MIB = 1 << 20
OBJECTS = 40
OBJECT = 1_000_000
CLIENTS = 6
PER_CLIENT = 2 * MIB
"""The send buffer, a piece, and what is made of the object at hand, with encryption and the allocator."""
MADE_CLIENT = 12 * MIB
"""The same with an object of 1 MB that is decoded, or indented."""
ELSE = 24 * MIB
"""What else the process may need meanwhile."""
CM = "/api/v1/namespaces/default/configmaps"
UNREAD = {
    "lists": (CM, "application/json", PER_CLIENT),
    "indented lists": (f"{CM}?pretty=true", "application/json", MADE_CLIENT),
    "lists in yaml": (CM, "application/yaml", MADE_CLIENT),
    "tables with their objects": (
        f"{CM}?includeObject=Object",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        MADE_CLIENT,
    ),
    "initial events": (f"{CM}?watch=true&resourceVersion=0", "application/json", PER_CLIENT),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("outbound") / "data", "--storage=memory") as server:
        asyncio.run(fill(server))
        yield server


async def fill(server):
    line = await Line.open(server)
    for number in range(OBJECTS):
        text = "x" * OBJECT if number % 2 else "ab\n" * (OBJECT // 4)
        body = json.dumps({"metadata": {"name": f"m{number:03}"}, "data": {"k": text}}).encode()
        assert (await line.request("POST", CM, body)).status == 201
    line.close()


def unread(server, path, accept):
    """A client that sends a request and reads nothing."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(PATIENCE)
    plain.connect(("127.0.0.1", server.port))
    tls = server.context.wrap_socket(plain, server_hostname="127.0.0.1")
    request = f"GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {server.token}\r\nAccept: {accept}\r\n\r\n"
    tls.sendall(request.encode())
    return contextlib.closing(tls)


async def held(line):
    """What the server says it holds for clients."""
    kinds = ("response", "watch-backlog")
    return sum([await metric(line, f'kapi_held_bytes{{kind="{kind}"}}') for kind in kinds])


async def until_charged(line, clients):
    """Until every one of these clients is blocked, and paid for: what is held no longer changes."""

    found = [-1, -2]

    async def are_charged():
        found.append(await held(line))
        return len(set(found[-3:])) == 1 and found[-1] >= clients * MIB // 16

    await until(are_charged)


async def until_released(line):
    async def is_released():
        return await held(line) == 0

    await until(is_released)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "accept", "each"), UNREAD.values(), ids=UNREAD)
def test_unread_response_costs_a_stated_number_of_bytes(server, path, accept, each):
    async def main():
        line, reader = await Line.open(server), await Line.open(server)
        before = server.memory()
        with contextlib.ExitStack() as stack:
            for _ in range(CLIENTS):
                stack.enter_context(unread(server, path, accept))
            await until_charged(line, CLIENTS)
            growth = server.memory() - before
            # Others are served as if nothing were going on.
            assert len((await reader.request("GET", f"{CM}?limit=2")).json["items"]) == 2
        print(f"\n{CLIENTS} {path}: {growth / MIB:.1f} MiB more")
        assert growth < CLIENTS * each + ELSE < OBJECTS * OBJECT * CLIENTS / 2
        await until_released(line)
        line.close()
        reader.close()

    asyncio.run(main())


@pytest.mark.slow
def test_list_that_is_read_late_is_whole_and_that_of_its_moment(server):
    async def main():
        line, late = await Line.open(server), await Line.open(server)
        reply = asyncio.ensure_future(late.request("GET", CM))
        late._reader._transport.pause_reading()
        changed = json.dumps({"metadata": {"name": "m039"}, "data": {"k": "changed"}}).encode()
        await until_charged(line, 1)
        original = (await line.request("GET", f"{CM}/m039")).json
        assert (await line.request("PUT", f"{CM}/m039", changed)).status == 200
        late._reader._transport.resume_reading()
        items = (await reply).json["items"]
        assert [item["metadata"]["name"] for item in items] == [f"m{number:03}" for number in range(OBJECTS)]
        assert items[-1]["data"] == original["data"]
        del original["metadata"]["resourceVersion"]
        assert (await line.request("PUT", f"{CM}/m039", json.dumps(original).encode())).status == 200
        line.close()
        late.close()

    asyncio.run(main())


@pytest.mark.slow
def test_watchers_that_never_read_cost_their_send_buffer_and_give_it_back(server):
    watchers, updates, each = 40, 300, MIB // 2

    async def main():
        line = await Line.open(server)
        revision = (await line.request("GET", f"{CM}?limit=1")).json["metadata"]["resourceVersion"]
        path = f"{CM}?watch=true&resourceVersion={revision}"
        with contextlib.ExitStack() as stack:
            for _ in range(watchers):
                stack.enter_context(unread(server, path, "*/*"))
            growth = await grown(line)
        print(f"\n{watchers} watchers: {growth / MIB:.1f} MiB more")
        # History keeps each former state once, for all.
        assert growth < watchers * each + updates * 15_000 + ELSE < watchers * updates * 15_000
        await until_released(line)
        line.close()

    async def grown(line):
        before = server.memory()
        for number in range(updates):
            body = json.dumps({"metadata": {"name": "small"}, "data": {"k": f"{number:06}" * 2500}}).encode()
            method, path = ("PUT", f"{CM}/small") if number else ("POST", CM)
            assert (await line.request(method, path, body)).status < 300
        await until_charged(line, watchers)
        return server.memory() - before

    asyncio.run(main())
