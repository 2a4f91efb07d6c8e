"""The API server that runs the built-in controllers is killed: those of another server take over within the lease.

How long that takes is told in renewals of the other server's own Lease, which come every ten seconds of its clock: a
machine that is slow is slow for both. The seconds are printed, and not asserted.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from live_server import Line, until
from shared_site import Site

from etcd_cluster import PROGRAM
from kapi.controller.manager.leaderelection import JITTER, LEASE_SECONDS, RETRY_SECONDS
from kapi.controlplane.controllers.controllerset import LEASE
from kapi.controlplane.identitylease import ADDRESS_ANNOTATION, SHARED_RENEW_SECONDS
from kapi.controlplane.identitylease import PATH as LEASES
from peers import peer

if TYPE_CHECKING:
    from pathlib import Path

    from shared_site import ApiServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LONGEST = LEASE_SECONDS + 2 * RETRY_SECONDS * JITTER
"""Seconds after which the Lease of a server that is gone has been acquired; see test_leadership.py."""
RENEWALS = int(LONGEST / SHARED_RENEW_SECONDS) + 2
"""Renewals that fit into that time, and one more for what a controller does then."""


class Seen:
    """What one server has told about the Leases and the ConfigMaps, in order."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def watch(self, server: ApiServer, path: str, since: str) -> None:
        line = await Line.open(server)
        try:
            async for event in line.watch(f"{path}?watch=true&resourceVersion={since}"):
                self.events.append(event)
        finally:
            line.close()

    def of(self, kind: str, name: str) -> list[dict[str, Any]]:
        """The objects of the events of one type about one name."""
        return [e["object"] for e in self.events if (e["type"], e["object"]["metadata"]["name"]) == (kind, name)]


def revision(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def time_of(obj: dict[str, Any], field: str) -> dt.datetime:
    return dt.datetime.fromisoformat(obj["spec"][field])


async def created(line: Line, name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"name": name}}
    if owner is not None:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
        body["metadata"]["ownerReferences"] = [reference | {"uid": owner["metadata"]["uid"]}]
    reply = await line.request("POST", CONFIG_MAPS, body)
    assert reply.status == 201, reply
    obj: dict[str, Any] = reply.json
    return obj


async def orphaned(line: Line, name: str) -> None:
    """Create an object and one that it owns, and delete the first: the other is left to the garbage collector."""
    await created(line, f"{name}-owned", await created(line, f"{name}-owner"))
    assert (await line.request("DELETE", f"{CONFIG_MAPS}/{name}-owner")).status == 200


async def lease(line: Line) -> dict[str, Any]:
    reply = await line.request("GET", f"{LEASES}/{LEASE}")
    obj: dict[str, Any] = reply.json
    return obj if reply.status == 200 else {"spec": {"holderIdentity": ""}}


def test_controllers_of_another_server_act_again_within_the_lease_after_a_kill(tmp_path: Path) -> None:
    peer(PROGRAM, "etcd")

    async def scenario() -> None:
        async with Site(tmp_path, servers=2, members=1) as site:
            line = await Line.open(site.servers[0])

            async def has_leader() -> bool:
                return bool((await lease(line))["spec"]["holderIdentity"])

            await until(has_leader)
            holder = (await lease(line))["spec"]["holderIdentity"]
            line.close()
            # The identity of a server ends with its address and a part that is its process's own.
            first = next(server for server in site.servers if f":{server.port}_" in holder)
            other = next(server for server in site.servers if server is not first)
            seen, line = Seen(), await Line.open(other)
            listed = (await line.request("GET", LEASES)).json
            since = listed["metadata"]["resourceVersion"]
            own = next(
                item["metadata"]["name"]
                for item in listed["items"]
                if item["metadata"].get("annotations", {}).get(ADDRESS_ANNOTATION, "").endswith(f":{other.port}")
            )
            watches = [asyncio.ensure_future(seen.watch(other, path, since)) for path in (LEASES, CONFIG_MAPS)]
            await orphaned(line, "before")
            await _arrived(seen, "DELETED", "before-owned")

            last = await lease(line)
            assert last["spec"]["holderIdentity"] == holder
            await asyncio.to_thread(first.kill)
            await orphaned(line, "after")
            async with asyncio.timeout(200):
                await _arrived(seen, "DELETED", "after-owned")

            taken = next(obj for obj in seen.of("MODIFIED", LEASE) if obj["spec"]["holderIdentity"] != holder)
            collected = seen.of("DELETED", "after-owned")[0]
            assert f":{other.port}_" in taken["spec"]["holderIdentity"]
            assert taken["spec"]["leaseTransitions"] == last["spec"].get("leaseTransitions", 0) + 1
            # In order: the last renewal of the one, the term of the other, what its controllers do in it.
            assert revision(last) < revision(taken) < revision(collected)
            renewed = [obj for obj in seen.of("MODIFIED", own) if revision(last) < revision(obj) < revision(collected)]
            assert len(renewed) <= RENEWALS
            gap = time_of(taken, "acquireTime") - time_of(
                _last_of([last, *seen.of("MODIFIED", LEASE)], holder), "renewTime"
            )
            print(f"\nacquired {gap.total_seconds():.1f} s after the last renewal; {len(renewed)} renewals meanwhile")
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            line.close()

    asyncio.run(scenario())


def _last_of(leases: list[dict[str, Any]], holder: str) -> dict[str, Any]:
    return [obj for obj in leases if obj["spec"]["holderIdentity"] == holder][-1]


async def _arrived(seen: Seen, kind: str, name: str) -> None:
    while not seen.of(kind, name):  # noqa: ASYNC110 (what is waited for is in another process)
        await asyncio.sleep(0.02)
