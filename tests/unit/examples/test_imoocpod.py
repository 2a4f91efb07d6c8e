"""The operator of `examples/imoocpod`: each step of its reconcile."""

import asyncio
import pathlib

import yaml
from imoocpod import LABEL, ImoocPod, ImoocPodSpec, setup

from kapi import ObjectMeta, definition
from kapi.api.access import controller_of
from kapi.api.builtin.core_v1 import Container, Pod, PodSpec
from kapi.client import DELETED
from kapi.testing import Environment

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "imoocpod"
RULES = yaml.safe_load((EXAMPLE / "role.yaml").read_text())["rules"]


def play(test):
    """Run a test with the operator, as a user that has the rights of the example's role and no others."""

    async def main():
        async with Environment(crds=[EXAMPLE / "crd.yaml"], time="virtual") as env:
            manager = env.manager(user=await env.user("operator", rules=RULES))
            setup(manager)
            async with env.run(manager):
                await test(env)
            assert [entry for entry in env.history.requests(user="manager") if entry.status == 403] == []

    asyncio.run(main())


def imoocpod(replicas, name="a"):
    return ImoocPod(metadata=ObjectMeta(name=name, namespace="default"), spec=ImoocPodSpec(replicas=replicas))


async def pods_of(env):
    await env.settled()
    return [pod for pod in await env.client.list(Pod, namespace="default") if not pod.metadata.deletion_timestamp]


async def names_of(env):
    return sorted(pod.metadata.name for pod in await pods_of(env))


async def status_of(env):
    return (await env.client.get(ImoocPod, "a", namespace="default")).status


async def set_phase(env, name, phase):
    await env.client.patch_status(Pod, {"status": {"phase": phase}}, name=name, namespace="default")


def test_pods_are_created_with_an_owner_and_the_status_names_them():
    async def test(env):
        (example,) = yaml.safe_load_all((EXAMPLE / "imoocpod.yaml").read_text())
        made = await env.client.create({**example, "metadata": {"name": "a", "namespace": "default"}})
        pods = await pods_of(env)
        assert len(pods) == 2
        for pod in pods:
            assert controller_of(pod).uid == made["metadata"]["uid"]
            assert pod.metadata.labels == {LABEL: "a"}
        status = await status_of(env)
        assert (status.replicas, status.pod_names) == (2, sorted(pod.metadata.name for pod in pods))

    play(test)


def test_scaling_down_keeps_the_pods_that_run():
    async def test(env):
        await env.client.create(imoocpod(4))
        names = await names_of(env)
        for name in names[2:]:
            await set_phase(env, name, "Running")
        # The operator's cache of Pods must know: between kinds there is no order.
        await env.settled()
        await env.client.scale(ImoocPod, "a", 2, namespace="default")
        assert await names_of(env) == names[2:]
        assert (await status_of(env)).pod_names == names[2:]
        await env.client.scale(ImoocPod, "a", 0, namespace="default")
        assert await names_of(env) == []

    play(test)


def test_a_pod_that_fails_or_is_deleted_is_replaced():
    async def test(env):
        await env.client.create(imoocpod(2))
        failed, deleted = await names_of(env)
        await set_phase(env, failed, "Failed")
        await env.client.delete(Pod, deleted, namespace="default")
        names = await names_of(env)
        assert failed in names
        assert deleted not in names
        assert len(names) == 3
        assert (await status_of(env)).pod_names == [name for name in names if name != failed]

    play(test)


def test_pods_of_others_with_the_same_label_are_neither_counted_nor_deleted():
    async def test(env):
        foreign = Pod(
            metadata=ObjectMeta(name="foreign", namespace="default", labels={LABEL: "a"}),
            spec=PodSpec(containers=[Container(name="c", image="busybox")]),
        )
        await env.client.create(foreign)
        await env.client.create(imoocpod(1))
        assert len(await names_of(env)) == 2
        await env.client.scale(ImoocPod, "a", 0, namespace="default")
        assert await names_of(env) == ["foreign"]

    play(test)


def test_the_pods_are_deleted_with_their_owner():
    async def test(env):
        await env.client.create(imoocpod(2))
        await env.settled()
        await env.client.delete(ImoocPod, "a", namespace="default", propagation="Foreground")
        await env.client.wait_for(ImoocPod, "a", DELETED, namespace="default")
        assert await names_of(env) == []

    play(test)


def test_answers_that_are_lost_leave_the_right_number_of_pods():
    async def test(env):
        env.faults.add(verb="create", resource="pods", then="lose_response", times=2)
        env.faults.add(verb="patch", resource="imoocpods/status", then="conflict", times=2)
        await env.client.create(imoocpod(3))
        await env.settled(quiet=60)
        assert len(await names_of(env)) == 3
        assert (await status_of(env)).replicas == 3

    play(test)


def test_the_definition_of_imoocpods_is_the_one_of_the_class():
    assert yaml.safe_load((EXAMPLE / "crd.yaml").read_text()) == definition(ImoocPod)
