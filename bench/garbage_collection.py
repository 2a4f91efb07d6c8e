"""The load on the garbage collector: one owner of many objects is deleted, and its dependents must be deleted too.

The time is from sending the deletion until none of them is left. The check reads one object at a time, so that
it costs the server little.
"""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.client import Address, Asker, LoadError, asker, call
from bench.objects import collection, config_map, namespace, request, seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.figures import Figure

Job = dict[str, Any]

CONNECTIONS = 32
POLL = 0.01
PATIENCE = 30.0
"""Seconds without progress after which what is left counts as never collected."""


async def collect(address: Address, job: Job) -> Figure:
    """Make `count` objects that belong to one, delete that, and wait until none is left; objects a second."""
    space = f"collect-{job['run']}"
    await call(address, request("POST", "/api/v1/namespaces", namespace(space)))
    path = collection(space)
    owner = json.loads(await call(address, request("POST", path, config_map("owner"))))
    names = iter([seeded(number) for number in range(job["count"])])
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_make(address, path, owner, names))
    connection = await asker(address)
    try:
        began = perf_counter()
        await connection.demand(request("DELETE", f"{path}/owner"))
        await _until_gone(connection, path)
        seconds = perf_counter() - began
    finally:
        connection.close()
    return {"value": job["count"] / seconds, "count": job["count"], "seconds": seconds}


async def _make(address: Address, path: str, owner: Any, names: Iterator[str]) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    connection = await asker(address)
    try:
        for name in names:
            obj = json.loads(config_map(name))
            obj["metadata"]["ownerReferences"] = [reference]
            obj["metadata"]["labels"]["bench"] = "owned"
            await connection.demand(request("POST", path, json.dumps(obj).encode()))
    finally:
        connection.close()


async def _until_gone(connection: Asker, path: str) -> None:
    query = request("GET", f"{path}?labelSelector=bench%3Downed&limit=1")
    first, seen = "", perf_counter()
    while items := json.loads(await connection.demand(query))["items"]:
        if items[0]["metadata"]["name"] != first:
            first, seen = items[0]["metadata"]["name"], perf_counter()
        elif perf_counter() - seen > PATIENCE:
            raise LoadError(f"nothing was collected for {PATIENCE:.0f} s")
        await asyncio.sleep(POLL)
