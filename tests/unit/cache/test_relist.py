"""Caches that take over the state of a later revision, because they cannot be told what happened before it."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.base.clock import ManualClock
from kapi.cache import relist as module
from kapi.cache.relist import relist
from kapi.cache.snapshot import Snapshot
from kapi.cache.watchcache import CacheHub, Selection, TooOld
from kapi.cache.watcher import Watcher
from kapi.storage.interface import Draft
from kapi.storage.memory import MemoryStorage
from virtual_time import run

HEAD = b'{"kind":"Thing","apiVersion":"v1",'
PREFIXES = ("/registry/core/others/", "/registry/core/things/")


class Reader:
    """Values of the tests: the head, then metadata. A value without labels cannot be read."""

    def split(self, value):
        return "", value[len(HEAD) :]

    def select(self, value):
        metadata = json.loads(value)["metadata"]
        owners = tuple(metadata["owners"]) or None
        return Selection(metadata["labels"], None, None, owners, metadata["initializing"])


class Outlet:
    is_full = False
    framing = None

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data


class Encoder:
    share = None

    def encode(self, kind, item):
        return f"{kind} {item.name};".encode()


class Site:
    """A store, and two hubs that follow it; one of them can be cut off."""

    def __init__(self):
        self.storage = MemoryStorage()
        self.uids = iter(range(1, 1_000_000))
        self.revisions = {}
        self.uid_of = {}

    async def hub(self):
        hub = CacheHub(self.storage, lambda _: Reader(), clock=ManualClock())
        for prefix in PREFIXES:
            hub.cache(prefix)
        await hub.load()
        return hub

    async def write(self, key, *, owners=(), initializing=False, broken=False):
        """Create or update an object."""
        if key not in self.uid_of:
            self.uid_of[key] = f"u{next(self.uids)}"
        uid = self.uid_of[key]
        rest = {"labels": {}, "owners": list(owners), "initializing": initializing} if not broken else {}
        metadata = {"name": key[-1], "uid": uid, "resourceVersion": "", **rest}
        text = HEAD + json.dumps({"metadata": metadata}, separators=(",", ":")).encode()[1:]
        before, slot, after = text.partition(b'"resourceVersion":"')
        self.revisions[key] = await self.storage.put(key, Draft(before + slot, after), self.revisions.get(key, 0))

    async def delete(self, key):
        if key in self.revisions:
            del self.uid_of[key]
            await self.storage.delete(key, self.revisions.pop(key))


def _shown(hub):
    """Everything that a hub knows of the present."""
    state = {
        cache.prefix: [
            (item.key, item.revision, item.body, item.owners, item.is_uninitialized) for item in cache.items()
        ]
        for cache in hub.caches
        if len(cache)
    }
    owners = {uid: sorted(hub.owners.dependents(uid)) for uid in ("x", "y") if hub.owners.dependents(uid)}
    return hub.revision, state, owners, hub.uninitialized, sorted(hub.invalid.parts)


class Told:
    """A listener that keeps what it is told, by the uid of each object."""

    def __init__(self, hub):
        self.objects = {
            json.loads(HEAD + item.body)["metadata"]["uid"]: item.revision
            for cache in hub.caches
            for item in cache.items()
        }
        self.events = []
        hub.listeners.append(self)

    def __call__(self, cache, events):
        for event in events:
            uid = json.loads(HEAD + event.item.body)["metadata"]["uid"]
            self.events.append((uid, event.deleted, event.previous is not None))
            if event.deleted:
                assert event.previous is not None
                del self.objects[uid]
            else:
                assert (event.previous is None) == (uid not in self.objects)
                self.objects[uid] = event.item.revision


keys = st.sampled_from([f"{prefix}ns/{name}" for prefix in PREFIXES for name in "abc"])
steps = st.one_of(
    st.tuples(st.just("delete"), keys, st.none()),
    st.tuples(
        st.just("write"),
        keys,
        st.fixed_dictionaries(
            {"owners": st.lists(st.sampled_from("xy"), max_size=2, unique=True), "initializing": st.booleans()}
        ),
    ),
)


async def _play(site, program):
    for action, key, options in program:
        if action == "write":
            await site.write(key, **options)
        else:
            await site.delete(key)


@given(
    st.lists(steps, max_size=15), st.lists(steps, max_size=15), st.lists(steps, max_size=5), st.sampled_from([1, 200])
)
def test_a_hub_that_missed_changes_ends_as_one_that_was_told_all_of_them(before, missed, after, step):
    async def scenario():
        site = Site()
        whole, cut = await site.hub(), await site.hub()
        await _play(site, before)
        told = Told(cut)
        cut.close()
        await _play(site, missed)
        await site.storage.compact(site.storage.revision)
        await relist(cut, site.storage.revision)
        assert _shown(cut) == _shown(whole)
        assert cut.event_bytes == 0
        assert told.objects == {
            json.loads(HEAD + item.body)["metadata"]["uid"]: item.revision
            for cache in whole.caches
            for item in cache.items()
        }
        await site.storage.follow(site.storage.revision, cut._take)
        await _play(site, after)
        assert _shown(cut) == _shown(whole)
        for cache in cut.caches:
            cut.clock.advance(1000)
            cache.trim(cut.clock.monotonic())

    steps_before, module.STEP = module.STEP, step
    try:
        run(scenario())
    finally:
        module.STEP = steps_before


async def _cut_off():
    """A hub that has missed an update of a, a deletion of b, a deletion and creation of c, and a creation of d."""
    site = Site()
    hub = await site.hub()
    a, b, c, d = (f"{PREFIXES[1]}ns/{name}" for name in "abcd")
    for key in (a, b, c):
        await site.write(key)
    hub.close()
    await site.write(a)
    await site.delete(b)
    await site.delete(c)
    await site.write(c)
    await site.write(d)
    return site, hub, hub.cache(PREFIXES[1])


def test_listeners_are_told_the_difference_and_a_new_uid_is_a_new_object():
    async def scenario():
        site, hub, _ = await _cut_off()
        told = Told(hub)
        await relist(hub, site.storage.revision)
        assert sorted(told.events) == [
            ("u1", False, True),
            ("u2", True, True),
            ("u3", True, True),
            ("u4", False, False),
            ("u5", False, False),
        ]

    run(scenario())


def test_watches_end_and_a_watch_from_the_revision_that_was_read_goes_on():
    async def scenario():
        site, hub, cache = await _cut_off()
        before, revision = hub.revision, site.storage.revision
        watcher = Watcher(cache, "", None, Encoder(), Outlet())
        watcher.after, watcher.behind = before, asyncio.get_running_loop().create_future()
        cache.add(watcher)
        await relist(hub, revision)
        assert watcher.behind.done()
        assert watcher.outlet.data == b""
        for since in (1, before, revision - 1):
            with pytest.raises(TooOld):
                cache.since(since)
        assert cache.since(revision) == []
        await site.storage.follow(revision, hub._take)
        await site.write(f"{PREFIXES[1]}ns/e")
        assert [event.item.name for event in cache.since(revision)] == ["e"]

    run(scenario())


def test_no_list_is_a_mixture_of_two_revisions(monkeypatch):
    """Whenever other work may run, the caches hold the state of one revision, and say which."""
    monkeypatch.setattr(module, "STEP", 1)

    async def scenario():
        site, hub, cache = await _cut_off()
        states = {hub.revision: [("a", 1), ("b", 2), ("c", 3)], site.storage.revision: [("a", 4), ("c", 7), ("d", 8)]}
        seen = []
        task = asyncio.ensure_future(relist(hub, site.storage.revision))
        while not task.done():
            assert [(item.name, item.revision) for item in cache.items()] == states[hub.revision]
            seen.append(hub.revision)
            await asyncio.sleep(0)
        assert set(seen) == set(states)
        # Many more turns than there would be if a page were taken at once.
        assert len(seen) > 10

    run(scenario())


def test_a_store_that_cannot_be_read_leaves_everything_as_it_was():
    async def scenario():
        site, hub, _ = await _cut_off()
        shown = _shown(hub)
        await site.storage.compact(site.storage.revision)
        told = Told(hub)
        with pytest.raises(Exception, match="compacted"):
            await relist(hub, site.storage.revision - 1)
        assert (_shown(hub), told.events) == (shown, [])

    run(scenario())


def test_objects_that_cannot_be_processed_are_known_afterwards():
    async def scenario():
        site = Site()
        hub = await site.hub()
        fixed, gone, spoilt = (f"{PREFIXES[0]}ns/{name}" for name in "abc")
        await site.write(fixed, broken=True)
        await site.write(gone, broken=True)
        await site.write(spoilt)
        assert sorted(hub.invalid.parts) == [fixed, gone]
        hub.close()
        await site.write(fixed)
        await site.delete(gone)
        await site.write(spoilt, broken=True)
        await relist(hub, site.storage.revision)
        assert list(hub.invalid.parts) == [spoilt]

    run(scenario())


def test_a_client_that_is_being_sent_what_was_replaced_is_charged_for_it():
    async def scenario():
        site, hub, cache = await _cut_off()
        items = cache.items()
        with Snapshot(cache, items, hub.revision) as snapshot:
            await relist(hub, site.storage.revision)
            assert snapshot.held == sum(len(item.body) for item in items)

    run(scenario())
