import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.informer.cached import Intake, decoder_of
from kapi.informer.handlers import Change, Handlers, Notice, Registration, decoding, fold, undecoded

_intake = Intake(decoder_of(dict))


def cached(name, version):
    return _intake.cached(
        json.dumps({"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}).encode()
    )


@st.composite
def stories(draw):
    """What an informer could tell of three objects, some of which a handler has been told of already."""
    state = {name: cached(name, 0) if draw(st.booleans()) else None for name in "abc"}
    before = dict(state)
    notices = []
    for version, name in enumerate(draw(st.lists(st.sampled_from("abc"), max_size=25)), 1):
        old, new = state[name], cached(name, version)
        if old is None:
            notices.append(Notice(Change.ADD, new, flag=draw(st.booleans())))
        elif draw(st.booleans()):
            notices.append(Notice(Change.UPDATE, new, old))
        else:
            notices.append(Notice(Change.DELETE, new, flag=draw(st.booleans())))
            new = None
        state[name] = new
    mark = draw(st.integers(0, len(notices)))
    return before, [*notices[:mark], None, *notices[mark:]], state


def retold(before, notices):
    """Where a handler ends that believes what it is told; fails when that makes no sense."""
    state = dict(before)
    for notice in notices:
        if notice is None:
            continue
        name = notice.obj.key.name
        if notice.change is Change.ADD:
            assert state[name] is None
            state[name] = notice.obj
        else:
            assert state[name] is not None
            if notice.change is Change.UPDATE:
                assert notice.old is state[name]
            state[name] = notice.obj if notice.change is Change.UPDATE else None
    return state


@given(stories())
def test_a_folded_story_makes_sense_and_ends_the_same(story):
    before, notices, after = story
    assert retold(before, notices) == after
    assert retold(before, fold(notices)) == after


@given(stories())
def test_a_folded_story_has_at_most_a_deletion_and_an_addition_for_each_object(story):
    _, notices, _ = story
    folded = [notice for notice in fold(notices) if notice is not None]
    for name in "abc":
        changes = [notice.change for notice in folded if notice.obj.key.name == name]
        assert len(changes) <= 1 or changes == [Change.DELETE, Change.ADD]


@given(stories())
def test_folding_shows_states_in_order_and_makes_none_up(story):
    _, notices, _ = story
    said = [notice.obj for notice in notices if notice is not None]
    for name in "abc":
        mine = [notice.obj.revision for notice in fold(notices) if notice is not None and notice.obj.key.name == name]
        assert mine == sorted(mine)
        assert set(mine) <= {obj.revision for obj in said if obj.key.name == name}


@given(stories())
def test_folding_keeps_the_mark_and_what_was_before_it_before_it(story):
    _, notices, _ = story
    folded = fold(notices)
    first = {notice.obj.key for notice in notices[: notices.index(None)]}
    left = {notice.obj.key for notice in folded if notice is not None}
    early = {notice.obj.key for notice in folded[: folded.index(None)]}
    late_again = {
        notice.obj.key for notice in folded[folded.index(None) :] if notice is not None and notice.change is Change.ADD
    }
    assert first & left <= early | late_again


@given(stories())
def test_folding_again_changes_nothing(story):
    _, notices, _ = story
    once = fold(notices)
    assert fold(once) == once


def registered(handler, **options):
    return Registration("test", undecoded(handler), **options)


def test_a_handler_gets_every_event_in_order_while_it_keeps_up():
    async def main():
        heard = []
        registration = registered(
            Handlers(on_add=lambda obj: heard.append(obj.revision), on_update=lambda _, new: heard.append(new.revision))
        )
        task = asyncio.create_task(registration.run())
        registration.put(Notice(Change.ADD, cached("a", 0)))
        for version in range(1, 3000):
            registration.put(Notice(Change.UPDATE, cached("a", version), cached("a", version - 1)))
            if version % 500 == 0:
                while registration.pending:  # noqa: ASYNC110 - it ends by itself
                    await asyncio.sleep(0)
        registration.close()
        await task
        assert heard == list(range(3000))

    asyncio.run(main())


def test_what_waits_for_a_slow_handler_is_bounded_by_the_number_of_objects():
    async def main():
        heard = []

        async def slow(*objects):
            heard.append(objects[-1].revision)
            await asyncio.sleep(0)

        registration = registered(Handlers(on_add=slow, on_update=slow), buffer=10)
        most = 0
        for version in range(20_000):
            obj = cached("ab"[version % 2], version)
            change = Change.ADD if version < 2 else Change.UPDATE
            registration.put(Notice(change, obj, None if version < 2 else cached(obj.key.name, version - 2)))
            most = max(most, registration.pending)
        assert most <= 11
        registration.close()
        await registration.run()
        assert heard[-2:] == [19_998, 19_999]

    asyncio.run(main())


def test_filling_a_queue_with_many_objects_is_not_quadratic(monkeypatch):
    folded = []
    monkeypatch.setattr("kapi.informer.handlers.fold", lambda notices: folded.append(len(notices)) or fold(notices))

    async def main():
        registration = registered(Handlers(), buffer=10)
        for number in range(5000):
            registration.put(Notice(Change.ADD, cached(f"n{number}", 1)))
        assert registration.pending == 5000
        assert sum(folded) < 3 * 5000

    asyncio.run(main())


def test_what_a_handler_raises_is_logged_and_the_next_is_delivered(caplog):
    async def main():
        heard = []

        def on_add(obj):
            heard.append(obj.key.name)
            if obj.key.name == "a":
                raise RuntimeError("no")

        registration = registered(Handlers(on_add=on_add))
        for name in "ab":
            registration.put(Notice(Change.ADD, cached(name, 1)))
        registration.close()
        await registration.run()
        assert heard == ["a", "b"]

    asyncio.run(main())
    assert "handler test failed on the add of a" in caplog.text


def test_synced_after_the_mark_has_been_reached():
    async def main():
        registration = registered(Handlers(on_add=lambda obj: states.append(registration.has_synced)))
        states = []
        registration.put(Notice(Change.ADD, cached("a", 1)))
        registration.put_mark()
        registration.put(Notice(Change.ADD, cached("b", 1)))
        registration.close()
        await registration.run()
        assert states == [False, True]
        await registration.wait_for_sync()

    asyncio.run(main())


class Everything:
    """A handler with all its methods."""

    def __init__(self):
        self.heard = []

    async def on_add(self, obj, *, initial):
        self.heard.append(("add", obj, initial))

    def on_update(self, old, new):
        self.heard.append(("update", old, new))

    async def on_delete(self, obj, *, stale):
        self.heard.append(("delete", obj, stale))


@pytest.mark.parametrize(
    "deliver, seen", [(decoding, lambda obj: obj.object()), (undecoded, lambda obj: obj)], ids=["decoded", "raw"]
)
def test_methods_may_be_async_or_not(deliver, seen):
    async def main():
        handler, first, second = Everything(), cached("a", 1), cached("a", 2)
        registration = Registration("test", deliver(handler))
        registration.put(Notice(Change.ADD, first, flag=True))
        registration.put(Notice(Change.UPDATE, second, first))
        registration.put(Notice(Change.DELETE, second, flag=True))
        registration.close()
        await registration.run()
        assert handler.heard == [
            ("add", seen(first), True),
            ("update", seen(first), seen(second)),
            ("delete", seen(second), True),
        ]

    asyncio.run(main())


def test_functions_that_are_not_given_are_not_missed():
    handlers = Handlers()
    assert handlers.on_add({}, initial=False) is None
    assert handlers.on_update({}, {}) is None
    assert handlers.on_delete({}, stale=False) is None


def test_a_handler_that_never_waits_leaves_others_their_turn():
    async def main():
        registration = registered(Handlers())
        for number in range(1000):
            registration.put(Notice(Change.ADD, cached(f"n{number}", 1)))
        registration.close()
        task = asyncio.create_task(registration.run())
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 10

    asyncio.run(main())
