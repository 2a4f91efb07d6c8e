"""Stores to be damaged, and ways to damage their files."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path  # noqa: TC003

from test_sqlite import opened, refusal

from kapi.storage.sqlite.mark import read_mark, write_mark

COUNT = 30
FRAME = 4096 + 24


def crash(path: Path, count: int = COUNT) -> None:
    """Write some objects, one after the other, and end without closing the store."""
    program = textwrap.dedent(
        """
        import asyncio, os, sys
        from pathlib import Path  # noqa: TC003
        from kapi.storage.interface import Draft
        from kapi.storage.sqlite.storage import SqliteStorage
        async def main():
            store = await SqliteStorage.open(Path(sys.argv[1]))
            for number in range(int(sys.argv[2])):
                await store.put(f"/{number:03}", Draft(b"x" * 700, b"y" * 800), 0)
            os._exit(0)
        asyncio.run(main())
        """
    )
    subprocess.run([sys.executable, "-c", program, str(path), str(count)], check=True, timeout=60)


def crash_after_compaction(path: Path) -> None:
    """The same with every second object deleted and compacted away, and as many created, before the end."""
    program = textwrap.dedent(
        """
        import asyncio, os, sys
        from pathlib import Path
        from kapi.storage.interface import Draft
        from kapi.storage.sqlite.storage import SqliteStorage
        async def main():
            store = await SqliteStorage.open(Path(sys.argv[1]))
            count = int(sys.argv[2])
            for number in range(2 * count):
                await store.put(f"/{number:03}", Draft(b"x" * 700, b"y" * 800), 0)
            for number in range(1, 2 * count, 2):
                await store.delete(f"/{number:03}", number + 1)
            await store.compact(store.revision)
            await store.put("/last", Draft(b"x" * 700, b"y" * 800), 0)
            os._exit(0)
        asyncio.run(main())
        """
    )
    subprocess.run([sys.executable, "-c", program, str(path), str(COUNT // 3)], check=True, timeout=60)


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target / "data")
    return target / "data"


def flip(path: Path, offset: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


def contents(path: Path) -> dict[str, bytes]:
    """The files that hold data; the lock and the index of the log may change, and an empty log may be created."""
    found = {name: path / name for name in ("kapi.db", "kapi.db-wal", "kapi.mark") if (path / name).exists()}
    return {name: content for name, file in found.items() if (content := file.read_bytes())}


async def keys(path: Path) -> list[str]:
    async with opened(path) as store:
        return [entry.key for entry in (await store.range("/")).entries]


def refused(path: Path) -> str:
    """Why a store is refused; nothing may be changed by the attempt."""
    before = contents(path)
    message = asyncio.run(refusal(path))
    assert contents(path) == before
    return message


ALL = [f"/{number:03}" for number in range(COUNT)]


def frames(path: Path) -> int:
    return (path / "kapi.db-wal").stat().st_size // FRAME


def forget_confirmed(path: Path) -> None:
    """Make the mark what a power cut right after the last acknowledgement may leave."""
    write_mark(path, read_mark(path)._replace(confirmed=0, boot="an earlier boot"))
