"""Many Pods for the growth table: written to a stopped server's store directly, which takes a tenth of the time.

The first is made through the API; the others are copies of what was stored of it, under other names. A hundred of them
share a label and a node. Then the store is compacted, as it is a few minutes after a real one was filled.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from bench.objects import NAMESPACE, SEEDED, seeded
from kapi.storage.interface import Draft
from kapi.storage.sqlite.storage import SqliteStorage

if TYPE_CHECKING:
    from pathlib import Path

IN_A_GROUP = 100
"""Pods that share a node and a label."""
PATTERN = "pattern"
"""The name of the Pod that the others are copied from."""
_AT_ONCE = 512
_NODE, _APP = "node-pattern", "app-pattern"
_VERSION = b'"resourceVersion":"'


def small_pod(name: str, group: int | None) -> bytes:
    """A Pod of one container as JSON; the pattern has no group."""
    app, node = (_APP, _NODE) if group is None else (app_of(group), node_of(group))
    container = {"name": "main", "image": "registry.example/main:1.0"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app, "tier": "back"}},
        "spec": {"automountServiceAccountToken": False, "nodeName": node, "containers": [container]},
    }
    return json.dumps(pod, separators=(",", ":")).encode()


def grouped_pod(name: str) -> bytes:
    """A Pod of the group that its number says; of the first if it was not seeded."""
    return small_pod(name, int(name.removeprefix(SEEDED)) // IN_A_GROUP if name.startswith(SEEDED) else 0)


def app_of(group: int) -> str:
    """The value of the label `app` of a group."""
    return f"app-{group:06}"


def node_of(group: int) -> str:
    """The node of a group."""
    return f"node-{group:06}"


async def populate(folder: Path, first: int, count: int) -> None:
    """Add the Pods `first` to `count` to the store of a server that does not run."""
    storage = await SqliteStorage.open(folder)
    try:
        prefix = f"/registry/core/pods/{NAMESPACE}/"
        found = await storage.get(prefix + PATTERN)
        assert found is not None, "the pattern has not been created"
        uid = json.loads(found.value)["metadata"]["uid"]
        for start in range(first, count, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, count))
            await asyncio.gather(
                *(storage.put(prefix + seeded(number), _copy(found.value, number, uid), 0) for number in numbers)
            )
        await storage.compact(storage.revision)
    finally:
        await storage.close()


def _copy(value: bytes, number: int, uid: str) -> Draft:
    group = number // IN_A_GROUP
    for pattern, actual in (
        (uid, f"{number:08x}{uid[8:]}"),
        (f'"{PATTERN}"', f'"{seeded(number)}"'),
        (_NODE, node_of(group)),
        (_APP, app_of(group)),
    ):
        value = value.replace(pattern.encode(), actual.encode())
    before, found, rest = value.partition(_VERSION)
    return Draft(before + found, rest[rest.index(b'"') :])
