"""Measure what one client notices of very many others that are idle, do not read, or send slowly.

    .venv/bin/python tests/reliability/crowd.py [--idle 10000 --watchers 2000 --bodies 300 --lists 64 --seconds 30]

All at once: idle TLS connections, watchers that do not read while objects change, request bodies of which the last part does not come, and
large lists in pretty form. A client in a process of its own reads one object a hundred times a second, before, during and after. Printed are
its latencies and the server's memory. Before the first figure there was one of each, so that what is loaded when it is first used is not
taken for memory of the crowd. Needs `ulimit -n` above the sum of the connections, and takes about two minutes.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from live_server import Line, LiveServer, metric

MIB = 1 << 20
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WATCHED = f"{CONFIG_MAPS}?watch=true"
PACE = 0.01
BODY = 3_000_000
SENT = 2_900_000
HISTORY = 30
"""Seconds for which the server keeps what was replaced for watchers: less than is waited before memory is looked at again."""
AT_ONCE = 40
"""Handshakes in flight: a crowd, not a flood of handshakes, which has limits of its own."""


# -- the lone client


def loop_cpu(pid):
    """Seconds of CPU that the main thread of a process has used."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


async def probe(server, pid, seconds):
    """Read one object over and over; for each read its time and the CPU of the server's event loop meanwhile, and how many failed."""
    line, reads, failed = await Line.open(server), [], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began, cpu = time.perf_counter(), loop_cpu(pid)
        try:
            failed += (await line.request("GET", f"{CONFIG_MAPS}/lone")).status != 200
            reads.append((time.perf_counter() - began, loop_cpu(pid) - cpu))
        except Exception:
            failed += 1
            line = await Line.open(server)
        await asyncio.sleep(PACE)
    line.close()
    return reads, failed


class Probe:
    """The same in another process, so that the crowd's own work is not measured."""

    def __init__(self, server, seconds):
        place = [str(server.directory), str(server.port), str(server.process.pid)]
        command = [sys.executable, __file__, "--probe", *place, "--seconds", str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    async def result(self):
        output, _ = await asyncio.to_thread(self._process.communicate)
        reads, failed = json.loads(output)
        return Latencies(sorted(wall for wall, _ in reads), sorted(cpu for _, cpu in reads), failed)


class Latencies:
    """Times on the wall, and what of them was work of the server's event loop: what remains on a machine that does nothing else."""

    def __init__(self, walls, cpus, failed):
        self.walls = walls
        self.cpus = cpus
        self.failed = failed

    def at(self, share, *, cpu=False):
        ordered = self.cpus if cpu else self.walls
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000

    def __str__(self):
        walls, cpus = ([f"{self.at(share, cpu=cpu):.1f}" for share in (0.5, 0.99, 1)] for cpu in (False, True))
        return (
            f"p50 {walls[0]} ms, p99 {walls[1]}, longest {walls[2]}; CPU of the event loop p50 {cpus[0]} ms, p99 {cpus[1]}, "
            f"longest {cpus[2]} ({len(self.walls)} reads, {self.failed} failed)"
        )


# -- the crowd


class Crowd:
    """Every connection that is held open."""

    def __init__(self, server):
        self._server = server
        self._writers = []
        self._gate = asyncio.Semaphore(AT_ONCE)
        self.refused = self.lists = self.listed = 0

    async def _open(self, address=1, buffer=None):
        """A connection from one of a few loopback addresses; None if the server refused it."""
        plain = socket.socket()
        plain.setblocking(False)
        if buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        plain.bind((f"127.0.0.{address}", 0))
        try:
            async with self._gate:
                await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self._server.port))
                reader, writer = await asyncio.open_connection(
                    sock=plain, ssl=self._server.context, server_hostname="127.0.0.1", limit=1 << 16
                )
        except OSError:
            plain.close()
            self.refused += 1
            return None
        self._writers.append(writer)
        return reader, writer

    def _head(self, method, path, more=""):
        return f"{method} {path} HTTP/1.1\r\nHost: kapi\r\nAuthorization: Bearer {self._server.token}\r\n{more}\r\n".encode()

    async def idle(self, number):
        await self._open(2 + number % 8)

    async def watch(self, number):
        if (streams := await self._open(20 + number % 8, buffer=4096)) is not None:
            streams[1].write(self._head("GET", WATCHED))
            streams[1].transport.pause_reading()

    async def half_a_body(self, number):
        if (streams := await self._open(40 + number % 8)) is not None:
            with contextlib.suppress(OSError):
                length = f"Content-Type: application/json\r\nContent-Length: {BODY}\r\n"
                streams[1].write(self._head("POST", CONFIG_MAPS, length) + b'{"data":{"a":"' + b"x" * SENT)
                await streams[1].drain()

    async def list(self, number):
        """Lists in pretty form, one after the other."""
        while True:
            await self.list_once(number)

    async def list_once(self, number):
        """A list in pretty form, read to its end."""
        if (streams := await self._open(60 + number % 8)) is not None:
            reader, writer = streams
            writer.write(self._head("GET", f"{CONFIG_MAPS}?pretty=true", "Connection: close\r\n"))
            with contextlib.suppress(OSError):
                while part := await reader.read(MIB):
                    self.listed += len(part)
                self.lists += 1
            writer.transport.abort()
            self._writers.remove(writer)

    async def write(self):
        """Change objects, so that watchers have something not to read."""
        line = await Line.open(self._server)
        for number in range(10**9):
            body = {"metadata": {"name": f"changing-{number % 20}"}, "data": {"x": "y" * 10_000, "n": str(number)}}
            await line.request("PUT", f"{CONFIG_MAPS}/changing-{number % 20}", body)
            await asyncio.sleep(0.05)

    def close(self):
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


async def load(server, objects, size):
    line = await Line.open(server)
    for number in range(objects):
        name = f"listed-{number}"
        await line.request(
            "POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {f"k{n}": "v" * (size // 12) for n in range(12)}}
        )
    for name in ("lone", *(f"changing-{number}" for number in range(20))):
        await line.request("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"x": "y"}})
    line.close()


async def warm_up(server):
    """Serve one of each, to load what is loaded when it is first used."""
    crowd = Crowd(server)
    await asyncio.gather(crowd.idle(0), crowd.watch(0), crowd.half_a_body(0), crowd.list_once(0))
    crowd.close()


async def measure(server, options):
    await load(server, options.objects, options.bytes)
    await warm_up(server)
    quiet = await Probe(server, 10).result()
    before = server.memory()
    print(f"alone:  {quiet}; {before / MIB:.0f} MiB", flush=True)
    crowd = Crowd(server)
    await asyncio.gather(*(crowd.idle(number) for number in range(options.idle)))
    print(f"        {options.idle} idle connections: {server.memory() / MIB:.0f} MiB", flush=True)
    await asyncio.gather(*(crowd.watch(number) for number in range(options.watchers)))
    print(f"        {options.watchers} watchers that do not read: {server.memory() / MIB:.0f} MiB", flush=True)
    busy = [asyncio.ensure_future(crowd.write())]
    busy += [asyncio.ensure_future(crowd.half_a_body(number)) for number in range(options.bodies)]
    await asyncio.wait(busy, timeout=options.patience, return_when=asyncio.ALL_COMPLETED)
    print(f"        {options.bodies} bodies without their end: {server.memory() / MIB:.0f} MiB", flush=True)
    lists = [asyncio.ensure_future(crowd.list(number)) for number in range(options.lists)]
    peak, during = 0, asyncio.ensure_future(Probe(server, options.seconds).result())
    while not during.done():
        peak = max(peak, server.memory())
        await asyncio.sleep(0.2)
    print(f"during: {during.result()}; {peak / MIB:.0f} MiB at most", flush=True)
    for task in (*busy, *lists):
        task.cancel()
    await asyncio.gather(*busy, *lists, return_exceptions=True)
    crowd.close()
    await asyncio.sleep(options.after)
    line = await Line.open(server)
    lag = await metric(line, "kapi_event_loop_lag_longest_seconds")
    line.close()
    after = await Probe(server, 10).result()
    print(f"after:  {after}; {server.memory() / MIB:.0f} MiB", flush=True)
    size = crowd.listed // max(1, crowd.lists) // 1000
    print(
        f"        {crowd.lists} lists of {size} kB, {crowd.refused} connections refused, longest lag of the event loop {lag * 1000:.0f} ms"
    )
    more = [during.result().at(0.99, cpu=cpu) - quiet.at(0.99, cpu=cpu) for cpu in (False, True)]
    return more, server.memory() / before


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--watchers", type=int, default=2_000)
    parser.add_argument("--bodies", type=int, default=300)
    parser.add_argument("--lists", type=int, default=64)
    parser.add_argument("--objects", type=int, default=2_000, help="objects in each list")
    parser.add_argument("--bytes", type=int, default=720, help="bytes of data in each of them")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--patience", type=float, default=15, help="seconds in which bodies are sent")
    parser.add_argument("--after", type=float, default=30, help="seconds to wait before memory is looked at again")
    parser.add_argument(
        "--probe", nargs=3, metavar=("DIR", "PORT", "PID"), help="be the lone client of a running server"
    )
    return parser.parse_args()


def main():
    options = parsed()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        tempfile.TemporaryDirectory(prefix="kapi-crowd-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        if options.probe:
            server = LiveServer(Path(options.probe[0]))
            server.port = int(options.probe[1])
            print(json.dumps(runner.run(probe(server, int(options.probe[2]), options.seconds))))
            return
        needed = options.idle + options.watchers + options.bodies + options.lists + 200
        if needed > hard:
            sys.exit(f"{needed} connections are wanted, and ulimit -n allows {hard} files (now {soft})")
        with LiveServer(Path(folder) / "data", f"--history-seconds={HISTORY}") as server:
            more, ratio = runner.run(measure(server, options))
        print(
            f"the lone client's p99 grew by {more[0]:.1f} ms, {more[1]:.1f} ms of it CPU of the event loop; memory afterwards is {ratio:.2f} times that before"
        )


if __name__ == "__main__":
    main()
