"""One program in a process of its own, and what it has said so far."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from recovery.clients import Client

LONGEST_LINE = 1 << 20
STOP_SECONDS = 3

KUBECONFIG: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "scripted",
    "contexts": [{"name": "scripted", "context": {"cluster": "scripted", "user": "tester", "namespace": "default"}}],
    "users": [{"name": "tester", "user": {"token": "scripted"}}],
}


@dataclass
class Witness:
    """What a program knows, by its own account. `view` holds versions by name, and is None until it first said so."""

    view: dict[str, str] | None = None
    deleted: set[str] = field(default_factory=set)
    error: str = ""
    has_ended: bool = False

    def hear(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:  # something that the client prints
            return
        if "view" in said:
            self.view = said["view"]
        elif "error" in said:
            self.error = said["error"]
        elif "heard" in said and said["heard"][0] == "DELETED":
            self.deleted.add(said["heard"][1])


@contextlib.asynccontextmanager
async def running(client: Client, url: str, home: Path) -> AsyncIterator[Witness]:
    """The program of a client, pointed at a server for the length of a block. What it logs is in `home`."""
    environment = _environment(home, url)
    with (home / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *client.command, cwd=home, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log, limit=LONGEST_LINE
        )
    witness = Witness()
    listening = asyncio.create_task(_listen(process, witness))
    try:
        yield witness
    finally:
        await _stop(process)
        await listening


def _environment(home: Path, url: str) -> dict[str, str]:
    home.mkdir(parents=True)
    config = home / "kubeconfig"
    config.write_text(json.dumps({**KUBECONFIG, "clusters": [{"name": "scripted", "cluster": {"server": url}}]}))
    return {"HOME": str(home), "KUBECONFIG": str(config), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"}


async def _listen(process: asyncio.subprocess.Process, witness: Witness) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        witness.hear(line)
    await process.wait()
    witness.has_ended = True


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
