import asyncio

import pytest
from scripted_collection import ScriptedCollection, expired, line, thing

import virtual_time
from kapi.api.errors import Forbidden
from kapi.client.errors import ConnectionLost
from kapi.informer.cached import decoder_of
from kapi.informer.handlers import Handlers
from kapi.informer.indexer import by_label
from kapi.informer.informer import SharedInformer


class Recorder:
    """A raw handler that remembers what it heard, and can be held up."""

    def __init__(self, informer=None):
        self.heard = []
        self.go = asyncio.Event()
        self.go.set()
        self.informer = informer

    async def _hear(self, *what):
        await self.go.wait()
        self.heard.append(what)

    def on_add(self, obj, *, initial):
        return self._hear("add", obj.key.name, obj.revision, initial)

    def on_update(self, old, new):
        return self._hear("update", new.key.name, old.revision, new.revision)

    def on_delete(self, obj, *, stale):
        return self._hear("delete", obj.key.name, obj.revision, stale)


def informer_of(server, **options):
    return SharedInformer(server, decoder_of(dict), name="things", clock=virtual_time.LoopClock(), **options)


def scenario(main, **options):
    """Run with a server that has `a` at revision 11 and `b` at 12, and an informer that is not started."""

    async def run():
        server = ScriptedCollection()
        server.put("a")
        server.put("b")
        informer = informer_of(server, **options)
        try:
            await main(server, informer)
        finally:
            await informer.stop()

    virtual_time.run(run())


async def run_pending():
    await asyncio.sleep(5)


def test_handlers_get_the_initial_objects_and_the_changes():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await informer.wait_for_sync()
        server.put("a")
        server.put("c")
        server.delete("b")
        await run_pending()
        assert recorder.heard == [
            ("add", "a", 11, True),
            ("add", "b", 12, True),
            ("update", "a", 11, 13),
            ("add", "c", 14, False),
            ("delete", "b", 15, False),
        ]

    scenario(main)


def test_objects_are_decoded_for_handlers_that_want_objects():
    async def main(server, informer):
        heard = []
        informer.add_handler(Handlers(on_add=heard.append, on_delete=heard.append))
        informer.start()
        server.delete("a")
        await run_pending()
        assert heard == [server.objects["b"]]
        server.put("c", data=5)
        await run_pending()
        assert heard[-1]["data"] == 5

    scenario(main)


def test_a_late_handler_gets_all_objects_first():
    async def main(server, informer):
        informer.start()
        await informer.wait_for_sync()
        server.put("c")
        await run_pending()
        recorder = Recorder()
        registration = informer.add_raw_handler(recorder)
        assert not registration.has_synced
        server.put("a")
        await registration.wait_for_sync()
        assert recorder.heard == [("add", "a", 11, True), ("add", "b", 12, True), ("add", "c", 13, True)]
        await run_pending()
        assert recorder.heard[3:] == [("update", "a", 11, 14)]

    scenario(main)


def test_a_missed_deletion_is_delivered_with_the_last_state_known():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        server.connection.fail(expired())
        server.connection.stall()
        server.put("a")
        server.delete("a")
        server.compact()
        await run_pending()
        assert recorder.heard[2:] == [("delete", "a", 11, True)]

    scenario(main)


def test_an_object_that_was_made_anew_in_a_gap_is_a_deletion_and_an_addition():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        server.connection.fail(expired())
        server.connection.stall()
        server.delete("a")
        server.put("a")
        server.compact()
        await run_pending()
        assert recorder.heard[2:] == [("delete", "a", 11, True), ("add", "a", 14, False)]

    scenario(main)


def test_the_deletion_of_an_unseen_successor_is_delivered_as_the_deletion_of_the_known_object():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        server.connection.send(line("DELETED", thing("a", 20, "another uid")))
        await run_pending()
        assert recorder.heard[2:] == [("delete", "a", 11, True)]

    scenario(main)


def test_a_list_without_changes_calls_no_handler():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        server.connection.fail(expired())
        await run_pending()
        assert server.verbs() == ["stream", "stream"]
        assert len(recorder.heard) == 2

    scenario(main)


def test_the_cache_and_its_indexes_are_updated_before_a_handler_is_called():
    async def main(server, informer):
        seen = []

        def on_update(old, new):
            [found] = informer.lister.cached.by_index("app", "x")
            seen.append((new.revision, found.revision))

        informer.add_raw_handler(Handlers(on_update=on_update))
        informer.start()
        await run_pending()
        server.put("a")["metadata"]["labels"] = {}
        for _ in range(3):
            obj = server.put("a")
            labelled = {
                **obj,
                "metadata": {**obj["metadata"], "labels": {"app": "x"}, "resourceVersion": str(server.revision + 1)},
            }
            server.revision += 1
            server.objects["a"] = labelled
            server._publish("MODIFIED", labelled)
        await run_pending()
        assert len(seen) >= 1
        assert all(found >= told for told, found in seen)

    scenario(main, indexes={"app": by_label("app")})


def test_a_slow_handler_delays_only_itself_and_sees_the_end_of_it():
    async def main(server, informer):
        quick, slow = Recorder(), Recorder()
        informer.add_raw_handler(quick)
        registration = informer.add_raw_handler(slow, buffer=4)
        informer.start()
        await run_pending()
        slow.go.clear()
        for _ in range(100):
            server.put("a")
        server.delete("b")
        await run_pending()
        assert len(quick.heard) == 2 + 101
        assert registration.pending <= 8
        slow.go.set()
        await run_pending()
        assert slow.heard[-1] == ("delete", "b", 113, False)
        assert [heard[3] for heard in slow.heard if heard[0] == "update"][-1] == 112
        assert len(slow.heard) < 20

    scenario(main)


def test_a_failing_handler_does_not_affect_the_others(caplog):
    async def main(server, informer):
        recorder = Recorder()

        def fail(obj):
            raise RuntimeError("no")

        informer.add_raw_handler(Handlers(on_add=fail), name="bad")
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        assert len(recorder.heard) == 2

    scenario(main)
    assert caplog.text.count("handler bad failed") == 2


def test_a_removed_handler_is_not_called_again():
    async def main(server, informer):
        recorder = Recorder()
        registration = informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        informer.remove_handler(registration)
        server.put("c")
        await run_pending()
        assert len(recorder.heard) == 2

    scenario(main)


def test_a_resync_shows_all_objects_to_the_handlers_that_requested_it():
    async def main(server, informer):
        asked, other = Recorder(), Recorder()
        informer.add_raw_handler(other)
        informer.start()
        await run_pending()
        informer.add_raw_handler(asked, resync=30)
        await asyncio.sleep(29)
        assert len(asked.heard) == 2
        await asyncio.sleep(2)
        assert asked.heard[2:] == [("update", "a", 11, 11), ("update", "b", 12, 12)]
        await asyncio.sleep(60)
        assert len(asked.heard) == 8
        assert len(other.heard) == 2

    scenario(main)


def test_two_resyncs_at_once_reach_both():
    async def main(server, informer):
        first, second = Recorder(), Recorder()
        for recorder in (first, second):
            informer.add_raw_handler(recorder, resync=10)
        informer.start()
        await asyncio.sleep(11)
        assert len(first.heard) == len(second.heard) == 4

    scenario(main)


def test_stopping_tells_what_is_known_to_the_end():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        recorder.go.clear()
        for _ in range(5):
            server.put("a")
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_later(3, recorder.go.set)
        await informer.stop(drain=5)
        assert informer.is_stopped
        assert recorder.heard[-1] == ("update", "a", 16, 17)
        assert not server.connections

    scenario(main)


def test_stopping_does_not_wait_for_ever():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        recorder.go.clear()
        await run_pending()
        before = asyncio.get_running_loop().time()
        await informer.stop(drain=5)
        assert asyncio.get_running_loop().time() - before == pytest.approx(5, abs=0.1)

    scenario(main)


def test_an_informer_that_was_stopped_takes_no_handlers():
    async def main(server, informer):
        informer.start()
        await informer.stop()
        with pytest.raises(RuntimeError, match="stopped"):
            informer.add_handler(Handlers())

    scenario(main)


def test_an_informer_that_never_ran_can_be_stopped():
    async def main(server, informer):
        informer.add_raw_handler(Recorder())
        await informer.stop()
        assert informer.is_stopped

    scenario(main)


def test_run_ends_when_stopped_and_stops_when_cancelled():
    async def main(server, informer):
        task = asyncio.create_task(informer.run())
        await run_pending()
        assert informer.has_synced
        await informer.stop()
        await asyncio.wait_for(task, 1)

        other = informer_of(server)
        task = asyncio.create_task(other.run())
        await run_pending()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert other.is_stopped
        assert not server.connections

    scenario(main)


def test_leaves_no_tasks_behind():
    async def main(server, informer):
        before = asyncio.all_tasks()
        async with informer:
            informer.add_raw_handler(Recorder())
            await run_pending()
        assert asyncio.all_tasks() == before

    scenario(main)


def test_waiting_for_sync_in_vain_says_what_the_server_said():
    async def main(server, informer):
        server.failures = [Forbidden("things is forbidden: no")] * 100
        informer.start()
        with pytest.raises(TimeoutError, match="things: not synced after 20 s: things is forbidden"):
            await informer.wait_for_sync(20)
        assert not informer.has_synced

    scenario(main)


def test_an_empty_collection_syncs():
    async def run():
        informer = informer_of(ScriptedCollection())
        recorder = Recorder()
        registration = informer.add_raw_handler(recorder)
        async with informer:
            await informer.wait_for_sync(1)
            await registration.wait_for_sync()
            assert recorder.heard == []

    virtual_time.run(run())


def test_what_the_transform_drops_is_not_kept():
    def transform(obj):
        obj.pop("data", None)
        return obj

    async def main(server, informer):
        server.put("c", data="secret")
        informer.start()
        await run_pending()
        assert "data" not in informer.lister.get("c", "default")
        assert b"secret" not in informer.lister.cached.get("c", "default").raw

    scenario(main, transform=transform)


def test_a_broken_connection_calls_no_handler():
    async def main(server, informer):
        recorder = Recorder()
        informer.add_raw_handler(recorder)
        informer.start()
        await run_pending()
        server.connection.fail(ConnectionLost("reset"))
        server.put("a")
        await run_pending()
        assert recorder.heard[2:] == [("update", "a", 11, 13)]

    scenario(main)
