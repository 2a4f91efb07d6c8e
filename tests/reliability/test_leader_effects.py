"""A leader that is suspended past its lease causes no effects outside of the cluster after another one has begun.

What it did is recorded by an HTTP server, which no lease and no resourceVersion protects.
"""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
from effect_worker import LOST, TRIGGER

from kapi import Client, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap
from live_plane import live_plane

WORKER = Path(__file__).with_name("effect_worker.py")
SECONDS = 90
"""A guard: one lease of four seconds expires meanwhile."""


class Recorder:
    """An HTTP server that records who calls it, in order, and can leave one call unanswered."""

    def __init__(self):
        self.calls = []
        self.held = ""
        """Whose next call is left unanswered; afterwards who waits."""
        self._changed = threading.Condition()
        self._is_waiting = False
        self._was_answered = False
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                caller = self.rfile.read(int(self.headers["Content-Length"])).decode()
                is_held = recorder._record(caller)
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Length", "0")
                    if not is_held:
                        self.send_header("Pause", "please")
                    self.end_headers()
                    self.wfile.flush()
                if is_held:
                    recorder._note_answer()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def _record(self, caller):
        with self._changed:
            self.calls.append(caller)
            is_held = caller == self.held and not self._is_waiting
            if is_held:
                self._is_waiting = True
            self._changed.notify_all()
            if is_held:
                self._changed.wait_for(lambda: not self.held, SECONDS)
            return is_held

    def _note_answer(self):
        with self._changed:
            self._was_answered = True
            self._changed.notify_all()

    def wait_for_calls(self, caller, number):
        """Wait for so many more calls."""
        with self._changed:
            before = Counter(self.calls)[caller]
            assert self._changed.wait_for(lambda: Counter(self.calls)[caller] >= before + number, SECONDS)

    def hold(self, caller):
        """Leave the next call of someone unanswered, and wait for it."""
        with self._changed:
            self.held = caller
            assert self._changed.wait_for(lambda: self._is_waiting, SECONDS)

    def answer(self):
        """Answer the call that waits: when this returns, the answer is in the caller's socket."""
        with self._changed:
            self.held = ""
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._was_answered, SECONDS)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def worker(kubeconfig, identity, recorder):
    command = [sys.executable, WORKER, kubeconfig, identity, str(recorder.server.server_port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def create_trigger(kubeconfig):
    async with Client.connect(kubeconfig=kubeconfig) as client:
        await client.create(ConfigMap(metadata=ObjectMeta(name=TRIGGER, namespace="default")))


@pytest.mark.slow
def test_a_suspended_leader_causes_no_effects_after_another_one_has_begun(tmp_path):
    with live_plane(tmp_path) as kubeconfig, Recorder() as recorder:
        asyncio.run(create_trigger(kubeconfig))
        with worker(kubeconfig, "old", recorder) as old:
            recorder.wait_for_calls("old", 3)
            with worker(kubeconfig, "new", recorder):
                # Suspended while it waits for an answer: in the middle of a reconcile, and not in the middle of a call.
                recorder.hold("old")
                old.send_signal(SIGSTOP)
                recorder.wait_for_calls("new", 3)
                # The answer is there when it resumes, so that its next call could follow at once.
                recorder.answer()
                old.send_signal(SIGCONT)
                words = old.stderr.read()
                assert old.wait(SECONDS) == LOST, words
                recorder.wait_for_calls("new", 3)
    first = recorder.calls.index("new")
    assert "old" not in recorder.calls[first:], "the old leader acted after the new one had begun"
