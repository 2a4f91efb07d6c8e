"""Random damage to the files of a store, by regions of the files, and what becomes of a store that is damaged.

The promise: a store that is damaged is refused, or holds every acknowledged write and no wrong byte. What is refused is then
repaired: without loss, or the repair says so and changes nothing.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.interface import StorageFailed, StorageUnavailable
from kapi.storage.sqlite.mark import read_mark
from kapi.storage.sqlite.pages import PAGE
from kapi.storage.sqlite.repair import repair
from kapi.storage.sqlite.storage import SqliteStorage

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

FRAME = PAGE + 24


def _log_header(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db-wal", chance.randrange(32)


def _frame(path: Path, chance: random.Random) -> int:
    """The offset of a frame of the log; often one of the last ones."""
    count = ((path / "kapi.db-wal").stat().st_size - 32) // FRAME
    last = min(count, 6) if chance.random() < 0.5 else count
    return 32 + (count - 1 - chance.randrange(last)) * FRAME


def _frame_header(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db-wal", _frame(path, chance) + chance.randrange(24)


def _frame_page(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db-wal", _frame(path, chance) + 24 + chance.randrange(PAGE)


def _database_header(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db", chance.randrange(100)


def _schema(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db", chance.randrange(100, PAGE)


def _page(path: Path, chance: random.Random) -> int:
    return chance.randrange((path / "kapi.db").stat().st_size // PAGE) * PAGE


def _page_header(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db", _page(path, chance) + chance.randrange(40)


def _page_body(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.db", _page(path, chance) + chance.randrange(PAGE)


def _value(path: Path, chance: random.Random) -> tuple[str, int]:
    name = chance.choice(["kapi.db", "kapi.db-wal"])
    content = (path / name).read_bytes()
    start = chance.randrange(len(content))
    found = max(content.find(b"xxxx", start), content.find(b"yyyy", start))
    return name, found if found >= 0 else start


def _mark(path: Path, chance: random.Random) -> tuple[str, int]:
    return "kapi.mark", chance.choice([0, PAGE]) + chance.randrange(105)


REGIONS: dict[str, Callable[[Path, random.Random], tuple[str, int]]] = {
    "header of the log": _log_header,
    "header of a frame": _frame_header,
    "page in a frame": _frame_page,
    "header of the database": _database_header,
    "first page": _schema,
    "header of a page": _page_header,
    "any page, free or used": _page_body,
    "value or key": _value,
    "mark and identity": _mark,
}


class Outcome(NamedTuple):
    """What became of a damaged store."""

    region: str
    place: str
    result: str
    """`whole`, `refused` or, if the promise is broken, `LOST`."""
    repaired: str = ""
    """Of a refused store: `repaired`, `loss told` or, if the promise is broken, `LOST`."""
    detail: str = ""


def damage(path: Path, chance: random.Random) -> tuple[str, str]:
    """Change a bit or a byte of a store; returns the region and the place."""
    region = chance.choice([name for name in REGIONS if "frame" not in name or has_log(path)])
    name, offset = REGIONS[region](path, chance)
    mask = 1 << chance.randrange(8) if chance.random() < 0.7 else chance.randrange(1, 256)
    with (path / name).open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ mask]) if byte else b"")
    return region, f"{name}+{offset}^{mask}"


def has_log(path: Path) -> bool:
    log = path / "kapi.db-wal"
    return log.exists() and log.stat().st_size > 32 + FRAME


async def wrong_keys(
    path: Path, acknowledged: dict[str, int], deleted: set[str], value: Callable[[int], bytes]
) -> list[str]:
    """Open a store: the keys that are older than acknowledged, or present though deleted, or have a wrong value."""
    store = await SqliteStorage.open(path)
    try:
        found = {}
        wrong = []
        for entry in (await store.range("/")).entries:
            found[entry.key] = entry.revision
            if entry.value != value(entry.revision):
                wrong.append(f"{entry.key} has a wrong value")
        wrong += [f"{key} is lost" for key, revision in acknowledged.items() if found.get(key, 0) < revision]
        wrong += [f"{key} is back" for key in deleted if key in found]
        next_revision = await store.put("/probe", _probe(), 0)
        newest = max([*acknowledged.values(), 0])
        wrong += [f"revision {next_revision} was given out before"] if next_revision <= newest else []
        return wrong
    finally:
        await store.close()


def _probe():
    from kapi.storage.interface import Draft

    return Draft(b"", b"")


def try_damage(
    path: Path,
    acknowledged: dict[str, int],
    deleted: set[str],
    value: Callable[[int], bytes],
    chance: random.Random,
) -> Outcome:
    """Damage a copy of a store, open it, and repair it if it is refused."""
    copy = path.with_name(f"{path.name}-damaged")
    shutil.copytree(path, copy)
    try:
        region, place = damage(copy, chance)
        try:
            wrong = asyncio.run(wrong_keys(copy, acknowledged, deleted, value))
            return Outcome(region, place, "LOST" if wrong else "whole", detail="; ".join(wrong[:3]))
        except (StorageUnavailable, StorageFailed) as error:
            return _repaired(
                copy,
                Outcome(region, place, "refused", detail=str(error).splitlines()[-2:][0][:150]),
                acknowledged,
                deleted,
                value,
            )
    finally:
        shutil.rmtree(copy)


def _repaired(
    copy: Path, outcome: Outcome, acknowledged: dict[str, int], deleted: set[str], value: Callable[[int], bytes]
) -> Outcome:
    done = repair(copy)
    if not done.revision:
        return outcome._replace(repaired="loss told")
    wrong = asyncio.run(wrong_keys(copy, acknowledged, deleted, value))
    if wrong:
        return outcome._replace(repaired="LOST", detail="; ".join(wrong[:3]))
    return outcome._replace(repaired="repaired")


def broken(outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes that break the promise."""
    return [outcome for outcome in outcomes if "LOST" in (outcome.result, outcome.repaired)]


def table(outcomes: list[Outcome]) -> str:
    """The outcomes counted by region."""
    counts = Counter((outcome.region, outcome.result, outcome.repaired) for outcome in outcomes)
    lines = [
        f"{region:26} {result:8} {repaired:10} {count}" for (region, result, repaired), count in sorted(counts.items())
    ]
    return "\n".join(lines)


def confirmed(path: Path) -> int:
    """The revision that the mark of a store confirms."""
    mark = read_mark(path)
    return mark.confirmed if mark else 0
