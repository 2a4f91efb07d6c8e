"""The load of custom kinds: definitions are posted, and what follows is waited for.

A definition is of use when an object of its kind can be stored, so that is what a client here tries until it succeeds.
"""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import Any

from bench.client import Address, Asker, LoadError, asker
from bench.definitions import (
    DEFINITIONS,
    VERSION,
    group_of,
    large_collection,
    large_definition,
    plural_of,
    small_collection,
    small_definition,
    small_object,
)
from bench.figures import Figure, quantile
from bench.objects import JSON, request

Job = dict[str, Any]

INSTALLERS = 8
"""Connections that install many definitions."""
POLL = 0.005
PATIENCE = 120.0
"""Seconds after which a definition counts as never served."""


async def define(address: Address, job: Job) -> Figure:
    """The large kind and one small one, served when this returns."""
    connection = await asker(address)
    try:
        await connection.demand(request("POST", DEFINITIONS, large_definition()))
        await connection.demand(request("POST", DEFINITIONS, small_definition(job["small"], 0)))
        for path in (large_collection(), small_collection(job["small"], 0)):
            await _until(connection, request("GET", path))
    finally:
        connection.close()
    return {}


async def first(address: Address, job: Job) -> Figure:
    """New definitions, one after the other: from sending each to the answer that its first object is stored."""
    times = []
    connection = await asker(address)
    try:
        for number in range(job["count"]):
            run = f"{job['run']}x{number}"
            definition = request("POST", DEFINITIONS, small_definition(run, 0))
            instance = request("POST", small_collection(run, 0), small_object(run, 0, "first"))
            began = perf_counter()
            await connection.demand(definition)
            await _until(connection, instance)
            times.append(perf_counter() - began)
    finally:
        connection.close()
    return _latencies(times)


async def install(address: Address, job: Job) -> Figure:
    """So many small definitions: the time from sending the first until discovery knows all of them."""
    numbers = iter(range(job["count"]))
    context = address.context()
    connections = [await asker(address, context) for _ in range(INSTALLERS)]

    async def post(connection: Asker) -> None:
        for number in numbers:
            await connection.demand(request("POST", DEFINITIONS, small_definition(job["name"], number)))

    began = perf_counter()
    try:
        await asyncio.gather(*map(post, connections))
        posted = perf_counter() - began
        for number in range(job["count"]):
            await _until_discovered(connections[0], job["name"], number)
    finally:
        for connection in connections:
            connection.close()
    return {"value": perf_counter() - began, "posted": posted}


async def use(address: Address, job: Job) -> Figure:
    """The first object of each of the installed definitions."""
    connection = await asker(address)
    try:
        for number in range(job["count"]):
            data = request("POST", small_collection(job["name"], number), small_object(job["name"], number, "first"))
            await connection.demand(data)
    finally:
        connection.close()
    return {}


async def fetch(address: Address, job: Job) -> Figure:
    """One document again and again: how long an answer takes, and how long it is."""
    data = request("GET", job["path"], accept=job.get("accept", JSON))
    times: list[float] = []
    size = 0
    connection = await asker(address)
    try:
        # What was not asked for since the last change may have to be made first.
        await connection.demand(data)
        end = perf_counter() + job["seconds"]
        while not times or perf_counter() < end:
            began = perf_counter()
            size = len(await connection.demand(data))
            times.append(perf_counter() - began)
    finally:
        connection.close()
    return _latencies(times) | {"bytes": size}


def _latencies(times: list[float]) -> Figure:
    middle = quantile(times, 0.5)
    return {"value": middle, "p50": middle, "p99": quantile(times, 0.99), "count": len(times)}


async def _until(connection: Asker, data: bytes) -> None:
    """Ask until it is granted; a kind that is not served yet is not found."""
    give_up = perf_counter() + PATIENCE
    while True:
        status, body = await connection.ask(data)
        if status < 300:
            return
        if status not in (404, 429, 503) or perf_counter() > give_up:
            raise LoadError(f"answered {status}: {body[:300].decode(errors='replace')}")
        await asyncio.sleep(POLL)


async def _until_discovered(connection: Asker, run: str, number: int) -> None:
    give_up = perf_counter() + PATIENCE
    data = request("GET", f"/apis/{group_of(run, number)}/{VERSION}")
    while True:
        status, body = await connection.ask(data)
        if status == 200 and any(one["name"] == plural_of(number) for one in json.loads(body)["resources"]):
            return
        if perf_counter() > give_up:
            raise LoadError(f"{plural_of(number)} was not discovered: {status}")
        await asyncio.sleep(POLL)
