"""Measure how long the event loop is held while many large bodies arrive at the same instant.

    PYTHONPATH=tests .venv/bin/python tests/reliability/large_bodies.py [--bodies 64]

A server in this process, with TLS; the clients are another process. A turn of the loop is measured in CPU of the process, work in threads
included, so that what else the machine does counts little.
"""

import argparse
import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import uvloop

from api_client import CM, Api
from kapi.api.user import User
from kapi.base.tls import Authority, KeyPair, server_context
from kapi.cli.up import _collect_rarely
from kapi.server.transport.serve import Server

BODIES = {
    "300,000 small objects, 2.4 MB": {"x": [{"a": 1}] * 300_000},
    "900,000 empty lists, 2.7 MB": {"x": [[]] * 900_000},
    "300,000 nested lists, 2.7 MB": {"x": [[[[]]]] * 300_000},
    "30,000 keys, 0.9 MB": {"data": {f"k{number}": "v" * 20 for number in range(30_000)}},
}
STEP = 0.002


async def send(port, authority, name, count):
    """Create objects on so many connections at once; prints how many were answered with each status."""
    body = json.dumps({"metadata": {"generateName": "a"}, **BODIES[name]}, separators=(",", ":")).encode()
    head = f"POST {CM} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer root\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    context = ssl.create_default_context(cafile=authority)

    async def one():
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(head.encode() + body)
        return (await reader.read())[9:12].decode()

    print(dict(Counter(await asyncio.gather(*(one() for _ in range(count))))))


async def turns(task):
    """The CPU seconds of every turn of the loop until a task ends."""
    found = []
    while not task.done():
        before = time.process_time()
        await asyncio.sleep(STEP)
        found.append(time.process_time() - before)
    return sorted(found)


async def measure(folder, count):
    authority = Authority.ensure(KeyPair(folder / "ca.crt", folder / "ca.key"), "measure")
    pair = KeyPair(folder / "server.crt", folder / "server.key")
    authority.ensure_server(pair, ["127.0.0.1"])
    api = Api(tokens={"root": User("root", ("system:masters",))})
    await api.start()
    server = Server(api.pipeline, host="127.0.0.1", tls=server_context(pair), memory=api.services.memory)
    await server.start()
    _collect_rarely()
    for name in BODIES:
        command = [sys.executable, __file__, "--send", str(server.port), str(folder / "ca.crt"), name]
        command += ["--bodies", str(count)]
        before = time.process_time()
        answered = asyncio.ensure_future(asyncio.to_thread(subprocess.check_output, command, text=True))
        found = await turns(answered)
        spent = time.process_time() - before
        shown = ", ".join(f"{found[int((len(found) - 1) * share)] * 1000:.0f}" for share in (0.5, 0.99, 1))
        answers = answered.result().strip()
        print(f"{name}: CPU of a turn p50, p99, longest {shown} ms; {spent:.1f} s in all; {answers}", flush=True)
    await server.close()
    await api.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, default=64)
    parser.add_argument("--send", nargs=3, metavar=("PORT", "CA", "NAME"), help="be the clients of a running server")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kapi-bodies-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        if options.send:
            port, authority, name = options.send
            runner.run(send(int(port), authority, name, options.bodies))
        else:
            runner.run(measure(Path(folder), options.bodies))


if __name__ == "__main__":
    main()
