"""Own writes over a cache that is behind, or that has missed something."""

import asyncio
import json
import sys
from pathlib import Path

import virtual_time
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupVersionKind
from kapi.controller.manager.ownwrites import OwnWrites
from kapi.informer.cached import decoder_of
from kapi.informer.factory import Collection
from kapi.informer.informer import SharedInformer

sys.path.insert(0, str(Path(__file__).parents[1] / "informer"))
from scripted_collection import ScriptedCollection, expired, thing

A, B = ObjectKey("default", "a"), ObjectKey("default", "b")


def scenario(main, **collection):
    """Run with a server that has `a` at revision 11, and a synced cache of it."""

    async def run():
        server = ScriptedCollection()
        server.put("a")
        informer = SharedInformer(server, decoder_of(dict), clock=virtual_time.LoopClock())
        writes = OwnWrites(Collection(GroupVersionKind("", "v1", "Thing"), dict, **collection), informer)
        informer.start()
        await informer.wait_for_sync()
        try:
            await main(server, writes)
        finally:
            await informer.stop()

    virtual_time.run(run())


def shown(writes, namespace=None):
    return {obj.key.name: obj.revision for obj in writes.values(namespace)}


async def pass_time():
    await asyncio.sleep(5)


def cut_off(server):
    """The watch brings nothing more until it is renewed by a list."""
    server.connection.fail(expired())
    server.connection.stall()


def test_a_write_is_shown_until_the_cache_has_it_and_not_longer():
    async def main(server, writes):
        ours = thing("a", 12, "uid-1")
        writes.wrote(ours)
        assert writes.get(A).revision == 12
        assert shown(writes) == {"a": 12}
        server.put("a")
        server.put("a")
        await pass_time()
        assert writes.get(A).revision == 13
        assert shown(writes) == {"a": 13}

    scenario(main)


def test_an_answer_that_comes_after_its_event_does_not_hide_what_came_after():
    async def main(server, writes):
        ours = server.put("a")
        server.put("a")
        await pass_time()
        writes.wrote(ours)
        assert shown(writes) == {"a": 13}

    scenario(main)


def test_an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back():
    async def main(server, writes):
        ours = server.put("b")
        server.delete("b")
        await pass_time()
        writes.wrote(ours)
        assert writes.get(B) is None
        assert shown(writes) == {"a": 11}

    scenario(main)


def test_what_was_created_and_deleted_in_a_gap_of_the_watch_is_not_shown_for_ever():
    async def main(server, writes):
        cut_off(server)
        writes.wrote(server.put("b"))
        assert shown(writes) == {"a": 11, "b": 12}
        server.delete("b")
        server.compact()
        await pass_time()
        assert writes.get(B) is None
        assert shown(writes) == {"a": 11}

    scenario(main)


def test_answers_in_another_order_than_the_writes_leave_the_newest():
    async def main(server, writes):
        writes.wrote(thing("a", 14, "uid-1"))
        writes.wrote(thing("a", 13, "uid-1"))
        assert shown(writes) == {"a": 14}
        writes.deleted(A, "uid-1", 14)
        writes.wrote(thing("a", 15, "uid-1"))
        assert shown(writes) == {}

    scenario(main)


def test_a_deleted_object_is_hidden_and_one_created_after_it_is_shown():
    async def main(server, writes):
        writes.deleted(A, "uid-1", 11)
        assert writes.get(A) is None
        assert shown(writes) == {}
        assert shown(writes, "default") == {}
        server.delete("a")
        server.put("a")
        await pass_time()
        assert shown(writes) == {"a": 13}

    scenario(main)


def test_the_creation_of_what_was_deleted_meanwhile_is_not_shown():
    async def main(server, writes):
        writes.deleted(B, "uid-2", 12)
        server.put("b")
        await pass_time()
        assert shown(writes) == {"a": 11}
        server.delete("b")
        await pass_time()
        assert shown(writes) == {"a": 11}
        assert not writes._writes

    scenario(main)


def test_what_leaves_the_selectors_of_the_collection_is_not_shown():
    async def main(server, writes):
        writes.wrote(thing("b", 12, "uid-2", spec={"on": False}))
        assert shown(writes) == {"a": 11}
        writes.wrote(thing("c", 13, "uid-3", spec={"on": True}))
        assert shown(writes) == {"a": 11, "c": 13}
        writes.wrote(thing("c", 14, "uid-3", spec={"on": False}))
        assert shown(writes) == {"a": 11}

    scenario(main, fields="spec.on=true")


def test_namespaces_that_are_not_watched_are_not_covered():
    async def main(server, writes):
        assert writes.covers("default")
        assert not writes.covers("other")
        writes.wrote(thing("x", 12, "uid-2", namespace="other"))
        assert shown(writes) == {"a": 11}

    scenario(main, namespace="default")


def test_writes_that_the_cache_has_do_not_pile_up():
    async def main(server, writes):
        for number in range(1000):
            obj = server.put(f"n{number}")
            writes.wrote(obj)
            if number % 50 == 49:
                await pass_time()
        assert len(writes._writes) <= 128

    scenario(main)


def test_an_index_has_own_writes_and_not_what_they_replace():
    async def main(server, writes):
        writes.informer.indexer.add_index("color", lambda obj: [json.loads(obj.raw).get("color", "none")])
        writes.wrote(thing("a", 12, "uid-1", color="red"))
        writes.wrote(thing("b", 13, "uid-2", color="red"))
        assert {obj.key.name for obj in writes.by_index("color", "red")} == {"a", "b"}
        assert writes.by_index("color", "none") == []

    scenario(main)


def test_the_cache_is_too_old_until_a_deletion_of_many_has_been_seen():
    async def main(server, writes):
        writes.deleted_some("default", 12)
        assert not writes.is_current("default")
        assert not writes.is_current("")
        assert writes.is_current("other")
        server.delete("a")
        await pass_time()
        assert writes.is_current("default")
        assert writes.is_current("")

    scenario(main)
