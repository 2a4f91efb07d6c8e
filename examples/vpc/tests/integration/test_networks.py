"""What becomes of networks: they follow the spec, have Pods, are repaired, and are deleted with their object."""

from collections.abc import Sequence

import pytest
from kapi import ObjectMeta
from kapi.api.access import uid_of
from kapi.api.builtin.core_v1 import Container, Pod, PodSpec
from kapi.client import DELETED
from kapi.testing import Environment
from samples import is_ready, sample

from vpc.api.vpc_v1 import Vpc
from vpc.backends.contract import BackendError, Subnet
from vpc.backends.simulated import Simulated
from vpc.controllers.vpc_controller import LABEL, RESYNC_SECONDS, VpcReconciler


class Unreliable(Simulated):
    """Fails as often as it is told to."""

    failures = 0

    async def ensure(self, uid: str, subnets: Sequence[Subnet]) -> list[str]:
        if self.failures:
            self.failures -= 1
            raise BackendError("out of order")
        return await super().ensure(uid, subnets)


async def _condition(env: Environment, name: str) -> tuple[str | None, str | None]:
    stored = await env.client.get(Vpc, name, namespace="default")
    assert stored.status is not None
    (ready,) = stored.status.conditions
    return ready.status, ready.reason


async def test_the_network_follows_the_object() -> None:
    async with Environment(crds=[Vpc], time="virtual") as env:
        backend, manager = Simulated(), env.manager()
        VpcReconciler.setup(manager, backend)
        async with env.run(manager):
            uid = uid_of(await env.client.create(sample(Vpc, "a")))
            await env.settled()
            assert [str(one) for one in backend.networks[uid]] == ["10.0.0.0/17", "10.0.128.0/17"]
            await env.client.patch(Vpc, {"spec": {"subnetnum": 3}}, name="a", namespace="default")
            await env.settled()
            assert len(backend.networks[uid]) == 3
            status = (await env.client.get(Vpc, "a", namespace="default")).status
            assert status is not None
            assert (status.subnetnum, status.backend) == (3, "simulated")
            del backend.networks[uid]
            await env.advance(RESYNC_SECONDS)
            assert len(backend.networks[uid]) == 3
            await env.client.delete(Vpc, "a", namespace="default")
            await env.client.wait_for(Vpc, "a", DELETED, namespace="default")
            assert backend.networks == {}


async def test_the_pods_of_the_network_are_in_the_status(kapi_environment: Environment) -> None:
    env = kapi_environment
    manager = env.manager(user=await env.user("operator", rules=VpcReconciler.PERMISSIONS))
    VpcReconciler.setup(manager)
    async with env.run(manager):
        await env.client.create(sample(Vpc, "a"))
        for name, vpc in (("one", "a"), ("two", "a"), ("other", "b")):
            metadata = ObjectMeta(name=name, namespace="default", labels={LABEL: vpc})
            spec = PodSpec(containers=[Container(name="c", image="busybox")])
            await env.client.create(Pod(metadata=metadata, spec=spec))

        async def names() -> list[str]:
            status = (await env.client.get(Vpc, "a", namespace="default")).status
            return status.pod_names if status else []

        async def has_both() -> bool:
            return await names() == ["one", "two"]

        async def has_one() -> bool:
            return await names() == ["two"]

        await env.eventually(has_both)
        await env.client.delete(Pod, "one", namespace="default")
        await env.eventually(has_one)


async def test_a_failure_is_in_the_condition_and_is_tried_again() -> None:
    async with Environment(crds=[Vpc], time="virtual") as env:
        backend, manager = Unreliable(), env.manager()
        backend.failures = 8
        VpcReconciler.setup(manager, backend)
        async with env.run(manager):
            await env.client.create(sample(Vpc, "a"))
            await env.eventually(lambda: backend.failures < 5)
            assert await _condition(env, "a") == ("False", "BackendFailed")
            await env.settled(quiet=20)
            assert await is_ready(env.client, Vpc, "a")


@pytest.mark.parametrize("cidr", ["10.0.0.0/31"])
async def test_addresses_that_do_not_suffice_are_reported(cidr: str) -> None:
    async with Environment(crds=[Vpc], time="virtual") as env:
        backend, manager = Simulated(), env.manager()
        VpcReconciler.setup(manager, backend)
        async with env.run(manager):
            vpc = sample(Vpc, "a")
            vpc.spec.cidrblock = cidr
            await env.client.create(vpc)
            await env.settled()
            assert await _condition(env, "a") == ("False", "InvalidSpec")
            assert backend.networks == {}
