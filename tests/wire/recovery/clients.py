"""The columns of the table: which programs there are, the interpreter that runs each, and the release it is of."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from peers import PEERS

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Client:
    """A client, and the program that uses it as its documentation shows: one follow_*.py beside this file."""

    name: str
    program: str
    distribution: str
    python: Path
    tool: str = ""

    @property
    def command(self) -> list[str]:
        return [str(self.python), str(HERE / self.program)]

    @property
    def why_missing(self) -> str:
        """Why it cannot be run, or nothing."""
        if self.python.exists():
            return ""
        reason = PEERS / "skipped" / self.tool
        return reason.read_text().strip() if reason.exists() else "tests/wire/install has not been run"

    def version(self) -> str:
        ask = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
        command = [str(self.python), "-c", ask, self.distribution]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _peer(name: str, program: str, distribution: str, tool: str = "clients") -> Client:
    return Client(name, program, distribution, PEERS / tool / "bin/python", tool)


CLIENTS = [
    Client("kapi", "follow_kapi.py", "kapi", Path(sys.executable)),
    _peer("cloudcoil", "follow_cloudcoil.py", "cloudcoil", "cloudcoil"),
    _peer("kopf", "follow_kopf.py", "kopf"),
    _peer("kr8s", "follow_kr8s.py", "kr8s"),
    _peer("kubernetes (informer)", "follow_kubernetes_informer.py", "kubernetes"),
    _peer("kubernetes (watch)", "follow_kubernetes.py", "kubernetes"),
    _peer("kubernetes_asyncio", "follow_kubernetes_asyncio.py", "kubernetes_asyncio"),
    _peer("lightkube", "follow_lightkube.py", "lightkube"),
]
