"""Ends this process when the one that started it ends, however that ends.

The parent holds the other end of standard input. When it closes it, or is killed, the end of the input is read here and
the process stops as by SIGTERM. A signal at the death of the parent (`PR_SET_PDEATHSIG`) would need Linux, and is sent
when the thread that started the child ends, not the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_with_parent() -> None:
    """Send SIGTERM to this process when standard input ends; returns at once."""
    threading.Thread(target=_wait, name="parent", daemon=True).start()


def _wait() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
