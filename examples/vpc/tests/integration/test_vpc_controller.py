"""The controller of Vpc, on a control plane in the process of the test."""

from kapi.testing import Environment
from samples import is_ready, sample

from vpc.api.vpc_v1 import Vpc
from vpc.controllers.vpc_controller import VpcReconciler


async def test_an_object_becomes_ready_with_the_declared_permissions(kapi_environment: Environment) -> None:
    env = kapi_environment
    manager = env.manager(user=await env.user("operator", rules=VpcReconciler.PERMISSIONS))
    VpcReconciler.setup(manager)
    async with env.run(manager):
        await env.client.create(sample(Vpc, "a"))
        await env.eventually(lambda: is_ready(env.client, Vpc, "a"))
    refused = [entry for entry in env.history.requests(user="manager") if entry.status == 403]
    assert refused == [], env.history.story()


async def test_objects_become_ready_although_the_network_is_bad() -> None:
    async with Environment(crds=[Vpc], time="virtual") as env:
        manager = env.manager()
        VpcReconciler.setup(manager)
        async with env.run(manager):
            env.faults.add(verb="write", user="manager", then="lose_response", times=2)
            env.faults.add(verb="write", user="manager", then="conflict", times=2)
            env.faults.add(verb="watch", resource=Vpc, then="cut_watch", times=2)
            await env.client.create(sample(Vpc, "a"))
            await env.settled(quiet=60)
            assert await is_ready(env.client, Vpc, "a")
            env.history.never_two_workers_on_one_key()


async def test_nothing_is_written_when_nothing_has_changed() -> None:
    async with Environment(crds=[Vpc], time="virtual") as env:
        manager = env.manager()
        VpcReconciler.setup(manager)
        async with env.run(manager):
            await env.client.create(sample(Vpc, "a"))
            await env.settled(quiet=60)
            env.history.clear()
            await env.advance(hours=1)
            env.history.at_most(
                0,
                verb="write",
                resource="vpcs.network.example.com/*",
                user="manager",
            )
