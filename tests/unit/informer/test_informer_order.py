"""The informer processes what the server sends in order, and knows at which revision its cache is."""

import asyncio

from scripted_collection import ScriptedCollection, expired

import virtual_time
from kapi.informer.cached import decoder_of
from kapi.informer.indexer import by_label
from kapi.informer.informer import SharedInformer


class Recorder:
    """A raw handler that notes each event, and calls `look` at each."""

    def __init__(self, informer):
        self.informer = informer
        self.look = None
        self.heard = []

    def _hear(self, what, obj):
        if self.look is not None:
            self.look()
        self.heard.append((what, obj.key.name, obj.revision))

    def on_add(self, obj, *, initial):
        self._hear("add", obj)

    def on_update(self, old, new):
        self._hear("update", new)

    def on_delete(self, obj, *, stale):
        self._hear("delete", obj)


def scenario(main, names=("a", "b")):
    async def run():
        server = ScriptedCollection()
        for name in names:
            server.put(name)
        informer = SharedInformer(server, decoder_of(dict), name="things", clock=virtual_time.LoopClock())
        recorder = Recorder(informer)
        informer.add_raw_handler(recorder)
        informer.start()
        await informer.wait_for_sync()
        await asyncio.sleep(1)
        recorder.heard.clear()
        try:
            await main(server, informer, recorder)
        finally:
            await informer.stop()

    virtual_time.run(run())


def test_changes_of_several_objects_are_shown_in_the_order_of_the_server():
    """A DeltaFIFO would show both changes of a, and then b."""

    async def main(server, informer, recorder):
        server.put("a")
        server.put("b")
        server.put("a")
        server.delete("b")
        server.put("c")
        await asyncio.sleep(1)
        assert recorder.heard == [
            ("update", "a", 13),
            ("update", "b", 14),
            ("update", "a", 15),
            ("delete", "b", 16),
            ("add", "c", 17),
        ]

    scenario(main)


def test_a_list_shows_missed_deletions_first_and_then_the_rest():
    async def main(server, informer, recorder):
        server.connection.fail(expired())
        server.connection.stall()
        server.put("a")
        server.put("c")
        server.delete("b")
        server.compact()
        await asyncio.sleep(5)
        assert recorder.heard == [("delete", "b", 12), ("update", "a", 13), ("add", "c", 14)]

    scenario(main)


def test_a_list_takes_the_place_of_the_cache_in_one_step():
    """However long the list: a reader never sees some of its objects with some of those before it."""
    many = [f"old-{number}" for number in range(1500)]
    seen = set()

    async def main(server, informer, recorder):
        def look():
            kinds = {key.name.split("-")[0] for key in informer.indexer.keys()}  # noqa: SIM118
            seen.add((*kinds, len(informer.indexer)))

        # While the list is prepared, and while handlers are shown what is new in it.
        informer.indexer.add_index("name", lambda obj: (look(), ())[1])
        recorder.look = look
        server.connection.fail(expired())
        server.connection.stall()
        for name in many:
            server.delete(name)
        for number in range(700):
            server.put(f"new-{number}")
        server.compact()
        await asyncio.sleep(5)
        assert seen == {("old", 1500), ("new", 700)}
        assert len(recorder.heard) == 2200

    scenario(main, many)


def test_a_handler_that_is_added_while_a_list_is_shown_hears_of_each_object_once():
    async def main(server, informer, recorder):
        late = Recorder(informer)

        def add_once():
            recorder.look = None
            informer.add_raw_handler(late)

        recorder.look = add_once
        server.connection.fail(expired())
        server.connection.stall()
        for number in range(1000):
            server.put(f"n{number}")
        server.compact()
        await asyncio.sleep(5)
        assert sorted(name for _, name, _ in late.heard) == sorted(server.objects)
        assert {what for what, _, _ in late.heard} == {"add"}

    scenario(main)


def test_an_index_that_is_added_while_a_list_is_prepared_has_its_objects():
    async def main(server, informer, recorder):
        before = informer.indexer.empty_contents()
        informer.indexer.add_index("tier", by_label("tier"))
        for obj in informer.indexer.values():
            before.put(obj)
        informer.indexer.replace(before)
        assert informer.indexer.by_index("tier", "web") == []
        assert len(informer.indexer) == 2

    scenario(main)


def test_an_unchanged_object_of_a_list_is_not_given_to_index_functions_again():
    async def main(server, informer, recorder):
        called = []
        informer.indexer.add_index("name", lambda obj: called.append(obj.key.name) or (obj.key.name,))
        called.clear()
        server.connection.fail(expired())
        server.connection.stall()
        server.put("a")
        server.compact()
        await asyncio.sleep(5)
        assert called == ["a"]
        assert [obj.key.name for obj in informer.indexer.by_index("name", "b")] == ["b"]

    scenario(main)


def test_the_revision_of_the_cache_follows_lists_changes_and_bookmarks():
    async def main(server, informer, recorder):
        assert informer.resource_version == "12"
        server.put("a")
        await asyncio.sleep(1)
        assert informer.resource_version == "13"
        assert informer.has_seen("default", 13)
        assert not informer.has_seen("default", 14)
        server.revision = 40
        server.bookmark()
        await asyncio.sleep(1)
        assert informer.has_seen("default", 40)

    scenario(main)


def test_the_revision_follows_a_server_that_was_restored_from_a_copy():
    async def main(server, informer, recorder):
        server.connection.fail(expired())
        server.connection.stall()
        server.revision = 5
        server.objects.clear()
        server.history.clear()
        server.kept_from = 5
        server.put("a")
        await asyncio.sleep(60)
        assert informer.resource_version == "6"
        assert not informer.has_seen("default", 12)

    scenario(main)
