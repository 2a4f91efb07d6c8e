"""The watch cache by itself: state, events, fan-out, and watchers that are closed."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.clock import ManualClock
from kapi.cache import watchcache, watcher
from kapi.cache.selector import ItemSelector
from kapi.cache.watchcache import CacheHub, Item, Selection, TooOld, prefix_of
from kapi.cache.watcher import Watcher
from kapi.storage.interface import Change, Compacted, Draft
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PREFIX = "/registry/core/things/"
HEAD = b'{"kind":"Thing","apiVersion":"v1",'


class Reader:
    """Values of the tests: the head, then metadata with labels."""

    def split(self, value):
        return "", value[len(HEAD) :]

    def select(self, value):
        return Selection(json.loads(value)["metadata"].get("labels"), None)


class Encoder:
    def __init__(self, share="plain"):
        self.share = share
        self.calls = 0

    def encode(self, kind, item):
        self.calls += 1
        return f"{kind} {item.name} {item.revision};".encode()


class Outlet:
    """A peer that reads everything, or nothing."""

    def __init__(self, *, reads=True):
        self.reads = reads
        self.data = b""
        self.pending = 0
        self.aborted = False
        self.writes = 0

    @property
    def is_full(self):
        return self.pending > 100

    def write(self, data):
        self.writes += 1
        self.data += data
        if not self.reads:
            self.pending += len(data)

    framing = None

    def frame(self, data):
        return data

    def write_framed(self, framed):
        self.write(framed)
        return self.is_full

    def abort(self):
        self.aborted = True

    @property
    def events(self):
        return self.data.decode().split(";")[:-1]


def _value(revision, name="a", labels=None, filler=""):
    metadata = {"name": name, "resourceVersion": str(revision), "labels": labels or {}}
    return HEAD + json.dumps({"metadata": metadata, "filler": filler}, separators=(",", ":")).encode()[1:]


def _put(revision, name="a", labels=None, namespace="ns", filler="", prefix=PREFIX):
    return Change(revision, f"{prefix}{namespace}/{name}", _value(revision, name, labels, filler))


def _gone(revision, name="a", namespace="ns", prefix=PREFIX):
    return Change(revision, f"{prefix}{namespace}/{name}", None)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def hub(clock):
    return CacheHub(MemoryStorage(), lambda _: Reader(), clock=clock)


@pytest.fixture
def cache(hub):
    return hub.cache(PREFIX)


def _watch(cache, matches=None, *, prefix="", outlet=None, encoder=None):
    selector = None if matches is None else ItemSelector(matches)
    watcher = Watcher(cache, prefix, selector, encoder or Encoder(), outlet or Outlet())
    cache.add(watcher)
    return watcher


# -- state ------------------------------------------------------------------------------------------------------------


def test_latest_state_is_kept(cache):
    cache.apply([_put(1), _put(2, labels={"x": "1"})])
    item = cache.get(f"{PREFIX}ns/a")
    assert (item.namespace, item.name, item.revision, item.labels) == ("ns", "a", 2, {"x": "1"})
    assert HEAD + item.body == _value(2, labels={"x": "1"})
    cache.apply([_gone(3)])
    assert cache.get(f"{PREFIX}ns/a") is None
    assert (len(cache), cache.items()) == (0, [])


def test_deletion_of_a_missing_key_is_no_event(cache):
    watcher = _watch(cache)
    cache.apply([_gone(1)])
    assert watcher.outlet.events == []


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["n", "n-", "n.x", "o"]), st.booleans()), max_size=40)
)
def test_items_are_in_key_order_by_namespace(steps):
    cache = CacheHub(MemoryStorage(), lambda _: Reader(), clock=ManualClock()).cache(PREFIX)
    expected = {}
    for revision, (name, namespace, present) in enumerate(steps, 1):
        cache.apply(
            [_put(revision, name, namespace=namespace) if present else _gone(revision, name, namespace=namespace)]
        )
        if present:
            expected[f"{PREFIX}{namespace}/{name}"] = revision
        else:
            expected.pop(f"{PREFIX}{namespace}/{name}", None)
    assert [(item.key, item.revision) for item in cache.items()] == sorted(expected.items())
    for namespace in ("n", "n-", "n.x", "o", "none"):
        prefix = f"{PREFIX}{namespace}/"
        found = [(item.key, item.revision) for item in cache.items(prefix)]
        assert found == sorted(pair for pair in expected.items() if pair[0].startswith(prefix))


def test_note_of_the_writer_avoids_decoding(cache):
    selection = Selection({"from": "note"}, {"spec.x": "1"})
    cache.apply([_put(1)._replace(note=selection)])
    item = cache.get(f"{PREFIX}ns/a")
    assert item.labels == {"from": "note"}
    assert item.field_values() == {"metadata.name": "a", "metadata.namespace": "ns", "spec.x": "1"}


def test_stamping_changes_the_first_version_only():
    body = b'"metadata":{"name":"a","resourceVersion":"5","annotations":{"x":"\\"resourceVersion\\":\\"5\\""}},"y":{"resourceVersion":"5"}}'
    item = Item("k", "ns", "a", 5, body, Selection(None, None)).at(77)
    obj = json.loads(b"{" + item.body)
    assert obj["metadata"]["resourceVersion"] == "77"
    assert obj["y"]["resourceVersion"] == "5"
    assert obj["metadata"]["annotations"] == {"x": '"resourceVersion":"5"'}
    assert item.revision == 77


# -- history ----------------------------------------------------------------------------------------------------------


def test_history_begins_after_the_requested_revision(cache):
    cache.apply([_put(1, "a"), _put(2, "b"), _gone(3, "a")])
    assert [event.item.revision for event in cache.since(0)] == [1, 2, 3]
    assert [event.item.revision for event in cache.since(2)] == [3]
    assert cache.since(3) == cache.since(99) == []


def test_deletion_is_an_event_with_the_last_state(cache):
    cache.apply([_put(1, labels={"x": "1"}), _gone(5)])
    event = cache.since(1)[0]
    assert event.deleted
    assert event.item.revision == 5
    assert b'"resourceVersion":"5"' in event.item.body
    assert event.item.labels == {"x": "1"}


def test_events_are_kept_for_the_retention_and_then_dropped(cache, clock):
    for revision in range(1, 151):
        cache.apply([_put(revision)])
    clock.advance(watchcache.RETENTION - 1)
    cache.apply([_put(151)])
    assert len(cache.since(0)) == 151
    clock.advance(2)
    cache.apply([_put(152)])
    # Those of the first moment are too old now, but a hundred events stay whatever their age.
    assert len(cache.since(52)) == 100
    with pytest.raises(TooOld, match=r"too old resource version: 51 \(52\)"):
        cache.since(51)


def test_number_of_events_is_bounded(cache, monkeypatch):
    monkeypatch.setattr(watchcache, "MAX_EVENTS", 10)
    for revision in range(1, 101):
        cache.apply([_put(revision)])
    assert [event.item.revision for event in cache.since(90)] == list(range(91, 101))
    with pytest.raises(TooOld) as caught:
        cache.since(89)
    assert (caught.value.revision, caught.value.oldest) == (89, 90)


def test_bytes_of_events_are_bounded(cache, monkeypatch):
    monkeypatch.setattr(watchcache, "MAX_EVENT_BYTES", 10_000)
    for revision in range(1, 101):
        cache.apply([_put(revision, filler="x" * 1000)])
    kept = len(cache.since(cache.floor))
    assert 5 <= kept < 12
    with pytest.raises(TooOld):
        cache.since(cache.floor - 1)


def test_dropped_events_free_their_objects_at_once(cache, monkeypatch):
    monkeypatch.setattr(watchcache, "MAX_EVENT_BYTES", 10_000)
    for revision in range(1, 501):
        cache.apply([_put(revision, filler="x" * 1000)])
    assert sum(event.previous is not None for event in cache._events) < 12


def test_the_resource_with_most_bytes_loses_history_first(hub, monkeypatch):
    monkeypatch.setattr(watchcache, "MAX_EVENT_BYTES", 10_000)
    busy, quiet = hub.cache(PREFIX), hub.cache("/registry/core/secrets/")
    for revision in range(1, 4):
        quiet.apply([_put(revision, filler="x" * 1000, prefix=quiet.prefix)])
    for revision in range(4, 200):
        busy.apply([_put(revision, filler="x" * 1000)])
    assert len(quiet.since(0)) == 3
    assert busy.floor > 180
    assert hub.event_bytes == quiet.event_bytes + busy.event_bytes <= 10_000


def test_a_deletion_counts_the_state_it_shows(cache):
    cache.apply([_put(1, filler="x" * 1000), _gone(2)])
    assert cache.event_bytes > 2000


def test_old_events_of_large_objects_are_dropped_though_they_are_few(cache, clock, monkeypatch):
    monkeypatch.setattr(watchcache, "MIN_EVENT_BYTES", 5_000)
    for revision in range(1, 21):
        cache.apply([_put(revision, filler="x" * 1000)])
    clock.advance(watchcache.RETENTION + 1)
    cache.trim(clock.monotonic())
    assert 3 <= len(cache.since(cache.floor)) <= 6


def test_long_history_is_trimmed_without_losing_its_place(cache, monkeypatch):
    monkeypatch.setattr(watchcache, "MAX_EVENTS", 50)
    for revision in range(1, 5001):
        cache.apply([_put(revision, f"n{revision % 7}")])
        if revision > 60:
            assert [event.item.revision for event in cache.since(revision - 3)] == [
                revision - 2,
                revision - 1,
                revision,
            ]
    assert len(cache._events) < 3000


def test_new_cache_starts_at_the_revision_of_its_hub(hub):
    hub.floor = 40
    with pytest.raises(TooOld):
        hub.cache("/registry/core/others/").since(39)
    assert hub.cache("/registry/core/others/").since(40) == []


# -- fan-out ----------------------------------------------------------------------------------------------------------


def test_watcher_is_sent_every_event(cache):
    watcher = _watch(cache)
    cache.apply([_put(1)])
    cache.apply([_put(2), _put(3, "b"), _gone(4)])
    assert watcher.outlet.events == ["ADDED a 1", "MODIFIED a 2", "ADDED b 3", "DELETED a 4"]
    # One write per commit, not one per event.
    assert watcher.outlet.writes == 2


def test_removed_watcher_is_sent_nothing_more(cache):
    watcher = _watch(cache)
    cache.remove(watcher)
    cache.remove(watcher)
    cache.apply([_put(1)])
    assert (watcher.outlet.events, cache.watchers) == ([], 0)


def test_watcher_of_a_namespace_is_sent_nothing_else(cache):
    watcher = _watch(cache, prefix=f"{PREFIX}ns/")
    cache.apply([_put(1, namespace="ns"), _put(2, namespace="ns2"), _put(3, namespace="n")])
    assert watcher.outlet.events == ["ADDED a 1"]


def _on(item):
    return (item.labels or {}).get("on") == "yes"


def test_objects_that_enter_or_leave_the_selection_are_added_or_deleted(cache):
    watcher = _watch(cache, _on)
    yes, no = {"on": "yes"}, {"on": "no"}
    cache.apply([_put(1, labels=no), _put(2, labels=yes), _put(3, labels=yes), _put(4, labels=no), _put(5, labels=no)])
    cache.apply([_put(6, labels=yes), _gone(7), _put(8, labels=no), _gone(9)])
    assert watcher.outlet.events == [
        "ADDED a 2",
        "MODIFIED a 3",
        "DELETED a 4",
        "ADDED a 6",
        "DELETED a 7",
    ]


def test_an_object_that_leaves_the_selection_is_sent_as_it_was(cache):
    seen = []

    class Bodies(Encoder):
        def encode(self, kind, item):
            seen.append((kind, json.loads(b"{" + item.body)))
            return b""

    _watch(cache, _on, encoder=Bodies(None))
    cache.apply([_put(1, labels={"on": "yes"}, filler="old"), _put(2, labels={}, filler="new")])
    kind, obj = seen[-1]
    assert (kind, obj["filler"], obj["metadata"]["resourceVersion"]) == ("DELETED", "old", "2")


def test_event_is_encoded_once_for_watchers_of_the_same_representation(cache):
    encoders = [Encoder("plain"), Encoder("plain"), Encoder("other"), Encoder(None), Encoder(None)]
    watchers = [_watch(cache, encoder=encoder) for encoder in encoders]
    cache.apply([_put(1), _put(2)])
    assert [encoder.calls for encoder in encoders] == [2, 0, 2, 2, 2]
    assert {watcher.outlet.data for watcher in watchers} == {b"ADDED a 1;MODIFIED a 2;"}
    # What was shared is not kept for ever.
    assert all(event.chunks == {} for event in cache.since(0))


def test_same_event_of_different_kinds_is_not_mixed_up(cache):
    everything, selected = _watch(cache), _watch(cache, _on)
    cache.apply([_put(1, labels={}), _put(2, labels={"on": "yes"}), _put(3, labels={})])
    assert everything.outlet.events == ["ADDED a 1", "MODIFIED a 2", "MODIFIED a 3"]
    assert selected.outlet.events == ["ADDED a 2", "DELETED a 3"]


def test_slow_watcher_leaves_the_feed_and_others_do_not(cache):
    slow = _watch(cache, outlet=Outlet(reads=False))
    quick = _watch(cache)
    for revision in range(1, 51):
        cache.apply([_put(revision)])
    sent = len(slow.outlet.events)
    assert 0 < sent < 20
    assert slow.after == sent
    assert not slow.outlet.aborted
    assert len(quick.outlet.events) == 50
    assert cache.watchers == 2
    cache.remove(slow)
    assert cache.watchers == 1


def test_watcher_leaves_the_feed_before_an_event_that_is_too_large_for_one_write(cache):
    concerned, other = _watch(cache, prefix=f"{PREFIX}ns/"), _watch(cache, prefix=f"{PREFIX}other/")
    cache.apply([_put(5)])
    cache.apply([_put(7), _put(8, "b"), _put(8, filler="x" * watcher.LARGE)])
    assert (concerned.outlet.events, concerned.after) == (["ADDED a 5", "MODIFIED a 7"], 7)
    assert (other.outlet.events, other.after, cache.watchers) == ([], 0, 2)


def test_history_is_read_in_batches_of_whole_revisions(cache):
    cache.apply([_put(1), _put(2, "a"), _put(2, "b"), _put(2, "c"), _put(3)])
    revisions = [[event.item.revision for event in cache.since(since, 2)] for since in (0, 1, 2, 3)]
    assert revisions == [[1, 2, 2, 2], [2, 2, 2], [3], []]


def test_watcher_that_is_removed_during_an_offer_does_not_disturb(cache):
    class Leaving(Outlet):
        def write(self, data):
            super().write(data)
            cache.remove(first)

    first = _watch(cache, outlet=Leaving())
    second = _watch(cache)
    cache.apply([_put(1)])
    cache.apply([_put(2)])
    assert (len(first.outlet.events), len(second.outlet.events)) == (1, 2)


# -- the hub ----------------------------------------------------------------------------------------------------------


def _draft(name="a"):
    before = HEAD + b'"metadata":{"name":"%b","resourceVersion":"' % name.encode()
    return Draft(before, b'"}}')


def _hub(storage):
    return CacheHub(storage, lambda _: Reader(), clock=ManualClock())


def test_hub_follows_the_store():
    async def main():
        storage = MemoryStorage()
        await storage.put(f"{PREFIX}ns/old", _draft("old"), 0)
        hub = _hub(storage)
        await hub.load()
        assert [item.name for item in hub.cache(PREFIX).items()] == ["old"]
        await storage.put(f"{PREFIX}ns/new", _draft("new"), 0)
        await storage.put("/registry/apps/others/ns/x", _draft("x"), 0)
        assert hub.revision == storage.revision == 3
        assert [item.name for item in hub.cache(PREFIX).items()] == ["new", "old"]
        assert len(hub.cache("/registry/apps/others/")) == 1
        hub.close()
        await storage.put(f"{PREFIX}ns/later", _draft("later"), 0)
        assert hub.revision == 3

    run(main())


def test_hub_loads_a_store_whose_history_is_partly_compacted(monkeypatch):
    monkeypatch.setattr(watchcache, "LOAD_PAGE", 3)

    async def main():
        storage = MemoryStorage()
        for number in range(10):
            await storage.put(f"{PREFIX}ns/n{number}", _draft(f"n{number}"), 0)
        await storage.delete(f"{PREFIX}ns/n3", 4)
        await storage.compact(storage.revision)
        await storage.put(f"{PREFIX}ns/late", _draft("late"), 0)
        hub = _hub(storage)
        await hub.load()
        cache = hub.cache(PREFIX)
        assert [item.name for item in cache.items()] == ["late", *(f"n{n}" for n in range(10) if n != 3)]
        assert [item.revision for item in cache.items()][:2] == [12, 1]
        assert [event.item.name for event in cache.since(11)] == ["late"]
        with pytest.raises(TooOld):
            cache.since(10)

    run(main())


def test_cache_made_before_loading_knows_where_history_begins():
    """A client that comes back with a revision from before a compaction and a restart must get 410, not a gap."""

    async def main():
        storage = MemoryStorage()
        await storage.put(f"{PREFIX}ns/a", _draft(), 0)
        await storage.delete(f"{PREFIX}ns/a", 1)
        await storage.put("/registry/core/others/ns/x", _draft("x"), 0)
        await storage.compact(3)
        hub = _hub(storage)
        cache = hub.cache(PREFIX)
        await hub.load()
        with pytest.raises(TooOld):
            cache.since(1)
        assert cache.since(3) == []

    run(main())


def test_revision_can_be_waited_for():
    import asyncio

    async def main():
        storage = MemoryStorage()
        hub = _hub(storage)
        await hub.load()
        waiting = asyncio.ensure_future(hub.wait_for(2, seconds=10))
        await storage.put(f"{PREFIX}ns/a", _draft(), 0)
        await asyncio.sleep(0)
        assert not waiting.done()
        await storage.put(f"{PREFIX}ns/b", _draft(), 0)
        assert await waiting
        assert await hub.wait_for(1, seconds=0)
        assert not await hub.wait_for(9, seconds=10)
        assert hub._waiting == []

    run(main())


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        ("/registry/core/pods/default/x", "/registry/core/pods/"),
        ("/registry/core/nodes/x", "/registry/core/nodes/"),
        ("/registry/apps/deployments/a/b", "/registry/apps/deployments/"),
    ],
)
def test_prefix_of_a_key_is_its_resource(key, prefix):
    assert prefix_of(key) == prefix


def test_progress_moves_the_revision_and_wakes_what_waits_for_it():
    async def scenario():
        hub = CacheHub(MemoryStorage(), lambda _: Reader())
        waiting = asyncio.ensure_future(hub.wait_for(7, seconds=30))
        await asyncio.sleep(0)
        hub._take(6, [_put(6)])
        await asyncio.sleep(0)
        assert not waiting.done()
        hub._take(7, [])
        assert await waiting
        assert hub.revision == 7

    run(scenario())


def test_a_task_that_is_cancelled_when_its_revision_comes_ends():
    """Otherwise a task of the server that was told to stop would go on."""

    async def scenario():
        hub = CacheHub(MemoryStorage(), lambda _: Reader())
        waiting = asyncio.ensure_future(hub.wait_for(7, seconds=30))
        await asyncio.sleep(0)
        hub._take(7, [])
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(scenario())


def test_waiting_for_a_revision_that_is_there_needs_no_turn_of_the_loop(hub):
    hub._take(3, [_put(3)])
    coroutine = hub.wait_for(3, seconds=30)
    with pytest.raises(StopIteration) as result:
        coroutine.send(None)
    assert result.value.value is True


def test_events_of_one_revision_are_sent_in_one_write(cache, hub):
    outlet = Outlet()
    cache.add(Watcher(cache, "", None, Encoder(), outlet))
    hub._take(4, [_put(4, "a"), _put(4, "b"), _put(4, "c", prefix="/registry/core/others/"), _put(4, "d")])
    assert outlet.events == ["ADDED a 4", "ADDED b 4", "ADDED d 4"]
    assert outlet.writes == 1
    assert [event.item.name for event in cache.since(3)] == ["a", "b", "d"]
    assert cache.since(4) == []


class CompactedWhileLoading(MemoryStorage):
    """A store that another server compacts while this one reads it: after some of its history, or before that."""

    def __init__(self, *, in_history):
        super().__init__()
        self.in_history = in_history
        self.attempts = 0

    async def range(self, prefix, **options):
        self.attempts += 1
        if self.attempts == 1 and not self.in_history:
            await self.compact(self.revision)
        return await super().range(prefix, **options)

    async def follow(self, since, follower):
        self.attempts += 1
        if self.attempts == 2 and self.in_history:
            follower(*await self._history(since))
            await self._shorten()
            raise Compacted(since, self.revision)
        return await super().follow(since, follower)

    async def _shorten(self):
        """Delete a key that the server has read, and compact the deletion away."""
        entry = await self.get(PREFIX + "ns/gone")
        await self.compact(await self.delete(entry.key, entry.revision))


@pytest.mark.parametrize("in_history", [False, True])
def test_a_store_that_is_compacted_while_it_is_loaded_is_loaded_anew(in_history):
    async def scenario():
        storage = CompactedWhileLoading(in_history=in_history)
        for name in ("gone", "kept"):
            await storage.put(PREFIX + f"ns/{name}", Draft(HEAD + b'"metadata":{"resourceVersion":"', b'"}}'), 0)
        await storage.compact(1)
        hub = CacheHub(storage, lambda prefix: Reader())
        cache = hub.cache(PREFIX)
        await hub.load()
        names = [item.name for item in cache.items()]
        assert names == (["kept"] if in_history else ["gone", "kept"])
        assert [item.revision for item in cache.items()][-1] == 2
        assert hub.revision == cache.floor == storage.revision
        assert hub.event_bytes == 0
        await storage.put(PREFIX + "ns/new", Draft(HEAD + b'"metadata":{"resourceVersion":"', b'"}}'), 0)
        assert [event.item.name for event in cache.since(cache.floor)] == ["new"]
        with pytest.raises(TooOld):
            cache.since(1)

    run(scenario())
