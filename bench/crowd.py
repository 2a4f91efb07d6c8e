"""Idle connections: what each costs a server, and what they cost requests on other connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.client import Connection, connect
from bench.pairs import cost_of_requests, idle
from bench.processes import processor_seconds, resident

if TYPE_CHECKING:
    from bench.client import Address
    from bench.figures import Figure
    from bench.workload import Job

CONNECTING = 50
"""Connections that are made at the same time."""
CONNECTIONS = 8
"""Connections that send requests."""
QUIET = 2.0
"""Seconds in which nothing is sent."""


async def crowd(address: Address, job: Job) -> Figure:
    """Open `count` connections: seconds and bytes for each of them, and seconds of a GET while they are open."""
    pid, count = job["pid"], job["count"]
    used, held = await idle(pid), resident(pid)
    context = address.context()
    idle_ones: list[Connection] = []
    try:
        for first in range(0, count, CONNECTING):
            number = min(CONNECTING, count - first)
            idle_ones += await asyncio.gather(*(connect(address, context, Connection) for _ in range(number)))
        connected = await idle(pid)
        memory = resident(pid) - held
        before = processor_seconds(pid)
        await asyncio.sleep(QUIET)
        quiet = (processor_seconds(pid) - before) / QUIET
        job = {**job, "kind": "get", "connections": CONNECTIONS}
        cost = await cost_of_requests(address, pid, job, job["requests"])
    finally:
        for connection in idle_ones:
            connection.close()
    await idle(pid)
    return {"connect": (connected - used) / count, "memory": memory / count, "idle": quiet / count, "get": cost}
