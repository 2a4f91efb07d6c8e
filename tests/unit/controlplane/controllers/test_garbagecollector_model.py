"""Random histories of objects that own each other: the collector ends in a state that the rules allow.

The rules are written down once more, independently, in `garbage_model`. Collectors with a planted bug must be caught.
"""

import contextlib
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api_client import NS
from controller_api import running_controllers
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
from kapi.controlplane.controllers.garbagecollector import collector, references, tracker
from kapi.controlplane.controllers.garbagecollector.collector import GarbageCollector, add_garbage_collector
from kapi.controlplane.controllers.garbagecollector.tracker import DependencyTracker
from kapi.storage.memory import MemoryStorage
from virtual_time import run

pytestmark = pytest.mark.slow

SPACES = ("default", "other")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Wrong(AssertionError):
    """The collector ended in a state that no order of the rules leads to."""


async def call(api, method, path, body):
    """Send a request of a program to the server."""
    if method == "PATCH":
        answer = await api.patch(path, body)
    else:
        answer = await api.request(method, path, b"" if body is None else body)
    assert answer.status < 300 or answer.status in (404, 409), answer
    return answer.status, answer.json


async def check(program, collectors):
    """Run a program.

    `collectors` says of each burst which collector runs: the same all the time (`same`), one that is stopped in the
    middle and another that continues (`restarted`), or none until the burst is over (`late`).
    """
    storage, runner = MemoryStorage(), Runner(None)
    state = State(frozenset(), frozenset((*BUILT_IN, *CUSTOM)))
    async with contextlib.AsyncExitStack() as stack:

        async def begin(*parts):
            await stack.aclose()
            api = await stack.enter_async_context(running_controllers(*parts, storage=storage))
            runner.call = lambda *request: call(api, *request)
            return api

        api = await begin(add_garbage_collector)
        await api.made(NS, {"metadata": {"name": "other"}})
        for kind in CUSTOM:
            await api.made(CRDS, definition(kind))
        for burst, mode in zip(program, collectors, strict=True):
            if mode == "late":
                await begin()
            steps = [await runner.do(step) for step in burst]
            if mode != "same":
                api = await begin(add_garbage_collector)
            await api.run_until_idle()
            state, before = await runner.state(places(program)), state
            check_end(before, steps, state)


def check_end(before, steps, after):
    try:
        allowed = ends(before, steps)
    except TooMany:
        allowed = {after} if is_at_rest(after) else set()
    if after not in allowed:
        raise Wrong(f"\n{before}\n{steps}\n{after}\n{allowed}")


def random_check(source):
    program = random_program(source, SPACES)
    run(check(program, [source.choice(("same", "same", "restarted", "late")) for _ in program]))


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_the_collector_ends_in_a_state_that_the_rules_allow(source):
    random_check(source)


# -- planted bugs ------------------------------------------------------------------------------------------------------


def any_uid(monkeypatch):
    """Any object of the name is the owner."""

    def find(self, resource, namespace, reference):
        store = resource.stored
        where = f"{store.prefix}{namespace}/" if resource.namespaced else store.prefix
        return store.cache.get(f"{where}{reference.name}")

    monkeypatch.setattr(references.ReferenceClassifier, "_find", find)


def no_orphans(monkeypatch):
    """Dependents are not orphaned before their owner is deleted."""

    async def orphaned(self, uid):
        return True

    monkeypatch.setattr(GarbageCollector, "_orphan_dependents", orphaned)


def no_blocking(monkeypatch):
    """An owner does not wait for its dependents."""
    monkeypatch.setattr(GarbageCollector, "_blocker", lambda self, uid: None)


def no_propagation(monkeypatch):
    """The propagation that finalizers ask for is ignored."""
    monkeypatch.setattr(collector, "_propagation", lambda metadata: "Background")


def no_unblocking(monkeypatch):
    """Cycles are not broken."""
    monkeypatch.setattr(GarbageCollector, "_waits_for_dependents", lambda self, key: False)


def no_release(monkeypatch):
    """An owner is not enqueued when the dependent that blocked it is deleted."""
    monkeypatch.setattr(DependencyTracker, "_unblocked", lambda self, item: [])


def no_foreground_below(monkeypatch):
    """A dependent that is deleted because its owner waits does not wait for its own dependents."""
    monkeypatch.setattr(DependencyTracker, "dependents", lambda self, uid: [])


def keeps_waiting_references(monkeypatch):
    """An owner that waits for its dependents counts as solid."""
    monkeypatch.setattr(references, "waits_for_dependents", lambda item: False)


def no_initial_requests(monkeypatch):
    """Unfinished work of the process before is not found."""
    monkeypatch.setattr(DependencyTracker, "initial", lambda self: ())


def ignores_changed_references(monkeypatch):
    """A change of owner references is not noticed."""
    monkeypatch.setattr(tracker, "has_same_references", lambda item, previous: True)


BUGS = [
    any_uid,
    no_orphans,
    no_blocking,
    no_propagation,
    no_unblocking,
    no_release,
    no_foreground_below,
    keeps_waiting_references,
    no_initial_requests,
    ignores_changed_references,
]
MAX_PROGRAMS = 150


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_collector_with_a_planted_bug_is_caught(bug, monkeypatch):
    bug(monkeypatch)
    for seed in range(MAX_PROGRAMS):
        try:
            random_check(random.Random(seed))
        except Wrong:
            return
    pytest.fail(f"{MAX_PROGRAMS} programs did not catch the bug")


# -- the model itself, where the answer is known ------------------------------------------------------------------------


def box(name):
    return Slot(BOX, "default", name)


def named(name, uid, blocks=True):
    return Ref(BOX, name, uid, blocks)


EMPTY = State(frozenset(), frozenset(BUILT_IN))
OWNED = [(Create(box("a"), 1, (), frozenset()), 201), (Create(box("b"), 2, (named("a", 1),), frozenset()), 201)]


def left(steps):
    """The objects that may remain, one set for each possible end."""
    return [dict(state.things) for state in ends(EMPTY, steps)]


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ("Background", {}),
        ("Foreground", {}),
        ("Orphan", {box("b"): Thing(2)}),
    ],
)
def test_the_model_has_an_end_for_each_propagation_policy(policy, end):
    assert left([*OWNED, (Delete(box("a"), policy), 200)]) == [end]


def test_in_the_model_one_solid_owner_keeps_an_object():
    steps = [
        *OWNED,
        (Create(box("c"), 3, (named("a", 1), named("b", 2)), frozenset()), 201),
        (Create(box("d"), 4, (named("a", 1), named("e", 5)), frozenset()), 201),
    ]
    assert {box("d"), box("c"), box("a"), box("b")} == set(left(steps)[0])
    assert left(steps)[0][box("d")].refs == (named("a", 1),)


def test_in_the_model_some_ends_depend_on_the_order():
    """Of two owners one is deleted, and the other with it: the references of the dependent depend on the order."""
    held = frozenset({"hold"})
    steps = [
        *OWNED,
        (Create(box("c"), 3, (named("a", 1), named("b", 2)), held), 201),
        (Delete(box("a"), "Background"), 200),
    ]
    ends_of_c = {end[box("c")].refs for end in left(steps)}
    assert ends_of_c == {(named("b", 2),), (named("a", 1), named("b", 2))}


def test_the_model_keeps_objects_whose_owners_cannot_be_classified():
    role = Slot(ROLE, "", "r")
    steps = [(Create(role, 1, (named("a", 7),), frozenset()), 201)]
    assert set(left(steps)[0]) == {role}


def test_in_the_model_an_owner_waits_for_blocking_dependents():
    held = frozenset({"hold"})
    steps = [OWNED[0], (Create(box("b"), 2, (named("a", 1),), held), 201), (Delete(box("a"), "Foreground"), 200)]
    (end,) = left(steps)
    assert end[box("a")].finalizers == {FOREGROUND}
    assert end[box("b")].deleting
    assert ORPHAN not in end[box("b")].finalizers
