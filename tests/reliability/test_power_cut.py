"""The power fails: what was acknowledged is on disk, whatever the disk did with what had not been synced.

A worker runs under strace, which writes down every write and sync in order, the acknowledgements among them. From that the
test builds the disk as a power cut would have left it after any of those calls: what had been synced is there; of each later
write any 512-byte sectors may be there and others not, in any order. The store must open on every such disk and hold
every acknowledged write. The same run without syncs must lose some, or the test would prove nothing.

This proves the order of our syncs, not the honesty of a disk.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kapi.storage.interface import StorageUnavailable
from kapi.storage.sqlite.storage import SqliteStorage

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("power_cut_worker.py")
CUTS = 60
SECTOR = 512
STRACE = shutil.which("strace")

CALL = re.compile(r"(\w+)\((?:\d+)<([^>]*)>(?:, (.*))?\)\s+= (-?\d+)")


class Call(NamedTuple):
    """One system call on a file, complete."""

    name: str
    path: str
    data: bytes
    offset: int


class Disk:
    """Files as the medium holds them, and the writes that have not been synced."""

    def __init__(self) -> None:
        self.durable: dict[str, bytearray] = {}
        self.pending: dict[str, list[Call]] = {}

    def perform(self, call: Call) -> None:
        self.durable.setdefault(call.path, bytearray())
        pending = self.pending.setdefault(call.path, [])
        if call.name in {"fsync", "fdatasync"}:
            for waiting in pending:
                self._apply(self.durable[call.path], waiting)
            pending.clear()
        else:
            pending.append(call)

    @staticmethod
    def _apply(content: bytearray, call: Call) -> None:
        if call.name == "ftruncate":
            del content[call.offset :]
            content.extend(bytes(call.offset - len(content)))
            return
        content.extend(bytes(max(0, call.offset + len(call.data) - len(content))))
        content[call.offset : call.offset + len(call.data)] = call.data

    def after_cut(self, chance: random.Random) -> dict[str, bytes]:
        """What is found when the power is back."""
        files: dict[str, bytes] = {}
        # From "nothing made it" to "nearly everything did": tears in the middle need both.
        share = chance.choice([0.0, 0.1, 0.5, 0.9])
        for path, content in self.durable.items():
            found = bytearray(content)
            for call in self.pending[path]:
                for sector in sectors(call):
                    if chance.random() < share:
                        self._apply(found, sector)
            files[path] = bytes(found)
        return files


def sectors(call: Call) -> list[Call]:
    if call.name == "ftruncate":
        return [call]
    return [
        call._replace(data=call.data[start : start + SECTOR], offset=call.offset + start)
        for start in range(0, len(call.data), SECTOR)
    ]


def record(path: Path, mode: str) -> list[Call]:
    """Run the worker; its calls in the order in which they ended."""
    trace = path.with_suffix(".trace")
    watched = "trace=pwrite64,write,fsync,fdatasync,ftruncate"
    command = [STRACE, "-f", "-y", "-xx", "-s", "10000", "-e", watched, "-o", str(trace)]
    done = subprocess.run(
        [*command, sys.executable, str(WORKER), str(path), mode],
        capture_output=True,
        env=os.environ,
        timeout=100,
        check=False,
    )
    if b"ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.decode()}")
    assert done.returncode == 0, done.stderr
    with trace.open() as lines:
        return [call for line in joined(lines) if (call := parse(line, path)) is not None]


def joined(lines) -> list[str]:
    """Calls that strace split because another thread came between."""
    begun: dict[str, str] = {}
    whole = []
    for line in lines:
        thread, _, text = line.strip().partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[thread] = text.removesuffix("<unfinished ...>").rstrip()
        elif text.startswith("<... "):
            whole.append(begun.pop(thread) + text.partition(" resumed>")[2].lstrip())
        else:
            whole.append(text)
    return whole


def unescape(text: str) -> bytes:
    return bytes.fromhex(text.strip('"').replace("\\x", ""))


def parse(line: str, path: Path) -> Call | None:
    match = CALL.match(line)
    if match is None:
        return None
    name, raw_file, arguments, result = match.groups()
    file = unescape(raw_file).decode() if raw_file.startswith("\\x") else raw_file
    assert int(result) >= 0, line[:200]
    if name == "write" and not file.startswith(str(path)):
        data = unescape(arguments.split(", ")[0])
        return Call("acknowledge", "", data, 0) if data.startswith(b"/") else None
    # The mark is written under another name and renamed, before anything is acknowledged.
    file = file.removesuffix(".new")
    if Path(file).name not in {"kapi.db", "kapi.db-wal", "kapi.mark"}:
        return None
    if name == "pwrite64":
        data, _, offset = arguments.rsplit(", ", 2)
        return Call(name, Path(file).name, unescape(data), int(offset))
    if name == "ftruncate":
        return Call(name, Path(file).name, b"", int(arguments))
    return Call(name, Path(file).name, b"", 0)


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
    chance = random.Random(seed)
    opened = next(number for number, call in enumerate(calls) if call.name == "acknowledge")
    disk = Disk()
    acknowledged: dict[str, int] = {}
    for call in calls[: chance.randrange(opened + 1, len(calls) + 1)]:
        if call.name == "acknowledge":
            key, revision = call.data.decode().split()
            acknowledged[key] = int(revision)
        else:
            disk.perform(call)
    path = tmp_path / f"cut-{seed}"
    path.mkdir()
    for name, content in disk.after_cut(chance).items():
        (path / name).write_bytes(content)
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
