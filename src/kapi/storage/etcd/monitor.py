"""The state of the cluster behind a store, asked for at intervals: for health checks and metrics.

A member is asked for its version, size and leader, and the cluster for its alarms and for a read that needs a quorum. A
server whose cluster has none goes on serving reads that its clients allow to be old, so it is not restarted: only
/readyz fails, and says why.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kapi.storage.etcd import messages
from kapi.storage.etcd.cluster import ALARM, RANGE, STATUS, EtcdError, Unanswered
from kapi.storage.etcd.opening import format_key

if TYPE_CHECKING:
    from kapi.storage.etcd.cluster import Cluster, Member
    from kapi.storage.etcd.messages import Alarm, Status
    from kapi.storage.etcd.storage import EtcdStorage

INTERVAL: Final = 5.0
_SECONDS: Final = 3.0


class EtcdMonitor:
    """What was last known of a cluster."""

    def __init__(self, storage: EtcdStorage) -> None:
        self.storage = storage
        self.statuses: dict[str, Status | None] = dict.fromkeys(storage.cluster.address.endpoints)
        """The state of each member by its endpoint; None for one that is unreachable, or tells it to root only."""
        self.reachable: dict[str, bool] = {}
        """Whether each member that was asked answered."""
        self.alarms: list[Alarm] = []
        self._failure = ""

    @property
    def _cluster(self) -> Cluster:
        return self.storage.cluster

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(INTERVAL)

    async def step(self) -> None:
        """Ask every member once, and the cluster for a read that needs a quorum."""
        await asyncio.gather(*(self._ask(member) for member in self._cluster.members), self._read())

    def check(self) -> str | None:
        """Return None if the cluster can be read and written, or why it cannot."""
        if self._failure:
            return self._failure
        if self.storage.live.interruption:
            return f"there is no watch of etcd: {self.storage.live.interruption}"
        if self.alarms:
            alarms = ", ".join(f"{alarm.name} of member {alarm.member:x}" for alarm in self.alarms)
            return f"etcd has raised alarms: {alarms}; see `etcdctl alarm list`"
        return None

    async def _ask(self, member: Member) -> None:
        try:
            data = await self._cluster.attempt(member, STATUS, messages.STATUS_REQUEST, _SECONDS)
        except EtcdError as error:
            self.statuses[member.endpoint] = None
            self.reachable[member.endpoint] = error.is_forbidden
        else:
            self.statuses[member.endpoint] = messages.read_status(data)
            self.reachable[member.endpoint] = True

    async def _read(self) -> None:
        request = messages.range_request(format_key(self._cluster.address.prefix), count_only=True)
        try:
            await self._cluster.call(RANGE, request, seconds=_SECONDS)
            self.alarms = await self._list_alarms()
        except (EtcdError, Unanswered) as error:
            self._failure = f"etcd cannot be read: {error}"
        else:
            self._failure = ""

    async def _list_alarms(self) -> list[Alarm]:
        try:
            return messages.read_alarms(await self._cluster.call(ALARM, messages.ALARMS_REQUEST, seconds=_SECONDS))
        except EtcdError as error:
            if error.is_forbidden:
                return []
            raise
