"""Random histories on a backend and on a model so simple that it is plainly right; both must agree at every step."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from storage_backends import Recorder, Subject, value

from kapi.storage.interface import Change, Check, Compacted, Delete, Entry, FutureRevision, Page, Put, RevisionMismatch

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from typing import Any

    from storage_backends import Backend

    from kapi.storage.interface import Operation

KEYS = ["/a", "/a/", "/a/x", "/a/y", "/a0", "/b/x", "/b/é", "/b/\U0001f600"]
PREFIXES = ["", "/", "/a", "/a/", "/b/", "/b/é", "/none"]
keys = st.sampled_from(KEYS)


class Model:
    """The whole log, for ever; every question is answered by replaying it."""

    def __init__(self) -> None:
        self.log: list[Change] = []
        self.compacted = 0

    @property
    def revision(self) -> int:
        return self.log[-1].revision if self.log else 0

    def write(self, key: str, text: str | None, expected: int) -> int | tuple[str, str, int]:
        return self.commit([Delete(key, expected) if text is None else Put(key, value(text), expected)])

    def commit(self, operations: Sequence[Operation]) -> int | tuple[str, str, int]:
        state = self.state(self.revision)
        for operation in operations:
            actual = state[operation.key].revision if operation.key in state else 0
            if actual != operation.expected:
                return ("mismatch", operation.key, actual)
        revision = self.revision + 1
        for operation in operations:
            if not isinstance(operation, Check):
                content = operation.draft.render(revision) if isinstance(operation, Put) else None
                self.log.append(Change(revision, operation.key, content))
        return revision

    def state(self, revision: int) -> dict[str, Entry]:
        state: dict[str, Entry] = {}
        for change in self.log:
            if change.revision > revision:
                break
            state.pop(change.key, None)
            if change.value is not None:
                state[change.key] = Entry(change.key, change.value, change.revision)
        return state

    def range(self, prefix: str, start: str, limit: int, revision: int) -> Page:
        state = self.state(revision)
        found = [state[key] for key in sorted(state) if key.startswith(prefix) and key >= start]
        return Page(found[: limit or None], revision, max(0, len(found) - limit) if limit else 0)

    def refusal(self, revision: int) -> object:
        if revision > self.revision:
            return ("future", self.revision)
        if revision < self.compacted:
            return ("compacted", self.compacted)
        return None


class Comparison(RuleBasedStateMachine):
    """A backend and the model, side by side."""

    backend: Backend

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(tempfile.mkdtemp())
        self.subject = Subject(self.backend, self.directory / "data")
        self.store = self.loop.run_until_complete(self.subject.open())
        self.model = Model()
        self.followers: list[tuple[int, Recorder]] = []

    def teardown(self) -> None:
        self.wait(self.store.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.directory)

    def wait(self, work: Awaitable[Any]) -> Any:
        """The result, with refusals in the model's words."""
        try:
            return self.loop.run_until_complete(work)
        except RevisionMismatch as error:
            return ("mismatch", error.key, error.actual)
        except Compacted as error:
            return ("compacted", error.oldest)
        except FutureRevision as error:
            return ("future", error.current)

    def expectation(self, key: str, distance: int) -> int:
        entry = self.model.state(self.model.revision).get(key)
        return max(0, (entry.revision if entry else 0) + distance)

    @rule(key=keys, text=st.text("xyz", max_size=3), distance=st.sampled_from([0, 0, 0, 0, -1, 1]))
    def put(self, key: str, text: str, distance: int) -> None:
        expected = self.expectation(key, distance)
        assert self.wait(self.store.put(key, value(text), expected)) == self.model.write(key, text, expected)

    @rule(key=keys, distance=st.sampled_from([0, 0, 0, 1]))
    def delete(self, key: str, distance: int) -> None:
        expected = self.expectation(key, distance) or self.model.revision + 1
        assert self.wait(self.store.delete(key, expected)) == self.model.write(key, None, expected)

    @rule(choice=st.lists(st.tuples(keys, st.booleans()), min_size=2, max_size=6, unique_by=lambda pair: pair[0]))
    def write_together(self, choice: list[tuple[str, bool]]) -> None:
        """Writes in flight at once take effect in the order they were started, or in any order in a shared store."""
        expectations = [(key, self.expectation(key, 0), put) for key, put in choice]
        expectations = [(key, at, put or not at) for key, at, put in expectations]
        work = [
            self.store.put(key, value("t"), at) if put else self.store.delete(key, at) for key, at, put in expectations
        ]

        async def together() -> list[Any]:
            return await asyncio.gather(*work)

        done = self.wait(together())
        started = range(len(done))
        order = sorted(started, key=done.__getitem__) if self.backend.is_shared else started
        for number in order:
            key, at, put = expectations[number]
            assert done[number] == self.model.write(key, "t" if put else None, at)

    @rule(
        choice=st.lists(
            st.tuples(keys, st.sampled_from(["put", "delete", "check"]), st.sampled_from([0, 0, 0, 0, 0, 1])),
            min_size=1,
            max_size=5,
            unique_by=lambda choice: choice[0],
        )
    )
    def commit(self, choice: list[tuple[str, str, int]]) -> None:
        operations: list[Operation] = []
        for key, kind, distance in choice:
            expected = self.expectation(key, distance)
            if kind == "check":
                operations.append(Check(key, expected))
            elif kind == "put" or not expected:
                operations.append(Put(key, value("c"), expected))
            else:
                operations.append(Delete(key, expected))
        if any(not isinstance(operation, Check) for operation in operations):
            assert self.wait(self.store.commit(operations)) == self.model.commit(operations)

    @rule(key=keys, back=st.integers(-1, 12))
    def get(self, key: str, back: int) -> None:
        revision = max(1, self.model.revision - back)
        expected = self.model.refusal(revision) or self.model.state(revision).get(key)
        assert self.wait(self.store.get(key, revision)) == expected
        assert self.wait(self.store.get(key)) == self.model.state(self.model.revision).get(key)

    @rule(
        prefix=st.sampled_from(PREFIXES),
        start=st.sampled_from(["", *KEYS]),
        limit=st.integers(0, 4),
        back=st.integers(-1, 12),
    )
    def range(self, prefix: str, start: str, limit: int, back: int) -> None:
        revision = max(1, self.model.revision - back)
        expected = self.model.refusal(revision) or self.model.range(prefix, start, limit, revision)
        assert self.wait(self.store.range(prefix, start=start, limit=limit, revision=revision)) == expected
        now = self.model.range(prefix, start, limit, self.model.revision)
        assert self.wait(self.store.range(prefix, start=start, limit=limit)) == now

    @rule(back=st.integers(-1, 12))
    def follow(self, back: int) -> None:
        since = max(0, self.model.revision - back)
        recorder = Recorder()
        result = self.wait(self.store.follow(since, recorder))
        if (refusal := self.model.refusal(since)) is not None:
            assert result == refusal
        else:
            self.followers.append((since, recorder))

    @rule(back=st.integers(0, 8))
    def compact(self, back: int) -> None:
        revision = max(0, self.model.revision - back)
        assert self.wait(self.store.compact(revision)) is None
        self.model.compacted = max(self.model.compacted, revision)

    @precondition(lambda self: self.backend.is_durable)
    @rule()
    def reopen(self) -> None:
        self.wait(self.store.close())
        self.store = self.loop.run_until_complete(self.subject.open())
        self.followers = []

    @invariant()
    def counters_agree(self) -> None:
        assert (self.store.revision, self.store.compacted) == (self.model.revision, self.model.compacted)

    @invariant()
    def followers_have_seen_everything_once(self) -> None:
        for since, recorder in self.followers:
            assert recorder.changes == [change for change in self.model.log if change.revision > since]


def test_random_histories_agree_with_the_model(subject: Subject) -> None:
    machine = type("ComparisonOf" + subject.backend.name, (Comparison,), {"backend": subject.backend})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=subject.backend.examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
