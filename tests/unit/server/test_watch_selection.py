"""Watchers found by their selectors are sent what matching every watcher with every change would send them.

A scenario is made of a seed: watchers of random namespaces, selectors and forms that come and go, objects whose labels and fields
change, clients that do not read for a while, and writes that are on their way, so that events wait to be sent together.
What each watcher was sent is compared with the plain rule: matched before, matches after. Bugs are planted to show
that the scenarios find them.
"""

import asyncio
import random

import pytest

from kapi.api.selectors import FieldSelector, LabelSelector
from kapi.base.clock import ManualClock
from kapi.cache import fanout, watcherindex
from kapi.cache.fanout import FanOut
from kapi.cache.selector import FIELD, LABEL, Equality, field_value
from kapi.cache.watchcache import CacheHub, Selection
from kapi.cache.watcher import Watcher
from kapi.server.handlers.options import ListOptions
from kapi.server.handlers.selection import selector_of
from kapi.storage.interface import Change
from kapi.storage.memory import MemoryStorage
from virtual_time import run

PREFIX = "/registry/core/things/"
NAMESPACES = ("n", "n-", "o")
SEEDS = range(40)
LABELS = (None, None, "a=1", "a=", "a=1,b=2", "a in (1)", "a in (1,2)", "a!=1", "b,a==2", "!a", "a=1,a=2")
FIELDS = (
    None,
    None,
    "metadata.name=x",
    "spec.nodeName=1",
    "spec.nodeName=",
    "spec.nodeName=1,status.phase!=2",
    "status.phase=2",
    "metadata.namespace=o",
    "spec.nodeName!=1",
    "spec.nodeName=1,metadata.name=y",
)


class Busy(MemoryStorage):
    """A store of which some writes are on their way."""

    waiting = 0


class Encoder:
    def __init__(self, share):
        self.share = share

    def encode(self, kind, item):
        return f"{kind} {item.name} {item.namespace} {item.revision};".encode()


class Outlet:
    def __init__(self, framing):
        self.framing = framing
        self.data = b""
        self.is_full = False

    def write(self, data):
        self.write_framed(self.frame(data))

    def frame(self, data):
        return b"%b:%b" % (self.framing, data)

    def write_framed(self, framed):
        assert framed.startswith(self.framing + b":")
        self.data += framed.removeprefix(self.framing + b":")
        return self.is_full

    def abort(self):
        raise AssertionError("no watcher of these is closed")


class Reader:
    def split(self, value):
        return "", value

    def select(self, value):
        raise AssertionError("every change has a note")


class Store:
    selects_kept_fields = True

    def __init__(self, cache):
        self.cache = cache

    def field_values(self, item):
        return item.field_values()


class Scenario:
    """Random watchers of random changes."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.storage = Busy()
        self.hub = CacheHub(self.storage, lambda _: Reader(), clock=ManualClock())
        self.cache = self.hub.cache(PREFIX)
        self.store = Store(self.cache)
        self.states = {}
        self.history = []
        self.watches = []
        self.revision = 0

    async def play(self):
        step = {self.join: 3, self.change: 8, self.turn: 3, self.stall: 1, self.leave: 0.5, self.bookmark: 0.5}
        for _ in range(60):
            (action,) = self.random.choices(list(step), step.values())
            await action()
            for watcher, *_ in self.watches:
                self.catch_up(watcher)
        for watcher, *_ in self.watches:
            self.cache.flush(watcher)
            watcher.outlet.is_full = False
            self.catch_up(watcher)
        for one in self.watches:
            self.check(*one)

    async def join(self):
        """Open a watch, often the same as another."""
        if self.watches and self.random.random() < 0.6:
            other, _, options, name = self.random.choice(self.watches)
            prefix, share, framing = other.prefix, other.encoder.share, other.outlet.framing
        else:
            options, name, prefix, share, framing = self.wanted()
        selector = selector_of(options, self.store, name)
        watcher = Watcher(self.cache, prefix, selector, Encoder(share), Outlet(framing))
        # Some wait for a revision that is yet to come.
        watcher.after = since = self.revision + self.random.choice([0, 0, 0, 0, 3])
        self.cache.add(watcher)
        self.watches.append((watcher, since, options, name))

    def wanted(self):
        choose = self.random.choice
        labels, fields = choose(LABELS), choose(FIELDS)
        options = ListOptions(
            None if labels is None else LabelSelector.parse(labels),
            None if fields is None else FieldSelector.parse(fields),
            *(0, "", 0, "", 0, False, None),
        )
        prefix = choose(["", *(f"{PREFIX}{namespace}/" for namespace in NAMESPACES)])
        return options, choose(["", "", "", "x"]), prefix, choose(["plain", "plain", None]), choose(FRAMINGS)

    async def change(self):
        changes = []
        for _ in range(self.random.randint(1, 3)):
            # Several objects of one revision are of one commit.
            self.revision += self.random.choice([0, 1, 1]) if changes else 1
            changes.append(self.changed({change.key for change in changes if change.revision == self.revision}))
        self.storage.waiting = self.random.choice([0, 1])
        self.hub._take(self.revision, changes)

    def changed(self, taken):
        choose = self.random.choice
        namespace, name = choose(NAMESPACES), choose("xyz")
        while (key := f"{PREFIX}{namespace}/{name}") in taken:
            namespace, name = choose(NAMESPACES), choose("xyz")
        before, after = self.states.get(key), None
        if before is None or self.random.random() < 0.8:
            labels = {label: choose(["", "1", "2"]) for label in "ab" if self.random.random() < 0.7}
            fields = {field: choose(["", "1", "2"]) for field in ("spec.nodeName", "status.phase")}
            after = Selection(labels or None, choose([fields, fields, None]))
        self.states[key] = after
        self.history.append((self.revision, namespace, name, before, after))
        return Change(self.revision, key, None if after is None else b'"metadata":{}}', after)

    async def turn(self):
        await asyncio.sleep(self.random.choice([0, 0, 0, 0.001, 0.1]))

    async def stall(self):
        """Let a client stop to read, or read on."""
        if self.watches:
            outlet = self.random.choice(self.watches)[0].outlet
            outlet.is_full = not outlet.is_full

    async def leave(self):
        """End a watch."""
        if self.watches:
            watcher, *_ = one = self.random.choice(self.watches)
            self.cache.flush(watcher)
            watcher.outlet.is_full = False
            self.catch_up(watcher)
            self.cache.remove(watcher)
            self.check(*one)
            self.watches.remove(one)

    async def bookmark(self):
        """What a bookmark says has been sent to a watcher that stays in the feed has been."""
        for one in self.watches:
            self.cache.flush(one[0])
            if one[0] in self.cache._watchers:
                self.check(*one)

    def catch_up(self, watcher):
        """Read on from history, as the handler of a watch does."""
        if watcher in self.cache._watchers or watcher.outlet.is_full:
            return
        for event in self.cache.since(watcher.after):
            shown = watcher.shown(event)
            if shown is not None:
                watcher.outlet.write(watcher.encoder.encode(*shown))
        watcher.after = max(watcher.after, self.revision)
        self.cache.add(watcher)

    def check(self, watcher, since, options, name):
        expected = []
        for revision, namespace, its_name, before, after in self.history:
            if revision <= since or watcher.prefix not in ("", f"{PREFIX}{namespace}/"):
                continue
            was, is_now = (
                state is not None and self.selects(options, name, namespace, its_name, state)
                for state in (before, after)
            )
            kind = ("MODIFIED" if was else "ADDED") if is_now else "DELETED" if was else ""
            if kind:
                expected.append(f"{kind} {its_name} {namespace} {revision}")
        assert watcher.outlet.data.decode().split(";")[:-1] == expected

    def selects(self, options, name, namespace, its_name, state):
        fields = {"metadata.name": its_name, "metadata.namespace": namespace, **(state.fields or {})}
        return (
            name in ("", its_name)
            and (options.labels is None or options.labels.matches(state.labels))
            and (options.fields is None or options.fields.matches(fields))
        )


FRAMINGS = (b"chunk", b"chunk", b"plain")


@pytest.fixture(autouse=True)
def busy(monkeypatch):
    """Make deliveries seem to take long, in steps of one watcher, and no number of watchers too few to wait."""
    clock = random.Random(1)
    now = [0.0]

    def perf_counter():
        now[0] += clock.choice([0.0001, 0.01])
        return now[0]

    monkeypatch.setattr(fanout, "perf_counter", perf_counter)
    monkeypatch.setattr(fanout, "FEW", 0)
    monkeypatch.setattr(fanout, "BATCH_BYTES", 100)
    for module in (fanout, watcherindex):
        monkeypatch.setattr(module, "STEP", 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_watchers_are_sent_what_matching_each_of_them_would_send(seed):
    run(Scenario(seed).play())


def test_events_wait_in_some_of_the_scenarios(monkeypatch):
    most = []
    deliver = FanOut._delivery
    monkeypatch.setattr(FanOut, "_delivery", lambda self, events: (most.append(len(events)), deliver(self, events))[1])
    run(Scenario(1).play())
    assert max(most) > 3


def test_deliveries_are_made_in_slices_in_some_of_the_scenarios(monkeypatch):
    complete = []
    advance = FanOut._advance
    monkeypatch.setattr(
        FanOut, "_advance", lambda self, *limits: (complete.append(advance(self, *limits)), complete[-1])[1]
    )
    run(Scenario(1).play())
    assert complete.count(False) > 5
    assert complete.count(True) > 5


def _is_found(seeds=SEEDS):
    for seed in seeds:
        try:
            run(Scenario(seed).play())
        except AssertionError:
            return True
    return False


def _only_after(self, item, previous):
    yield from self.every.values()
    for name, values in self.fields.items():
        yield from values.get(field_value(item, name), {}).values()
    for pair in (item.labels or {}).items():
        yield from self.labels.get(pair, {}).values()


def _all_of_the_group(self, events, last, failed):
    framed = next(iter(self.watchers)).framed(events)
    for watcher in list(self.watchers) if framed else ():
        if watcher.outlet.write_framed(framed):
            watcher.fall_behind(last)
        yield 0


def _also_those_who_left(self, events, last, failed):
    framed = None
    for watcher in list(self.watchers):
        if watcher.after < last:
            framed = watcher.framed(events) if framed is None else framed
            watcher.after = last
            if framed and watcher.outlet.write_framed(framed):
                watcher.fall_behind(last)
        yield 0


def _only_what_waits(self, watcher):
    if self._waiting:
        watcher.offer(self._waiting, self._waiting[-1].item.revision)


PLANTED = {
    "only the state after a change is looked up": (watcherindex._Scope, "concerned", _only_after),
    "a group forgets where its watchers began": (watcherindex.Group, "offer", _all_of_the_group),
    "a watcher that has left is written to": (watcherindex.Group, "offer", _also_those_who_left),
    "what waits is not sent before a bookmark": (FanOut, "flush", lambda self, watcher: None),
    "what is being delivered is not sent before a bookmark": (FanOut, "flush", _only_what_waits),
    "a value is taken for what another field has": (
        watcherindex,
        "field_value",
        lambda item, name: field_value(item, "spec.nodeName"),
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_scenarios_find_a_planted_bug(monkeypatch, bug):
    monkeypatch.setattr(*PLANTED[bug])
    assert _is_found()


# -- which equality is indexed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "fields", "first"),
    [
        ("a=1", "spec.nodeName=x", Equality(FIELD, "spec.nodeName", "x")),
        ("a=1", "metadata.name=y,spec.nodeName=x", Equality(FIELD, "metadata.name", "y")),
        ("a=1", "status.phase=Running", Equality(LABEL, "a", "1")),
        ("a=1", "spec.nodeName=", Equality(LABEL, "a", "1")),
        ("a!=1", "spec.nodeName=", Equality(FIELD, "spec.nodeName", "")),
        ("a notin (1)", "spec.nodeName!=x", None),
    ],
)
def test_a_selector_is_indexed_by_the_rarest_of_its_equalities(labels, fields, first):
    store = Scenario(0).store
    options = ListOptions(LabelSelector.parse(labels), FieldSelector.parse(fields), *(0, "", 0, "", 0, False, None))
    equalities = selector_of(options, store).equalities
    assert (equalities[0] if equalities else None) == first
    store.selects_kept_fields = False
    assert all(one.source == LABEL or one.name == "metadata.name" for one in selector_of(options, store).equalities)


def test_a_place_without_watchers_is_removed_from_the_index():
    scenario = Scenario(3)

    async def main():
        for _ in range(50):
            await scenario.join()
        index = scenario.cache._watchers
        assert len(index) == 50
        assert index._scopes
        for watcher, *_ in scenario.watches:
            scenario.cache.remove(watcher)
        assert (len(index), index._scopes) == (0, {})

    run(main())
