"""Packages of others that a run needs, in virtual environments of their own, which are made on first use."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INSTALLING = 300.0


def install(python: Path, packages: Sequence[str], check: Sequence[str]) -> str:
    """Install packages unless the Python succeeds with the arguments `check`; return why not, or an empty string."""
    if _works(python, check):
        return ""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *packages]
    commands = [pip] if python.exists() else [[sys.executable, "-m", "venv", str(python.parent.parent)], pip]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALLING)
        except subprocess.TimeoutExpired:
            return f"not installed after {INSTALLING:.0f} s"
        if done.returncode:
            return f"cannot be installed: {(done.stderr or done.stdout).strip()[-300:]}"
    return "" if _works(python, check) else "is installed but does not work"


def _works(python: Path, check: Sequence[str]) -> bool:
    return python.exists() and subprocess.run([str(python), *check], capture_output=True, check=False).returncode == 0
