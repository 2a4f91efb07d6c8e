"""Which events count."""

import itertools

import pytest
from controller_samples import DECODING, created, deleted, updated
from hypothesis import given
from hypothesis import strategies as st

from kapi.api.selectors import LabelSelector
from kapi.controller.predicate import (
    and_,
    annotation_changed,
    generation_changed,
    has_labels,
    in_namespaces,
    label_changed,
    not_,
    of_object,
    on,
    or_,
    resource_version_changed,
)

CHANGED = [generation_changed, resource_version_changed, label_changed, annotation_changed]


@pytest.mark.parametrize("predicate", CHANGED, ids=lambda function: function.__name__)
def test_that_an_object_came_or_went_always_counts(predicate):
    assert predicate(created())
    assert predicate(deleted())


@pytest.mark.parametrize(
    "predicate, old, new, counts",
    [
        (generation_changed, {"generation": 1}, {"generation": 2}, True),
        (generation_changed, {"generation": 2}, {"generation": 2, "labels": {"a": "b"}}, False),
        (generation_changed, {}, {}, False),
        (resource_version_changed, {"resourceVersion": "7"}, {"resourceVersion": "8"}, True),
        (resource_version_changed, {"resourceVersion": "7"}, {"resourceVersion": "7"}, False),
        (label_changed, {"labels": {"a": "b"}}, {"labels": {"a": "c"}}, True),
        (label_changed, {"labels": {"a": "b"}}, {}, True),
        (label_changed, {"labels": {"a": "b", "c": "d"}}, {"labels": {"c": "d", "a": "b"}}, False),
        (label_changed, {"labels": {}}, {"annotations": {"a": "b"}}, False),
        (annotation_changed, {"annotations": {"a": "b"}}, {"annotations": {"a": "c"}}, True),
        (annotation_changed, {}, {"annotations": {"a": "c"}}, True),
        (annotation_changed, {"annotations": {"a": "b", "c": "d"}}, {"annotations": {"c": "d", "a": "b"}}, False),
        (annotation_changed, {"annotations": {}}, {"annotations": None, "generation": 4}, False),
    ],
)
def test_an_update_counts_when_the_part_in_question_changed(predicate, old, new, counts):
    assert predicate(updated(old, new)) is counts


def test_no_object_is_decoded_for_fields_that_the_cache_has():
    before = DECODING.count
    for predicate in (*CHANGED, has_labels("a=b"), in_namespaces("default")):
        predicate(updated({"labels": {"a": "b"}}, {"annotations": {"c": "d"}}))
    assert before == DECODING.count


def test_a_selector_matches_the_latest_labels():
    for web in (has_labels("tier=web"), has_labels(LabelSelector.parse("tier in (web)"))):
        assert web(created(labels={"tier": "web"}))
        assert not web(created(labels={"tier": "db"}))
        assert not web(updated({"labels": {"tier": "web"}}, {}))
        assert web(updated({}, {"labels": {"tier": "web"}}))


def test_only_events_of_the_given_namespaces_pass():
    mine = in_namespaces("a", "b")
    assert mine(created(namespace="b"))
    assert not mine(created(namespace="c"))
    assert not mine(deleted(namespace=""))


def test_a_check_sees_the_latest_state_of_the_object():
    big = of_object(lambda obj: obj["spec"]["size"] > 3)
    assert big(created(spec={"size": 4}))
    assert not big(updated({"spec": {"size": 4}}, {"spec": {"size": 1}}))


def test_each_kind_of_event_can_have_a_rule_of_its_own():
    rule = on(
        create=lambda event: not event.initial,
        update=lambda event: event.old.generation < event.object.generation,
        delete=False,
    )
    assert rule(created())
    assert not rule(created(initial=True))
    assert rule(updated({"generation": 1}, {"generation": 2}))
    assert not rule(updated())
    assert not rule(deleted())
    assert not on(create=False, update=False)(created())
    assert not on(create=False, update=False)(updated())
    assert on(create=False, update=False, delete=lambda event: event.stale)(deleted(stale=True))


EVENTS = [created(), created(initial=True, generation=2), updated(), updated({"generation": 1}), deleted()]
ATOMS = [generation_changed, on(create=False), on(delete=False), lambda _: True, lambda _: False]


@given(st.sampled_from(EVENTS), st.sampled_from(ATOMS), st.sampled_from(ATOMS), st.sampled_from(ATOMS))
def test_predicates_combine_as_logic_does(event, p, q, r):
    assert and_(p, q, r)(event) == (p(event) and q(event) and r(event))
    assert or_(p, q, r)(event) == (p(event) or q(event) or r(event))
    assert not_(not_(p))(event) == p(event)
    assert not_(and_(p, q))(event) == or_(not_(p), not_(q))(event)


def test_all_of_none_is_true_and_any_of_none_is_false():
    for event in EVENTS:
        assert and_()(event)
        assert not or_()(event)


def test_the_second_of_two_is_not_asked_when_the_first_has_decided():
    asked = []
    for combine, first in itertools.product((and_, or_), (True, False)):
        asked.clear()
        combine(lambda _, first=first: first, lambda _: bool(asked.append(1)))(created())
        assert bool(asked) == ((combine is and_) == first)
