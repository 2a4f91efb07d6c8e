"""Indexes of items: what they find is what looking at every item finds, also when they are made while items change."""

import random

import pytest

from kapi.base.clock import ManualClock
from kapi.cache import itemindex
from kapi.cache.item import Selection
from kapi.cache.itemindex import ItemIndex, ItemIndexes
from kapi.cache.selector import FIELD, LABEL, Equality, ItemSelector
from kapi.cache.watchcache import CacheHub
from kapi.storage.interface import Change
from kapi.storage.memory import MemoryStorage

PREFIX = "/registry/core/things/"
SELECTORS = [
    *(Equality(LABEL, "a", value) for value in ("", "1", "2")),
    *(Equality(FIELD, "spec.nodeName", value) for value in ("", "1", "2")),
    *(Equality(FIELD, "metadata.name", value) for value in ("x1", "none")),
]


class Reader:
    def split(self, value):
        return "", value


def selector(*equalities):
    return ItemSelector(
        lambda item: all(ItemIndex(*one[:2]).value(item) == one.value for one in equalities), equalities
    )


def make_cache():
    return CacheHub(MemoryStorage(), lambda _: Reader(), clock=ManualClock()).cache(PREFIX)


def change(cache, draw, revision):
    key = f"{PREFIX}{draw.choice(['n', 'o'])}/x{draw.randint(0, 20)}"
    if draw.random() < 0.2:
        cache.apply([Change(revision, key, None)])
        return
    labels = {name: draw.choice(["", "1", "2"]) for name in "ab" if draw.random() < 0.7}
    fields = draw.choice([None, {"spec.nodeName": draw.choice(["", "1", "2"])}])
    cache.apply([Change(revision, key, b"{}", Selection(labels or None, fields))])


def scenario(seed):
    """Make indexes step by step while items change, and compare what they find with what a look at all items finds."""
    draw = random.Random(seed)
    cache = make_cache()
    making, completed = [], 0
    for revision in range(1, 200):
        change(cache, draw, revision)
        if draw.random() < 0.1:
            index = cache.indexes.begin(selector(draw.choice(SELECTORS)), 0.0)
            if index is not None:
                making.append((index, [item.key for item in cache.items()]))
        for one in making:
            index, keys = one
            for key in [keys.pop() for _ in range(min(len(keys), 3))]:
                index.take(cache.get(key))
            index.is_complete = not keys
            completed += not keys
        making = [one for one in making if one[1]]
        if draw.random() < 0.01:
            cache.replace({item.key: item for item in cache.items()}, revision)
        prefix, start = draw.choice([PREFIX, f"{PREFIX}n/"]), draw.choice(["", f"{PREFIX}n/x3"])
        for wanted in map(selector, SELECTORS):
            found = [item for item in cache.candidates(prefix, start, wanted) if wanted.matches(item)]
            assert found == [item for item in cache.items(prefix) if wanted.matches(item) and item.key >= start]
    return completed


def test_an_index_finds_what_looking_at_every_item_finds():
    assert sum(scenario(seed) for seed in range(5)) > 5


def _without_before(self, key, before, after):
    self.take(after)


def _not_told(self, key, before, after):
    """Miss all changes."""


@pytest.mark.parametrize(("name", "bug"), [("replace", _not_told), ("take", lambda self, item: None)])
def test_the_scenarios_find_a_planted_bug(monkeypatch, name, bug):
    monkeypatch.setattr(ItemIndex, name, bug)
    with pytest.raises(AssertionError):
        test_an_index_finds_what_looking_at_every_item_finds()


def test_items_that_left_a_value_are_not_found_under_it(monkeypatch):
    """Finding too many would only cost time; it is noticed here."""

    def found():
        cache = make_cache()
        cache.apply([Change(1, f"{PREFIX}n/{name}", b"{}", Selection({"a": "1"}, None)) for name in "xyz"])
        index = ItemIndex(LABEL, "a")
        cache.indexes._indexes[LABEL, "a"] = index
        for item in cache.items():
            index.take(item)
        cache.apply([Change(2, f"{PREFIX}n/x", b"{}", Selection({"a": "2"}, None))])
        cache.apply([Change(3, f"{PREFIX}n/y", None)])
        return [index.keys("1"), index.keys("2")]

    assert found() == [[f"{PREFIX}n/z"], [f"{PREFIX}n/x"]]
    monkeypatch.setattr(ItemIndex, "replace", _without_before)
    assert found() != [[f"{PREFIX}n/z"], [f"{PREFIX}n/x"]]


def test_values_that_no_item_has_are_forgotten():
    cache = make_cache()
    index = cache.indexes._indexes[FIELD, "metadata.name"] = ItemIndex(FIELD, "metadata.name")
    for name in ("n/x", "o/x"):
        cache.apply([Change(1, PREFIX + name, b"{}", Selection(None, None))])
    assert index.keys("x") == [f"{PREFIX}n/x", f"{PREFIX}o/x"]
    for name in ("n/x", "o/x"):
        cache.apply([Change(2, PREFIX + name, None)])
    assert (index.keys("x"), index._keys) == ([], {})


def test_an_index_is_made_for_the_second_list_that_asks_for_it():
    indexes, wanted = ItemIndexes(), selector(SELECTORS[1])
    assert indexes.begin(wanted, 0.0) is None
    index = indexes.begin(wanted, 0.0)
    assert (index.source, index.name) == (LABEL, "a")
    assert indexes.begin(wanted, 0.0) is None
    assert indexes.find(wanted, 1.0) is None, "it is not complete"
    index.is_complete = True
    assert indexes.find(wanted, 2.0) == []
    indexes.drop_unused(2.0 + itemindex.UNUSED)
    assert len(indexes) == 1
    indexes.drop_unused(2.1 + itemindex.UNUSED)
    assert len(indexes) == 0


def test_there_are_few_indexes_and_the_least_used_gives_way():
    indexes = ItemIndexes()
    for number in range(itemindex.MOST + 1):
        wanted = selector(Equality(LABEL, f"l{number}", ""))
        indexes.begin(wanted, 0.0)
        index = indexes.begin(wanted, float(number))
        index.is_complete = True
        indexes.find(selector(Equality(LABEL, "l0", "")), float(number))
    assert len(indexes) == itemindex.MOST
    assert indexes.find(selector(Equality(LABEL, "l0", "")), 0.0) == []
    assert indexes.find(selector(Equality(LABEL, "l1", "")), 0.0) is None


def test_what_was_asked_once_is_remembered_for_a_while():
    indexes = ItemIndexes()
    for number in range(1000):
        assert indexes.begin(selector(Equality(LABEL, f"l{number}", "")), 0.0) is None
    assert len(indexes._asked) <= 64


def test_a_value_that_many_items_have_is_not_sorted(monkeypatch):
    monkeypatch.setattr(itemindex, "MOST_FOUND", 1)
    cache = make_cache()
    index = cache.indexes._indexes[LABEL, "a"] = ItemIndex(LABEL, "a")
    index.is_complete = True
    cache.apply([Change(1, f"{PREFIX}n/{name}", b"{}", Selection({"a": "1"}, None)) for name in "xy"])
    assert index.keys("1") is None
    assert len(cache.candidates(PREFIX, "", selector(Equality(LABEL, "a", "1")))) == 2
