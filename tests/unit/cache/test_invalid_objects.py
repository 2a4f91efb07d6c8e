"""No stored bytes stop the followers of the commit log: a bad object is reported by its key and skipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_watchcache import HEAD, PREFIX, Encoder, Outlet, Reader, _gone, _put

from kapi.cache import invalidobjects
from kapi.cache.invalidobjects import InvalidObjects
from kapi.cache.watchcache import CacheHub
from kapi.cache.watcher import Watcher
from kapi.storage.interface import Change, Draft
from kapi.storage.memory import MemoryStorage
from virtual_time import run

BAD = f"{PREFIX}ns/bad"
SECRET = b"hunter2"


class StrictReader(Reader):
    """Raises for what is not an object of the tests."""

    def split(self, value):
        if not value.startswith(HEAD):
            raise ValueError(f"unexpected value {value!r}")
        return super().split(value)


@pytest.fixture
def hub():
    return CacheHub(MemoryStorage(), lambda _: StrictReader())


@pytest.fixture
def cache(hub):
    return hub.cache(PREFIX)


def _watch(cache, encoder=None):
    outlet = Outlet()
    watcher = Watcher(cache, "", None, encoder or Encoder(), outlet)
    cache.add(watcher)
    return outlet


def test_bytes_that_cannot_be_read_are_skipped_and_the_rest_of_the_batch_is_not(hub, cache):
    outlet = _watch(cache)
    hub._take(3, [_put(1, "a"), Change(2, BAD, SECRET), _put(3, "c")])
    assert hub.revision == 3
    assert [item.name for item in cache.items()] == ["a", "c"]
    assert outlet.events == ["ADDED a 1", "ADDED c 3"]
    assert hub.invalid.total == 1
    assert hub.invalid.check() == f"stored objects that cannot be processed: {BAD} (watch cache)"


def test_an_object_that_becomes_unreadable_is_deleted_for_watchers_and_comes_back_when_it_is_repaired(hub, cache):
    outlet = _watch(cache)
    hub._take(1, [_put(1, "bad")])
    hub._take(2, [Change(2, BAD, SECRET)])
    assert cache.get(BAD) is None
    hub._take(3, [_put(3, "bad")])
    assert outlet.events == ["ADDED bad 1", "DELETED bad 2", "ADDED bad 3"]
    assert hub.invalid.check() is None


def test_deleting_a_bad_object_clears_its_record(hub, cache):
    hub._take(1, [Change(1, BAD, SECRET)])
    hub._take(2, [_gone(2, "bad")])
    assert hub.invalid.check() is None
    assert hub.invalid.total == 1


def test_an_object_whose_labels_cannot_be_read_is_served_without_them(hub, cache):
    value = HEAD + b'"metadata":["no", "object"]}'
    hub._take(1, [Change(1, BAD, value)])
    item = cache.get(BAD)
    assert (item.body, item.labels) == (value[len(HEAD) :], None)
    assert len(hub.invalid) == 1


@pytest.mark.parametrize("key", ["/registry/", "/registry/core", "/registry/core/things", "/elsewhere/a/b/c", "", "x"])
def test_a_key_that_is_not_one_of_an_object_is_skipped(hub, cache, key):
    hub._take(2, [Change(1, key, SECRET), _put(2, "a")])
    assert [item.name for item in cache.items()] == ["a"]
    assert list(hub.invalid.parts) == [key]


def test_a_listener_misses_only_the_events_it_cannot_process(hub, cache):
    heard, others, everywhere = [], [], []

    def listener(events):
        for event in events:
            if event.item.name == "bad":
                raise KeyError("type")
            heard.append(event.item.name)

    cache.listen(listener)
    cache.listen(lambda events: others.extend(event.item.name for event in events))
    hub.listeners.append(lambda cache, events: everywhere.extend(event.item.name for event in events))
    outlet = _watch(cache)
    hub._take(3, [_put(1, "a"), _put(2, "bad"), _put(3, "c")])
    assert list(dict.fromkeys(heard)) == ["a", "c"]
    assert others == everywhere == ["a", "bad", "c"]
    assert outlet.events == ["ADDED a 1", "ADDED bad 2", "ADDED c 3"]
    (part,) = hub.invalid.parts.values()
    assert "test_a_listener_misses_only" in part


def test_a_listener_of_every_resource_may_fail_too(hub, cache):
    def listener(cache, events):
        raise RuntimeError("boom")

    hub.listeners.append(listener)
    hub._take(1, [_put(1, "a")])
    assert cache.get(f"{PREFIX}ns/a") is not None
    assert len(hub.invalid) == 1


def test_a_watcher_whose_encoder_fails_is_closed_and_the_others_are_not(hub, cache):
    class Broken(Encoder):
        def encode(self, kind, item):
            raise TypeError("not printable")

    broken, sound = _watch(cache, Broken("broken")), _watch(cache)
    hub._take(1, [_put(1, "a")])
    hub._take(2, [_put(2, "b")])
    assert broken.aborted
    assert not sound.aborted
    assert sound.events == ["ADDED a 1", "ADDED b 2"]
    assert cache.watchers == 1


@given(st.lists(st.tuples(st.text(), st.one_of(st.none(), st.binary())), max_size=10))
def test_no_bytes_under_no_key_stop_a_start(stored):
    async def scenario():
        storage = MemoryStorage()
        for key, value in stored:
            entry = await storage.get(key)
            try:
                if value is not None:
                    await storage.put(key, Draft(value, b""), entry.revision if entry else 0)
                elif entry is not None:
                    await storage.delete(key, entry.revision)
            except UnicodeEncodeError:
                continue
        await storage.put(f"{PREFIX}ns/a", Draft(HEAD + b'"metadata":{"resourceVersion":"', b'"}}'), 0)
        for compacted in (0, storage.revision):
            await storage.compact(compacted)
            hub = CacheHub(storage, lambda _: StrictReader())
            await hub.load()
            assert hub.revision == storage.revision
            assert hub.find(f"{PREFIX}ns/a") is not None

    run(scenario())


def test_neither_values_nor_messages_are_logged(hub, cache, capsys):
    hub._take(1, [Change(1, BAD, SECRET)])
    written = capsys.readouterr()
    log = written.out + written.err
    assert BAD in log
    assert "JSONDecodeError" in log
    assert "at=decoder.py:" in log
    assert SECRET.decode() not in log


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(invalidobjects, "MAX_KEYS", 20)
    invalid = InvalidObjects()
    for number in range(100):
        invalid.record(f"/registry/core/things/{number}", "watch cache", ValueError())
    assert len(invalid) == 20
    assert invalid.total == 100
    assert invalid.check().endswith("/registry/core/things/9 (watch cache) and 10 more")
