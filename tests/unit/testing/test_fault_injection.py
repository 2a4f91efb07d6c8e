"""Faults by rule: clients, informers and controllers deal with them as with a bad network."""

import asyncio

import pytest
from sample_operator import Site, site, sites

from kapi import Conflict, NotFound
from kapi.api.errors import ApiError, Expired, InternalError, TooManyRequests
from kapi.client.errors import ConnectionLost
from kapi.testing import Environment

CONFIG_MAP = ("v1", "ConfigMap")


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def virtual(test):
    """Run a test in an environment with virtual time."""

    def wrapped():
        async def main():
            async with Environment(crds=[Site], time="virtual", controllers=()) as env:
                await test(env)

        asyncio.run(main())

    wrapped.__name__ = test.__name__
    return wrapped


@virtual
async def test_requests_are_answered_with_the_error_of_the_rule(env):
    created = await env.client.create(config_map("a"))
    for then, error in (
        ("conflict", Conflict),
        ("expired", Expired),
        ("server_error", InternalError),
    ):
        fault = env.faults.add(verb="update", resource="configmaps", then=then, times=1)
        with pytest.raises(error) as raised:
            await env.client.update(created)
        assert fault.hits == 1
        assert fault.is_spent
        assert raised.value.code == {"conflict": 409, "expired": 410, "server_error": 500}[then]
    await env.client.update(created)


@virtual
async def test_a_conflict_reads_as_one_of_the_server(env):
    created = await env.client.create(config_map("a"))
    env.faults.add(verb="update", resource="configmaps", then="conflict", times=1)
    with pytest.raises(Conflict) as injected:
        await env.client.update(created)
    await env.client.patch(created, {"data": {"key": "value"}})
    with pytest.raises(Conflict) as real:
        await env.client.update(created)
    assert injected.value.status() == real.value.status()


@virtual
async def test_a_client_waits_as_long_as_the_server_asks_and_tries_again(env):
    fault = env.faults.add(verb="create", then="too_many_requests", times=2)
    begin = env.clock.monotonic()
    await env.client.create(config_map("a"))
    assert fault.hits == 2
    assert env.clock.monotonic() - begin == pytest.approx(2)
    env.faults.add(verb="create", then="too_many_requests")
    with pytest.raises(TooManyRequests):
        await env.client.create(config_map("b"))


@virtual
async def test_a_dropped_request_is_not_made_and_a_lost_response_is(env):
    env.faults.add(verb="create", resource="configmaps", then="drop", times=1)
    with pytest.raises(ConnectionLost):
        await env.client.create(config_map("dropped"))
    with pytest.raises(NotFound):
        await env.client.get(CONFIG_MAP, "dropped", namespace="default")
    env.faults.add(verb="create", resource="configmaps", then="lose_response", times=1)
    with pytest.raises(ConnectionLost):
        await env.client.create(config_map("lost"))
    assert await env.client.get(CONFIG_MAP, "lost", namespace="default")


@virtual
async def test_a_read_whose_connection_breaks_is_tried_again(env):
    await env.client.create(config_map("a"))
    fault = env.faults.add(verb="get", resource="configmaps", then="drop", times=2)
    assert await env.client.get(CONFIG_MAP, "a", namespace="default")
    assert fault.hits == 2


@virtual
async def test_a_request_is_delayed(env):
    env.faults.add(verb="create", then="delay", seconds=20)
    begin = env.clock.monotonic()
    await env.client.create(config_map("a"))
    assert env.clock.monotonic() - begin == pytest.approx(20)


@virtual
async def test_a_rule_affects_only_what_it_names(env):
    alice = await env.user("alice", role="cluster-admin")
    fault = env.faults.add(
        verb="write", resource="configmaps", namespace="default", name="b", user="alice", then="server_error"
    )
    for client, name in ((env.client, "b"), (env.client_for(alice), "a")):
        await client.create(config_map(name))
    await env.client_for(alice).get(CONFIG_MAP, "b", namespace="default")
    assert fault.hits == 0
    with pytest.raises(InternalError):
        await env.client_for(alice).delete(CONFIG_MAP, "b", namespace="default")
    assert str(fault) == "server_error for write configmaps default/b by alice"
    env.faults.clear()
    await env.client_for(alice).delete(CONFIG_MAP, "b", namespace="default")


@virtual
async def test_a_rule_leaves_the_first_requests_alone_and_ends_with_its_block(env):
    await env.client.create(config_map("a"))
    with env.faults.active(verb="patch", resource="configmaps", then="conflict", after=1) as fault:
        patch = {"data": {"key": "value"}}
        await env.client.patch(CONFIG_MAP, patch, name="a", namespace="default")
        with pytest.raises(Conflict):
            await env.client.patch(CONFIG_MAP, patch, name="a", namespace="default")
    assert fault.hits == 1
    await env.client.patch(CONFIG_MAP, patch, name="a", namespace="default")


@virtual
async def test_a_status_is_another_resource_unless_all_are_meant(env):
    created = await env.client.create(site("a"))
    with env.faults.active(verb="patch", resource=Site, then="conflict") as fault:
        await env.client.patch_status(created, {"status": {"title": "x"}})
        assert fault.hits == 0
    with env.faults.active(verb="patch", resource="sites/*", then="conflict"), pytest.raises(Conflict):
        await env.client.patch_status(created, {"status": {"title": "y"}})


@pytest.mark.parametrize("then", ["cut_watch", "expired"])
def test_an_informer_survives_a_watch_that_ends(then):
    @virtual
    async def check(env):
        manager = env.manager()
        sites(manager)
        async with env.run(manager):
            await env.client.create(site("a"))
            await env.settled()
            fault = env.faults.add(verb="watch", resource=Site, then=then, times=3)
            await env.client.create(site("b"))
            await env.eventually(lambda: env.client.get(CONFIG_MAP, "b", namespace="default"), timeout=120)
            await env.eventually(lambda: fault.is_spent, timeout=120)
            assert f"{then} (injected)" in env.history.story(lines=1000)

    check()


@virtual
async def test_the_events_of_a_watch_come_late(env):
    manager = env.manager()
    sites(manager)
    async with env.run(manager):
        env.faults.add(resource=Site, name="slow", then="slow_watch", seconds=10)
        await env.client.create(site("quick"))
        await env.client.create(site("slow"))
        await env.advance(9)
        assert [entry.target.name for entry in env.history.reconciles if entry.target.name == "slow"] == []
        await env.advance(2)
        assert "slow" in [entry.target.name for entry in env.history.reconciles]
        assert "10 s late (injected)" in env.history.story()


@virtual
async def test_a_controller_gets_there_through_a_bad_network(env):
    manager = env.manager()
    sites(manager)
    for then in ("drop", "lose_response", "conflict", "server_error", "too_many_requests"):
        env.faults.add(verb="write", user="manager", then=then, times=3)
    async with env.run(manager):
        await env.client.create(site("a"))
        await env.settled(quiet=30, timeout=600)
        found = await env.client.get(Site, "a", namespace="default")
        assert found.status.title == "hello"
        env.history.never_two_workers_on_one_key()


@virtual
async def test_what_an_assertion_asks_is_neither_recorded_nor_affected(env):
    await env.client.create(config_map("a"))
    fault = env.faults.add(then="server_error")
    count = len(env.history.entries)
    assert await env.eventually(lambda: env.client.get(CONFIG_MAP, "a", namespace="default"))
    assert (fault.hits, len(env.history.entries)) == (0, count)
    with pytest.raises(ApiError):
        await env.client.get(CONFIG_MAP, "a", namespace="default")


@pytest.mark.parametrize(
    ("rule", "message"),
    [({"then": "explode"}, "expected one of"), ({"then": "cut_watch", "verb": "get"}, "cut_watch is for watches")],
)
def test_a_rule_that_cannot_work_is_refused(rule, message):
    from kapi.testing import Faults

    with pytest.raises(ValueError, match=message):
        Faults().add(**rule)
