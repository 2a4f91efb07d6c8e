"""A disk that loses power: the files of a store as they may be found after a power cut, from a trace of system calls.

A worker runs under strace, which writes down every write and sync in order, the acknowledgements among them. What had been
synced is on the disk; of each later write any 512-byte sectors may be there and others not, in any order.

This proves the order of our syncs, not the honesty of a disk.
"""

from __future__ import annotations

import os
import random  # noqa: TC003
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

WORKER = Path(__file__).with_name("power_cut_worker.py")
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


def after_power_cut(calls: list[Call], path: Path, chance: random.Random) -> dict[str, int]:
    """Write the files that a power cut after some call leaves; returns what had been acknowledged: keys, revisions."""
    opened = next(number for number, call in enumerate(calls) if call.name == "acknowledge")
    disk = Disk()
    acknowledged: dict[str, int] = {}
    for call in calls[: chance.randrange(opened + 1, len(calls) + 1)]:
        if call.name == "acknowledge":
            key, revision = call.data.decode().split()
            acknowledged[key] = int(revision)
        else:
            disk.perform(call)
    path.mkdir()
    for name, content in disk.after_cut(chance).items():
        (path / name).write_bytes(content)
    return acknowledged
