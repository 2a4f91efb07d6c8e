"""Many connections, one after the other, each of which receives a large body: the memory of the server stays bounded.

`KAPI_CONNECTIONS` sets their number. Without the buffers being freed at once, 2,000 would leave a gigabyte behind.
"""

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_server import Line, LiveServer

pytestmark = pytest.mark.slow

CONNECTIONS = int(os.environ.get("KAPI_CONNECTIONS", "2000"))
WARM_UP = 200
WORKERS = 4
GROWTH = 32 * 1024 * 1024
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"x": "x" * 900_000}}


async def create_large(server):
    line = await Line.open(server)
    answer = await line.request("POST", CONFIG_MAPS, LARGE)
    assert answer.status == 201, answer
    line.close()


def receive_large(server):
    """Read the object on a connection of its own, then close it."""
    head = f"GET {CONFIG_MAPS}/large HTTP/1.1\r\nHost: kapi\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    received = 0
    buffer = bytearray(1 << 18)
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        server.context.wrap_socket(plain, server_hostname="127.0.0.1") as peer,
    ):
        peer.sendall(head.encode())
        while received < 900_000 and (count := peer.recv_into(buffer)):
            received += count
    assert received >= 900_000


def receive_many(server, number):
    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(receive_large, server) for _ in range(number)]:
            done.result()


def test_connections_with_large_responses_leak_no_memory(tmp_path):
    with LiveServer(tmp_path / "data") as server:
        asyncio.run(create_large(server))
        receive_many(server, WARM_UP)
        before = server.memory()
        receive_many(server, CONNECTIONS)
        grown = server.memory() - before
    assert grown < GROWTH, f"{CONNECTIONS} connections left {grown / 2**20:.0f} MiB behind"
