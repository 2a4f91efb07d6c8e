"""Examination and repair of a store that is not in use: what `kapi store check` and `kapi store repair` do.

A repair never works on the only copy: the files are first copied to a folder of their own in the data directory. Then

1. a log in which single bytes are damaged is corrected (`logcorrection`): nothing is lost;
2. otherwise everything that is whole is read (`salvage`) and written to a new database. If that is all that was
   acknowledged nothing is lost, else it is done only if the caller accepts the loss.

When a version is lost, or history is not complete, only the latest versions are kept and the store goes on after the
reserved revisions: clients list again, and no revision is given out twice.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import secrets
import shutil
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kapi.storage.interface import StorageUnavailable
from kapi.storage.sqlite.damage import Damage
from kapi.storage.sqlite.file import DATABASE, LOCK, is_empty
from kapi.storage.sqlite.logcorrection import correct_log, restore_log
from kapi.storage.sqlite.mark import BLOCK, MARK, Mark, MarkDamaged, read_mark, sync_directory, write_mark
from kapi.storage.sqlite.opening import Content, verify
from kapi.storage.sqlite.salvage import Salvage, salvage
from kapi.storage.sqlite.transfer import write_database
from kapi.storage.sqlite.verification import verify_rows
from kapi.storage.sqlite.wal import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kapi.storage.sqlite.verification import Row


class Report(NamedTuple):
    """The state of a store."""

    damages: list[Damage]
    lost: dict[str, int]
    """Keys whose latest version cannot be read, with its position."""
    is_complete: bool
    """True if everything that was acknowledged can be read, damaged or not."""


class Repair(NamedTuple):
    """What a repair has done."""

    before: Report
    backup: Path | None
    """Where the files as they were found are; None if nothing was changed."""
    objects: int = 0
    revision: int = 0
    """The revision after which the store goes on; 0 if nothing was changed."""


@contextmanager
def _exclusive(directory: Path) -> Iterator[None]:
    """Keep servers out of a directory, if one could be there; nothing is created."""
    if not directory.is_dir():
        raise StorageUnavailable(f"{directory} is not a directory")
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StorageUnavailable(f"{directory} is in use by a server; stop it, or use a copy of the files") from None
    finally:
        os.close(descriptor)


def check(directory: Path) -> Report:
    """Examine the store in a directory; nothing is changed."""
    with _exclusive(directory):
        return _examine(directory)[0]


def read_whole(directory: Path) -> Salvage:
    """Everything that is whole in the store of a directory."""
    with _exclusive(directory):
        return salvage(directory)


def repair(directory: Path, *, accepts_loss: bool = False) -> Repair:
    """Repair the store in a directory, without loss unless that is accepted."""
    with _exclusive(directory):
        restore_log(directory)
        report, mark, content = _examine(directory)
        if not report.damages:
            return Repair(report, None)
        if not report.is_complete and not accepts_loss and not _is_log_correctable(content):
            return Repair(report, None)
        backup = _back_up(directory)
        if mark is not None and _correct(directory, mark, content):
            # Rows that seemed to be missing were in the part of the log that could not be read.
            in_log = [damage for damage in report.damages if damage.file != DATABASE]
            return Repair(Report(in_log, {}, is_complete=True), backup, *_counts(directory, mark))
        if not report.is_complete and not accepts_loss:
            return Repair(report, None)
        return Repair(report, backup, *_rebuild(directory, salvage(directory), mark, is_complete=report.is_complete))


def _examine(directory: Path) -> tuple[Report, Mark | None, Content]:
    damages: list[Damage] = []
    mark = None
    try:
        mark = read_mark(directory)
        if mark is None:
            damages.append(Damage(MARK, "the file is missing: what was acknowledged is not known"))
    except MarkDamaged as error:
        damages.append(Damage(MARK, str(error), offset=0))
    if is_empty(directory):
        text = "the file is missing or empty" + (f"; it had data up to revision {mark.confirmed}" if mark else "")
        return Report([*damages, Damage(DATABASE, text)], {}, is_complete=False), mark, Content([])
    content = _verify(directory, mark)
    damages += content.damages
    if content.is_correctable:
        damages.append(Damage(LOG, f"frame {content.unreadable} is damaged in single bytes; a start corrects it"))
    if not damages:
        return Report([], {}, is_complete=True), mark, content
    found = salvage(directory)
    located = {damage.position for damage in (*found.damages, *found.corrected)}
    damages = [damage for damage in damages if not damage.position or damage.position not in located]
    # Where a whole transaction follows a damaged frame, the index tells what is missing; otherwise nothing does.
    is_log_used = content.unreadable < 0 or found.last_commit > content.unreadable > 0
    is_complete = is_log_used and _is_complete(found, mark)
    return Report([*damages, *found.damages, *found.corrected], found.lost_objects, is_complete), mark, content


def _is_complete(found: Salvage, mark: Mark | None) -> bool:
    """True if everything that was acknowledged has been found."""
    if mark is None or not found.is_certain or found.lost_objects or found.revision < mark.confirmed:
        return False
    if found.numbers is None:
        return True
    return found.numbers.store == mark.store and (bool(found.lost) or _is_gapless(found, found.numbers.compacted))


def _verify(directory: Path, mark: Mark | None) -> Content:
    try:
        return verify(directory, mark or Mark(""), lambda *_: None)
    except (StorageUnavailable, sqlite3.Error) as error:
        return Content([Damage(DATABASE, str(error))])


def _is_log_correctable(content: Content) -> bool:
    """True if the log is damaged; whether it can be corrected is known when that has been tried."""
    return content.unreadable >= 0


def _correct(directory: Path, mark: Mark, content: Content) -> bool:
    """Correct the log, if that makes the store whole."""
    if content.unreadable < 0:
        return False
    return correct_log(
        directory,
        content.unreadable,
        lambda: not verify(directory, mark, lambda *_: None, is_corrected=True).damages,
    )


def _counts(directory: Path, mark: Mark) -> tuple[int, int]:
    """The objects of a whole store, and its revision."""
    keys: dict[str, int | None] = {}
    content = verify(directory, mark, lambda _, key, length: keys.__setitem__(key, length))
    return sum(length is not None for length in keys.values()), content.revision


def _back_up(directory: Path) -> Path:
    moment = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S")
    backup = directory / f"damaged-{moment}-{secrets.token_hex(2)}"
    backup.mkdir(mode=0o700)
    for name in (DATABASE, LOG, MARK):
        if (directory / name).exists():
            shutil.copy2(directory / name, backup / name)
            descriptor = os.open(backup / name, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(descriptor)
            os.close(descriptor)
    sync_directory(backup)
    sync_directory(directory)
    return backup


def _rebuild(directory: Path, found: Salvage, mark: Mark | None, *, is_complete: bool) -> tuple[int, int]:
    """Write what is whole to a new database in the place of the damaged one; returns its objects and revision."""
    numbers = found.numbers
    has_history = is_complete and numbers is not None and not found.lost and _is_gapless(found, numbers.compacted)
    if has_history and numbers is not None:
        rows = [row for _, row in sorted(found.rows.items())]
        compacted, finished, revision = numbers.compacted, numbers.finished, max(found.revision, numbers.compacted)
    else:
        rows = sorted(found.latest.values())
        given = [found.revision + BLOCK, mark.reserved if mark else 0, numbers.compacted if numbers else 0]
        compacted = finished = revision = max(given)
    store = numbers.store if numbers else mark.store if mark else secrets.token_hex(16)
    # Should the process end before the mark is written, the files are in the backup.
    write_database(directory, store, rows, compacted=compacted, finished=finished)
    reserved = max(revision + BLOCK, mark.reserved if mark else 0)
    write_mark(directory, Mark(store, reserved=reserved, confirmed=revision, is_established=True))
    return len(found.latest), revision


def _is_gapless(found: Salvage, compacted: int) -> bool:
    rows: list[Row] = [row for _, row in sorted(found.rows.items())]
    return not verify_rows(rows, compacted, lambda *_: None)[1]
