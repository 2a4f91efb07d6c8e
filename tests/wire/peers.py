"""Where tests/wire/install put the programs of other people, and why one of them may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from etcd_cluster import PROGRAM

PEERS = Path(__file__).parents[2] / ".peers"


def peer(path: Path, tool: str) -> Path:
    """The program of a peer, or a skipped test."""
    if not path.exists():
        reason = PEERS / "skipped" / tool
        text = reason.read_text().strip() if reason.exists() else "tests/wire/install has not been run"
        pytest.skip(f"{tool}: {text}")
    return path


def disks_can_be_slow() -> bool:
    """Return True if the etcd of the tests has a disk that can be made slow."""
    return PROGRAM == PEERS / "bin/etcd" and PROGRAM.exists() and not (PEERS / "skipped/etcd-disk").exists()
