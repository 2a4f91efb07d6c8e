"""Our informer and other people's clients on the scripted server of tests/reliability/recovery, in real time.

Ours must come through everything. What others do is measured and printed, not asserted: it is theirs to change.
"""

from __future__ import annotations

import asyncio

import pytest
from recovery.clients import CLIENTS
from recovery.evaluation import OK, STORM, Run, evaluate
from recovery.program import Witness
from recovery.run import SCENARIOS, measure
from recovery.table import PRINTED, render
from scripted_server import Request, ScriptedServer

pytestmark = pytest.mark.peers


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_client_has_an_outcome_in_every_scenario_and_kapi_passes(request, tmp_path):
    present = [client for client in CLIENTS if not client.why_missing]
    cells = asyncio.run(measure(present, list(SCENARIOS), tmp_path))
    outcomes = {(cell.client, cell.scenario): cell.outcome for cell in cells}
    sentences = {name: scenario.sentence for name, scenario in SCENARIOS.items()}
    request.config.stash[PRINTED] = render(CLIENTS, sentences, outcomes)

    assert len(outcomes) == len(present) * len(SCENARIOS)
    # A program that asked for nothing was not tested but broken.
    assert [(cell.client, cell.scenario, cell.outcome) for cell in cells if not cell.requests] == []
    assert {name: outcomes["kapi", name] for name in SCENARIOS} == dict.fromkeys(SCENARIOS, OK)


def run_of(scenario="S2", *, view=None, deleted=(), at=(0, 1, 5), waited=1.0, ended=False, error="", is_over=True):
    """A run that ended with `b` on the server, where `a` was at the start too; requests came at these times."""
    server = ScriptedServer()
    server.put("a")
    server.put("b")
    server.delete("a")
    server.requests = [Request(when, "list", "", {}, {}) for when in at]
    witness = Witness({"b": "102"} if view is None else view, set(deleted), error, ended)
    return Run(scenario, server, witness, {"a", "b"}, ended, is_over, waited)


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        pytest.param(run_of(deleted="a"), OK, id="all-is-known"),
        pytest.param(run_of(), "deletion of a not reported", id="deletion-not-reported"),
        pytest.param(run_of(view={"a": "101", "b": "102"}), "keeps what was deleted", id="stale"),
        pytest.param(run_of(view={}), "misses b", id="missing"),
        pytest.param(run_of(view={"b": "101"}), "has an old version", id="old"),
        pytest.param(run_of(ended=True, error="ValueError"), "stops: ValueError", id="error"),
        pytest.param(run_of(deleted="a", ended=True), "stops, no error", id="silent-end"),
        pytest.param(run_of(is_over=False, waited=45.0), "no watch within 45 s", id="no-watch"),
        pytest.param(run_of(deleted="a", at=[0.001 * n for n in range(STORM)]), "300 requests in 0.3 s", id="storm"),
        pytest.param(run_of("S5", deleted="a", waited=55.0), OK, id="stall-noticed"),
        pytest.param(run_of("S5", deleted="a", waited=68.0), "after 68 s", id="stall-noticed-late"),
        pytest.param(run_of("S5", view={"a": "101"}, waited=80.0), "not within 80 s", id="stall-not-noticed"),
        pytest.param(run_of("S9", deleted="a", at=[0, 3]), OK, id="waits"),
        pytest.param(run_of("S9", deleted="a", at=[0, 1]), "waits 1 s, not 3", id="does-not-wait"),
        pytest.param(run_of("S11", at=[0, 1, 2, 4, 8, 16, 32, 64]), OK, id="backs-off"),
        pytest.param(run_of("S11", at=range(0, 80, 5)), "12 requests a minute", id="does-not-back-off"),
    ],
)
def test_a_run_is_evaluated_by_server_state_and_requests(run, outcome):
    assert evaluate(run) == outcome
