"""Controllers whose keys are of a type of the user's, and the priorities of watches."""

import asyncio
import importlib.util
import pathlib
from dataclasses import dataclass

import pytest
from controller_rig import A, Rig
from structlog.testing import capture_logs

from kapi import Manager, Request
from kapi.api.builtin.core_v1 import ConfigMap, Namespace
from kapi.controller import Controller, Prioritized, Trigger, reconcile_log
from kapi.controller.queue.ratelimit import ItemExponential
from kapi.testing import Environment
from virtual_time import run

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "teams.py"


@dataclass(frozen=True)
class Zone:
    region: str
    number: int


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def in_environment(test):
    async def main():
        async with Environment(time="virtual", controllers=()) as env:
            await test(env)

    asyncio.run(main())


def example():
    spec = importlib.util.spec_from_file_location("teams_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_reconciles_a_team_for_each_of_its_namespaces():
    async def test(env):
        manager = env.manager()
        example().setup(manager)
        async with env.run(manager):
            for name, team in [("a", "red"), ("b", "blue"), ("c", "red")]:
                await env.client.create(namespace(name, team=team))
            await env.settled()
            await env.client.patch(await env.client.get(Namespace, "a"), {"metadata": {"labels": {"team": "blue"}}})
            await env.settled()
            reports = {one.metadata.name: one.data for one in await env.client.list(ConfigMap, namespace="default")}
        assert reports == {"team-red": {"namespaces": "c"}, "team-blue": {"namespaces": "a b"}}
        assert {entry.target.key for entry in env.history.reconciles} == {"Team(name='red')", "Team(name='blue')"}

    in_environment(test)


def test_keys_of_any_hashable_type_coalesce_fail_back_off_and_are_logged():
    calls = []

    async def reconcile(zone):
        calls.append(zone)
        reconcile_log().info("looking")
        if len(calls) == 1:
            raise OSError("once")

    async def main():
        rig = Rig(reconcile)
        rig.trigger.fire(Zone("eu", 1))
        rig.trigger.fire(Zone("eu", 1))
        async with rig.running():
            await asyncio.sleep(5)

    with capture_logs() as logs:
        run(main())
    assert calls == [Zone("eu", 1)] * 2
    told = [line["request"] for line in logs if line["event"] in ("looking", "reconcile failed")]
    assert told == ["Zone(region='eu', number=1)"] * 3


def test_a_controller_that_is_keyed_by_another_type_has_no_kind_of_its_own():
    async def test(env):
        builder = env.manager().builder(Zone)
        with pytest.raises(TypeError, match="for_ queues the keys of objects, and this controller is keyed by Zone"):
            builder.for_(ConfigMap)
        with pytest.raises(TypeError, match="owns queues the keys of objects"):
            builder.owns(ConfigMap)
        with pytest.raises(TypeError, match="list cannot be a key: its instances are not hashable"):
            env.manager().builder(list)

    in_environment(test)


@pytest.mark.parametrize("answer", ["red", Request("default", "a")], ids=["a text", "a key"])
def test_a_mapper_that_returns_one_request_instead_of_a_list_is_told_so(answer, caplog):
    """The characters of a text, and the parts of a key, would be queued one by one."""
    calls = []

    async def reconcile(request):
        calls.append(request)

    async def test(env):
        manager = env.manager()
        manager.builder(str).named("teams").watches(Namespace, lambda namespace: answer).complete(reconcile)
        async with env.run(manager):
            await env.settled()

    in_environment(test)
    assert calls == []
    assert "expected a list of requests" in caplog.text


def queued(add_watches, *, change=None):
    """The keys that a controller's queue hands out, with their priorities, in that order."""
    found = []

    async def test(env):
        for name in ("old-1", "old-2"):
            await env.client.create(namespace(name, team="t"))
        manager = env.manager()
        controller: Controller[str] = add_watches(manager.builder(str).named("names")).complete(_nothing)
        await manager.informers.__aenter__()
        try:
            await controller.warm_up()
            if change is not None:
                await change(env)
                await env.advance(1)
            while len(controller.queue):
                key, priority = await controller.queue.get_with_priority()
                controller.queue.done(key)
                if key.startswith(("old", "new")):
                    found.append((key, priority))
        finally:
            controller.stop()
            await manager.informers.__aexit__(None, None, None)

    in_environment(test)
    return found


async def _nothing(request):
    return None


def name_of(namespace):
    return [namespace.metadata.name]


async def create_new(env):
    await env.client.create(namespace("new"))


def test_the_initial_list_has_a_low_priority_unless_the_watch_has_one():
    plain = queued(lambda builder: builder.watches(Namespace, name_of), change=create_new)
    assert plain == [("new", 0), ("old-1", -100), ("old-2", -100)]
    high = queued(lambda builder: builder.watches(Namespace, name_of, priority=7), change=create_new)
    assert high == [("old-1", 7), ("old-2", 7), ("new", 7)]


def test_a_priority_may_depend_on_the_event():
    found = queued(
        lambda builder: builder.watches_metadata(
            Namespace, name_of, priority=lambda event: event.priority + int(event.object.key.name[-1:] == "2")
        ),
        change=create_new,
    )
    assert found == [("new", 0), ("old-2", -99), ("old-1", -100)]


def test_a_request_with_a_priority_wins_over_the_watch():
    def urgent(namespace):
        name = namespace.metadata.name
        return [Prioritized(name, 50)] if name == "old-2" else [name]

    found = queued(lambda builder: builder.watches(Namespace, urgent, priority=7))
    assert found == [("old-2", 50), ("old-1", 7)]


def test_of_two_watches_that_add_one_key_the_higher_priority_counts():
    for priorities in ((3, 9), (9, 3)):
        found = queued(
            lambda builder, priorities=priorities: builder.watches(Namespace, name_of, priority=priorities[0]).watches(
                Namespace, name_of, priority=priorities[1]
            )
        )
        assert found == [("old-1", 9), ("old-2", 9)]


def test_the_kind_that_is_reconciled_and_what_it_owns_have_priorities_too():
    async def test(env):
        owner = await env.client.create(namespace("owner"))
        reference = {"apiVersion": "v1", "kind": "Namespace", "name": "owner", "uid": owner["metadata"]["uid"]}
        child = {"name": "child", "namespace": "default", "ownerReferences": [{**reference, "controller": True}]}
        await env.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": child})
        manager = env.manager()
        controller = manager.builder().for_(Namespace, priority=2).owns(ConfigMap, priority=5).complete(_nothing)
        await manager.informers.__aenter__()
        try:
            await controller.warm_up()
            assert await controller.queue.get_with_priority() == (Request("", "owner"), 5)
            assert (await controller.queue.get_with_priority())[1] == 2
        finally:
            controller.stop()
            await manager.informers.__aexit__(None, None, None)

    in_environment(test)


def test_a_limiter_a_trigger_and_a_manager_take_keys_of_any_type():
    async def test(env):
        manager: Manager = env.manager()
        trigger: Trigger[Zone] = Trigger()
        done = asyncio.Event()

        async def reconcile(zone):
            assert zone == Zone("eu", 2)
            done.set()

        builder = manager.builder(Zone).named("zones").watches_source(trigger)
        builder.with_options(rate_limiter=ItemExponential(1, 10)).complete(reconcile)
        async with env.run(manager):
            trigger.fire(Zone("eu", 2), priority=3)
            await done.wait()
            assert A not in manager.controllers[0].queue._dirty

    in_environment(test)
