"""Checkers of recorded histories: is a history linearizable, and did every watch deliver every event once, in order?

A test harness records the calls of its clients with their answers (`Operation`), the events of its watches (`Session`),
and, where it can, the server's own log of writes (`Commit`). The checkers compare them and return a list of
`Violation`s, which is empty for a correct history.

Deciding linearizability is hard in general, because the order of concurrent operations has to be guessed. Here the
server tells the order: every write has a revision, and revision order is commit order. So nothing has to be guessed,
only checked: put each operation at the earliest place in revision order that its answer allows, and see that no
operation is placed before one that had ended when it began. That takes O(n log n), 200,000 operations in a second or
two, and is as strict as trying all orders (`tests/reliability/test_history_checkers.py` compares the two).

Values may be anything that can be compared. Times are of one clock, in any unit. Pure functions, no I/O.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


class Violation(NamedTuple):
    """One violation: the rule that is broken, and the observation that breaks it."""

    rule: str
    text: str


class Commit(NamedTuple):
    """One write in the server's log; `value` is None for a removal."""

    revision: int
    key: str
    value: object


@dataclass(slots=True)
class Operation:
    """One call of one client and its answer.

    `action` is put, delete, get or list. `outcome` is ok; refused, when the precondition did not hold; or unknown, when
    no answer came (then `returned` is infinite). `expected` is the precondition of a write: a revision, 0 for "must not
    exist", None for "must exist, at any revision".

    `revision` is that of the write, of the object a get returned (0: there was none), or of the list. A server does
    not always tell the revision of a removal; leave it 0 and let `resolve` find it in the log.
    """

    action: str
    key: str
    called: float
    returned: float = inf
    outcome: str = "ok"
    expected: int | None = None
    revision: int = 0
    value: object = None
    listing: Mapping[str, int] = field(default_factory=dict)
    """The keys and revisions that a list returned."""


# -- linearizability ------------------------------------------------------------------------------------------------


def linearizability(operations: Iterable[Operation]) -> list[Violation]:
    """The violations of linearizability in the order of revisions.

    Every key must be absent when the history begins. Unknown outcomes must have been resolved; those that are still
    unknown are taken not to have happened.
    """
    known = [operation for operation in operations if operation.outcome != "unknown"]
    keys, violations = _keys(known)
    placed: list[tuple[Operation, list[_Span]]] = []
    for operation in known:
        spans = _spans(operation, keys, violations)
        if spans is not None:
            placed.append((operation, spans))
    violations += _out_of_order(placed)
    return violations


class _Span(NamedTuple):
    """The ranks at which an operation may take effect: from the first to the last, both included.

    A write of revision R has rank 2R; an operation that sees the state after R and before R+1 has rank 2R+1.
    """

    first: float
    last: float


class _Key:
    """The history of one key: its writes in the order of their revisions."""

    def __init__(self, writes: list[Operation]) -> None:
        self.writes = sorted(writes, key=lambda write: write.revision)
        self.revisions = [write.revision for write in self.writes]

    def state_at(self, revision: int) -> int:
        """The revision of the key once `revision` has been committed; 0 when it does not exist."""
        index = bisect_right(self.revisions, revision) - 1
        return self._state(index)

    def _state(self, index: int) -> int:
        return 0 if index < 0 or self.writes[index].action == "delete" else self.revisions[index]

    def write_of(self, revision: int) -> Operation | None:
        """The write that has a revision."""
        index = bisect_left(self.revisions, revision)
        found = index < len(self.revisions) and self.revisions[index] == revision
        return self.writes[index] if found else None

    @cached_property
    def absent(self) -> list[_Span]:
        """The spans in which the key did not exist."""
        return [self._span(index) for index in range(-1, len(self.writes)) if not self._state(index)]

    @cached_property
    def present(self) -> list[_Span]:
        """The spans in which the key existed."""
        return [self._span(index) for index in range(len(self.writes)) if self._state(index)]

    def at(self, revision: int) -> list[_Span]:
        """The span in which the key was at a revision of one of its writes."""
        return [self._span(bisect_left(self.revisions, revision))]

    def not_at(self, revision: int) -> list[_Span]:
        """The spans in which the key did not exist, or was at any other revision."""
        write = self.write_of(revision)
        if write is None or write.action == "delete":
            return [_Span(1, inf)]
        (span,) = self.at(revision)
        around = [_Span(1, span.first - 2)]
        return around if span.last == inf else [*around, _Span(span.last + 2, inf)]

    def _span(self, index: int) -> _Span:
        first = 0 if index < 0 else self.revisions[index]
        end = self.revisions[index + 1] if index + 1 < len(self.revisions) else inf
        return _Span(2 * first + 1, 2 * end - 1)

    def broken_preconditions(self) -> Iterator[Violation]:
        """The writes that should have been refused; most are lost updates."""
        for index, write in enumerate(self.writes):
            before = self._state(index - 1)
            if write.expected is None:
                if not before:
                    yield Violation("precondition", f"{_show(write)}, though the key did not exist")
            elif write.expected != before:
                yield Violation("precondition", f"{_show(write)}, though the key was at {before}")


def _keys(operations: list[Operation]) -> tuple[dict[str, _Key], list[Violation]]:
    violations: list[Violation] = []
    writes: dict[str, list[Operation]] = {}
    by_revision: dict[int, Operation] = {}
    for operation in operations:
        if operation.action not in ("put", "delete") or operation.outcome != "ok":
            continue
        if not operation.revision:
            violations.append(Violation("lost", f"{_show(operation)} has left no trace"))
            continue
        twin = by_revision.setdefault(operation.revision, operation)
        if twin is not operation:
            violations.append(Violation("unique", f"{_show(operation)} and {_show(twin)} have the same revision"))
            continue
        writes.setdefault(operation.key, []).append(operation)
    keys = {key: _Key(found) for key, found in writes.items()}
    for key in keys.values():
        violations += key.broken_preconditions()
    return keys, violations


_NEVER_WRITTEN = _Key([])


def _spans(operation: Operation, keys: dict[str, _Key], violations: list[Violation]) -> list[_Span] | None:
    """The spans that the answer of an operation allows; None when the answer is wrong at any rank."""
    key = keys.get(operation.key, _NEVER_WRITTEN)
    if operation.outcome == "refused":
        if operation.expected is None:
            return key.absent
        return key.not_at(operation.expected) if operation.expected else key.present
    if operation.action == "list":
        violations += _wrong_listing(operation, keys)
        return [_Span(2 * operation.revision + 1, 2 * operation.revision + 1)]
    if operation.action != "get":
        return [_Span(2 * operation.revision, 2 * operation.revision)] if operation.revision else None
    if not operation.revision:
        return key.absent
    write = key.write_of(operation.revision)
    if write is None or write.action == "delete":
        violations.append(Violation("phantom", f"{_show(operation)}, which no client wrote"))
        return None
    if write.value != operation.value:
        violations.append(Violation("value", f"{_show(operation)} saw what {_show(write)} did not write"))
    return key.at(operation.revision)


def _wrong_listing(operation: Operation, keys: dict[str, _Key]) -> Iterator[Violation]:
    """The differences between a list and the state at its revision."""
    for key in {*keys, *operation.listing}:
        wanted = keys.get(key, _NEVER_WRITTEN).state_at(operation.revision)
        found = operation.listing.get(key, 0)
        if found != wanted:
            yield Violation("snapshot", f"a list at {operation.revision} shows {key} at {found}; it was at {wanted}")


def _out_of_order(placed: list[tuple[Operation, list[_Span]]]) -> Iterator[Violation]:
    """The operations that cannot be ranked after everything that had ended before they began.

    Taking the operations in the order they began, and for each the earliest place that its answer and its
    predecessors allow, is the least solution: if it breaks a rule, so does every other.
    """
    placed.sort(key=lambda pair: pair[0].called)
    ends = sorted(range(len(placed)), key=lambda index: placed[index][0].returned)
    ranks: list[float] = []
    ended = 0
    behind: float = 0
    latest: Operation | None = None
    for operation, spans in placed:
        while ended < len(ends) and placed[ends[ended]][0].returned < operation.called:
            if ranks[ends[ended]] > behind:
                behind, latest = ranks[ends[ended]], placed[ends[ended]][0]
            ended += 1
        index = bisect_left(spans, behind, key=lambda span: span.last)
        if index == len(spans):
            ranks.append(0)
            after = f", though {_show(latest)} had ended before" if latest is not None else ""
            yield Violation("order", f"{_show(operation)}{after}")
        else:
            ranks.append(max(spans[index].first, behind))


def _show(operation: Operation) -> str:
    """An operation as a short text."""
    where = operation.key or "everything"
    condition = "" if operation.expected is None else f" expecting {operation.expected}"
    outcome = f"at {operation.revision}" if operation.outcome == "ok" else operation.outcome
    return f"{operation.action} of {where}{condition} {outcome} [{operation.called:.6f}, {operation.returned:.6f}]"


# -- unknown outcomes -----------------------------------------------------------------------------------------------


def resolve(operations: Iterable[Operation], log: Iterable[Commit]) -> list[Operation]:
    """The history completed from the log: which unanswered writes happened, and at which revisions removals did.

    The values of all writes must differ; a removal must have named the revision it expects. An unanswered write that
    the log does not show stays unknown. One that was acknowledged and is not in the log stays without a revision,
    which `linearizability` reports as lost.
    """
    log = list(log)
    by_value = {(commit.key, commit.value): commit.revision for commit in log if commit.value is not None}
    removals: dict[tuple[str, int], int] = {}
    state: dict[str, int] = {}
    for commit in log:
        if commit.value is None:
            removals[commit.key, state.get(commit.key, 0)] = commit.revision
        state[commit.key] = commit.revision
    resolved = [_resolved(operation, by_value) for operation in operations]
    _claim_removals(resolved, removals)
    return resolved


def _resolved(operation: Operation, by_value: dict[tuple[str, object], int]) -> Operation:
    if operation.action != "put" or operation.outcome == "refused":
        return operation
    revision = by_value.get((operation.key, operation.value), 0)
    if operation.outcome == "unknown":
        return replace(operation, outcome="ok", revision=revision) if revision else operation
    # A write that was acknowledged at one revision and is logged at another is as lost as one that is not logged.
    return operation if operation.revision == revision else replace(operation, revision=0)


def _claim_removals(operations: list[Operation], removals: dict[tuple[str, int], int]) -> None:
    """Give each removal in the log to one operation: to the acknowledged one, else to the first unanswered one."""
    order = sorted(range(len(operations)), key=lambda at: (operations[at].outcome == "unknown", operations[at].called))
    for at in order:
        operation = operations[at]
        if operation.action == "delete" and operation.outcome != "refused" and operation.expected:
            revision = removals.pop((operation.key, operation.expected), 0)
            if revision:
                operations[at] = replace(operation, outcome="ok", revision=revision)


# -- the log itself -------------------------------------------------------------------------------------------------


def unexplained(log: Iterable[Commit], operations: Iterable[Operation]) -> list[Violation]:
    """The commits that no operation of a resolved history explains: writes made twice, in part, or by no client."""
    writes = {
        operation.revision: operation
        for operation in operations
        if operation.action in ("put", "delete") and operation.outcome == "ok"
    }
    found: list[Violation] = []
    for commit in log:
        write = writes.get(commit.revision)
        if write is None or (write.key, write.value) != (commit.key, commit.value):
            found.append(Violation("unexplained", f"{commit} is in the log, and no client wrote it"))
    return found


# -- watches --------------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """One event of a watch. `kind` is ADDED, MODIFIED, DELETED or BOOKMARK; the last has neither key nor value."""

    kind: str
    key: str
    revision: int
    value: object = None


@dataclass(slots=True)
class Session:
    """One watch from its start to its end.

    `since` is the revision it was started from. `until`, if set, is a revision that the watch is known to have
    outlived, so that everything up to it must have come.
    """

    since: int
    events: list[Seen] = field(default_factory=list)
    until: int = 0

    @property
    def last(self) -> int:
        """The revision that the next watch continues from."""
        return self.events[-1].revision if self.events else self.since


def everything(_key: str, _value: object) -> bool:
    """Return True: the selector of a watch without one."""
    return True


def events_of(log: Iterable[Commit], selects: Callable[[str, object], bool] = everything) -> list[Seen]:
    """The events that a watch from the beginning of the log must deliver. Every key must be absent at its beginning.

    An object that leaves the selection looks removed, one that enters it new; a removal shows the last state that was
    selected.
    """
    events: list[Seen] = []
    state: dict[str, object] = {}
    for commit in log:
        previous = state.get(commit.key)
        was_selected = previous is not None and selects(commit.key, previous)
        is_selected = commit.value is not None and selects(commit.key, commit.value)
        state[commit.key] = commit.value
        if is_selected:
            kind = "MODIFIED" if was_selected else "ADDED"
            events.append(Seen(kind, commit.key, commit.revision, commit.value))
        elif was_selected:
            events.append(Seen("DELETED", commit.key, commit.revision, previous))
    return events


def watch(session: Session, wanted: Sequence[Seen]) -> list[Violation]:
    """The violations of one watch, given the events of a watch from the beginning (`events_of`).

    The rules are those of etcd's own tests: ordered, unique, reliable (no gap), resumable (the first event is the
    first after `since`), bookmarkable (nothing before a bookmark is still to come), and each event right in kind,
    key and content.
    """
    position = bisect_right(wanted, session.since, key=lambda event: event.revision)
    violations: list[Violation] = []
    last = session.since
    for event in session.events:
        if event.kind == "BOOKMARK":
            violations += _missing(wanted, position, event.revision, f"before the bookmark {event.revision}")
            last = max(last, event.revision)
            continue
        if event.revision <= last:
            rule = "unique" if event.revision == last else "ordered"
            violations.append(Violation(rule, f"{event} came after revision {last}"))
            continue
        found = bisect_left(wanted, event.revision, key=lambda other: other.revision)
        violations += _missing(wanted, position, event.revision - 1, f"before {event}")
        if found == len(wanted) or wanted[found].revision != event.revision:
            violations.append(Violation("phantom", f"{event} is not in the log"))
            position = found
        else:
            if wanted[found] != event:
                violations.append(Violation("content", f"{event} was sent; it happened as {wanted[found]}"))
            position = found + 1
        last = event.revision
    violations += _missing(wanted, position, session.until, f"before the end, beyond {session.until}")
    return violations


def _missing(wanted: Sequence[Seen], position: int, until: int, when: str) -> Iterator[Violation]:
    end = bisect_right(wanted, until, key=lambda event: event.revision)
    for event in wanted[position:end]:
        yield Violation("reliable", f"{event} was not sent {when}")
