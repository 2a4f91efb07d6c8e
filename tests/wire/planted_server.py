"""`kapi` with a planted bug in its etcd backend, which the checkers of histories have to find.

`KAPI_PLANT` names the bug:

* `stale-reads`: a read does not ask etcd for the latest revision, and the watch is a little late;
* `blind-commits`: what is committed together with an object is not compared;
* `lost-events`: after an interruption of its watch of etcd, a server drops the first events;
* `skipped-gaps`: a server that finds that what it missed has been compacted goes on as if it had missed nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from kapi.cli.main import main
from kapi.storage.etcd import storage as etcd
from kapi.storage.etcd.livefeed import LiveFeed
from kapi.storage.interface import Check, Put
from kapi.storage.revisionslot import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

LATE_SECONDS = 0.05


def plant_stale_reads() -> None:
    deliver = etcd.EtcdStorage._deliver

    def late(self: Any, revision: int, events: Sequence[Any]) -> None:
        asyncio.get_running_loop().call_later(LATE_SECONDS, deliver, self, revision, events)

    async def latest(self: Any) -> int:
        return int(self.revision)

    etcd.EtcdStorage._deliver = late  # type: ignore[method-assign]
    etcd.EtcdStorage.latest = latest  # type: ignore[method-assign]


def plant_blind_commits() -> None:
    def transaction(self: Any, commit: Any) -> bytes:
        messages = etcd.messages
        compares, success, failure = [], [], []
        for operation in commit.operations:
            key = self._key(operation.key)
            if not compares:
                expected = operation.expected + self._origin if operation.expected else 0
                compares.append(messages.compare_revision(key, expected))
            failure.append(messages.range_operation(messages.range_request(key, keys_only=True)))
            if isinstance(operation, Put):
                success.append(messages.put_operation(key, commit.identity + pack(operation.draft)))
            elif not isinstance(operation, Check):
                success.append(messages.delete_operation(key))
        return bytes(messages.txn_request(compares, success, failure))

    etcd.EtcdStorage._transaction = transaction  # type: ignore[method-assign]


def plant_lost_events() -> None:
    take = LiveFeed._take
    forgotten: set[int] = set()

    def forgetful(self: Any, response: Any) -> None:
        """Drop the first events of each stream that was opened again."""
        if response.events and self.resumptions and self.resumptions not in forgotten:
            forgotten.add(self.resumptions)
        else:
            take(self, response)

    LiveFeed._take = forgetful  # type: ignore[method-assign]


def plant_skipped_gaps() -> None:
    async def read_nothing(self: Any, _read: Any) -> int:
        return int(await self._shared_read.get())

    etcd.EtcdStorage._read_anew = read_nothing  # type: ignore[method-assign]


PLANTS = {
    "stale-reads": plant_stale_reads,
    "blind-commits": plant_blind_commits,
    "lost-events": plant_lost_events,
    "skipped-gaps": plant_skipped_gaps,
}

if __name__ == "__main__":
    PLANTS[os.environ["KAPI_PLANT"]]()
    sys.exit(main())
