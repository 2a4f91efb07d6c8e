"""The evaluation of a run: ok, or what went wrong in a few words.

The state of the scripted server at the end is the truth. A client passes when its view converges to it, each deletion
was reported, it still runs, and it did not flood the server with requests meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from recovery.program import Witness
    from scripted_server import Request, ScriptedServer

OK = "ok"
STORM = 300
"""Requests in a row, without a pause of a second between any two, after which the run is given up."""
STALL_SECONDS = 60.0
BACKOFF_SECONDS = 20.0
MOST_A_MINUTE = 10
RETRY_AFTER = 3


class Run(NamedTuple):
    """The record of a run. `waited` counts from the end of the scenario to recovery, or to the time-out."""

    scenario: str
    server: ScriptedServer
    witness: Witness
    was_present: set[str]
    has_ended_early: bool
    story_is_over: bool
    waited: float


def is_equal(server: ScriptedServer, witness: Witness) -> bool:
    """Return True if the view equals the objects of the server and their versions."""
    return witness.view == {name: obj["metadata"]["resourceVersion"] for name, obj in server.objects.items()}


def storm(requests: list[Request]) -> tuple[int, float]:
    """The most requests in a row without a pause of a second, and how long they took."""
    best, first = (0, 0.0), 0
    for last, request in enumerate(requests):
        if last and request.at - requests[last - 1].at >= 1:
            first = last
        best = max(best, (last - first + 1, request.at - requests[first].at))
    return best


def evaluate(run: Run) -> str:
    """Return one cell of the table."""
    count, seconds = storm(run.server.requests)
    if count >= STORM:
        return f"{count} requests in {max(seconds, 0.1):.1f} s"
    if run.has_ended_early:
        return f"stops: {run.witness.error}" if run.witness.error else "stops, no error"
    if run.scenario == "S11":
        return _of_a_broken_server(run.server.requests)
    if not run.story_is_over:
        return f"no watch within {run.waited:.0f} s"
    if not is_equal(run.server, run.witness):
        return _of_a_difference(run)
    if unreported := run.was_present - set(run.server.objects) - run.witness.deleted:
        return f"deletion of {min(unreported)} not reported"
    if run.scenario == "S5" and run.waited > STALL_SECONDS:
        return f"after {run.waited:.0f} s"
    if run.scenario == "S9":
        return _of_a_wait(run.server)
    return OK


def _of_a_broken_server(requests: list[Request]) -> str:
    began = requests[0].at + BACKOFF_SECONDS
    count = sum(began <= request.at < began + 60 for request in requests)
    return OK if count <= MOST_A_MINUTE else f"{count} requests a minute"


def _of_a_difference(run: Run) -> str:
    view, objects = run.witness.view or {}, run.server.objects
    if run.scenario == "S5":
        return f"not within {run.waited:.0f} s"
    if view.keys() - objects.keys():
        return "keeps what was deleted"
    if missing := objects.keys() - view.keys():
        return f"misses {min(missing)}" if len(missing) < 3 else f"has {len(view)} of {len(objects)}"
    return "has an old version"


def _of_a_wait(server: ScriptedServer) -> str:
    first, second = server.asked("list", "watch", "stream")[:2]
    return OK if second.at - first.at >= RETRY_AFTER else f"waits {second.at - first.at:.0f} s, not {RETRY_AFTER}"
