"""A disk of a process's own that can be made full: a file system in memory, in a mount namespace.

The namespace is that of a process that waits for the test to end, so that programs can be killed and started again on
the disk. Where users may not make namespaces there is none (`is_possible`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 2 << 30
"""Bytes of a disk that is not full; what is not written takes no memory."""

ATTEMPTS = 100

_HOLD = 'mount -t tmpfs -o "size=$1" kapi-test "$2" && echo mounted && exec cat'


def _namespaces() -> tuple[str, ...]:
    """Mount namespaces are for root; other users are root in a user namespace of their own."""
    return ("--mount",) if os.geteuid() == 0 else ("--user", "--map-root-user", "--mount")


@cache
def is_possible() -> bool:
    """Return True if a disk can be made here."""
    if not shutil.which("unshare") or not shutil.which("nsenter"):
        return False
    command = ["unshare", *_namespaces(), "mount", "-t", "tmpfs", "kapi-test", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class SmallDisk:
    """A file system at a folder, for programs that are started with `prefix`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._holder = subprocess.Popen(
            ["unshare", *_namespaces(), "--propagation", "private", "sh", "-c", _HOLD, "sh", str(SIZE), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"mounted\n"

    @property
    def prefix(self) -> list[str]:
        """What to put before a command so that it runs on this disk."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self._holder.pid), *user, "--mount", "--"]

    def fill(self) -> None:
        """Leave no free space: whatever needs another block fails with ENOSPC."""
        for attempt in range(ATTEMPTS):
            space = os.statvfs(f"/proc/{self._holder.pid}/root{self._folder}")
            try:
                self._resize((space.f_blocks - space.f_bfree) * space.f_frsize)
            except subprocess.CalledProcessError:
                # More has been written meanwhile than the new size holds.
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return

    def free(self) -> None:
        """Give the space back."""
        self._resize(SIZE)

    def _resize(self, size: int) -> None:
        command = [*self.prefix, "mount", "-t", "tmpfs", "-o", f"remount,size={size}", "kapi-test", str(self._folder)]
        subprocess.run(command, check=True, capture_output=True)

    def close(self) -> None:
        """Drop the disk with all that is on it."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait()
