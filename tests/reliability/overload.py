"""Measure a server with ten times the load it can take: what is refused, what is still served, and who waits.

    .venv/bin/python tests/reliability/overload.py [--connections 2000 --seconds 60]

One service account creates ConfigMaps on many connections, each as fast as it is answered; `PEAK` connections are what the server serves
best. A process of its own renews a Lease as a leader of kube-system and asks for /livez, twenty times a second each. Everything is done
twice: with flow control, and without it as the control. The server has one core, the load the others. Takes about four minutes.

Times are given on the wall, and in CPU of the server's event loop meanwhile: what remains of them on a machine that does nothing else.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httptools
import uvloop
from live_server import Line, LiveServer

MIB = 1 << 20
PEAK = 64
PACE = 0.05
SETTLE = 2.0
"""Seconds of a load that are not measured: connections are opened and queues fill."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
FLOOD, LEADER = ("default", "flood"), ("kube-system", "leader")
LEASE_SECONDS = 15.0
"""A renewal that takes longer is a Lease lost, with the settings of Kubernetes' own leaders."""


def loop_cpu(pid):
    """Seconds of CPU that the main thread of a process has used."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def at(times, share):
    """The milliseconds that so large a share of the times does not exceed."""
    ordered = sorted(times) or [0.0]
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def shown(samples):
    """The p50, p99 and maximum of times on the wall, and of CPU."""
    walls, cpus = ([at([sample[number] for sample in samples], share) for share in (0.5, 0.99, 1)] for number in (0, 1))
    return "{:.0f}, {:.0f}, {:.0f} ms".format(*walls) + " (CPU {:.1f}, {:.1f}, {:.1f})".format(*cpus)


# -- the process that measures


async def timed(line, pid, samples, *request):
    """Send a request, and note its time and the CPU of the server's event loop meanwhile."""
    began, cpu = time.perf_counter(), loop_cpu(pid)
    answer = await line.request(*request)
    samples.append((time.perf_counter() - began, loop_cpu(pid) - cpu))
    return answer


async def _renew(server, pid, token, until_time, samples, failures):
    line = await Line.open(server, token)
    lease = (await line.request("GET", f"{LEASES}/l")).json
    while time.monotonic() < until_time:
        answer = await timed(line, pid, samples, "PUT", f"{LEASES}/l", lease)
        if answer.status == 200:
            lease = answer.json
        else:
            failures.append(answer.status)
        await asyncio.sleep(PACE)
    line.close()


async def _probe(server, pid, until_time, samples, failures):
    line = await Line.open(server)
    while time.monotonic() < until_time:
        answer = await timed(line, pid, samples, "GET", "/livez")
        if answer.status != 200:
            failures.append(answer.status)
        await asyncio.sleep(PACE)
    line.close()


async def measure(server, pid, token, seconds):
    """The times of renewals and probes, and what failed."""
    renewals, probes, failures = [], [], []
    end = time.monotonic() + seconds
    await asyncio.gather(
        _renew(server, pid, token, end, renewals, failures), _probe(server, pid, end, probes, failures)
    )
    return {"renewals": renewals, "probes": probes, "failures": failures}


class Measurement:
    """The same in another process, so that the work of the load is not measured."""

    def __init__(self, server, token, seconds):
        place = [str(server.directory), str(server.port), str(server.process.pid), token]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--measure", *place, "--seconds", str(seconds)], stdout=subprocess.PIPE
        )

    async def result(self):
        output, _ = await asyncio.to_thread(self._process.communicate)
        return json.loads(output)


# -- the load


class Caller(asyncio.Protocol):
    """One connection that creates objects, each as soon as the last is answered."""

    def __init__(self, request, load):
        self._request = request
        self._load = load
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._parser.feed_data(data)

    def on_message_complete(self):
        load = self._load
        load.statuses[self._parser.get_status_code()] += 1
        load.times.setdefault(self._parser.get_status_code(), []).append(time.perf_counter() - self._began)
        if not load.is_over:
            self.send()

    def connection_lost(self, exc):
        if not self._load.is_over:
            self._load.statuses["connection lost"] += 1

    def close(self):
        self._transport.abort()

    def send(self):
        self._began = time.perf_counter()
        self._transport.write(self._request)


class Load:
    """All connections; what was answered, by status."""

    def __init__(self, server, token):
        self._server = server
        body = b'{"metadata":{"generateName":"c-"},"data":{"k":"v"}}'
        head = f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: kapi\r\nAuthorization: Bearer {token}\r\n"
        self._request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        self._callers = []
        self.is_over = False
        self.reset()

    def reset(self):
        self.statuses = Counter()
        self.times = {}

    async def open(self, connections):
        loop, server = asyncio.get_running_loop(), self._server
        for _ in range(connections):
            _, caller = await loop.create_connection(
                lambda: Caller(self._request, self), "127.0.0.1", server.port, ssl=server.context
            )
            self._callers.append(caller)

    def start(self):
        for caller in self._callers:
            caller.send()

    def close(self):
        self.is_over = True
        for caller in self._callers:
            caller.close()


# -- the run


async def _token(line, namespace, name):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await line.request("POST", accounts, {"metadata": {"name": name}})
    return (await line.request("POST", f"{accounts}/{name}/token", {"spec": {}})).json["status"]["token"]


async def _prepare(server):
    """Make the two service accounts, which may do everything, and the Lease; returns their tokens."""
    line = await Line.open(server)
    tokens = [await _token(line, *account) for account in (FLOOD, LEADER)]
    subjects = [{"kind": "ServiceAccount", "namespace": namespace, "name": name} for namespace, name in (FLOOD, LEADER)]
    role = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    await line.request("POST", BINDINGS, {"metadata": {"name": "both"}, "subjects": subjects, "roleRef": role})
    answer = await line.request("POST", LEASES, {"metadata": {"name": "l"}, "spec": {}})
    assert answer.status == 201, answer
    line.close()
    return tokens


class Phase:
    """What was measured under one load."""

    def __init__(self, load, measured, seconds, cpu, memory):
        self.goodput = 0 if load is None else load.statuses[201] / seconds
        self.per_cpu = 0 if load is None else load.statuses[201] / cpu
        self.refused = 0 if load is None else load.statuses[429] / seconds
        self.refusals = [] if load is None else load.times.get(429, [])
        self.others = {} if load is None else {key: n for key, n in load.statuses.items() if key not in (201, 429)}
        self.memory = memory
        self.__dict__.update(measured)

    def __str__(self):
        lost = sum(wall > LEASE_SECONDS for wall, _ in self.renewals)
        return (
            f"{self.goodput:.0f}/s served ({self.per_cpu:.0f} in a second of CPU), {self.refused:.0f}/s refused "
            f"(p99 {at(self.refusals, 0.99):.0f} ms), others {self.others}; renewal p50, p99, longest {shown(self.renewals)}, "
            f"{lost} lost of {len(self.renewals)}; /livez {shown(self.probes)}; failed {self.failures}; {self.memory / MIB:.0f} MiB"
        )


async def _phase(server, tokens, connections, seconds):
    load = None
    if connections:
        load = Load(server, tokens[0])
        await load.open(connections)
        load.start()
        await asyncio.sleep(SETTLE)
        load.reset()
    began, cpu = time.monotonic(), loop_cpu(server.process.pid)
    measured = await Measurement(server, tokens[1], seconds).result()
    cpu = loop_cpu(server.process.pid) - cpu
    phase = Phase(load, measured, time.monotonic() - began, cpu, server.memory())
    if load is not None:
        load.close()
    return phase


async def run(server, connections, seconds):
    """Measure the idle server, its peak, the overload, and the server after it."""
    tokens = await _prepare(server)
    phases = {}
    for name, number, length in (
        ("idle", 0, 5),
        (f"{PEAK} connections", PEAK, min(seconds, 15)),
        (f"{connections} connections", connections, seconds),
        ("afterwards", 0, 5),
    ):
        phases[name] = await _phase(server, tokens, number, length)
        print(f"  {name:17s} {phases[name]}", flush=True)
    peak, flooded = list(phases.values())[1:3]
    share = f"{flooded.goodput / peak.goodput:.0%} of the peak, {flooded.per_cpu / peak.per_cpu:.0%} in a second of CPU"
    print(f"  goodput under overload: {share}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--measure", nargs=4, metavar=("DIR", "PORT", "PID", "TOKEN"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        directory, port, pid, token = arguments.measure
        server = LiveServer(Path(directory))
        server.port = int(port)
        print(json.dumps(uvloop.run(measure(server, int(pid), token, arguments.seconds))))
        return
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    cores = sorted(os.sched_getaffinity(0))
    for name, options in (("with", ()), ("without", ("--enable-priority-and-fairness=false",))):
        print(f"{name} flow control, {len(cores)} cores, load {os.getloadavg()[0]:.1f}", flush=True)
        with tempfile.TemporaryDirectory() as folder, LiveServer(Path(folder) / "data", *options) as server:
            os.sched_setaffinity(server.process.pid, cores[:1])
            os.sched_setaffinity(0, cores[1:] or cores)
            uvloop.run(run(server, arguments.connections, arguments.seconds))
            os.sched_setaffinity(0, cores)


if __name__ == "__main__":
    main()
