"""Runs every client through every scenario, each pair with a server and a process of its own, and prints the table.

`python tests/wire/recovery/run.py [-c kopf ...] [S5 ...]` runs some of them. Time is real; a few pairs run at once, and the
two long scenarios, in which nearly nothing happens for more than a minute, run at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if __name__ == "__main__":
    sys.path[:1] = [str(Path(__file__).parents[1])]
sys.path.append(str(Path(__file__).parents[2] / "reliability/recovery"))

from recovery.clients import CLIENTS, Client
from recovery.evaluation import BACKOFF_SECONDS, STORM, Run, evaluate, is_equal, storm
from recovery.program import Witness, running
from recovery.table import render
from scenarios import SCENARIOS
from scripted_server import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE = 10
STARTING_AT_ONCE = 4
START_SECONDS = 45.0
PATIENCE = {"S5": 80.0, "S7": 40.0, "S11": BACKOFF_SECONDS + 60}
USUAL_PATIENCE = 20.0
LONG = {"S5", "S11"}
STAYS_SECONDS = 1.0


class Cell(NamedTuple):
    """The outcome of one client in one scenario, with the number of requests, so that a run without any is noticed."""

    client: str
    scenario: str
    outcome: str
    requests: int


class Pairs:
    """Plays pairs of clients and scenarios, a bounded number at a time."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._places = asyncio.Semaphore(AT_ONCE)
        self._starting = asyncio.Semaphore(STARTING_AT_ONCE)

    async def play(self, client: Client, name: str) -> Cell:
        if name in LONG:
            return await self._play(client, name)
        async with self._places:
            return await self._play(client, name)

    async def _play(self, client: Client, name: str) -> Cell:
        scenario, server = SCENARIOS[name], ScriptedServer()
        scenario.prepare(server)
        present = set(server.objects)
        home = self._folder / f"{client.program}-{name}"
        async with server.serving() as url, contextlib.AsyncExitStack() as stack:
            async with self._starting:
                witness = await stack.enter_async_context(running(client, url, home))
                await _until(lambda: bool(server.requests) or witness.has_ended, START_SECONDS)
            story = asyncio.create_task(scenario.happen(server))
            waited = await _patience(name, server, witness, story)
            outcome = evaluate(Run(name, server, witness, present, witness.has_ended, story.done(), waited))
            story.cancel()
        return Cell(client.name, name, outcome, len(server.requests))


async def _patience(name: str, server: ScriptedServer, witness: Witness, story: asyncio.Task[None]) -> float:
    """Wait for the scenario to end and the client to converge; return the seconds the latter took."""

    def is_lost() -> bool:
        return witness.has_ended or storm(server.requests)[0] >= STORM

    patience = PATIENCE.get(name, USUAL_PATIENCE)
    waited = await _until(lambda: is_lost() or story.done(), patience if name == "S11" else START_SECONDS)
    if story.done():
        await story
        waited = await _until(lambda: is_lost() or is_equal(server, witness), patience)
        # A client that exits right afterwards has failed the scenario as well.
        await _until(is_lost, STAYS_SECONDS)
    return waited


async def _until(condition: Callable[[], bool], seconds: float) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition() and loop.time() - began < seconds:  # noqa: ASYNC110 - what is waited for is in other processes
        await asyncio.sleep(0.1)
    return loop.time() - began


async def measure(clients: list[Client], names: list[str], folder: Path) -> list[Cell]:
    """Run the pairs. The long scenarios come first, because all others fit into the time they take."""
    pairs = Pairs(folder)
    ordered = sorted(names, key=lambda name: name not in LONG)
    return await asyncio.gather(*(pairs.play(client, name) for name in ordered for client in clients))


def main() -> None:
    parser = argparse.ArgumentParser(description="Print a table of how clients recover from failures.")
    parser.add_argument("-c", "--client", action="append", choices=[client.name for client in CLIENTS])
    parser.add_argument("--logs", type=Path, metavar="DIRECTORY", help="keep the logs of the clients in this directory")
    parser.add_argument("scenarios", nargs="*", default=[], metavar="S1")
    asked = parser.parse_args()
    chosen = [client for client in CLIENTS if not asked.client or client.name in asked.client]
    present = [client for client in chosen if not client.why_missing]
    names = asked.scenarios or list(SCENARIOS)
    with tempfile.TemporaryDirectory(prefix="recovery-") as folder:
        cells = asyncio.run(measure(present, names, asked.logs or Path(folder)))
    outcomes = {(cell.client, cell.scenario): cell.outcome for cell in cells}
    print(render(chosen, {name: SCENARIOS[name].sentence for name in names}, outcomes))


if __name__ == "__main__":
    main()
