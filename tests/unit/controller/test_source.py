"""From the changes of a collection to the keys in a queue, over a real informer and in virtual time."""

import asyncio
import contextlib
import logging

import msgspec
import pytest
from shelf import Shelf

from kapi.controller.enqueue import for_object, mapped
from kapi.controller.predicate import generation_changed, has_labels
from kapi.controller.queue import LIVE_PRIORITY, LOW_PRIORITY, RateLimitingQueue
from kapi.controller.reconcile import Request
from kapi.controller.source import Kind
from kapi.informer.informer import SharedInformer
from virtual_time import LoopClock, run


class Rig:
    def __init__(self, handler=for_object, predicates=()):
        self.shelf = Shelf()
        self.informer = SharedInformer(self.shelf, msgspec.json.decode, name="things", clock=LoopClock())
        self.queue = RateLimitingQueue("things", clock=LoopClock())
        self.source = Kind(self.informer, handler, predicates)

    @contextlib.asynccontextmanager
    async def started(self):
        await self.source.start(self.queue)
        try:
            await self.source.wait_for_sync()
            yield self
        finally:
            await self.informer.stop()

    async def taken(self):
        """The names in the queue with their priorities; all of them are done at once."""
        await asyncio.sleep(1)
        found = []
        while len(self.queue):
            key, priority = await self.queue.get_with_priority()
            assert key.namespace == "default"
            found.append((key.name, priority))
            self.queue.done(key)
        return found


def test_what_is_there_comes_first_with_low_priority_and_is_all_queued_when_the_source_has_synced():
    async def main():
        rig = Rig()
        for number in range(300):
            rig.shelf.put(f"thing-{number}")
        async with rig.started():
            assert len(rig.queue) == 300
            rig.shelf.put("live")
            found = await rig.taken()
        assert found[0] == ("live", LIVE_PRIORITY)
        assert found[1:] == [(f"thing-{number}", LOW_PRIORITY) for number in range(300)]

    run(main())


def test_changes_and_deletions_are_queued_as_they_come():
    async def main():
        rig = Rig()
        rig.shelf.put("a")
        async with rig.started():
            await rig.taken()
            rig.shelf.put("a", {"size": 2})
            assert await rig.taken() == [("a", LIVE_PRIORITY)]
            rig.shelf.delete("a")
            assert await rig.taken() == [("a", LIVE_PRIORITY)]

    run(main())


def test_only_what_all_predicates_let_through_is_queued():
    async def main():
        rig = Rig(predicates=[has_labels("app"), generation_changed])
        async with rig.started():
            rig.shelf.put("a", labels={"app": "x"}, generation=1)
            rig.shelf.put("b", labels={}, generation=1)
            assert await rig.taken() == [("a", LIVE_PRIORITY)]
            rig.shelf.put("a", labels={"app": "y"}, generation=1)
            assert await rig.taken() == []
            rig.shelf.put("a", labels={"app": "y"}, generation=2)
            assert await rig.taken() == [("a", LIVE_PRIORITY)]

    run(main())


def test_a_source_has_synced_only_when_an_async_mapper_has_answered_for_everything():
    async def main():
        async def mapper(obj):
            await asyncio.sleep(10)
            return [Request("default", name) for name in obj["spec"]["targets"]]

        rig = Rig(mapped(mapper))
        rig.shelf.put("a", {"targets": ["x", "y"]})
        rig.shelf.put("b", {"targets": ["y", "z"]})
        before = asyncio.get_running_loop().time()
        async with rig.started():
            assert asyncio.get_running_loop().time() - before >= 20
            assert await rig.taken() == [("x", LOW_PRIORITY), ("y", LOW_PRIORITY), ("z", LOW_PRIORITY)]

    run(main())


def test_a_mapper_that_fails_is_logged_and_the_next_event_is_heard(caplog):
    async def main():
        rig = Rig(mapped(lambda obj: [Request("default", obj["spec"]["target"])]))
        async with rig.started():
            with caplog.at_level(logging.ERROR):
                rig.shelf.put("bad")
                rig.shelf.put("good", {"target": "x"})
                assert await rig.taken() == [("x", LIVE_PRIORITY)]
        assert "handler of controller things failed on the add of default/bad" in caplog.text

    run(main())


def test_a_source_that_was_stopped_queues_nothing_and_leaves_the_informer_to_others():
    async def main():
        rig = Rig()
        async with rig.started():
            rig.source.stop()
            rig.source.stop()
            rig.shelf.put("a")
            assert await rig.taken() == []
            assert rig.informer.lister.get("a", "default") is not None
        Kind(rig.informer, for_object).stop()

    run(main())


def test_a_source_waits_for_its_informer_and_says_what_it_is_waiting_for():
    async def main():
        rig = Rig()
        rig.shelf.open.clear()
        await rig.source.start(rig.queue)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await rig.source.wait_for_sync()
        assert str(rig.source).startswith("things")
        rig.shelf.open.set()
        await rig.source.wait_for_sync()
        assert str(rig.source) == "things"
        await rig.informer.stop()

    run(main())
