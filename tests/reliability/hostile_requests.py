"""Send a live server the requests that once held it, and print for each what another client noticed, and the memory.

    PYTHONPATH=tests:tests/reliability .venv/bin/python tests/reliability/hostile_requests.py [ROW ...]

A row is a number of `ROWS`, all of them if none is given. A client in a process of its own reads one object a hundred times a second. Printed are
the answer, that client's longest wait on the wall, what of it was CPU of the server's event loop, and the server's resident memory before,
at most, and afterwards. Takes some minutes.
"""

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from live_server import Disconnected, Line, LiveServer

from crowd import CONFIG_MAPS, MIB, PACE, Crowd, loop_cpu

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


# -- the other client


async def probe(server, pid):
    """Read one object until standard input ends; the longest time of a read, and the most CPU of the event loop during one."""
    line, longest, most, failed, reads = await Line.open(server), 0.0, 0.0, 0, 0
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    print("ready", flush=True)
    while not ended.done():
        began, cpu = time.perf_counter(), loop_cpu(pid)
        try:
            failed += (await line.request("GET", f"{CONFIG_MAPS}/lone")).status != 200
        except Exception:
            failed += 1
            with contextlib.suppress(Disconnected):
                line = await Line.open(server)
        longest, most, reads = max(longest, time.perf_counter() - began), max(most, loop_cpu(pid) - cpu), reads + 1
        await asyncio.sleep(PACE)
    return longest, most, failed, reads


class Canary:
    """The same in another process, and the memory of the server meanwhile."""

    def __init__(self, server):
        self._server = server
        self.peak = 0

    async def __aenter__(self):
        server = self._server
        place = ["--probe", str(server.directory), str(server.port), str(server.process.pid)]
        self._process = subprocess.Popen(  # noqa: ASYNC220 (a process of its own, started in no time)
            [sys.executable, __file__, *place], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        await asyncio.to_thread(self._process.stdout.readline)
        self.before = server.memory()
        self._watching = asyncio.ensure_future(self._watch())
        return self

    async def _watch(self):
        while True:
            self.peak = max(self.peak, self._server.memory())
            await asyncio.sleep(0.02)

    async def __aexit__(self, *_):
        self._watching.cancel()
        output, _ = await asyncio.to_thread(self._process.communicate)
        self.longest, self.cpu, self.failed, self.reads = json.loads(output)


# -- what is sent


def config_map(**more):
    return {"metadata": {"name": "hostile", **more}, "data": {}}


def pod(**spec):
    return {"metadata": {"name": "hostile"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def definition(kind, schema, **version):
    """A custom resource of one kind."""
    plural = f"{kind.lower()}s"
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [served],
        },
    }


def custom(kind, **more):
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "hostile"}, **more}


def objects_of(plural):
    return f"/apis/example.com/v1/namespaces/default/{plural}"


OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def owner(number):
    return {"apiVersion": "v1", "kind": "A", "name": f"n{number}", "uid": f"{number}"}


def constraint(number):
    selector = {"matchLabels": {"a": str(number)}}
    return {"maxSkew": 1, "topologyKey": f"t{number}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


class Requests:
    """One connection, and answers in a few words."""

    def __init__(self, server, line):
        self._server = server
        self.line = line

    async def send(self, method, path, body=None, **more):
        reply = await self.line.request(method, path, body, **more)
        reason = reply.json.get("reason", "") if reply.status >= 400 and reply.body[:1] == b"{" else ""
        return f"{reply.status} {reason}".strip()

    async def post(self, path, body):
        return await self.send("POST", path, body)

    async def defined(self, kind, schema, **version):
        """Create a custom resource and wait until it is served."""
        answer = await self.post(DEFINITIONS, definition(kind, schema, **version))
        while (await self.line.request("GET", objects_of(f"{kind.lower()}s"))).status == 404 and answer == "201":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return answer


async def owners(to):
    return await to.post(CONFIG_MAPS, config_map(ownerReferences=[owner(n) for n in range(24_000)]))


def tolerations(count):
    async def row(to):
        body = pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(count)])
        made = await to.post("/api/v1/namespaces/default/pods", body)
        where = "/api/v1/namespaces/default/pods/hostile"
        labels = {"metadata": {"labels": {"a": "b"}}}
        patched = await to.send("PATCH", where, labels, content_type=MERGE_PATCH)
        await to.send("DELETE", f"{where}?gracePeriodSeconds=0")
        return f"create {made}, patch {patched}"

    return row


async def quota(to):
    hard = {f"count/x{n}.example.com": "1" for n in range(20_000)}
    body = {"metadata": {"name": "hostile"}, "spec": {"hard": hard, "scopes": ["NotTerminating"] * 20_000}}
    return await to.post("/api/v1/namespaces/default/resourcequotas", body)


async def defaults(to):
    item = {"type": "object", "properties": {"b": {"type": "string", "default": "x" * 10_000}}}
    await to.defined("Filled", {"type": "object", "properties": {"a": {"type": "array", "items": item}}})
    return await to.post(objects_of("filleds"), custom("Filled", a=[{}] * 300_000))


def pods_with(field, entries):
    async def row(to):
        return await to.post("/api/v1/namespaces/default/pods", pod(**{field: entries()}))

    return row


async def addresses(to):
    many = [{"addresses": [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}"]} for n in range(100_000)]
    body = {"metadata": {"name": "hostile"}, "addressType": "IPv4", "endpoints": many}
    return await to.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", body)


async def excepts(to):
    block = {"cidr": "10.0.0.0/8", "except": [f"10.{n >> 8 & 255}.{n & 255}.0/24" for n in range(50_000)]}
    body = {
        "metadata": {"name": "hostile"},
        "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]},
    }
    return await to.post("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", body)


async def front_inserts(to):
    await to.defined("Listed", OPEN)
    made = await to.post(objects_of("listeds"), custom("Listed", a=[0] * 700_000))
    inserts = [{"op": "add", "path": "/a/0", "value": 1}] * 9_900
    patched = await to.send("PATCH", f"{objects_of('listeds')}/hostile", inserts, content_type=JSON_PATCH)
    await to.send("DELETE", f"{objects_of('listeds')}/hostile")
    return f"create {made}, patch {patched}"


async def columns(to):
    shown = [{"name": f"c{n}", "type": "string", "jsonPath": ".a[*].b[*]"} for n in range(100)]
    await to.defined("Column", OPEN, additionalPrinterColumns=shown)
    await to.post(objects_of("columns"), custom("Column", a=[{"b": ["x"] * 10}] * 10_000))
    return await to.send("GET", objects_of("columns"), headers={"Accept": TABLE})


async def data_keys(to):
    body = {"metadata": {"name": "hostile"}, "data": {f"!{n}": "" for n in range(230_000)}}
    return await to.post(CONFIG_MAPS, body)


async def rules(to):
    wanted = [{"rule": f"self.size() != {n}"} for n in range(5_000)]
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "maxItems": 5, "items": {"type": "string"}}},
        "x-kubernetes-validations": [{"rule": "has(self.a)"}],
    }
    schema["properties"]["a"]["x-kubernetes-validations"] = wanted
    return await to.post(DEFINITIONS, definition("Ruled", schema))


async def deep_patch(to):
    await to.defined("Deep", OPEN)
    await to.post(objects_of("deeps"), custom("Deep", a={}))
    levels = [{"op": "add", "path": "/a" * (n + 1), "value": nested(50)} for n in range(0, 600, 50)]
    return await to.send("PATCH", f"{objects_of('deeps')}/hostile", levels, content_type=JSON_PATCH)


async def deep_lists(to):
    await to.defined("Nested", OPEN)
    made = [await to.post(objects_of("nesteds"), custom("Nested", a=nested(n))) for n in (250, 240)]
    yaml = await to.send("GET", objects_of("nesteds"), headers={"Accept": "application/yaml"})
    pretty = await to.send("GET", f"{objects_of('nesteds')}?pretty=true")
    return f"250 levels {made[0]}, 240 {made[1]}; YAML {yaml}, pretty {pretty}"


async def selectors(to):
    """Ten thousand labelled objects, and selectors of more terms than are allowed, and of as many as are."""
    await populate(to._server, 10_000, 1)
    answers = []
    for count, more in ((5_560, ""), (5_560, "&limit=1"), (1_000, ""), (1_000, "&limit=1")):
        terms = "%2C".join(f"%21x{n}" for n in range(count))
        # On a connection of its own: the server closes one whose head is too long.
        line = await Line.open(to._server)
        reply = await line.request("GET", f"{CONFIG_MAPS}?labelSelector={terms}{more}")
        answers.append(f"{count} terms{more}: {reply.status}")
        line.close()
    await to.send("DELETE", f"{CONFIG_MAPS}?labelSelector=listed")
    return ", ".join(answers)


async def populate(server, count, size):
    """Create objects over several connections."""

    async def some(numbers):
        line = await Line.open(server)
        for number in numbers:
            body = {
                "metadata": {"name": f"listed-{number}", "labels": {"listed": str(number)}},
                "data": {"x": "y" * size},
            }
            reply = await line.request("POST", CONFIG_MAPS, body)
            assert reply.status == 201, reply.body[:300]
        line.close()

    await asyncio.gather(*(some(range(start, count, 8)) for start in range(8)))


# -- rows of many connections


async def anonymous_bodies(to):
    held = []
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: kapi\r\nContent-Type: application/json\r\n"
    for _ in range(300):
        line = await Line.open(to._server, token="")
        line._writer.write(head + b'Content-Length: 3000000\r\n\r\n{"data":{"a":"' + b"x" * 2_900_000)
        held.append(line)
    replies = await asyncio.gather(*(line.reply() for line in held), return_exceptions=True)
    for line in held:
        line.close()
    return counted(str(getattr(reply, "status", type(reply).__name__)) for reply in replies)


def counted(words):
    found = list(words)
    return ", ".join(f"{found.count(word)} x {word}" for word in dict.fromkeys(found))


async def large_bodies(to):
    body = b'{"metadata":{"name":"hostile"},"data":{"a":"x"},"b":[' + b"[]," * 990_000 + b"[]]}"
    lines = await asyncio.gather(*(Line.open(to._server) for _ in range(64)))
    replies = await asyncio.gather(*(line.request("POST", CONFIG_MAPS, body) for line in lines), return_exceptions=True)
    for line in lines:
        line.close()
    await to.send("DELETE", f"{CONFIG_MAPS}/hostile")
    return counted(str(getattr(reply, "status", repr(reply))) for reply in replies)


def unread(paths, *, seconds=8):
    """Requests whose answers are not read, for a while."""

    async def row(to):
        crowd = Crowd(to._server)
        for path in paths:
            if (streams := await crowd._open(20, buffer=4096)) is not None:
                streams[1].write(crowd._head("GET", path))
                streams[1].transport.pause_reading()
        await asyncio.sleep(seconds)
        crowd.close()
        return f"{len(paths)} not read for {seconds} s"

    return row


INITIAL = f"{CONFIG_MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def pretty_list(to):
    line = await Line.open(to._server)
    await line.send("GET", f"{CONFIG_MAPS}?pretty=true")
    status, _ = await line._head()
    total = 0
    while size := int(await line._reader.readline(), 16):
        total += size
        await line._reader.readexactly(size + 2)
    line.close()
    return f"{status}, {total // 1_000_000} MB"


async def unread_watchers(to):
    crowd = Crowd(to._server)
    await asyncio.gather(*(crowd.watch(number) for number in range(1_000)))
    line = await Line.open(to._server)
    await line.request("POST", CONFIG_MAPS, {"metadata": {"name": "changing"}, "data": {}})
    for number in range(150):
        await line.request(
            "PUT", f"{CONFIG_MAPS}/changing", {"metadata": {"name": "changing"}, "data": {"x": f"{number}" * 9_000}}
        )
    line.close()
    crowd.close()
    return "150 updates answered"


async def handshakes(to):
    held = []
    for _ in range(600):
        reader, writer = await asyncio.open_connection("127.0.0.1", to._server.port)
        held.append((reader, writer))
    await asyncio.sleep(1)
    closed = sum(reader.at_eof() for reader, _ in held)
    for _, writer in held:
        writer.transport.abort()
    return f"600 without a handshake: {closed} closed"


async def audit_id(to):
    reply = await to.line.request("GET", f"{CONFIG_MAPS}/lone", headers={"Audit-Id": "a" * 250_000})
    return f"{reply.status}, {len(reply.headers['audit-id'])} characters sent back"


async def files_exhausted(to):
    """No file can be opened for a while; then a namespace is deleted to its end."""
    server = to._server
    files = len(os.listdir(f"/proc/{server.process.pid}/fd"))  # noqa: PTH208
    usual = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (files, usual[1]))
    await to.post("/api/v1/namespaces", {"metadata": {"name": "short"}})
    await asyncio.sleep(3)
    ready = await to.send("GET", "/readyz")
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, usual)
    await to.send("DELETE", "/api/v1/namespaces/short")
    for _ in range(200):
        if (gone := await to.send("GET", "/api/v1/namespaces/short")).startswith("404"):
            break
        await asyncio.sleep(0.1)
    return f"/readyz {ready}, the namespace afterwards {gone}"


ROWS = {
    "1 ownerReferences": owners,
    "2 4,000 tolerations": tolerations(4_000),
    "2 15,000 tolerations": tolerations(15_000),
    "3 quota": quota,
    "4 defaults": defaults,
    "5 anonymous bodies": anonymous_bodies,
    "6 selectors": selectors,
    "9 unread watchers": unread_watchers,
    "11 file descriptors": files_exhausted,
    "12 topologySpreadConstraints": pods_with(
        "topologySpreadConstraints", lambda: [constraint(n) for n in range(10_000)]
    ),
    "12 resourceClaims": pods_with(
        "resourceClaims", lambda: [{"name": f"n{n}", "resourceClaimName": "c"} for n in range(10_000)]
    ),
    "12 addresses": addresses,
    "12 excepts": excepts,
    "12 front inserts": front_inserts,
    "12 columns": columns,
    "12 data keys": data_keys,
    "12 CEL rules": rules,
    "13 deep patch": deep_patch,
    "14 deep lists": deep_lists,
    "19 64 bodies": large_bodies,
    "21 Audit-Id": audit_id,
    "22 handshakes": handshakes,
}
LARGE_ROWS = {
    "7 unread initial events": unread([INITIAL] * 4),
    "8 unread lists": unread([CONFIG_MAPS] * 8),
    "8 pretty list": pretty_list,
}
"""Rows on 500 objects of 1 MB."""


async def measure(server, name, row):
    line = await Line.open(server)
    async with Canary(server) as canary:
        try:
            answer = await row(Requests(server, line))
        except Exception as error:
            answer = repr(error)[:200]
    line.close()
    await asyncio.sleep(6)
    memory = [f"{size / MIB:.0f}" for size in (canary.before, canary.peak, server.memory())]
    failed = f", {canary.failed} failed" if canary.failed else ""
    print(
        f"| {name} | {answer} | {canary.longest * 1000:.0f}, {canary.cpu * 1000:.0f} ms ({canary.reads} reads{failed}) | {', '.join(memory)} |",
        flush=True,
    )


async def run(folder, names):
    print("| row | answer | longest wait of the other client, CPU of the loop in it | MiB before, at most, after |")
    print("|---|---|---|---|", flush=True)
    for rows, count in ((ROWS, 0), (LARGE_ROWS, 500)):
        chosen = {name: row for name, row in rows.items() if not names or name.split()[0] in names}
        if not chosen:
            continue
        with LiveServer(folder / f"data{count}", "--history-seconds=30") as server:
            await populate(server, count, 1_000_000)
            line = await Line.open(server)
            await line.request("POST", CONFIG_MAPS, {"metadata": {"name": "lone"}, "data": {}})
            line.close()
            for name, row in chosen.items():
                await measure(server, name, row)
            assert "Traceback" not in server.log, server.log[-5000:]


def main():
    if sys.argv[1:2] == ["--probe"]:
        server = LiveServer(Path(sys.argv[2]))
        server.port = int(sys.argv[3])
        print(json.dumps(asyncio.run(probe(server, int(sys.argv[4])))))
        return
    with (
        tempfile.TemporaryDirectory(prefix="kapi-hostile-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        contextlib.suppress(KeyboardInterrupt),
    ):
        runner.run(run(Path(folder), sys.argv[1:]))


if __name__ == "__main__":
    main()
