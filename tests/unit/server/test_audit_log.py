"""The audit log: lines in a file that is rotated, and on standard output."""

import asyncio
import datetime as dt
import os
import stat

import pytest

from kapi.base.clock import ManualClock
from kapi.server.audit.logfile import LogFile, StandardOutput, error_counter


@pytest.fixture
def errors():
    return error_counter(None)


def opened(path, errors, *, clock=None, max_bytes=0, max_backups=0, max_days=0):
    return LogFile(
        path, clock or ManualClock(), errors, max_bytes=max_bytes, max_backups=max_backups, max_days=max_days
    )


def lost(errors):
    return errors.labels("log")._value.get()


def test_events_are_lines_of_a_file_that_only_its_owner_can_read(tmp_path, errors):
    path = tmp_path / "new" / "audit.log"
    log = opened(path, errors)
    log.write([b'{"n":1}'])
    # Written at once: nothing is buffered in the process.
    assert path.read_bytes() == b'{"n":1}\n'
    asyncio.run(log.close())
    again = opened(path, errors)
    again.write([b'{"n":2}'])
    asyncio.run(again.close())
    assert path.read_bytes() == b'{"n":1}\n{"n":2}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_is_rotated_before_it_is_too_large_and_the_newest_backups_are_kept(tmp_path, errors):
    clock = ManualClock()
    path = tmp_path / "audit.log"
    log = opened(path, errors, clock=clock, max_bytes=20, max_backups=2)
    for number in range(9):
        log.write([b'{"n":%d}' % number])
        clock.advance(1)
    asyncio.run(log.close())
    backups = sorted(tmp_path.glob("audit-*.log"))
    assert path.read_bytes() == b'{"n":8}\n'
    assert [file.read_bytes() for file in backups] == [b'{"n":4}\n{"n":5}\n', b'{"n":6}\n{"n":7}\n']


def test_backups_are_deleted_by_age(tmp_path, errors):
    clock = ManualClock()
    path = tmp_path / "audit.log"
    log = opened(path, errors, clock=clock, max_bytes=1, max_days=2)
    log.write([b"1"])
    clock.advance(1)
    log.write([b"2"])
    (old,) = tmp_path.glob("audit-*.log")
    os.utime(old, times=(0, (clock.now() - dt.timedelta(days=3)).timestamp()))
    clock.advance(1)
    log.write([b"3"])
    asyncio.run(log.close())
    assert not old.exists()
    assert [file.read_bytes() for file in tmp_path.glob("audit-*.log")] == [b"2\n"]


def test_an_event_that_cannot_be_written_is_counted_and_the_next_is_tried(tmp_path, errors):
    log = opened(tmp_path / "audit.log", errors)
    good, log._file = log._file, os.open("/dev/full", os.O_WRONLY)
    log.write([b"1"])
    log.write([b"2"])
    assert lost(errors) == 2
    os.close(log._file)
    log._file = good
    log.write([b"3"])
    asyncio.run(log.close())
    assert lost(errors) == 2
    assert (tmp_path / "audit.log").read_bytes() == b"3\n"


def test_standard_output_that_is_not_read_delays_no_request(errors):
    reading, writing = os.pipe()
    log = StandardOutput(errors, writing)
    event = b"x" * 1000
    for _ in range(20_000):
        log.write([event])
    # The pipe holds 64 KiB and the queue 10,000 events; the rest is lost, and counted.
    assert 9_000 < lost(errors) < 10_001
    os.set_blocking(reading, False)
    os.close(reading)
    asyncio.run(log.close())
    os.close(writing)
