import asyncio
import json
from collections import OrderedDict

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kapi.informer.cached import Intake, decoder_of
from kapi.informer.deltas import Delta, DeltaFIFO, DeltaType
from kapi.informer.indexer import Indexer

_intake = Intake(decoder_of(dict))


def cached(name, version=1):
    return _intake.cached(
        json.dumps({"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}).encode()
    )


def popped(fifo):
    """What comes out: pairs of name and [(type, version, stale)]."""
    out = []
    while fifo.pop_ready(
        lambda deltas, initial: out.append(
            (deltas[0].object.key.name, [(d.type.value, d.object.resource_version, d.stale) for d in deltas])
        )
    ):
        pass
    return out


@pytest.fixture
def known():
    return Indexer()


@pytest.fixture
def fifo(known):
    return DeltaFIFO(known)


def test_objects_come_out_in_order_of_arrival_with_all_their_deltas(fifo):
    fifo.add(cached("a", 1))
    fifo.add(cached("b", 2))
    fifo.update(cached("a", 3))
    assert popped(fifo) == [("a", [("Added", "1", False), ("Updated", "3", False)]), ("b", [("Added", "2", False)])]


def test_an_object_that_is_added_again_is_queued_at_the_end(fifo):
    fifo.add(cached("a"))
    fifo.add(cached("b"))
    fifo.pop_ready(lambda *_: fifo.update(cached("a", 2)))
    assert [name for name, _ in popped(fifo)] == ["b", "a"]


def test_the_deletion_of_an_unknown_object_is_dropped(fifo):
    fifo.delete(cached("a"))
    assert len(fifo) == 0


def test_deletion_of_what_is_known_is_queued(fifo, known):
    known.put(cached("a", 1))
    fifo.delete(cached("a", 2))
    assert popped(fifo) == [("a", [("Deleted", "2", False)])]


def test_of_two_deletions_the_one_that_knows_the_final_state_is_kept(fifo, known):
    known.put(cached("a", 1))
    fifo.replace([])
    fifo.delete(cached("a", 2))
    fifo.delete(cached("a", 3))
    assert popped(fifo) == [("a", [("Deleted", "2", False)])]


def test_replace_deletes_known_objects_that_are_not_listed(fifo, known):
    known.put(cached("a", 1))
    known.put(cached("b", 2))
    fifo.replace([cached("b", 3)])
    assert popped(fifo) == [("b", [("Replaced", "3", False)]), ("a", [("Deleted", "1", True)])]


def test_replace_deletes_queued_objects_with_their_newest_state(fifo):
    fifo.add(cached("a", 1))
    fifo.update(cached("a", 2))
    fifo.replace([])
    assert popped(fifo) == [("a", [("Added", "1", False), ("Updated", "2", False), ("Deleted", "2", True)])]


def test_resync_shows_what_is_known_but_leaves_alone_what_is_queued(fifo, known):
    for name in "ab":
        known.put(cached(name, 1))
    fifo.update(cached("a", 2))
    fifo.resync()
    assert popped(fifo) == [("a", [("Updated", "2", False)]), ("b", [("Sync", "1", False)])]


def test_newest_looks_into_the_queue_first(fifo, known):
    known.put(cached("a", 1))
    known.put(cached("b", 1))
    fifo.update(cached("a", 2))
    fifo.delete(cached("b", 3))
    assert fifo.newest(cached("a").key).resource_version == "2"
    assert fifo.newest(cached("b").key) is None
    assert fifo.newest(cached("c").key) is None


def test_synced_once_the_first_list_has_been_processed(fifo):
    assert not fifo.has_synced
    fifo.replace([cached("a"), cached("b")])
    seen = []
    for _ in range(2):
        assert not fifo.has_synced
        fifo.pop_ready(lambda deltas, initial: seen.append(initial))
    assert fifo.has_synced
    fifo.add(cached("c"))
    fifo.pop_ready(lambda deltas, initial: seen.append(initial))
    assert seen == [True, True, False]


def test_an_empty_first_list_is_synced_at_once(fifo):
    fifo.replace([])
    assert fifo.has_synced


def test_what_processing_raises_does_not_bring_the_object_back(fifo):
    def process(deltas, initial):
        raise RuntimeError("no")

    fifo.replace([cached("a")])
    with pytest.raises(RuntimeError):
        fifo.pop_ready(process)
    assert len(fifo) == 0
    assert fifo.has_synced


def test_waiting_ends_when_something_comes_and_when_it_is_closed(fifo):
    async def main():
        waiting = asyncio.create_task(fifo.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        fifo.add(cached("a"))
        assert await waiting is True
        fifo.close()
        assert await fifo.wait() is True
        popped(fifo)
        assert await fifo.wait() is False

    asyncio.run(main())


class Model(RuleBasedStateMachine):
    """The queue against a list of everything that was said, for three names."""

    names = st.sampled_from("abc")

    def __init__(self):
        super().__init__()
        self.known = Indexer()
        self.fifo = DeltaFIFO(self.known)
        self.expected = OrderedDict()
        self.version = 0
        self.left = None

    def _next(self, name):
        self.version += 1
        return cached(name, self.version)

    def _expect(self, kind, obj, *, stale=False):
        said = self.expected.setdefault(obj.key, [])
        if said and kind is said[-1].type is DeltaType.DELETED:
            if said[-1].stale:
                said[-1] = Delta(kind, obj, stale)
        else:
            said.append(Delta(kind, obj, stale))

    @rule(name=names)
    def add(self, name):
        obj = self._next(name)
        self.left = 0 if self.left is None else self.left
        self.fifo.add(obj)
        self._expect(DeltaType.ADDED, obj)

    @rule(name=names)
    def update(self, name):
        obj = self._next(name)
        self.left = 0 if self.left is None else self.left
        self.fifo.update(obj)
        self._expect(DeltaType.UPDATED, obj)

    @rule(name=names)
    def delete(self, name):
        obj = self._next(name)
        self.left = 0 if self.left is None else self.left
        if obj.key in self.expected or obj.key in self.known:
            self._expect(DeltaType.DELETED, obj)
        self.fifo.delete(obj)

    @rule(names=st.sets(names))
    def replace(self, names):
        objects = [self._next(name) for name in sorted(names)]
        for obj in objects:
            self._expect(DeltaType.REPLACED, obj)
        listed = {obj.key for obj in objects}
        for key in [key for key in self.expected if key not in listed]:
            self._expect(DeltaType.DELETED, self.expected[key][-1].object, stale=True)
        for obj in self.known.values():
            if obj.key not in listed and obj.key not in self.expected:
                self._expect(DeltaType.DELETED, obj, stale=True)
        self.fifo.replace(objects)
        if self.left is None:
            self.left = len(self.expected)

    @rule()
    def resync(self):
        for obj in self.known.values():
            if obj.key not in self.expected:
                self._expect(DeltaType.SYNC, obj)
        self.fifo.resync()

    @rule()
    def pop(self):
        out = []

        def process(deltas, initial):
            out.append(deltas)
            assert initial is (self.left != 0)
            for delta in deltas:
                if delta.type is DeltaType.DELETED:
                    self.known.remove(delta.object.key)
                else:
                    self.known.put(delta.object)

        was_there = bool(self.expected)
        assert self.fifo.pop_ready(process) is was_there
        if was_there:
            assert out == [self.expected.popitem(last=False)[1]]
            self.left = max(0, self.left - 1) if self.left is not None else None

    @invariant()
    def agrees(self):
        assert len(self.fifo) == len(self.expected)
        assert self.fifo.has_synced is (self.left == 0)
        for name in "abc":
            key = cached(name).key
            newest = self.fifo.newest(key)
            said = self.expected.get(key)
            if said is None:
                assert newest is self.known.get(key)
            else:
                assert newest is (None if said[-1].type is DeltaType.DELETED else said[-1].object)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
