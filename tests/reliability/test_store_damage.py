"""Kills and power cuts with random damage to the files: a damaged store is refused or whole, never served with a loss.

After each kill or power cut a copy of the store is damaged in one bit or byte of any region of its files, opened, and repaired
if it is refused. With the checks switched off, the planted bug, the same run must find losses.

`KAPI_DAMAGES=1000 pytest tests/reliability/test_store_damage.py -s` is the long form: so many power cuts and so many
SIGKILLs; `KAPI_SEED` repeats a run's choices.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from random_damage import Outcome, broken, table, try_damage
from simulated_disk import STRACE, after_power_cut, record

from kapi.storage.sqlite import opening, reader, verification

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("KAPI_DAMAGES", "0"))
SEED = int(os.environ.get("KAPI_SEED", "0")) or random.randrange(1, 2**32)
CUTS = COUNT or 40
KILLS = COUNT or 4
DAMAGES_PER_KILL = 1 if COUNT else 8
KILL_WORKER = Path(__file__).parents[1] / "unit/storage/sqlite_kill_worker.py"


def cut_value(revision: int) -> bytes:
    return b"x" * 500 + b"%d" % revision + b"y" * 400


def kill_value(revision: int) -> bytes:
    return b"x" * 700 + b"%d" % revision + b"y" * 800


def cut_and_damage(calls, tmp_path: Path, seeds) -> list[Outcome]:
    outcomes = []
    for seed in seeds:
        chance = random.Random(seed)
        path = tmp_path / f"cut-{seed}"
        acknowledged = after_power_cut(calls, path, chance)
        outcomes.append(try_damage(path, acknowledged, set(), cut_value, chance))
        shutil.rmtree(path)
    return outcomes


@pytest.mark.timeout(max(120, 3 * COUNT))
@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_damage_after_a_power_cut_is_never_a_silent_loss(tmp_path, monkeypatch):
    print("seed", SEED)
    calls = record(tmp_path / "full", "full")
    seeds = range(SEED, SEED + CUTS)
    outcomes = cut_and_damage(calls, tmp_path, seeds)
    print(f"{CUTS} power cuts\n{table(outcomes)}")
    assert broken(outcomes) == []
    assert {"whole", "refused"} == {outcome.result for outcome in outcomes}
    # The planted bug: nothing is compared.
    monkeypatch.setattr(opening, "examine", lambda *_: opening.Tail([]))
    monkeypatch.setattr(opening, "table_damages", lambda _: [])
    monkeypatch.setattr(opening, "verify_rows", _take_all)
    for module in (verification, reader):
        monkeypatch.setattr(module, "is_whole", lambda _: True)
    monkeypatch.setattr(opening, "read_mark", _unconfirmed)
    assert any(broken([outcome]) for outcome in _careless(calls, tmp_path, seeds)), "the planted bug was not found"


def _take_all(rows, compacted, take):
    last = compacted
    for position, key, _, value, _ in rows:
        last = max(last, position >> 10)
        take(position, key, None if value is None else len(value))
    return last, []


def _unconfirmed(directory):
    from kapi.storage.sqlite.mark import read_mark

    mark = read_mark(directory)
    return mark and mark._replace(confirmed=0)


def _careless(calls, tmp_path, seeds):
    for seed in seeds:
        try:
            yield from cut_and_damage(calls, tmp_path, [seed])
        except Exception:  # SQLite notices some damage, but too late.
            continue


class Kills:
    """A store whose writer is killed again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.acknowledged: dict[str, int] = {}
        self.deleted: set[str] = set()

    def kill(self, number: int, after: int) -> None:
        """Run the writer, and kill it after so many acknowledgements."""
        command = [sys.executable, str(KILL_WORKER), str(self.path), f"run{number}"]
        lines = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            for line in worker.stdout:
                lines.append(line)
                if len(lines) == after:
                    worker.kill()
        assert worker.returncode == -signal.SIGKILL
        for line in lines:
            key, revision = line.rsplit(" ", 1)
            for name in (key, f"/twin{key}"):
                if int(revision) < 0:
                    self.acknowledged.pop(name, None)
                    self.deleted.add(name)
                else:
                    self.acknowledged[name] = int(revision)


def in_flight(kills: Kills, run: int) -> None:
    """Forget what a write that was in flight at the kill may have changed: the last key of each writer."""
    latest: dict[str, str] = {}
    for key in [*kills.acknowledged, *kills.deleted]:
        _, name, part = key.removeprefix("/twin").split("/")
        if name.startswith(f"run{run}-") and int(part) >= int(latest.get(name, "-1")):
            latest[name] = part
    for name, part in latest.items():
        for key in (f"/{name}/{part}", f"/twin/{name}/{part}"):
            kills.acknowledged.pop(key, None)
            kills.deleted.discard(key)


@pytest.mark.timeout(max(120, 5 * COUNT))
def test_damage_after_a_kill_is_never_a_silent_loss(tmp_path):
    print("seed", SEED)
    chance = random.Random(SEED)
    outcomes: list[Outcome] = []
    kills = Kills(tmp_path / "data")
    for number in range(KILLS):
        if number % 50 == 0:
            # A new store from time to time, so that stores of all ages are damaged.
            shutil.rmtree(kills.path, ignore_errors=True)
            kills = Kills(kills.path)
        kills.kill(number, after=chance.randrange(20, 400))
        in_flight(kills, number)
        outcomes += [
            try_damage(kills.path, kills.acknowledged, kills.deleted, kill_value, chance)
            for _ in range(DAMAGES_PER_KILL)
        ]
    print(f"{KILLS} kills\n{table(outcomes)}")
    assert broken(outcomes) == []
    assert {"whole", "refused"} == {outcome.result for outcome in outcomes}
