"""The power fails: what was acknowledged is on disk, whatever the disk did with what had not been synced.

The disk is simulated (`simulated_disk`). The store must open on every such disk and hold every acknowledged write. The
same run without syncs must lose some, or the test would prove nothing.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from pathlib import Path  # noqa: TC003

import pytest
from simulated_disk import STRACE, Call, after_power_cut, record

from kapi.storage.interface import StorageUnavailable
from kapi.storage.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.slow

CUTS = 60


async def missing(path: Path, acknowledged: dict[str, int]) -> list[str]:
    """Acknowledged keys that a store does not hold, at least as new as acknowledged."""
    store = await SqliteStorage.open(path)
    try:
        found = {entry.key: entry.revision for entry in (await store.range("/")).entries}
        log: list[int] = []
        feed = await store.follow(store.compacted, lambda _, changes: log.extend(change.revision for change in changes))
        feed.close()
        assert log == list(range(store.compacted + 1, store.revision + 1))
        return [key for key, revision in acknowledged.items() if found.get(key, 0) < revision]
    finally:
        await store.close()


def cut(calls: list[Call], tmp_path: Path, seed: int) -> list[str]:
    """Cut the power after some call; the acknowledged writes that are lost."""
    path = tmp_path / f"cut-{seed}"
    acknowledged = after_power_cut(calls, path, random.Random(seed))
    lost = asyncio.run(missing(path, acknowledged))
    connection = sqlite3.connect(path / "kapi.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    shutil.rmtree(path)
    return lost


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_a_power_cut_loses_no_acknowledged_write_but_would_without_fsync(tmp_path):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    calls = record(tmp_path / "full", "full")
    assert sum(call.name == "acknowledge" for call in calls) > 250
    assert any(call.path == "kapi.db" and call.name == "pwrite64" for call in calls[len(calls) // 2 :]), "no checkpoint"
    assert any(call.path == "kapi.db" and call.name == "ftruncate" for call in calls), "the file was never cut"
    for number in range(CUTS):
        assert cut(calls, tmp_path, seed + number) == [], f"seed {seed + number}"
    careless = record(tmp_path / "normal", "normal")
    assert any(loses(careless, tmp_path, seed + number) for number in range(CUTS)), "the planted bug was not found"


def loses(calls: list[Call], tmp_path: Path, seed: int) -> bool:
    """True if a power cut loses acknowledged writes, also if the store notices it."""
    try:
        return bool(cut(calls, tmp_path, seed))
    except StorageUnavailable:
        return True
