"""The networks of the kernel, in namespaces of the test's own: see `tests/linux` for how to run it."""

import asyncio
import os
import sys

import pytest
from kapi.api.access import uid_of
from kapi.client import DELETED
from kapi.testing import Environment
from samples import is_ready, sample

from vpc.api.vpc_v1 import Vpc
from vpc.controllers.vpc_controller import VpcReconciler

if "VPC_TEST_LINUX" not in os.environ:
    pytest.skip("VPC_TEST_LINUX is not set: run `make linux`", allow_module_level=True)

from pyroute2 import NetNS, netns

from vpc.backends.contract import divide
from vpc.backends.linux import PREFIX, Linux


async def addresses(uid: str) -> dict[str, list[str]]:
    """The bridges of a Vpc as the kernel has them, each with its addresses."""
    return await asyncio.to_thread(_addresses, uid)


def _addresses(uid: str) -> dict[str, list[str]]:
    with NetNS(PREFIX + uid) as kernel:
        names = {one["index"]: one.get_attr("IFLA_IFNAME") for one in kernel.get_links()}
        found: dict[str, list[str]] = {name: [] for name in names.values() if name != "lo"}
        for one in kernel.get_addr():
            address = one.get_attr("IFA_ADDRESS")
            if names[one["index"]] != "lo" and not address.startswith("fe80:"):
                found[names[one["index"]]].append(f"{address}/{one['prefixlen']}")
    return found


async def test_the_kernel_has_a_namespace_with_a_bridge_for_each_subnet() -> None:
    async with Environment(crds=[Vpc]) as env:
        manager = env.manager()
        VpcReconciler.setup(manager, Linux())
        async with env.run(manager):
            uid = uid_of(await env.client.create(sample(Vpc, "a")))
            await env.eventually(lambda: is_ready(env.client, Vpc, "a"))
            assert await addresses(uid) == {"subnet0": ["10.0.0.1/17"], "subnet1": ["10.0.128.1/17"]}
            await env.client.patch(
                Vpc, {"spec": {"subnetnum": 1, "cidrblock": "10.9.0.0/24"}}, name="a", namespace="default"
            )

            async def is_changed() -> bool:
                return await addresses(uid) == {"subnet0": ["10.9.0.1/24"]}

            await env.eventually(is_changed)
            await env.client.delete(Vpc, "a", namespace="default")
            await env.client.wait_for(Vpc, "a", DELETED, namespace="default")
            assert netns.listnetns() == []


def _change_by_hand() -> None:
    with NetNS(PREFIX + "drift") as kernel:
        (first,) = kernel.link_lookup(ifname="subnet0")
        (second,) = kernel.link_lookup(ifname="subnet1")
        kernel.link("del", index=first)
        kernel.addr("add", index=second, address="172.16.0.1", prefixlen=24)
        kernel.link("set", index=second, state="down")
        kernel.link("add", ifname="subnet9", kind="bridge")


async def test_drift_is_repaired_and_what_was_left_by_another_process_is_adopted() -> None:
    subnets = divide("10.0.0.0/24", 2)
    await Linux().ensure("drift", subnets)
    await asyncio.to_thread(_change_by_hand)
    done = await Linux().ensure("drift", subnets)
    assert sorted(done) == [
        "deleted subnet9",
        "made subnet0 with 10.0.0.1/25",
        "removed 172.16.0.1/24 from subnet1",
        "set subnet1 up",
    ]
    assert await addresses("drift") == {"subnet0": ["10.0.0.1/25"], "subnet1": ["10.0.0.129/25"]}
    assert await Linux().ensure("drift", subnets) == []
    assert await Linux().delete("drift")
    assert not await Linux().delete("drift")


def _set_loopback_up(uid: str) -> None:
    with NetNS(PREFIX + uid) as kernel:
        kernel.link("set", index=1, state="up")


async def test_a_program_in_the_namespace_reaches_the_gateway() -> None:
    await Linux().ensure("reach", divide("10.0.0.0/24", 1))
    program = (
        "import socket; s = socket.create_server(('10.0.0.1', 0)); socket.create_connection(s.getsockname()).close()"
    )
    await asyncio.to_thread(_set_loopback_up, "reach")
    process = await asyncio.create_subprocess_exec(
        "nsenter", f"--net=/run/netns/{PREFIX}reach", sys.executable, "-c", program
    )
    assert await process.wait() == 0
    await Linux().delete("reach")
