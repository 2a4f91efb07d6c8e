"""Tests of the history checkers of the reliability tests: against brute force, and against histories known to be invalid."""

import random
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kapi.testing.history import (
    Commit,
    Operation,
    Seen,
    Session,
    events_of,
    linearizability,
    resolve,
    unexplained,
    watch,
)

pytestmark = pytest.mark.slow

# -- against brute force


def by_brute_force(operations, state=None, current=0):
    """Return True if some order of the operations respects real time and the rules of a store that counts its revisions."""
    if not operations:
        return True
    earliest_end = min(operation.returned for operation in operations)
    for index, operation in enumerate(operations):
        if operation.called <= earliest_end:
            after = step(state or {}, current, operation)
            if after is not None and by_brute_force(operations[:index] + operations[index + 1 :], *after):
                return True
    return False


def step(state, current, operation):
    """The store after one operation; None if the store would not have answered that."""
    at, value = state.get(operation.key, (0, None))
    holds = bool(at) if operation.expected is None else at == operation.expected
    if operation.outcome == "refused":
        return None if holds else (state, current)
    if operation.action == "get":
        return (state, current) if at == operation.revision and (not at or value == operation.value) else None
    if operation.action == "list":
        # A list carries the revision it shows: all writes up to it, none after.
        shown = {key: revision for key, (revision, _) in state.items() if revision}
        return (state, operation.revision) if (shown == operation.listing and current <= operation.revision) else None
    if not holds or operation.revision <= current:
        return None
    new = (operation.revision, operation.value) if operation.action == "put" else (0, None)
    return {**state, operation.key: new}, operation.revision


@st.composite
def histories(draw):
    """Up to six operations: a run of a real store, with answers and times that may have been bent."""
    random_source = random.Random(draw(st.integers(0, 2**32)))
    chance = draw(st.sampled_from([0.0, 0.1, 0.3]))
    state, current, operations = {}, 0, []
    for number in range(draw(st.integers(1, 6))):
        key = random_source.choice("ab")
        at, value = state.get(key, (0, None))
        action = random_source.choice(["put", "put", "delete", "get", "get", "list"])
        called = number + random_source.uniform(-2, 0)
        operation = Operation(action, key, called, number + random_source.uniform(0, 2), revision=at, value=value)
        if action in ("put", "delete"):
            operation.expected = random_source.choice([at, at, None, random_source.randint(0, 4)])
            holds = bool(at) if operation.expected is None else at == operation.expected
            if holds and not (action == "delete" and not at):
                current += random_source.randint(1, 2)
                operation.revision = current
                operation.value = f"v{number}" if action == "put" else None
                state[key] = (current if action == "put" else 0, operation.value)
            else:
                operation.outcome, operation.revision, operation.value = "refused", 0, None
        elif action == "list":
            operation.key, operation.revision, operation.value = "", current, None
            operation.listing = {name: revision for name, (revision, _) in state.items() if revision}
        operations.append(operation)
    for operation in operations:
        bend(operation, operations, random_source, chance)
    return operations


def bend(operation, operations, random_source, chance):
    if random_source.random() < chance:
        operation.called -= 3
    if random_source.random() < chance:
        shift = random_source.uniform(-4, 4)
        operation.called += shift
        operation.returned += shift
    if operation.action == "get" and random_source.random() < chance:
        other = random_source.choice(operations)
        operation.revision, operation.value = (other.revision, other.value) if other.action == "put" else (0, None)
    if operation.action == "list" and random_source.random() < chance:
        operation.listing = dict(list(operation.listing.items())[1:])
    if operation.outcome == "refused" and random_source.random() < chance * 2:
        operation.expected = random_source.choice([None, 0, *(other.revision for other in operations)])
    if operation.action == "put" and operation.outcome == "ok" and random_source.random() < chance / 3:
        operation.revision += 1


def is_comparable(operations):
    """Delete with "must not exist" makes no sense; a write without a revision is no answer."""
    return not any(
        operation.action in ("put", "delete")
        and operation.outcome == "ok"
        and (operation.revision <= 0 or (operation.action == "delete" and operation.expected == 0))
        for operation in operations
    )


@settings(max_examples=3000)
@given(histories())
@example([Operation("put", "a", 0, 1, expected=0, revision=1, value="x"), Operation("get", "a", 2, 3)])
def test_the_linearizability_check_agrees_with_brute_force(operations):
    if is_comparable(operations):
        assert (linearizability(operations) == []) == by_brute_force(operations), linearizability(operations)


def test_generated_histories_are_linearizable_and_not():
    """A control: a generator of linearizable histories only would prove nothing."""
    verdicts = {True: 0, False: 0}

    @settings(max_examples=300, database=None, derandomize=True)
    @given(histories())
    def count(operations):
        verdicts[by_brute_force(operations)] += 1

    count()
    assert min(verdicts.values()) > 30, verdicts


# -- histories known to be good or bad


def put(key, called, returned, revision, *, expected=0, value=None, **more):
    return Operation(
        "put", key, called, returned, expected=expected, revision=revision, value=value or f"v{revision}", **more
    )


def get(key, called, returned, revision):
    return Operation("get", key, called, returned, revision=revision, value=f"v{revision}" if revision else None)


def rules(violations):
    return [violation.rule for violation in violations]


GOOD = {
    "nothing": [],
    "a read during a write sees the old state": [put("a", 0, 10, 5), get("a", 1, 2, 0)],
    "a read during a write sees the new state": [put("a", 0, 10, 5), get("a", 1, 2, 5)],
    "revisions may skip": [put("a", 0, 1, 5), put("b", 2, 3, 50)],
    "a refusal while another writes": [put("a", 0, 10, 5), Operation("put", "a", 1, 2, "refused", expected=0)],
    "an unknown write that never happened": [put("a", 0, inf, 0, outcome="unknown"), get("a", 20, 21, 0)],
    "a list at its own revision": [
        put("a", 0, 1, 1),
        put("b", 2, 9, 2),
        Operation("list", "", 3, 4, revision=1, listing={"a": 1}),
    ],
    "absent between a removal and the next creation": [
        put("a", 0, 1, 1),
        Operation("delete", "a", 2, 3, expected=1, revision=2),
        get("a", 4, 5, 0),
        put("a", 6, 7, 3),
    ],
}

BAD = {
    "a stale read": ("order", [put("a", 0, 1, 1), put("a", 2, 3, 2, expected=1), get("a", 4, 5, 1)]),
    "reads that go back": ("order", [put("a", 0, 1, 1), put("a", 2, 9, 2, expected=1), get("a", 3, 4, 2), get("a", 5, 6, 1)]),
    "a read of the future": ("order", [get("a", 0, 1, 1), put("a", 2, 3, 1)]),
    "a read of a value that was never written": ("phantom", [put("a", 0, 1, 1), get("a", 2, 3, 7)]),
    "a read of another's value": ("value", [put("a", 0, 1, 1), Operation("get", "a", 2, 3, revision=1, value="x")]),
    "a lost update": ("precondition", [put("a", 0, 1, 1), put("a", 2, 3, 2, expected=1), put("a", 4, 5, 3, expected=1)]),
    "a creation of what is there": ("precondition", [put("a", 0, 1, 1), put("a", 2, 3, 2)]),
    "a revision given twice": ("unique", [put("a", 0, 1, 1), put("b", 2, 3, 1)]),
    "revisions against the order of time": ("order", [put("a", 0, 1, 2), put("b", 2, 3, 1)]),
    "a refusal without a reason": ("order", [put("a", 0, 1, 1), Operation("put", "a", 2, 3, "refused", expected=1)]),
    "a list that misses an object": ("snapshot", [put("a", 0, 1, 1), Operation("list", "", 2, 3, revision=1)]),
    "a stale list": ("order", [put("a", 0, 1, 1), Operation("list", "", 2, 3, revision=0)]),
    "a write that left no trace": ("lost", [Operation("delete", "a", 0, 1, expected=1)]),
}  # fmt: skip


@pytest.mark.parametrize("operations", GOOD.values(), ids=GOOD)
def test_a_linearizable_history_passes(operations):
    assert linearizability(operations) == []


@pytest.mark.parametrize(("rule", "operations"), BAD.values(), ids=BAD)
def test_a_history_that_is_not_linearizable_fails(rule, operations):
    assert rule in rules(linearizability(operations))


def test_one_stale_read_in_a_long_history_is_found():
    operations = []
    for number in range(1, 20_001):
        key = f"k{number % 50}"
        before = number - 50 if number > 50 else 0
        operations.append(put(key, number, number + 3, number, expected=before))
        operations.append(get(key, number + 3.5, number + 4, number))
    assert linearizability(operations) == []
    operations[20_001] = get("k1", *(operations[20_001].called, operations[20_001].returned), 1)
    assert rules(linearizability(operations)) == ["order"]


# -- unknown outcomes

LOG = [Commit(1, "a", "x"), Commit(2, "b", "y"), Commit(4, "a", None), Commit(5, "a", "z"), Commit(6, "a", None)]


def test_operations_with_unknown_outcome_are_resolved_by_the_log():
    operations = [
        Operation("put", "a", 0, 1, expected=0, revision=1, value="x"),
        Operation("put", "b", 0, inf, "unknown", expected=0, value="y"),
        Operation("put", "b", 0, inf, "unknown", expected=0, value="never"),
        Operation("delete", "a", 3, inf, "unknown", expected=1),
        Operation("delete", "a", 2, 3, expected=1),
        Operation("put", "a", 4, 5, expected=0, revision=5, value="z"),
        Operation("delete", "a", 6, inf, "unknown", expected=5),
    ]
    resolved = resolve(operations, LOG)
    assert [(operation.outcome, operation.revision) for operation in resolved] == [
        ("ok", 1), ("ok", 2), ("unknown", 0), ("unknown", 0), ("ok", 4), ("ok", 5), ("ok", 6),
    ]  # fmt: skip
    assert linearizability(resolved) == []
    assert unexplained(LOG, resolved) == []


@pytest.mark.parametrize(
    "lost",
    [
        Operation("put", "c", 0, 1, expected=0, revision=3, value="gone"),
        Operation("put", "a", 0, 1, expected=0, revision=2, value="x"),
        Operation("delete", "b", 0, 1, expected=2),
    ],
)
def test_acknowledged_writes_missing_from_the_log_are_lost(lost):
    assert "lost" in rules(linearizability(resolve([lost], LOG)))


def test_a_commit_without_an_operation_is_unexplained():
    operations = resolve([Operation("put", "a", 0, 1, expected=0, revision=1, value="x")], LOG)
    assert [violation.rule for violation in unexplained(LOG, operations)] == ["unexplained"] * 4


# -- watches

WANTED = events_of(LOG)


def test_expected_watch_events_are_derived_from_the_log():
    assert [
        Seen("ADDED", "a", 1, "x"),
        Seen("ADDED", "b", 2, "y"),
        Seen("DELETED", "a", 4, "x"),
        Seen("ADDED", "a", 5, "z"),
        Seen("DELETED", "a", 6, "z"),
    ] == WANTED


def test_a_selector_turns_changes_into_added_and_deleted_events():
    log = [
        Commit(1, "a", "in"),
        Commit(2, "a", "out"),
        Commit(3, "a", "out2"),
        Commit(4, "a", "in2"),
        Commit(5, "a", None),
    ]
    assert events_of(log, lambda key, value: value.startswith("in")) == [
        Seen("ADDED", "a", 1, "in"),
        Seen("DELETED", "a", 2, "in"),
        Seen("ADDED", "a", 4, "in2"),
        Seen("DELETED", "a", 5, "in2"),
    ]


@given(st.integers(0, 6), st.integers(0, 5))
def test_every_contiguous_part_of_the_log_is_a_valid_watch(since, length):
    events = [event for event in WANTED if event.revision > since][:length]
    assert watch(Session(since, events), WANTED) == []
    assert watch(Session(since, [*events, Seen("BOOKMARK", "", events[-1].revision)] if events else []), WANTED) == []


WATCHES = {
    "an event is missing": ("reliable", Session(0, [WANTED[0], WANTED[2]])),
    "the first event is missing": ("reliable", Session(1, [WANTED[2]])),
    "the end is missing": ("reliable", Session(0, WANTED[:3], until=5)),
    "an event comes twice": ("unique", Session(0, [WANTED[0], WANTED[0]])),
    "events come in the wrong order": ("ordered", Session(0, [WANTED[0], WANTED[1], WANTED[0]])),
    "an event from before the start": ("ordered", Session(2, [WANTED[0]])),
    "an event that never was": ("phantom", Session(0, [*WANTED[:2], Seen("ADDED", "c", 3, "?")])),
    "a wrong kind": ("content", Session(0, [Seen("MODIFIED", "a", 1, "x")])),
    "a wrong value": ("content", Session(0, [Seen("ADDED", "a", 1, "y")])),
    "a removal without the last state": ("content", Session(2, [Seen("DELETED", "a", 4)])),
    "a bookmark that lies": ("reliable", Session(0, [WANTED[0], Seen("BOOKMARK", "", 3)])),
    "an event after its bookmark": ("unique", Session(0, [WANTED[0], Seen("BOOKMARK", "", 2), WANTED[1]])),
}


@pytest.mark.parametrize(("rule", "session"), WATCHES.values(), ids=WATCHES)
def test_an_invalid_watch_fails(rule, session):
    assert rule in rules(watch(session, WANTED))
