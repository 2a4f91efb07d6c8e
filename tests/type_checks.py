"""mypy as users of Kapi run it: Kapi is an installed package, and the program is strictly typed.

All tests share one cache. Most of the work is reading Kapi, a quarter of a minute of CPU, and is done once.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import kapi

CACHE = Path(__file__).resolve().parents[1] / ".mypy_cache" / "users"
SECONDS = 280
"""For one run, on a machine that does other things, too: a guard, not a measurement."""


@contextlib.contextmanager
def shared_cache():
    """The folder of the cache, for one process at a time: the next one finds what the last one has learned."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield CACHE


def mypy(folder, *targets):
    """Check targets in a folder, without the settings of any project; returns the completed process."""
    with shared_cache() as cache:
        options = ["--strict", "--no-error-summary", "--config-file=", f"--cache-dir={cache}"]
        return subprocess.run(
            [sys.executable, "-m", "mypy", *options, *targets],
            cwd=folder,
            # This Kapi, whichever one is installed.
            env={**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
