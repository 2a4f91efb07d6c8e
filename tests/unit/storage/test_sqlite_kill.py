"""A server killed at the worst instants: no acknowledged commit is lost or halved, no revision is given out twice."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kapi.storage.interface import Draft
from kapi.storage.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("sqlite_kill_worker.py")


class Acknowledged(NamedTuple):
    key: str
    revision: int
    is_removal: bool


def run_until_killed(path: Path, run: str, points: str = "", after: int = 0) -> list[Acknowledged]:
    """What the worker had acknowledged when a fail point killed it, or when we did, `after` so many lines."""
    command = [sys.executable, str(WORKER), str(path), run]
    environment = {**os.environ, "KAPI_FAILPOINTS": points}
    lines: list[str] = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout:
            lines.append(line)
            if len(lines) == after:
                worker.kill()
    assert worker.returncode == -signal.SIGKILL
    pairs = (line.rsplit(" ", 1) for line in lines)
    return [Acknowledged(key, abs(int(number)), int(number) < 0) for key, number in pairs]


class Found(NamedTuple):
    """What the store holds after a restart."""

    entries: dict[str, int]
    log: dict[int, str]
    compacted: int
    next_revision: int


async def look(path: Path) -> Found:
    store = await SqliteStorage.open(path)
    try:
        page = await store.range("/")
        for entry in page.entries:
            assert entry.value == b"x" * 700 + b"%d" % entry.revision + b"y" * 800
        log: dict[int, str] = {}
        twins: dict[int, str] = {}

        def take(_, changes):
            for change in changes:
                (twins if change.key.startswith("/twin") else log)[change.revision] = change.key

        (await store.follow(store.compacted, take)).close()
        assert twins == {revision: f"/twin{key}" for revision, key in log.items() if key != "/probe"}
        compacted = store.compacted
        probe = await store.put("/probe", Draft(b"", b""), 0)
        await store.delete("/probe", probe)
        entries = {entry.key: entry.revision for entry in page.entries}
        alone = {key: revision for key, revision in entries.items() if not key.startswith("/twin")}
        assert entries == alone | {f"/twin{key}": revision for key, revision in alone.items()}
        return Found(alone, log, compacted, probe)
    finally:
        await store.close()


def lost(acknowledged: list[Acknowledged], found: Found) -> list[Acknowledged]:
    """Acknowledged writes of which the store shows no trace."""
    latest: dict[str, Acknowledged] = {}
    for one in acknowledged:
        if one.key not in latest or latest[one.key].revision < one.revision:
            latest[one.key] = one
    missing = [one for one in acknowledged if one.revision > found.compacted and found.log.get(one.revision) != one.key]
    for one in latest.values():
        # A write that was not acknowledged may have come after the last one that was.
        has_later = any(key == one.key for revision, key in found.log.items() if revision > one.revision)
        at = found.entries.get(one.key, 0)
        if at != (0 if one.is_removal else one.revision) and not has_later:
            missing.append(one)
    return missing


def verify(path: Path, acknowledged: list[Acknowledged], before: Found | None) -> Found:
    """Compare a store with what one run had acknowledged and with what the run before had left."""
    found = asyncio.run(look(path))
    assert lost(acknowledged, found) == []
    revisions = [one.revision for one in acknowledged]
    assert len(set(revisions)) == len(revisions)
    assert found.next_revision > max(revisions)
    assert list(found.log) == list(range(found.compacted + 1, found.next_revision))
    if before is not None:
        assert min(revisions) > before.next_revision
        assert before.entries.items() <= found.entries.items()
    connection = sqlite3.connect(path / "kapi.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return found


@pytest.mark.parametrize(
    "points",
    [
        "storage.before_commit=kill@30",
        "storage.after_commit=kill@30",
        "storage.before_publish=kill@30",
        "storage.after_publish=kill@30",
        "storage.before_compact_step=kill@3",
        "storage.after_compact_step=kill@3",
        "storage.before_vacuum_step=kill@3",
        "storage.after_vacuum_step=kill@3",
        "storage.checkpoint=kill@2",
    ],
)
def test_a_kill_at_any_fail_point_loses_no_acknowledged_write(tmp_path, points):
    found = None
    for run in ("first", "second"):
        acknowledged = run_until_killed(tmp_path, run, points)
        assert len(acknowledged) > 20
        found = verify(tmp_path, acknowledged, found)


@pytest.mark.parametrize("after", [100, 317, 1000])
def test_a_sigkill_loses_no_acknowledged_write(tmp_path, after):
    found = None
    for run in ("first", "second", "third"):
        found = verify(tmp_path, run_until_killed(tmp_path, run, after=after), found)


def test_the_check_detects_a_store_that_acknowledges_before_commit(tmp_path):
    """The positive control: with the planted bug the check above must find lost writes and a revision given twice."""
    points = "storage.ack_before_commit=on,storage.before_commit=sleep:0.05"
    acknowledged = run_until_killed(tmp_path, "run", points, after=100)
    found = asyncio.run(look(tmp_path))
    assert lost(acknowledged, found)
    assert found.next_revision <= max(one.revision for one in acknowledged)
