"""The controller of `examples/network` against a real OpenStack Neutron: drift, failures, crashes, late requests.

`KAPI_NEUTRON_NETWORKS=100` makes the last test long, and runs it in both forms; by default it is short. The controller is killed
`KAPI_NEUTRON_KILLS` times in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from neutron_process import NeutronServer, Proxy

pytest.importorskip("openstack", reason="openstacksdk is not installed here: make venv")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "network"
sys.path.append(str(EXAMPLE))

from network_controller import controller, reconciler  # noqa: E402
from network_controller.backend import Unavailable, Wanted  # noqa: E402
from network_controller.kind import Network, NetworkSpec  # noqa: E402
from network_controller.neutron import Neutron, NeutronBackend  # noqa: E402
from network_controller.sweep import sweep  # noqa: E402
from openstack.connection import Connection  # noqa: E402

from kapi import ObjectMeta  # noqa: E402
from kapi.client import DELETED  # noqa: E402
from kapi.testing import Environment  # noqa: E402

NETWORKS = int(os.environ.get("KAPI_NEUTRON_NETWORKS", "10"))
KILLS = int(os.environ.get("KAPI_NEUTRON_KILLS", "3"))
SECONDS = 60.0 + 6 * NETWORKS
"""For one thing to happen: a guard, not a measurement."""
RESYNC = 0.5

pytestmark = [
    pytest.mark.peers,
    pytest.mark.timeout(600 + 30 * (NETWORKS + KILLS)),
    # openstacksdk warns of what it calls itself.
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]

PROJECT = "fake_project_id"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def neutron(tmp_path_factory):
    server = NeutronServer(tmp_path_factory.mktemp("neutron"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def proxy(neutron):
    with Proxy(neutron) as proxy:
        yield proxy


class Cloud:
    """What is really in Neutron, asked without the proxy."""

    def __init__(self, neutron):
        self.api = Connection(auth_type="none", endpoint=neutron.url).network

    def networks(self, prefix):
        """The networks of one test by name: all of that name, each with its subnets."""
        found = {}
        for network in self.api.networks():
            if network.name.startswith(f"{prefix}/"):
                subnets = [(one.cidr, one.gateway_ip or "") for one in self.api.subnets(network_id=network.id)]
                found.setdefault(network.name.removeprefix(f"{prefix}/"), []).append(subnets)
        return found


@pytest.fixture
def cloud(neutron):
    return Cloud(neutron)


def network(name, namespace, cidr="10.0.0.0/24", gateway="10.0.0.1"):
    metadata = ObjectMeta(name=name, namespace=namespace)
    return Network(metadata=metadata, spec=NetworkSpec(cidr=cidr, gateway=gateway))


@contextlib.asynccontextmanager
async def running(env, backend, form, resync):
    """The controller in this process, in one of its two forms."""
    if form == "manager":
        manager = env.manager()
        reconciler.setup(manager, backend, resync=resync, backoff=0.05)
        async with env.run(manager):
            yield
        return
    stop = asyncio.Event()
    client = env.client_for("controller", groups=["system:masters"])
    task = asyncio.ensure_future(controller.run(client, backend, stop, resync=resync, backoff=0.05))
    try:
        yield
    finally:
        stop.set()
        await task


class Scene:
    """A control plane, a controller, and the real networks behind it."""

    def __init__(self, env, cloud, namespace):
        self.env = env
        self.cloud = cloud
        self.namespace = namespace

    async def create(self, name, **spec):
        return await self.env.client.create(network(name, self.namespace, **spec))

    async def change(self, name, **spec):
        return await self.env.client.patch(Network, {"spec": spec}, name=name, namespace=self.namespace)

    async def delete(self, name):
        await self.env.client.delete(Network, name, namespace=self.namespace)

    async def deleted(self, name):
        await self.env.client.wait_for(Network, name, DELETED, namespace=self.namespace, timeout=SECONDS)

    async def has(self, name, reason, generation=0):
        """The status, once its condition has a reason and is about this generation, or a later one."""

        def met(one):
            conditions = one.status.conditions if one.status else ()
            return any(
                ready.reason == reason and (ready.observed_generation or 0) >= generation for ready in conditions
            )

        found = await self.env.client.wait_for(Network, name, met, namespace=self.namespace, timeout=SECONDS)
        return found.status

    async def reconciled(self, obj):
        return await self.has(obj.metadata.name, "Reconciled", obj.metadata.generation)

    async def shows(self, expected):
        """Wait until Neutron has exactly these networks: a list of subnets for each."""

        async def same():
            found = await asyncio.to_thread(self.cloud.networks, self.namespace)
            assert found == expected
            return True

        await self.env.eventually(same, timeout=SECONDS)

    async def reasons(self, name):
        events = await self.env.client.list(("events.k8s.io/v1", "Event"), namespace=self.namespace)
        return {event["reason"] for event in events if event["regarding"]["name"] == name}


def play(test, cloud, url, form="manager", resync=RESYNC, **options):
    """Run a test with a controller that talks to Neutron at a URL."""

    async def main():
        async with Environment(crds=[EXAMPLE / "crd.yaml"]) as env, env.namespace() as namespace:
            system = await env.client.get(("v1", "Namespace"), "kube-system")
            backend = NeutronBackend(Neutron(system["metadata"]["uid"], endpoint=url, **options))
            try:
                async with running(env, backend, form, resync):
                    await test(Scene(env, cloud, namespace))
            finally:
                backend.close()

    asyncio.run(main())


@pytest.mark.parametrize("form", ["manager", "by hand"])
def test_networks_follow_their_objects_and_drift_is_repaired(neutron, cloud, form):
    async def test(scene):
        made = await scene.create("a", cidr="192.168.0.0/16", gateway="192.168.0.1")
        status = await scene.reconciled(made)
        await scene.shows({"a": [[("192.168.0.0/16", "192.168.0.1")]]})
        found = await asyncio.to_thread(cloud.api.get_network, status.network_id)
        assert found.subnet_ids == [status.subnet_id]
        # A gateway that is in the allocation pool, a smaller range inside the old one, no gateway, IPv6.
        for cidr, gateway in (
            ("192.168.0.0/16", "192.168.7.7"),
            ("192.168.0.0/24", "192.168.0.9"),
            ("192.168.0.0/24", ""),
            ("2001:db8::/64", "2001:db8::1"),
        ):
            await scene.reconciled(await scene.change("a", cidr=cidr, gateway=gateway))
            await scene.shows({"a": [[(cidr, gateway)]]})
        status = await scene.has("a", "Reconciled")
        assert status.network_id == found.id

        def drift():
            cloud.api.update_network(status.network_id, name="renamed", description="", is_admin_state_up=False)
            cloud.api.delete_subnet(status.subnet_id)

        await asyncio.to_thread(drift)
        await scene.shows({"a": [[("2001:db8::/64", "2001:db8::1")]]})
        assert (await asyncio.to_thread(cloud.api.get_network, status.network_id)).is_admin_state_up
        await asyncio.to_thread(cloud.api.delete_network, status.network_id)
        await scene.shows({"a": [[("2001:db8::/64", "2001:db8::1")]]})
        await scene.env.eventually(lambda: _is_in(scene, "a", "Repaired"), timeout=SECONDS)
        await scene.delete("a")
        await scene.deleted("a")
        await scene.shows({})

    play(test, cloud, neutron.url, form)


async def _is_in(scene, name, reason):
    return reason in await scene.reasons(name)


def test_failures_of_neutron_are_in_the_condition_and_leave_neither_a_second_network_nor_a_lost_one(proxy, cloud):
    def error(kind, message):
        return JSON, f'{{"NeutronError": {{"type": "{kind}", "message": "{message}", "detail": ""}}}}'.encode()

    # By turns the network cannot be created, the subnet cannot, and Neutron cannot be asked.
    faults = [
        ("Unavailable", "POST", "/v2.0/networks", {"drop": True}),
        (
            "Unavailable",
            "POST",
            "/v2.0/subnets",
            {"answer": (500, *error("HTTPInternalServerError", "Request Failed"))},
        ),
        ("Unavailable", "GET", "/v2.0/subnets", {"answer": (503, {}, b"")}),
        ("TooManyRequests", "POST", "/v2.0/networks", {"answer": (429, {"Retry-After": "1"}, b"")}),
        ("Rejected", "POST", "/v2.0/subnets", {"answer": (409, *error("Busy", "another request was faster"))}),
    ]

    async def test(scene):
        names = []
        for number, (reason, method, path, fault) in enumerate(faults):
            name = f"{reason.lower()}-{number}"
            proxy.fault(method, path, times=sys.maxsize, **fault)
            made = await scene.create(name)
            await scene.has(name, reason)
            proxy.clear()
            await scene.reconciled(made)
            assert reason in await scene.reasons(name)
            names.append(name)
        await scene.shows({name: [[("10.0.0.0/24", "10.0.0.1")]] for name in names})
        proxy.fault("DELETE", "/v2.0/networks", answer=(503, {}, b""), times=3)
        proxy.fault("DELETE", "/v2.0/networks", drop=True, times=3)
        for name in names:
            await scene.delete(name)
        for name in names:
            await scene.deleted(name)
        await scene.shows({})

    play(test, cloud, proxy.url, resync=SECONDS)


def test_quotas_overlaps_and_ports_are_reported_in_the_words_of_neutron(neutron, cloud):
    async def test(scene):
        made = await scene.create("a")
        status = await scene.reconciled(made)
        used = await asyncio.to_thread(lambda: len(list(cloud.api.networks())))
        await asyncio.to_thread(cloud.api.update_quota, PROJECT, networks=used)
        try:
            more = await scene.create("b")
            failed = await scene.has("b", "QuotaExceeded")
            assert "Quota exceeded for resources: ['network']" in failed.conditions[0].message
            await scene.shows({"a": [[("10.0.0.0/24", "10.0.0.1")]]})
        finally:
            await asyncio.to_thread(cloud.api.update_quota, PROJECT, networks=-1)
        await scene.reconciled(more)

        foreign = {"network_id": status.network_id, "cidr": "10.1.0.0/16", "ip_version": 4, "gateway_ip": None}
        subnet = await asyncio.to_thread(lambda: cloud.api.create_subnet(**foreign))
        changed = await scene.change("a", cidr="10.1.2.0/24", gateway="10.1.2.1")
        failed = await scene.has("a", "AddressOverlap")
        assert failed.conditions[0].status == "False"
        await asyncio.to_thread(cloud.api.delete_subnet, subnet.id)
        status = await scene.reconciled(changed)

        port = await asyncio.to_thread(lambda: cloud.api.create_port(network_id=status.network_id))
        await scene.delete("a")
        failed = await scene.has("a", "InUse")
        assert failed.network_id == status.network_id
        await asyncio.to_thread(cloud.api.delete_port, port.id)
        await scene.deleted("a")
        await scene.delete("b")
        await scene.deleted("b")
        await scene.shows({})

    play(test, cloud, neutron.url)


def test_a_slow_neutron_is_given_up_and_what_it_does_late_is_not_done_twice(proxy, cloud):
    async def test(scene):
        # Its answer comes after the deadline of the request; Neutron has created the network.
        held = proxy.fault("POST", "/v2.0/networks", hold="after")
        made = await scene.create("a")
        await asyncio.to_thread(held.wait_until_reached)
        await scene.has("a", "Unavailable")
        held.release()
        await scene.reconciled(made)
        await scene.shows({"a": [[("10.0.0.0/24", "10.0.0.1")]]})
        assert await scene.reasons("a") >= {"Unavailable"}

    play(test, cloud, proxy.url, request_seconds=0.5)


def test_creates_that_are_carried_out_late_leave_no_second_network_and_no_orphan(proxy, cloud):
    """Two controllers, one of which was thought to be dead: its request arrives when the other has done the work."""
    wanted = Wanted("uid-of-a", "late", "a", "10.0.0.0/24", "10.0.0.1")
    dead, alive = (Neutron("late-cluster", endpoint=proxy.url) for _ in range(2))

    def in_vain():
        with contextlib.suppress(Unavailable):
            dead.ensure(wanted)

    held = proxy.fault("POST", "/v2.0/networks", hold="before")
    thread = threading.Thread(target=in_vain)
    thread.start()
    held.wait_until_reached()
    kept = alive.ensure(wanted)
    held.release()
    thread.join()
    both = cloud.networks("late")["a"]
    assert len(both) == 2
    again = alive.ensure(Wanted("uid-of-a", "late", "a", "10.0.0.0/24", "10.0.0.1", kept.network_id))
    assert (again.network_id, again.subnet_id) == (kept.network_id, kept.subnet_id)
    assert cloud.networks("late") == {"a": [[("10.0.0.0/24", "10.0.0.1")]]}

    async def sweep_for_an_object_that_is_gone():
        async with Environment(crds=[EXAMPLE / "crd.yaml"]) as env:
            backend = NeutronBackend(alive)
            try:
                return await sweep(env.client, backend), await sweep(env.client, backend)
            finally:
                backend.close()

    assert asyncio.run(sweep_for_an_object_that_is_gone()) == (1, 0)
    assert cloud.networks("late") == {}


class Process:
    """The controller as a program, which is killed and started again."""

    def __init__(self, kubeconfig, url, log, *options):
        self.command = [sys.executable, "-m", "network_controller", "--neutron-endpoint", url, *options]
        self.command += [
            "--kubeconfig",
            str(kubeconfig),
            "--backoff=0.1",
            f"--resync={NETWORKS / 2}",
            f"--sweep={NETWORKS / 2}",
        ]
        self.log = log
        self.kills = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._end()

    def start(self):
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.command, cwd=EXAMPLE, stdout=log, stderr=log)

    def kill_and_start(self):
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        self._end()
        self.kills += 1
        self.start()

    def _end(self):
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize("form", ["manager", "by hand"] if "KAPI_NEUTRON_NETWORKS" in os.environ else ["manager"])
def test_controller_and_neutron_are_killed_and_in_the_end_neutron_has_what_the_objects_say(
    neutron, proxy, cloud, tmp_path, form
):
    """Networks are created, half of them changed, the others deleted; the kills come at the worst instants."""
    names = [f"n{number}" for number in range(NETWORKS)]
    changed, deleted = names[: NETWORKS // 2], names[NETWORKS // 2 :]

    async def killed_at(process, method, path, after, write):
        """Write objects, and kill the controller when Neutron has carried out one of its requests, before the answer."""
        held = proxy.fault(method, path, hold="after")
        for number, name in enumerate(after):
            await write(number, name)
        await asyncio.to_thread(held.wait_until_reached)
        await asyncio.to_thread(process.kill_and_start)
        held.release()

    async def test(scene, process):
        expected = {}

        def spec(name, network, gateway):
            expected[name] = [[(f"{network}.0/24", f"{network}.{gateway}")]]
            return {"cidr": f"{network}.0/24", "gateway": f"{network}.{gateway}"}

        async def create(number, name):
            await scene.create(name, **spec(name, f"10.{number % 250}.0", 1))

        async def change(number, name):
            await scene.change(name, **spec(name, f"172.16.{number % 250}", 9))

        async def change_again(number, name):
            await scene.change(name, **spec(name, f"172.{17 + number % 100}.{number % 250}", 7))

        async def delete(number, name):
            del expected[name]
            await scene.delete(name)

        half = len(deleted) // 2
        await killed_at(process, "POST", "/v2.0/networks", names, create)
        # Changes begin while creates are still being worked off, and Neutron is ended in the middle of them.
        await killed_at(process, "POST", "/v2.0/subnets", changed, change)
        for number in range(KILLS - 3):
            if number % 2:
                await killed_at(process, "POST", "/v2.0/networks", [f"extra{number}"], create)
            else:
                name = changed[number % len(changed)]
                await killed_at(
                    process, "POST", "/v2.0/subnets", [name], lambda _, name, again=number: change_again(again, name)
                )
        for name in deleted[:half]:
            await delete(0, name)
        neutron.kill()
        await asyncio.to_thread(neutron.start)
        # What was never created would not have to be deleted.
        for name in deleted[half:]:
            await scene.has(name, "Reconciled")
        await killed_at(process, "DELETE", "/v2.0/networks", deleted[half:], delete)
        for name in deleted:
            await scene.deleted(name)
        for name in expected:
            await scene.reconciled(await scene.env.client.get(Network, name, namespace=scene.namespace))
        await scene.shows(expected)
        assert process.kills == KILLS

    async def main():
        async with (
            Environment.process(crds=[EXAMPLE / "crd.yaml"]) as env,
            env.namespace() as namespace,
        ):
            options = ["--by-hand"] if form == "by hand" else []
            with Process(await env.kubeconfig(), proxy.url, tmp_path / "controller.log", *options) as process:
                await test(Scene(env, cloud, namespace), process)

    asyncio.run(main())
