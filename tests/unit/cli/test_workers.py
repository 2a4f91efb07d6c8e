"""Workers: the parent starts them, replaces those that end, and stops with them."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from kapi.controlplane.options import OptionError, Options, check_workers

PROGRAM = """
import os, select, signal, sys
from pathlib import Path
from kapi.base.log import configure
from kapi.cli.workers import Workers

configure("info", "text")
folder = Path(sys.argv[1])

def tell(text):
    os.write(1, f"{text}\\n".encode())  # At once, as others write too.

def serve(number, channel):
    stop, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGTERM, lambda *_: None)
    if (folder / "wrong").exists():
        return 7
    tell(f"started {number} {os.getpid()}")
    channel.announce()
    select.select([stop, channel.parent], [], [])
    tell(f"stopped {number}")
    return 0

sys.exit(Workers(2, serve, lambda: tell("ready")).run())
"""


class Parent:
    """A program with two workers; `lines` are what it and they print."""

    def __init__(self, folder):
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def line(self):
        return self.process.stdout.readline().split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def started(parent):
    """The process of each worker, when all are ready."""
    found = {}
    while (line := parent.line())[0] != "ready":
        assert line[0] == "started"
        found[int(line[1])] = int(line[2])
    return found


def test_workers_are_started_and_stop_with_the_parent(tmp_path):
    with Parent(tmp_path) as parent:
        assert set(started(parent)) == {1, 2}
        parent.process.terminate()
        assert sorted(parent.line() for _ in range(2)) == [["stopped", "1"], ["stopped", "2"]]
        assert parent.process.wait(60) == 0


def test_a_worker_that_ends_is_replaced_and_the_others_go_on(tmp_path):
    with Parent(tmp_path) as parent:
        first = started(parent)
        for _ in range(2):
            os.kill(first[2], signal.SIGKILL)
            name, number, process = parent.line()
            assert (name, number) == ("started", "2")
            assert int(process) != first[2]
            first[2] = int(process)
        parent.process.terminate()
        assert sorted(parent.line() for _ in range(2)) == [["stopped", "1"], ["stopped", "2"]]
        assert parent.process.wait(60) == 0
        assert "was ended by signal 9 and is replaced" in parent.process.stderr.read()


def test_a_worker_that_cannot_start_ends_all_with_its_status(tmp_path):
    (tmp_path / "wrong").touch()
    with Parent(tmp_path) as parent:
        assert parent.process.wait(60) == 7
        assert parent.process.stdout.read() == ""


def test_workers_stop_when_their_parent_is_killed(tmp_path):
    with Parent(tmp_path) as parent:
        started(parent)
        parent.process.kill()
        assert sorted(parent.line() for _ in range(2)) == [["stopped", "1"], ["stopped", "2"]]


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (0, Options(), "--workers 0: expected at least 1"),
        (2, Options(), "the store sqlite is used by one process at a time; several need one that they share"),
        (2, Options(storage="memory"), "the store memory is used by one process at a time"),
        (2, Options(storage="etcd://a:1", socket="x"), "several processes cannot listen on one --socket"),
    ],
)
def test_workers_that_cannot_be_are_refused_in_words(count, options, message):
    with pytest.raises(OptionError) as caught:
        check_workers(count, options)
    assert message in str(caught.value)


def test_one_worker_needs_no_shared_store():
    assert check_workers(1, Options()) == 1
    assert check_workers(3, Options(storage="etcd://a:1")) == 3
