"""Random histories of objects that own each other: where the collector comes to rest is where the rules lead.

What the rules are is written down once more, and apart, in `garbage_model`. Collectors with a bug in them must be found out.
"""

import contextlib
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api_client import NS
from garbage_model import (
    FOREGROUND,
    ORPHAN,
    Create,
    Delete,
    Ref,
    Slot,
    State,
    Thing,
    TooMany,
    ends,
    is_at_rest,
)
from garbage_programs import BOX, BUILT_IN, CUSTOM, ROLE, Runner, definition, places, random_program
from kapi.controlplane.controllers.garbagecollector import collector, hearing, judgement
from kapi.controlplane.controllers.garbagecollector.collector import Collector, collect_garbage
from kapi.controlplane.controllers.garbagecollector.hearing import Hearing
from kapi.storage.memory import MemoryStorage
from kept_house import keeping
from virtual_time import run

SPACES = ("default", "other")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Wrong(AssertionError):
    """The collector came to rest where no order of the rules leads."""


async def told(api, method, path, body):
    """How programs talk to the server."""
    if method == "PATCH":
        answer = await api.patch(path, body)
    else:
        answer = await api.request(method, path, b"" if body is None else body)
    assert answer.status < 300 or answer.status in (404, 409), answer
    return answer.status, answer.json


async def check(program, keepers):
    """Run a program. `keepers` says of each burst who keeps the house: one collector all the time (`stays`), one that is
    stopped in the midst of its work and another that goes on (`changes`), or nobody until the burst is over (`comes`).
    """
    storage, runner = MemoryStorage(), Runner(None)
    state = State(frozenset(), frozenset((*BUILT_IN, *CUSTOM)))
    async with contextlib.AsyncExitStack() as stack:

        async def begin(*parts):
            await stack.aclose()
            api = await stack.enter_async_context(keeping(*parts, storage=storage))
            runner.call = lambda *request: told(api, *request)
            return api

        api = await begin(collect_garbage)
        await api.made(NS, {"metadata": {"name": "other"}})
        for kind in CUSTOM:
            await api.made(CRDS, definition(kind))
        for burst, keeper in zip(program, keepers, strict=True):
            if keeper == "comes":
                await begin()
            steps = [await runner.do(step) for step in burst]
            if keeper != "stays":
                api = await begin(collect_garbage)
            await api.settled()
            state, before = await runner.state(places(program)), state
            judge(before, steps, state)


def judge(before, steps, after):
    try:
        allowed = ends(before, steps)
    except TooMany:
        allowed = {after} if is_at_rest(after) else set()
    if after not in allowed:
        raise Wrong(f"\n{before}\n{steps}\n{after}\n{allowed}")


def random_check(source):
    program = random_program(source, SPACES)
    run(check(program, [source.choice(("stays", "stays", "changes", "comes")) for _ in program]))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_the_collector_ends_where_the_rules_lead(source):
    random_check(source)


# -- the judge is no fool ---------------------------------------------------------------------------------------------


def any_uid(monkeypatch):
    """An owner is who has the name."""

    def find(resource, namespace, reference):
        store = resource.stored
        where = f"{store.prefix}{namespace}/" if resource.namespaced else store.prefix
        return store.cache.get(f"{where}{reference.name}")

    monkeypatch.setattr(judgement, "_find", find)


def no_orphans(monkeypatch):
    """Dependents are not let go before their owner goes."""

    async def orphaned(self, uid):
        return True

    monkeypatch.setattr(Collector, "_dependents_orphaned", orphaned)


def no_blocking(monkeypatch):
    """An owner does not wait for its dependents."""
    monkeypatch.setattr(Collector, "_blocker", lambda self, uid: None)


def no_policy(monkeypatch):
    """What finalizers ask for is not looked at."""
    monkeypatch.setattr(collector, "_policy", lambda metadata: "Background")


def no_unblocking(monkeypatch):
    """Cycles are not broken."""
    monkeypatch.setattr(Collector, "_is_emptying", lambda self, key: False)


def deaf_to_release(monkeypatch):
    """Nobody notices that what an owner waited for is gone."""
    monkeypatch.setattr(Hearing, "_unblocked", lambda self, item: [])


def no_foreground_below(monkeypatch):
    """What goes because its owner waits does not wait itself."""
    monkeypatch.setattr(Hearing, "dependents", lambda self, uid: [])


def keeps_waiting_references(monkeypatch):
    """An owner that waits is as good as any."""
    monkeypatch.setattr(judgement, "is_emptying", lambda item: False)


def forgets_the_past(monkeypatch):
    """What the process before left undone is not looked for."""
    monkeypatch.setattr(Hearing, "initial", lambda self: ())


def hears_only_new(monkeypatch):
    """A change of owners is not noticed."""
    monkeypatch.setattr(hearing, "names_the_same", lambda item, previous: True)


BUGS = [
    any_uid,
    no_orphans,
    no_blocking,
    no_policy,
    no_unblocking,
    deaf_to_release,
    no_foreground_below,
    keeps_waiting_references,
    forgets_the_past,
    hears_only_new,
]
MOST_PROGRAMS = 150


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_collector_with_a_bug_is_found_out(bug, monkeypatch):
    bug(monkeypatch)
    for seed in range(MOST_PROGRAMS):
        try:
            random_check(random.Random(seed))
        except Wrong:
            return
    pytest.fail(f"{MOST_PROGRAMS} programs saw nothing wrong")


# -- the model itself, where the answer is known ------------------------------------------------------------------------


def box(name):
    return Slot(BOX, "default", name)


def named(name, uid, blocks=True):
    return Ref(BOX, name, uid, blocks)


EMPTY = State(frozenset(), frozenset(BUILT_IN))
OWNED = [(Create(box("a"), 1, (), frozenset()), 201), (Create(box("b"), 2, (named("a", 1),), frozenset()), 201)]


def left(steps):
    """All there may be in the end, one set for each end."""
    return [dict(state.things) for state in ends(EMPTY, steps)]


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ("Background", {}),
        ("Foreground", {}),
        ("Orphan", {box("b"): Thing(2)}),
    ],
)
def test_the_model_knows_what_each_policy_means(policy, end):
    assert left([*OWNED, (Delete(box("a"), policy), 200)]) == [end]


def test_the_model_knows_that_one_owner_is_enough():
    steps = [
        *OWNED,
        (Create(box("c"), 3, (named("a", 1), named("b", 2)), frozenset()), 201),
        (Create(box("d"), 4, (named("a", 1), named("e", 5)), frozenset()), 201),
    ]
    assert {box("d"), box("c"), box("a"), box("b")} == set(left(steps)[0])
    assert left(steps)[0][box("d")].refs == (named("a", 1),)


def test_the_model_knows_that_some_ends_depend_on_who_comes_first():
    """Of two owners one goes, and takes the other with it: what the dependent says of the first depends on the order."""
    held = frozenset({"hold"})
    steps = [
        *OWNED,
        (Create(box("c"), 3, (named("a", 1), named("b", 2)), held), 201),
        (Delete(box("a"), "Background"), 200),
    ]
    ends_of_c = {end[box("c")].refs for end in left(steps)}
    assert ends_of_c == {(named("b", 2),), (named("a", 1), named("b", 2))}


def test_the_model_leaves_alone_what_cannot_be_judged():
    role = Slot(ROLE, "", "r")
    steps = [(Create(role, 1, (named("a", 7),), frozenset()), 201)]
    assert set(left(steps)[0]) == {role}


def test_the_model_waits_for_what_blocks():
    held = frozenset({"hold"})
    steps = [OWNED[0], (Create(box("b"), 2, (named("a", 1),), held), 201), (Delete(box("a"), "Foreground"), 200)]
    (end,) = left(steps)
    assert end[box("a")].finalizers == {FOREGROUND}
    assert end[box("b")].deleting
    assert ORPHAN not in end[box("b")].finalizers
