"""An informer against a collection on a server and a connection that fail in every way they know, in virtual time.

The guarantees of `SharedInformer`, checked after each step on every handler: one that keeps up, one that does not, one that
came late.
"""

import asyncio
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scripted_collection import ScriptedCollection, expired, line

from kapi.api.errors import InternalError, ServiceUnavailable, TooManyRequests
from kapi.client.errors import ConnectError, ConnectionLost, TransportTimeout
from kapi.informer.cached import decoder_of
from kapi.informer.indexer import NAMESPACE
from kapi.informer.informer import SharedInformer
from virtual_time import LoopClock, VirtualLoop

NAMES = ["a", "b", "c"]
ERRORS = [
    lambda: InternalError("no"),
    lambda: ServiceUnavailable("not now"),
    lambda: TooManyRequests("slow down", details={"retryAfterSeconds": 2}),
    lambda: ConnectError("refused", refused=True),
    lambda: ConnectionLost("reset"),
    lambda: TransportTimeout("no answer"),
    expired,
]


class Witness:
    """A raw handler that notes when what it hears makes no sense. It must not raise: informers survive that."""

    def __init__(self, machine, delay):
        self.machine = machine
        self.delay = delay
        self.state = {}
        self.seen = {}
        self.is_busy = False

    def _check(self, is_so, complaint, name):
        if not is_so:
            self.machine.problems.append(f"{name}: {complaint}")

    async def _hear(self, name, revision):
        self._check(not self.is_busy, "told of while another was", name)
        self.is_busy = True
        if revision is not None:
            self._check(revision in self.machine.server.states[name], "a state that never was", name)
            self._check(revision > self.seen.get(name, 0), "a state that is not after the one before", name)
            self.seen[name] = revision
        cached = self.machine.informer.indexer.get(("default", name))
        self._check(cached is None or cached.revision >= self.seen.get(name, 0), "cached older than it was told", name)
        await asyncio.sleep(self.delay)
        self.is_busy = False

    def on_add(self, obj, *, initial):
        name = obj.key.name
        self._check(name not in self.state, "added twice", name)
        self.state[name] = obj
        return self._hear(name, obj.revision)

    def on_update(self, old, new):
        name, last = new.key.name, self.state.get(new.key.name)
        self._check(last and old.resource_version == last.resource_version, "not from the last state shown", name)
        self._check(old.uid == new.uid, "turned into another", name)
        self.state[name] = new
        return self._hear(name, new.revision)

    def on_delete(self, obj, *, stale):
        name, last = obj.key.name, self.state.pop(obj.key.name, None)
        self._check(last and obj.uid == last.uid, "another deleted than was known", name)
        is_last_known = last and obj.resource_version == last.resource_version
        self._check(stale or not is_last_known, "a deletion with a state from before it", name)
        return self._hear(name, None if is_last_known else obj.revision)


class Guarantees(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.runner.get_loop()
        self.server = ScriptedCollection()
        self.problems = []

    def let_pass(self, seconds):
        self.runner.run(asyncio.sleep(seconds))

    @initialize(can_stream=st.booleans(), seed=st.integers(0, 1000))
    def begin(self, can_stream, seed):
        self.server.can_stream = can_stream

        async def start():
            self.informer = SharedInformer(
                self.server, decoder_of(dict), name="things", clock=LoopClock(), random=Random(seed)
            )
            self.witnesses = [Witness(self, 0), Witness(self, 7)]
            self.informer.add_raw_handler(self.witnesses[0])
            self.informer.add_raw_handler(self.witnesses[1], buffer=2)
            self.informer.start()
            asyncio.get_running_loop().set_exception_handler(lambda _, context: self.problems.append(context))

        self.runner.run(start())

    @rule(name=st.sampled_from(NAMES))
    def put(self, name):
        self.server.put(name)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name):
        if name in self.server.objects:
            self.server.delete(name)

    @rule(name=st.sampled_from(NAMES))
    def make_anew(self, name):
        self.delete(name)
        self.server.put(name)

    @rule(name=st.sampled_from(NAMES))
    def come_back(self, name):
        if name not in self.server.objects and name in self.server.states:
            self.server.come_back(name)

    @rule(seconds=st.sampled_from([0.01, 1, 10, 65, 400]))
    def time_passes(self, seconds):
        self.let_pass(seconds)

    @rule()
    def compact(self):
        self.server.compact()

    @rule()
    def bookmark(self):
        self.server.bookmark()

    @precondition(lambda self: self.server.connections)
    @rule(how=st.sampled_from(["end", "reset", "stall", "expire", "error", "garbage"]))
    def break_connection(self, how):
        for connection in self.server.connections:
            if how == "end":
                connection.end()
            elif how == "reset":
                connection.fail(ConnectionLost("reset"))
            elif how == "stall":
                connection.stall()
            elif how == "expire":
                connection.send(line("ERROR", expired().status()))
            elif how == "error":
                connection.send(line("ERROR", InternalError("no").status()))
            else:
                connection.send(b'{"type":')

    @precondition(lambda self: self.server.connections)
    @rule(name=st.sampled_from(NAMES), what=st.sampled_from(["make anew", "delete", "put"]))
    def miss_something_for_good(self, name, what):
        for connection in self.server.connections:
            connection.fail(expired())
            connection.stall()
        if what == "make anew":
            self.make_anew(name)
        elif what == "delete":
            self.delete(name)
        else:
            self.put(name)
        self.server.compact()

    @precondition(lambda self: self.server.connections)
    @rule(back=st.integers(1, 4))
    def repeat(self, back):
        for connection in self.server.connections:
            for text in connection.sent[-back:]:
                if b'"BOOKMARK"' not in text and b'"ERROR"' not in text:
                    connection.send(text)

    @rule(which=st.lists(st.sampled_from(ERRORS), min_size=1, max_size=4))
    def requests_fail(self, which):
        self.server.failures += [make() for make in which]

    @rule(is_dead=st.booleans())
    def die_or_come_back(self, is_dead):
        self.server.is_dead = is_dead
        if is_dead:
            for connection in self.server.connections:
                connection.fail(ConnectionLost("reset"))

    @rule()
    def another_handler_comes(self):
        async def add():
            self.witnesses.append(Witness(self, 0.5))
            self.informer.add_raw_handler(self.witnesses[-1])

        if len(self.witnesses) < 5:
            self.runner.run(add())

    @rule()
    def everything_calms_down(self):
        self.server.is_dead = False
        self.server.failures.clear()
        self.let_pass(1000)
        expected = {name: obj["metadata"]["resourceVersion"] for name, obj in self.server.objects.items()}
        assert self.informer.has_synced
        cache = self.informer.lister.cached
        assert {obj.key.name: obj.resource_version for obj in cache.list()} == expected
        assert {obj.key.name for obj in cache.by_index(NAMESPACE, "default")} == set(expected)
        for witness in self.witnesses:
            assert {name: obj.resource_version for name, obj in witness.state.items()} == expected

    @invariant()
    def nothing_went_wrong(self):
        assert not self.problems

    @invariant()
    def no_hot_loop(self):
        # Every request but the first ones comes with a wait, or with a minute of silence, or a watch of at least a second.
        requests = [at for at, *_ in self.server.requests]
        assert all(later - earlier > 0.5 for earlier, later in zip(requests, requests[4:], strict=False))

    def teardown(self):
        try:
            if hasattr(self, "informer"):
                self.everything_calms_down()
                self.runner.run(self.informer.stop(drain=100))
                assert not self.server.connections
        finally:
            self.runner.close()


TestGuarantees = Guarantees.TestCase
TestGuarantees.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
