"""One cache of a kind in several namespaces: each with its own connection and its own troubles, in virtual time."""

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_collection import ScriptedCollection, expired, line

import virtual_time
from kapi.api.errors import Forbidden
from kapi.client.errors import ConnectionLost, NoMatch
from kapi.informer.cached import decoder_of
from kapi.informer.indexer import by_label
from kapi.informer.informer import SharedInformer
from kapi.informer.namespaces import Parts
from kapi.informer.states import State


class Recorder:
    """A raw handler that remembers what it heard, and whether it was told two things at once."""

    def __init__(self, delay=0.0):
        self.heard = []
        self.state = {}
        self.is_busy = False
        self.delay = delay

    async def _hear(self, *what):
        assert not self.is_busy
        self.is_busy = True
        await asyncio.sleep(self.delay)
        self.is_busy = False
        self.heard.append(what)

    def on_add(self, obj, *, initial):
        assert obj.key not in self.state
        self.state[obj.key] = obj.revision
        return self._hear("add", str(obj.key), initial)

    def on_update(self, old, new):
        assert self.state[new.key] == old.revision
        self.state[new.key] = new.revision
        return self._hear("update", str(new.key))

    def on_delete(self, obj, *, stale):
        del self.state[obj.key]
        return self._hear("delete", str(obj.key), stale)


class Plane:
    """Servers by namespace; `find` can be told to fail."""

    def __init__(self, *namespaces):
        self.servers = {namespace: ScriptedCollection() for namespace in namespaces}
        self.failures = []
        self.found = 0

    async def find(self):
        if self.failures:
            raise self.failures.pop(0)
        self.found += 1
        return self.servers

    def put(self, namespace, name, **more):
        # Revisions are those of one store, whatever the namespace.
        self.servers[namespace].revision = max(server.revision for server in self.servers.values())
        self.servers[namespace].put(name, namespace=namespace, **more)

    def delete(self, namespace, name):
        self.servers[namespace].revision = max(server.revision for server in self.servers.values())
        self.servers[namespace].delete(name)

    def keys(self):
        return {f"{namespace}/{name}" for namespace, server in self.servers.items() for name in server.objects}


def informer_of(plane, **options):
    clock = virtual_time.LoopClock()
    return SharedInformer(Parts(plane.find), decoder_of(dict), name="things", clock=clock, random=Random(1), **options)


def scenario(main, **options):
    """Run with `x/a` and `y/b`, and an informer of both that is not started."""

    async def run():
        plane = Plane("x", "y")
        plane.put("x", "a")
        plane.put("y", "b")
        informer = informer_of(plane, **options)
        try:
            await main(plane, informer)
        finally:
            await informer.stop()
            assert not any(server.connections for server in plane.servers.values())

    virtual_time.run(run())


async def run_pending(seconds=5):
    await asyncio.sleep(seconds)


def cached(informer):
    return {str(obj.key) for obj in informer.lister.cached.list()}


def test_one_cache_holds_all_namespaces_and_each_has_one_connection():
    async def main(plane, informer):
        recorder = Recorder(delay=0.1)
        informer.add_raw_handler(recorder)
        informer.start()
        await informer.wait_for_sync()
        plane.put("x", "c")
        plane.put("y", "b")
        plane.delete("x", "a")
        await run_pending()
        assert sorted(recorder.heard[:2]) == [("add", "x/a", True), ("add", "y/b", True)]
        assert sorted(recorder.heard[2:]) == [("add", "x/c", False), ("delete", "x/a", False), ("update", "y/b")]
        assert cached(informer) == {"x/c", "y/b"}
        assert [obj.key.name for obj in informer.lister.cached.list(namespace="y")] == ["b"]
        assert informer.lister.get("c", "x")["metadata"]["name"] == "c"
        assert informer.lister.get("c", "y") is None
        assert [server.verbs() for server in plane.servers.values()] == [["stream"], ["stream"]]

    scenario(main)


def test_indexes_span_the_namespaces():
    async def main(plane, informer):
        informer.start()
        await informer.wait_for_sync()
        informer.indexer.add_index("late", lambda obj: [obj.key.name[:1]])
        assert {str(obj.key) for obj in informer.lister.cached.by_index("early", "b")} == {"y/b"}
        assert sorted(informer.indexer.index_values("late")) == ["a", "b"]
        assert informer.lister.by_index("colour", "blue") == []

    scenario(main, indexes={"early": lambda obj: [obj.key.name], "colour": by_label("colour")})


def test_nothing_counts_as_synced_before_every_namespace_is():
    async def main(plane, informer):
        recorder = Recorder()
        registration = informer.add_raw_handler(recorder)
        plane.servers["y"].is_dead = True
        informer.start()
        await run_pending(30)
        assert not informer.has_synced
        assert isinstance(informer.reflector.last_error, ConnectionLost)
        with pytest.raises(TimeoutError, match="connection refused"):
            await informer.wait_for_sync(1)
        # What changes meanwhile is not lost, and what went was never there.
        plane.put("x", "c")
        plane.put("x", "a")
        plane.delete("x", "c")
        plane.put("x", "d")
        await run_pending()
        plane.servers["y"].is_dead = False
        await informer.wait_for_sync(120)
        await registration.wait_for_sync()
        assert sorted(recorder.heard) == [("add", "x/a", True), ("add", "x/d", True), ("add", "y/b", True)]
        assert informer.reflector.last_error is None
        assert informer.reflector.state is State.WATCHING

    scenario(main)


def test_an_echo_is_known_as_one_before_every_namespace_is_synced():
    async def main(plane, informer):
        plane.put("x", "c")
        plane.servers["y"].is_dead = True
        informer.start()
        await run_pending(1)
        server = plane.servers["x"]
        server.connection.send(line("ADDED", server.objects["a"]))
        await run_pending(10)
        assert server.verbs() == ["stream"]
        plane.servers["y"].is_dead = False
        await informer.wait_for_sync(120)
        assert cached(informer) == {"x/a", "x/c", "y/b"}

    scenario(main)


def test_a_namespace_that_is_listed_again_leaves_the_others_alone():
    async def main(plane, informer):
        informer.start()
        await informer.wait_for_sync()
        recorder = Recorder()
        await informer.add_raw_handler(recorder).wait_for_sync()
        recorder.heard.clear()
        server = plane.servers["x"]
        server.connection.fail(expired())
        server.connection.stall()
        plane.delete("x", "a")
        plane.put("x", "e")
        server.compact()
        await run_pending(30)
        assert sorted(recorder.heard) == [("add", "x/e", False), ("delete", "x/a", True)]
        assert cached(informer) == {"x/e", "y/b"}
        assert server.verbs() == ["stream", "stream"]
        assert plane.servers["y"].verbs().count("stream") == 1

    scenario(main)


def test_a_namespace_that_cannot_be_reached_does_not_hold_up_the_others():
    async def main(plane, informer):
        informer.start()
        await informer.wait_for_sync()
        plane.servers["y"].is_dead = True
        plane.servers["y"].connection.fail(ConnectionLost("reset"))
        await run_pending()
        plane.put("x", "c")
        await run_pending()
        assert cached(informer) == {"x/a", "x/c", "y/b"}
        assert informer.reflector.state is not State.WATCHING
        plane.put("y", "f")
        plane.servers["y"].is_dead = False
        await run_pending(120)
        assert cached(informer) == {"x/a", "x/c", "y/b", "y/f"}

    scenario(main)


def test_a_late_handler_gets_all_objects_and_a_resync_shows_all_objects():
    async def main(plane, informer):
        informer.start()
        await informer.wait_for_sync()
        recorder = Recorder()
        registration = informer.add_raw_handler(recorder, resync=60)
        await registration.wait_for_sync()
        assert sorted(recorder.heard) == [("add", "x/a", True), ("add", "y/b", True)]
        await run_pending(61)
        assert sorted(recorder.heard[2:]) == [("update", "x/a"), ("update", "y/b")]

    scenario(main)


def test_a_kind_without_namespaces_is_followed_once():
    async def run():
        plane = Plane("")
        plane.servers[""].put("a", namespace="")
        informer = informer_of(plane)
        async with informer:
            await informer.wait_for_sync(30)
            plane.servers[""].delete("a")
            plane.servers[""].put("b", namespace="")
            await run_pending()
            assert informer.lister.get("b")["metadata"]["name"] == "b"
            assert len(informer.lister) == 1
            assert list(informer.reflector.parts) == [""]

    virtual_time.run(run())


def test_a_kind_that_is_not_served_yet_is_waited_for():
    async def main(plane, informer):
        assert informer.reflector.state is State.STOPPED
        plane.failures = [NoMatch("no matches for kind"), Forbidden("not you"), NoMatch("no matches for kind")]
        informer.start()
        with pytest.raises(TimeoutError, match="no matches for kind"):
            await informer.wait_for_sync(0.5)
        assert informer.reflector.state is State.WAITING
        assert plane.found == 0
        await informer.wait_for_sync(60)
        assert plane.found == 1
        assert informer.reflector.last_error is None

    scenario(main)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "lose", "reset", "stall", "die", "live", "wait"]),
        st.sampled_from(["x", "y"]),
        st.sampled_from(["a", "b"]),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, can_stream=st.booleans())
def test_whatever_happens_to_single_namespaces_the_cache_ends_equal_and_handlers_hear_a_story_that_makes_sense(
    steps, can_stream
):
    async def run():
        plane = Plane("x", "y")
        for server in plane.servers.values():
            server.can_stream = can_stream
        informer, recorder = informer_of(plane), Recorder(delay=0.01)
        informer.add_raw_handler(recorder)
        informer.start()
        for what, namespace, name in steps:
            server = plane.servers[namespace]
            if what == "put":
                plane.put(namespace, name)
            elif what == "delete" and name in server.objects:
                plane.delete(namespace, name)
            elif what == "lose":
                for connection in server.connections:
                    connection.send(line("ERROR", expired().status()))
                    connection.stall()
                server.compact()
            elif what in ("reset", "stall"):
                for connection in server.connections:
                    connection.fail(ConnectionLost("reset")) if what == "reset" else connection.stall()
            elif what in ("die", "live"):
                server.is_dead = what == "die"
            else:
                await asyncio.sleep(3)
        for server in plane.servers.values():
            server.is_dead = False
        await asyncio.sleep(1000)
        assert informer.has_synced
        assert cached(informer) == {str(key) for key in recorder.state} == plane.keys()
        assert {obj.key: obj.revision for obj in informer.lister.cached.list()} == recorder.state
        await informer.stop()

    virtual_time.run(run())
