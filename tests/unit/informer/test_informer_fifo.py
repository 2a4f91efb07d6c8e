import asyncio
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kapi.informer.cached import Intake, decoder_of
from kapi.informer.fifo import DeltaType, InOrderFIFO
from kapi.informer.indexer import Indexer

_intake = Intake(decoder_of(dict))


def cached(name, version=1):
    return _intake.cached(
        json.dumps({"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}).encode()
    )


def told(delta):
    """A delta as a type, and what it is of."""
    if delta.object is not None:
        return delta.type.value, delta.object.key.name, delta.object.resource_version
    if delta.objects is not None:
        states = {key.name: obj.resource_version for key, obj in delta.objects.items()}
        return delta.type.value, states, dict(delta.versions)
    return delta.type.value, delta.versions or delta.handlers


def popped(fifo):
    """All that comes out."""
    out = []
    while (delta := fifo.pop()) is not None:
        out.append(told(delta))
        fifo.done(delta)
    return out


@pytest.fixture
def known():
    return Indexer()


@pytest.fixture
def fifo(known):
    return InOrderFIFO(known)


def test_every_notification_comes_out_in_the_order_in_which_it_came(fifo):
    """The DeltaFIFO brought both states of a before that of b."""
    fifo.add(cached("a", 1))
    fifo.add(cached("b", 2))
    fifo.update(cached("a", 3))
    fifo.bookmark("9")
    assert popped(fifo) == [("Added", "a", "1"), ("Added", "b", "2"), ("Updated", "a", "3"), ("Bookmark", {"": "9"})]


def test_the_deletion_of_an_unknown_object_is_delivered(fifo):
    fifo.delete(cached("a", 1))
    fifo.delete(cached("a", 2))
    assert popped(fifo) == [("Deleted", "a", "1"), ("Deleted", "a", "2")]


def test_a_list_is_one_delta_that_comes_after_what_was_queued_before_it(fifo):
    fifo.add(cached("a", 1))
    fifo.replace([cached("b", 3), cached("c", 2)], "7")
    assert popped(fifo) == [("Added", "a", "1"), ("ReplacedAll", {"b": "3", "c": "2"}, {"": "7"})]


def test_a_resync_is_one_delta_with_its_handlers(fifo, known):
    known.put(cached("a", 1))
    fifo.resync(["x", "y"])
    assert popped(fifo) == [("SyncAll", ("x", "y"))]


def test_newest_looks_into_the_queue_first(fifo, known):
    known.put(cached("a", 1))
    known.put(cached("b", 1))
    fifo.update(cached("a", 2))
    fifo.delete(cached("b", 3))
    assert fifo.newest(cached("a").key).resource_version == "2"
    assert fifo.newest(cached("b").key) is None
    assert fifo.newest(cached("c").key) is None


def test_newest_is_that_of_a_queued_list_until_the_list_is_processed(fifo, known):
    known.put(cached("a", 1))
    fifo.update(cached("a", 2))
    fifo.replace([cached("b", 5)], "5")
    assert fifo.newest(cached("a").key) is None
    assert fifo.newest(cached("b").key).resource_version == "5"
    popped(fifo)
    assert fifo.newest(cached("b").key) is None, "this consumer put nothing into the indexer"


def test_synced_once_the_first_list_has_been_processed(fifo):
    assert not fifo.has_synced
    fifo.replace([cached("a"), cached("b")], "1")
    fifo.add(cached("c"))
    delta = fifo.pop()
    assert not fifo.has_synced
    fifo.done(delta)
    assert fifo.has_synced


def test_an_empty_first_list_has_to_be_processed_too(fifo):
    fifo.replace([], "1")
    assert not fifo.has_synced
    popped(fifo)
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
        self.fifo = InOrderFIFO(self.known)
        self.expected = []
        self.version = 0
        self.synced = None

    def _next(self, name):
        self.version += 1
        return cached(name, self.version)

    @rule(name=names, verb=st.sampled_from(["add", "update", "delete"]))
    def change(self, name, verb):
        obj = self._next(name)
        self.synced = True if self.synced is None else self.synced
        getattr(self.fifo, verb)(obj)
        self.expected.append((verb, obj))

    @rule(names=st.sets(names))
    def replace(self, names):
        objects = {obj.key: obj for obj in map(self._next, sorted(names))}
        self.synced = len(self.expected) if self.synced is None else self.synced
        self.fifo.replace(objects.values(), str(self.version))
        self.expected.append(("replace", objects))

    @rule()
    def say_nothing(self):
        self.fifo.bookmark(str(self.version))
        self.fifo.resync(())
        self.expected += [("nothing", None), ("nothing", None)]

    @rule()
    def pop(self):
        delta = self.fifo.pop()
        if not self.expected:
            assert delta is None
            return
        verb, what = self.expected.pop(0)
        if verb == "replace":
            assert delta.type is DeltaType.REPLACED_ALL
            assert delta.objects == what
            contents = self.known.empty_contents()
            for obj in what.values():
                contents.put(obj)
            self.known.replace(contents)
        elif verb == "nothing":
            assert delta.object is delta.objects is None
        else:
            assert delta.object is what
            if verb == "delete":
                self.known.remove(what.key)
            else:
                self.known.put(what)
        self.fifo.done(delta)
        if self.synced is not None and self.synced is not True:
            self.synced = True if self.synced == 0 else self.synced - 1

    @invariant()
    def agrees(self):
        assert len(self.fifo) == len(self.expected)
        assert self.fifo.has_synced is (self.synced is True)
        for name in "abc":
            key = cached(name).key
            state = self.known.get(key)
            for verb, what in self.expected:
                if verb == "replace":
                    state = what.get(key)
                elif what is not None and what.key == key:
                    state = None if verb == "delete" else what
            assert self.fifo.newest(key) is state


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
