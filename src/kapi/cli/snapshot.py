"""`kapi store snapshot`, `restore` and `copy`: the content of a store, moved between SQLite, etcd and files.

A place is a data directory, the address of a store in etcd, or the path of a snapshot. The implementation is imported
when a command runs.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.cli.command import Command, Parser, at_least
from kapi.storage.etcd.address import SCHEME, parse_address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from kapi.storage.etcd.storage import EtcdStorage
    from kapi.storage.snapshot.record import Header, Record

    Guard = Callable[[Callable[[], int]], int]

ADVANCE: Final = 1_000_000_000
"""Revisions that a restored store skips: more than the original can have given out since its snapshot was taken."""

_STORE: Final = "DIR|etcd://ADDRESS"


class Source(NamedTuple):
    """A store or a file that is read."""

    header: Header
    records: Iterator[Record]
    is_in_use: bool = False


@contextmanager
def open_source(place: str) -> Iterator[Source]:
    """Read a store, or a snapshot, which is verified first."""
    path = Path(place)
    if place.startswith(SCHEME):
        with asyncio.Runner() as runner, _opened(runner, place, creates=False) as storage:
            from kapi.storage.snapshot.record import Header
            from kapi.storage.snapshot.shared import check_finished, read_storage

            runner.run(check_finished(storage))
            revision = runner.run(storage.latest())
            yield Source(Header(revision, place.partition("?")[0]), _iterate(runner, read_storage(storage, revision)))
    elif path.is_dir():
        from kapi.storage.sqlite.transfer import read_store

        with read_store(path) as state:
            yield Source(*state)
    elif not path.exists():
        raise FileNotFoundError(
            f"{place} does not exist; expected a data directory, or a store in etcd: {SCHEME}ADDRESS"
        )
    else:
        from kapi.storage.snapshot.file import read_snapshot, verify_snapshot

        yield Source(verify_snapshot(path).header, read_snapshot(path))


def write_target(place: str, records: Iterable[Record], revision: int, advance: int) -> int:
    """Make a new store of records, whose revisions are moved forward; returns the number of records."""
    if place.startswith(SCHEME):
        from kapi.storage.interface import StorageUnavailable
        from kapi.storage.snapshot.shared import write_storage

        # The store begins after the last revision that was given out, whatever etcd counts.
        with asyncio.Runner() as runner, _opened(runner, place, shift=revision + advance) as storage:
            if storage.revision != revision + advance:
                raise StorageUnavailable(
                    f"there is a store at {_shown(place)} already; choose another prefix, or delete it:"
                    f" etcdctl del --prefix {parse_address(place).prefix}"
                )
            return runner.run(write_storage(storage, records))
    from kapi.storage.sqlite.transfer import create_store

    return create_store(Path(place), records, revision, advance=advance)


@contextmanager
def _opened(runner: asyncio.Runner, place: str, *, shift: int = 0, creates: bool = True) -> Iterator[EtcdStorage]:
    from kapi.storage.etcd.storage import EtcdStorage

    storage = runner.run(EtcdStorage.open(parse_address(place), shift=shift, creates=creates))
    try:
        yield storage
    finally:
        runner.run(storage.close())


def _iterate(runner: asyncio.Runner, records: AsyncIterator[Record]) -> Iterator[Record]:
    end = object()
    while (record := runner.run(_next(records, end))) is not end:
        yield record  # type: ignore[misc]


async def _next(records: AsyncIterator[Record], end: object) -> Record | object:
    return await anext(records, end)


def _add_snapshot(parser: Parser) -> None:
    parser.add_argument("source", metavar=_STORE, help="a data directory, or a store in etcd; servers may be using it")
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write, which must not exist")


def _add_restore(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a snapshot")
    _add_target(parser)
    parser.add_argument(
        "--advance-revision",
        type=at_least(0),
        default=ADVANCE,
        metavar="N",
        help="move every revision forward by so many, more than were given out since the snapshot; with 0 they stay as"
        f" they are, which is right only if nothing was written after it (default: {ADVANCE})",
    )


def _add_copy(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a data directory or a store in etcd that no server uses")
    _add_target(parser)


def _add_target(parser: Parser) -> None:
    parser.add_argument("target", metavar=_STORE, help="where to make the store; there must be none yet")


def snapshot(source: str, file: Path) -> int:
    """Write the content of a store to a new file."""
    from kapi.storage.snapshot.file import write_snapshot

    with open_source(source) as found:
        count = write_snapshot(file, found.header, found.records)
    sys.stdout.write(f"{file}: {count} keys at revision {found.header.revision} of {_shown(source)}\n")
    return 0


def restore(file: Path, target: str, advance: int) -> int:
    """Make a store of a snapshot."""
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist; expected a snapshot that `kapi store snapshot` has written")
    if file.is_dir():
        raise ValueError(f"{file} is a directory; expected a snapshot, or use: kapi store copy {file} {target}")
    return _transfer(str(file), target, advance)


def copy(source: str, target: str) -> int:
    """Make a store of another one."""
    return _transfer(source, target, 0)


def _transfer(place: str, target: str, advance: int) -> int:
    with open_source(place) as source:
        if source.is_in_use:
            raise ValueError(f"{place} is in use by a server; stop it, or restore a snapshot of it")
        revision = source.header.revision
        # A store in etcd is read on an event loop of its own, and so is one that is written.
        records = list(source.records) if place.startswith(SCHEME) and target.startswith(SCHEME) else source.records
        count = write_target(target, records, revision, advance)
    sys.stdout.write(f"{_shown(target)}: {count} keys of {_shown(place)}; revisions go on after {revision + advance}\n")
    return 0


def _shown(place: str) -> str:
    """A place, without the parameters of an address."""
    return place.partition("?")[0]


def check_snapshot(path: Path) -> int:
    """Verify a snapshot and say what is in it."""
    from kapi.storage.snapshot.file import verify_snapshot

    header, count, created = verify_snapshot(path)
    sys.stdout.write(f"{path}: the snapshot is whole: {count} keys at revision {header.revision}, taken {created}\n")
    return 0


def check_etcd(place: str) -> int:
    """Read every key of a store in etcd and say what is in it; a value that is not what was written is an error."""
    with open_source(place) as source:
        count = sum(1 for _ in source.records)
    sys.stdout.write(f"{_shown(place)}: the store is whole: {count} keys at revision {source.header.revision}\n")
    return 0


def commands(guard: Guard) -> tuple[Command, ...]:
    """The commands; `guard` runs one and prints its errors."""

    def run_snapshot(arguments: Namespace) -> int:
        return guard(lambda: snapshot(arguments.source, arguments.file))

    def run_restore(arguments: Namespace) -> int:
        return guard(lambda: restore(arguments.file, arguments.target, int(arguments.advance_revision)))

    def run_copy(arguments: Namespace) -> int:
        return guard(lambda: copy(arguments.source, arguments.target))

    return (
        Command("snapshot", "Write the content of a store to a file", _add_snapshot, run_snapshot, f"{_STORE} FILE"),
        Command("restore", "Make a store of a snapshot", _add_restore, run_restore, f"[OPTION...] FILE {_STORE}"),
        Command("copy", "Make a store of another one", _add_copy, run_copy, f"{_STORE} {_STORE}"),
    )
