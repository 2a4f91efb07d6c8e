"""The record of an environment, the assertions on it, and the story that it tells."""

import asyncio

import pytest
from sample_operator import Site, site, sites

from kapi.base.clock import ManualClock
from kapi.testing import Environment, History, HistoryError
from kapi.testing.target import Target, target_of


def test_requests_events_and_reconciles_are_recorded_in_order():
    async def main():
        async with Environment(crds=[Site], time="virtual", controllers=()) as env:
            manager = env.manager()
            sites(manager)
            async with env.run(manager):
                env.history.clear()
                await env.client.create(site("a"))
                await env.settled()
            story = [(entry.what, entry.user, entry.target.verb, entry.target.kind) for entry in env.history.entries]
            assert story[:4] == [
                ("request", "admin", "create", "sites"),
                ("event", "manager", "ADDED", "sites"),
                ("reconcile", "site", "reconcile", ""),
                ("request", "manager", "patch", "sites"),
            ]
            assert ("request", "manager", "patch", "configmaps") in story
            assert ("request", "manager", "patch", "sites/status") in story
            first = env.history.reconciles[0]
            inside = [entry for entry in env.history.requests(user="manager") if entry.reconcile == first.reconcile]
            assert [entry.target.kind for entry in inside] == ["sites", "configmaps", "sites/status"]
            assert first.result == "ok"

    asyncio.run(main())


@pytest.fixture
def history():
    return History(ManualClock())


SITE = Target("update", "example.com", "sites", "", "default", "a")


def _write(history, seconds, target=SITE, user="manager"):
    history._clock.advance(seconds)
    entry = history.add("request", user, target)
    history.end(entry, status=200, result="200 rv 7")


def test_more_writes_than_allowed_are_an_error_with_the_story(history):
    for _ in range(4):
        _write(history, 1)
    history.at_most(4, resource="sites")
    history.at_most(2, resource="sites", within=1)
    history.at_most(0, resource="sites/status")
    history.at_most(0, user="admin")
    with pytest.raises(HistoryError, match=r"4 times write sites, expected at most 3\n\nWhat happened:\nSECONDS  WHO"):
        history.at_most(3, resource="sites")
    with pytest.raises(HistoryError, match=r"3 times write within 2 s \(bound: 2\.5 s\), expected at most 2"):
        history.at_most(2, within=2.5)


def _reconcile(history, controller="site", name="a"):
    return history.add("reconcile", controller, Target("reconcile", namespace="default", name=name))


def test_two_workers_on_one_key_are_found(history):
    first = _reconcile(history)
    other = _reconcile(history, name="b")
    history.end(first)
    _reconcile(history)
    _reconcile(history, controller="another")
    history.never_two_workers_on_one_key()
    history.end(other)
    _reconcile(history)
    with pytest.raises(HistoryError, match="two workers of site on default/a"):
        history.never_two_workers_on_one_key()


def test_what_a_new_watch_shows_first_is_one_line_of_a_story(history):
    def show(kind, names, result="rv 7"):
        for name in names:
            history.add("event", "manager", Target("ADDED", "", kind, "", "default", name), result=result)

    show("configmaps", "abcd")
    show("secrets", "abc")
    show("configmaps", "abcd", "rv 9, 5 s late (injected)")
    assert history.story().splitlines()[2:] == [
        "0.000    manager  event ADDED  configmaps            4 objects",
        *(f"0.000    manager  event ADDED  secrets default/{name}     rv 7" for name in "abc"),
        *(f"0.000    manager  event ADDED  configmaps default/{name}  rv 9, 5 s late (injected)" for name in "abcd"),
    ]


def test_a_story_is_a_table_in_order(history):
    reconcile = _reconcile(history)
    _write(history, 0.25)
    history.note("the test waits")
    history.end(reconcile, result="ok, again after 5 s")
    slow = history.add("request", "admin", SITE._replace(verb="delete"))
    history._clock.advance(3)
    history.end(slow, result="ConnectionLost: it broke")
    assert history.story().splitlines() == [
        "What happened:",
        "SECONDS  WHO      WHAT              OBJECT           RESULT",
        "0.000    site     reconcile begins  default/a",
        "0.250    manager  update            sites default/a  200 rv 7",
        "0.250             the test waits",
        "0.250    site     reconcile ends    default/a        ok, again after 5 s",
        "0.250    admin    delete            sites default/a  ConnectionLost: it broke after 3.0 s",
    ]
    assert history.story(lines=1).startswith("What happened (without the first 3 entries):\nSECONDS")
    history.clear()
    assert history.story() == "What happened: nothing was recorded."


def test_something_that_writes_again_and_again_is_told():
    async def main():
        async with Environment(crds=[Site], time="virtual", controllers=()) as env:
            await env.client.create(site("a"))

            async def write():
                for number in range(100):
                    await asyncio.sleep(0.5)
                    await env.client.patch(Site, {"spec": {"title": str(number)}}, name="a", namespace="default")

            writing = asyncio.ensure_future(write())
            with pytest.raises(HistoryError, match=r"still writing after 30 s: \d\d writes"):
                await env.settled()
            await env.settled(timeout=60)
            await writing

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "http://x/api/v1/namespaces/default/pods/a/log", Target("get", "", "pods", "log", "default", "a")),
        ("GET", "http://x/api/v1/pods?watch=true", Target("watch", "", "pods")),
        ("DELETE", "http://x/apis/apps/v1/deployments", Target("deletecollection", "apps", "deployments")),
        ("GET", "http://x/version", Target("get", resource="/version")),
        ("GET", "http://x/apis/%00", Target("get", resource="/apis/%00")),
    ],
)
def test_a_request_is_known_by_verb_and_object(method, url, expected):
    assert target_of(method, url) == expected


def test_waiting_for_a_change_can_be_cancelled_while_one_happens():
    """`asyncio.wait_for` of Python 3.11 swallows a cancellation that comes together with the event."""

    async def main():
        history = History(ManualClock())

        async def wait():
            while True:
                await history.changed(within=60)

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        history.note("a change")
        # The waiter of the event is woken, and then the task is cancelled before it runs.
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        is_done = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert is_done

    asyncio.run(main())
