"""Which keys an event leads to."""

import asyncio
import inspect

import pytest
from controller_samples import DECODING, created, deleted, updated

from kapi.api.meta import GroupKind
from kapi.controller.enqueue import for_object, for_owner, mapped
from kapi.controller.queue import LIVE_PRIORITY, LOW_PRIORITY
from kapi.controller.reconcile import Request

NETWORK = GroupKind("net.example.com", "Network")


def reference(name, kind="Network", api_version="net.example.com/v1", **fields):
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", **fields}


def owned_by(*references):
    return {"ownerReferences": list(references)}


@pytest.mark.parametrize("event", [created(name="x"), updated({"name": "x"}, {"name": "x"}), deleted(name="x")])
def test_an_object_leads_to_its_own_key(event):
    assert list(for_object(event)) == [Request("default", "x")]


@pytest.mark.parametrize(
    "references, controlling, all_owners",
    [
        ([], [], []),
        ([reference("n", controller=True)], ["n"], ["n"]),
        ([reference("n", controller=False)], [], ["n"]),
        ([reference("n")], [], ["n"]),
        ([reference("n", api_version="net.example.com/v9alpha1", controller=True)], ["n"], ["n"]),
        ([reference("n", api_version="net.example.org/v1", controller=True)], [], []),
        ([reference("n", api_version="v1", controller=True)], [], []),
        ([reference("n", kind="Router", controller=True)], [], []),
        ([reference("n", api_version="a/b/c", controller=True)], [], []),
        ([reference("a"), reference("b", controller=True), reference("c", "Router")], ["b"], ["a", "b"]),
        # An object has one controller: the first that says so, even when a second one is of our kind.
        ([reference("r", "Router", controller=True), reference("n", controller=True)], [], ["n"]),
    ],
    ids=[
        "none",
        "controller",
        "not controller",
        "not said",
        "another version",
        "another group",
        "core group",
        "another kind",
        "unreadable version",
        "several",
        "two controllers",
    ],
)
def test_owners_are_found_by_group_and_kind(references, controlling, all_owners):
    for event in (created(**owned_by(*references)), deleted(**owned_by(*references))):
        only = for_owner(NETWORK, namespaced=True)(event)
        every = for_owner(NETWORK, namespaced=True, controller_only=False)(event)
        assert list(only) == [Request("default", name) for name in controlling]
        assert list(every) == [Request("default", name) for name in all_owners]


def test_an_owner_without_a_namespace_is_asked_for_without_one():
    event = created(**owned_by(reference("n", controller=True)))
    assert list(for_owner(NETWORK, namespaced=False)(event)) == [Request("", "n")]


def test_an_owner_that_lost_an_object_is_enqueued_too_and_no_owner_twice():
    old, new = owned_by(reference("a", controller=True)), owned_by(reference("b", controller=True))
    handler = for_owner(NETWORK, namespaced=True)
    assert list(handler(updated(old, new))) == [Request("default", "a"), Request("default", "b")]
    assert list(handler(updated(old, old))) == [Request("default", "a")]


def test_the_object_is_not_decoded_to_find_its_key_or_its_owners():
    before = DECODING.count
    for_object(created())
    list(for_owner(NETWORK, namespaced=True)(updated(owned_by(reference("a")), {})))
    assert before == DECODING.count


def to_targets(obj):
    return [Request(obj["metadata"]["namespace"], name) for name in obj["spec"].get("targets", ())]


async def to_targets_later(obj):
    await asyncio.sleep(0)
    return to_targets(obj)


def requests_of(handler, event):
    answer = handler(event)
    if inspect.isawaitable(answer):

        async def wait():
            return await answer

        answer = asyncio.run(wait())
    return [request.name for request in answer]


@pytest.mark.parametrize("mapper", [to_targets, to_targets_later])
def test_a_mapper_is_asked_about_both_states_and_each_key_counts_once(mapper):
    handler = mapped(mapper)
    assert requests_of(handler, created(spec={"targets": ["x", "y", "x"]})) == ["x", "y"]
    assert requests_of(handler, updated({"spec": {"targets": ["x", "y"]}}, {"spec": {"targets": ["z", "y"]}})) == [
        "x",
        "y",
        "z",
    ]
    assert requests_of(handler, deleted()) == []


def test_an_async_mapper_is_not_called_for_the_second_state_before_the_first_is_answered():
    running = []

    async def mapper(obj):
        assert not running
        running.append(1)
        await asyncio.sleep(0)
        running.pop()
        return to_targets(obj)

    event = updated({"spec": {"targets": ["x"]}}, {"spec": {"targets": ["y"]}})
    assert requests_of(mapped(mapper), event) == ["x", "y"]


def test_what_a_mapper_raises_comes_out_and_nothing_is_left_unawaited():
    async def mapper(obj):
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        requests_of(mapped(mapper), updated())


@pytest.mark.parametrize(
    "event, priority",
    [
        (created(), LIVE_PRIORITY),
        (created(initial=True), LOW_PRIORITY),
        (updated({"resourceVersion": "1"}, {"resourceVersion": "2"}), LIVE_PRIORITY),
        (updated({"resourceVersion": "2"}, {"resourceVersion": "2"}), LOW_PRIORITY),
        (deleted(), LIVE_PRIORITY),
        (deleted(stale=True), LIVE_PRIORITY),
    ],
    ids=["create", "initial list", "update", "resync", "delete", "tombstone"],
)
def test_what_was_there_before_and_what_did_not_change_can_wait(event, priority):
    assert event.priority == priority
