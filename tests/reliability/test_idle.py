"""An idle control plane with all controllers enabled and objects for each of them: nothing happens.

CPU time is measured, not wall-clock time, so that a busy machine does not matter. `KAPI_IDLE_SECONDS` makes it longer.
"""

import asyncio
import os
import time
from pathlib import Path

import pytest
from live_server import Line, LiveServer, until

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("KAPI_IDLE_SECONDS", "10"))
SHARE = 0.01
CORE, POLICY = "/api/v1/namespaces/default", "/apis/policy/v1/namespaces/default"

LABELS = {"app": "web"}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
OBJECTS = [
    (f"{CORE}/services", {"metadata": {"name": "web"}, "spec": {"selector": LABELS, "ports": [{"port": 80}]}}),
    (f"{CORE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9", "configmaps": "9"}}}),
    (
        f"{POLICY}/poddisruptionbudgets",
        {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}},
    ),
    (
        f"{CORE}/pods",
        {"metadata": {"name": "p", "labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    ),
    (
        f"{CORE}/persistentvolumeclaims",
        {
            "metadata": {"name": "v"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
        },
    ),
    (
        f"{CORE}/events",
        {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "reason": "Tested",
        },
    ),
]


def _cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _populate(line):
    owner = await line.request("POST", f"{CORE}/configmaps", {"metadata": {"name": "owner"}})
    reference = {**OWNER, "uid": owner.json["metadata"]["uid"]}
    owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    for path, body in [*OBJECTS, (f"{CORE}/configmaps", owned)]:
        reply = await line.request("POST", path, body)
        assert reply.status == 201, reply.body

    async def is_looked_after():
        quota = (await line.request("GET", f"{CORE}/resourcequotas/q")).json
        budget = (await line.request("GET", f"{POLICY}/poddisruptionbudgets/b")).json
        endpoints = await line.request("GET", f"{CORE}/endpoints/web")
        counted = quota.get("status", {}).get("used") == {"pods": "1", "configmaps": "3"}
        return counted and budget.get("status", {}).get("expectedPods") == 1 and endpoints.status == 200

    await until(is_looked_after)


async def _revision(line):
    return (await line.request("GET", "/api/v1/nodes")).json["metadata"]["resourceVersion"]


async def _idle_for(server, line):
    """The number of revisions, and the share of a core that was used, within `SECONDS`."""
    before, cpu, started = int(await _revision(line)), _cpu_seconds(server.process.pid), time.monotonic()
    await asyncio.sleep(SECONDS)
    used, passed = _cpu_seconds(server.process.pid) - cpu, time.monotonic() - started
    return int(await _revision(line)) - before, used / passed


def test_an_idle_server_writes_nothing_and_uses_little_cpu(tmp_path):
    async def main(server):
        line = await Line.open(server)
        await _populate(line)
        # The controllers may still write because of the creations, once, and modules are loaded in a thread after the start.
        written, share = await _idle_for(server, line)
        if written or share >= SHARE:
            written, share = await _idle_for(server, line)
        assert written == 0
        assert share < SHARE
        line.close()

    with LiveServer(tmp_path / "data", controllers="*") as server:
        asyncio.run(main(server))
        server.terminate()
        assert server.wait() == 0
