"""The clocks that other tests make wrong are wrong: of a server while it runs, and of a member of etcd from its start."""

from __future__ import annotations

import asyncio
import datetime as dt
import email.utils
import json
from typing import TYPE_CHECKING

import pytest
import skewed_clock
from live_server import Line, LiveServer
from skewed_clock import SkewedClock

from etcd_cluster import PROGRAM, EtcdCluster
from peers import peer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peers

DAY = 86400


def hours_from_now(time: dt.datetime) -> int:
    return round((time - dt.datetime.now(dt.UTC)).total_seconds() / 3600)


def test_the_clock_of_a_running_server_jumps_and_only_what_it_writes_shows_it(tmp_path: Path) -> None:
    peer(skewed_clock.LIBRARY, "clock")
    clock = SkewedClock(tmp_path / "clock")

    async def created(server: LiveServer, name: str) -> int:
        line = await Line.open(server)
        reply = await line.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        line.close()
        assert reply.status == 201, reply
        assert hours_from_now(email.utils.parsedate_to_datetime(reply.headers["date"])) == clock.seconds // 3600
        return hours_from_now(dt.datetime.fromisoformat(reply.json["metadata"]["creationTimestamp"]))

    with LiveServer(tmp_path / "data", environment=clock.environment) as server:
        assert asyncio.run(created(server, "a")) == 0
        clock.set(DAY)
        assert asyncio.run(created(server, "b")) == 24
        clock.set(-DAY)
        assert asyncio.run(created(server, "c")) == -24


@pytest.mark.skipif(not skewed_clock.is_possible_for_members(), reason="etcd was built with the clock of this machine")
def test_the_clock_of_a_member_of_etcd_is_wrong_from_its_start() -> None:
    peer(PROGRAM, "etcd")
    cluster = EtcdCluster(1, ("--log-level", "info"))
    try:
        cluster.members[0].skew = -DAY
        cluster.start()
        first = json.loads(cluster.logs().splitlines()[-1])
        assert hours_from_now(dt.datetime.fromisoformat(first["ts"])) == -24
    finally:
        cluster.close()
