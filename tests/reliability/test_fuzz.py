"""The fuzzer finds planted bugs and reduces them to what matters; on the real server a short run finds nothing.

The long form: `make fuzz ARGS="--seconds 600"`.
"""

import asyncio
import json
import random
import re

import pytest

from fuzz.__main__ import options
from fuzz.body import encode
from fuzz.findings import Finding
from fuzz.grammar import VERBS, Grammar
from fuzz.kinds import KINDS
from fuzz.minimise import Minimiser, guesses, load, save
from fuzz.planted import BUGS, PlantedServer
from fuzz.request import Request
from fuzz.session import Session

SMALL = ["--minimise-seconds", "80", "--shrink-seconds", "3", "--storage", "memory", "--clients", "1"]


def settings(*arguments):
    return options([*SMALL, *arguments])


# -- parts


def test_a_request_is_a_function_of_seed_and_number():
    first, second = Grammar(5), Grammar(5)
    assert [first.request(number) for number in range(300)] == [
        second.request(number) for number in reversed(range(300))
    ][::-1]
    assert Grammar(6).request(0) != first.request(0) or Grammar(6).request(1) != first.request(1)


def test_every_verb_and_every_kind_is_in_the_grammar():
    made = [Grammar(1).request(number) for number in range(6000)]
    verbs = {request.verb.split(" ")[0] for request in made}
    assert set(VERBS) - {"subresource", "definition"} <= verbs
    assert {kind.label for kind in KINDS} <= {request.kind for request in made}


def test_a_request_survives_being_written_to_a_reproducer(tmp_path):
    made = [Grammar(2).request(number) for number in range(500)]
    save(tmp_path / "r.json", Finding("server error", "500", "", (1,)), made, 2, 1)
    assert load(tmp_path / "r.json") == (made, 1)


def test_markers_stand_for_large_values():
    assert len(encode("@text(1000)", "json")) == 1002
    assert encode({"a": {"@repeat": 3, "of": {"name": "x"}, "numbered": True}}, "json").count(b"x-") == 3
    assert encode(["@deep-list(3)"], "json") == b"[[[[]]]]"
    assert len(json.loads(encode({"@entries": 50, "of": 1}, "json"))) == 50


def test_references_are_what_answers_said():
    request = Request("get", "x", target="/a?resourceVersion=@rv(/b)", tree={"uid": "@uid(/c)"}, form="json")
    seen = {("rv", "/b"): "7", ("uid", "/c"): "u"}
    assert request.head(lambda *what: seen[what])[0] == b"/a?resourceVersion=7"
    assert request.content(lambda *what: seen[what]) == b'{"uid": "u"}'


def test_the_minimiser_keeps_only_what_is_needed():
    """The failure needs two requests, a field deep in the body of one, and a query parameter of the other."""
    rng = random.Random(1)
    noise = [Request("get", "k", target=f"/{rng.random()}") for _ in range(60)]
    first = Request(
        "create",
        "k",
        "POST",
        "/a?x=1&needed=1&y=2",
        (("A", "b"),),
        {"spec": {"list": [1, {"bad": 5, "c": 6}]}, "d": 7},
        "json",
    )
    last = Request("update", "k", "PUT", "/b", tree={"big": {"@repeat": 4000, "of": 1}}, form="json")
    requests = [*noise[:20], first, *noise[20:], last]

    async def fails(wanted):
        has_first = any("needed=1" in one.target and re.search('"bad": 5', json.dumps(one.tree)) for one in wanted)
        return has_first and any(
            one.path == "/b" and one.tree["big"].get("@repeat", 0) > 900
            for one in wanted
            if one.tree and "big" in one.tree
        )

    found = asyncio.run(
        Minimiser(fails).minimise(guesses(requests.__getitem__, (len(requests) - 1,), len(requests) - 1))
    )
    assert [one.target for one in found] == ["/a?needed=1", "/b"]
    assert found[0].tree == {"spec": {"list": [{"bad": 5}]}}
    assert found[0].headers == ()
    assert found[1].tree["big"]["@repeat"] == 1000


# -- live


def run_session(session):
    async def main():
        drive = await session.fuzz()
        path = await session.write_reproducer(drive.findings[0], drive.statistics.sent) if drive.findings else None
        return drive, path

    return asyncio.run(main())


NEEDED = {"server error": {1}, "stall": {1}, "lost write": {2, 3}}
"""How many requests show each planted bug: the labels that a lost write needs come with the creation or with a patch."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_and_minimised(tmp_path, bug):
    server = type("Planted", (PlantedServer,), {"bug": bug})
    small = ("--kinds", "leases", "--requests", "1500", "--compare", "50", "--stall", "700")
    wanted = settings("--seed", "1", *small, "--dir", str(tmp_path))
    session = Session(tmp_path, wanted, server)
    drive, path = run_session(session)
    assert drive.findings[0].category == bug
    requests, _ = load(path)
    assert len(requests) in NEEDED[bug], [str(request) for request in requests]
    replayed = asyncio.run(session.replay(path))
    assert replayed.findings[0].category == bug


@pytest.mark.slow
def test_random_requests_find_nothing(tmp_path):
    """Bounds for a slow machine: what the event loop may be held for is CPU time, not time on the wall."""
    wanted = settings(
        "--seed", "1", "--requests", "2500", "--dir", str(tmp_path), "--stall", "3000", "--storage", "sqlite"
    )
    drive, path = run_session(Session(tmp_path, wanted))
    assert drive.findings == [], path and path.read_text()
    statistics = drive.statistics
    assert statistics.sent == 2500
    assert statistics.compared > 300
    assert statistics.restarts
