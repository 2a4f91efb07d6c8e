"""Bodies made to stall or fill a server, one at a time at a live one: what each costs.

    PYTHONPATH=tests:tests/security:tests/reliability .venv/bin/python -m fuzz.bombs

Printed are, for each body, the status, the CPU that the event loop spent while the canary waited for an answer, and the memory that was
in use at most. CPU and not time on the wall, so that the figures do not depend on what else the machine does.
"""

import asyncio
import tempfile
from pathlib import Path

from live_server import LiveServer

from .body import DAMAGED, encode
from .connection import Connection
from .monitor import CANARY, CANARY_OBJECT, Canary, Process

MIB = 1 << 20
CPU = 0.05
"""Seconds of the event loop that one body may take."""
MEMORY = 32 * MIB
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON = "application/json"
YAML = "application/yaml"
PATCH = "application/json-patch+json"
POD = {"metadata": {"name": "bomb"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def _map(data):
    return encode({"metadata": {"name": "bomb"}, "data": data}, "json")


def _pod(**spec):
    return encode({**POD, "spec": {**POD["spec"], **spec}}, "json")


def _many(count, item, *, numbered=True):
    return {"@repeat": count, "of": item, "numbered": numbered}


def bodies():
    """Name, method, path, content type and body of each."""
    for form in DAMAGED:
        yield (
            f"form {form}",
            "POST",
            CONFIG_MAPS,
            YAML if form in ("aliases", "documents", "tag") else JSON,
            encode(POD, form),
        )
    for depth in (200, 1000, 100_000, 1_400_000):
        yield f"{depth} lists", "POST", CONFIG_MAPS, JSON, b"[" * depth
        yield f"{depth} lists, closed", "POST", CONFIG_MAPS, JSON, b"[" * depth + b"]" * depth
        yield f"{depth} maps", "POST", CONFIG_MAPS, JSON, b'{"a":' * (depth // 3)
        yield f"{depth} lists in YAML", "POST", CONFIG_MAPS, YAML, b"[" * (depth // 2)
        yield f"{depth} list items in YAML", "POST", CONFIG_MAPS, YAML, b"- " * (depth // 2)
    for count in (20_000, 100_000):
        yield f"{count} data keys", "POST", CONFIG_MAPS, JSON, _map({"@entries": count, "of": "v"})
        yield f"{count} invalid values", "POST", CONFIG_MAPS, JSON, _map({"@entries": count, "of": 1})
        yield f"{count} YAML scalars", "POST", CONFIG_MAPS, YAML, b"a: [" + b"x," * count + b"]"
    for size in (1_000_000, 2_900_000, 3_200_000):
        yield f"{size} bytes of text", "POST", CONFIG_MAPS, JSON, _map({"a": f"@text({size})"})
        yield f"{size} digits", "POST", CONFIG_MAPS, JSON, b'{"a":' + b"9" * size + b"}"
        yield f"{size} escapes", "POST", CONFIG_MAPS, JSON, b'{"a":"' + b"\\u0041" * (size // 6) + b'"}'
        yield f"{size} bytes of spaces", "POST", CONFIG_MAPS, JSON, b" " * size + b"{}"
    owner = {"uid": "u", "apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
    many = {"metadata": {"name": "bomb", "ownerReferences": _many(20_000, owner)}}
    yield "20,000 owners", "POST", CONFIG_MAPS, JSON, encode(many, "json")
    yield (
        "20,000 finalizers",
        "POST",
        CONFIG_MAPS,
        JSON,
        encode({"metadata": {"finalizers": _many(20_000, "a.b/c")}}, "json"),
    )
    yield (
        "60,000 labels",
        "POST",
        CONFIG_MAPS,
        JSON,
        encode({"metadata": {"labels": {"@entries": 60_000, "of": "v"}}}, "json"),
    )
    yield "4,000 tolerations", "POST", PODS, JSON, _pod(tolerations=_many(4_000, {"key": "k", "operator": "Exists"}))
    yield "10,000 containers", "POST", PODS, JSON, _pod(containers=_many(10_000, {"name": "c", "image": "i"}))
    yield "10,000 equal containers", "POST", PODS, JSON, _pod(containers=_many(10_000, {"name": "c"}, numbered=False))
    spread = {"topologyKey": "k", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    yield "10,000 spread constraints", "POST", PODS, JSON, _pod(topologySpreadConstraints=_many(10_000, spread))
    yield "10,001 patch operations", "PATCH", CANARY, PATCH, encode(_many(10_001, {"op": "test", "path": "/a"}), "json")
    yield (
        "9,900 copies",
        "PATCH",
        CANARY,
        PATCH,
        encode(_many(9_900, {"op": "copy", "from": "/data", "path": "/data/x"}, numbered=False), "json"),
    )
    deep = [{"op": "copy", "from": "/data", "path": "/data/a"}] * 200
    yield "200 nested copies", "PATCH", CANARY, PATCH, encode(deep, "json")


async def cost(server, connection, method, path, content_type, body):
    """Status, CPU seconds of the event loop at a time, and bytes of memory at most, of one request."""
    process = Process(server)
    before, peak, is_done = process.memory(), 0, False
    canary = Canary(server, process, float("inf"), print)

    async def sample():
        nonlocal peak
        while not is_done:
            peak = max(peak, process.memory())
            await asyncio.sleep(0.002)

    async with asyncio.TaskGroup() as group:
        group.create_task(sample())
        running = group.create_task(canary.run())
        await canary.started.wait()
        canary.cost = 0.0
        status = await connection.status(method, path, content_type, body)
        canary.stop()
        is_done = True
        await asyncio.wait([running])
    return status, canary.cost, max(0, peak - before)


async def measure(server):
    connection = Connection(server)
    await connection.put("POST", "/api/v1/namespaces", {"metadata": {"name": CANARY.split("/")[4]}})
    await connection.put("POST", CANARY.rpartition("/")[0], CANARY_OBJECT)
    results = []
    for name, *request in bodies():
        status, cpu, memory = await cost(server, connection, *request)
        results.append((cpu, memory))
        mark = " *" if cpu > CPU or memory > MEMORY else ""
        print(f"{name:28} {status}  {cpu * 1000:6.0f} ms  {memory / MIB:6.1f} MiB{mark}", flush=True)
    over = sum(cpu > CPU or memory > MEMORY for cpu, memory in results)
    longest, most = max(cpu for cpu, _ in results), max(memory for _, memory in results)
    print(
        f"{len(results)} bodies: {longest * 1000:.0f} ms and {most / MIB:.1f} MiB at most; {over} over {CPU * 1000:.0f} ms or {MEMORY // MIB} MiB"
    )


def main():
    with tempfile.TemporaryDirectory(prefix="kapi-bombs-") as folder, LiveServer(Path(folder) / "data") as server:
        asyncio.run(measure(server))


if __name__ == "__main__":
    main()
