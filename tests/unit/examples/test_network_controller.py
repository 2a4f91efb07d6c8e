"""The controller of `examples/network` in both its forms, with networks in memory."""

import asyncio
import contextlib
import dataclasses
import pathlib

import pytest
import yaml
from network_controller import controller, reconciler
from network_controller.__main__ import parser
from network_controller.backend import BackendError, InUse, Owner, QuotaExceeded, TooManyRequests, Unavailable
from network_controller.kind import Network, NetworkSpec, problem_of
from network_controller.simulated import Simulated, SimulatedNetwork
from network_controller.sweep import sweep

from kapi import ObjectMeta, definition
from kapi.client import DELETED
from kapi.testing import Environment

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples" / "network"
FORMS = ("manager", "by hand")
RESYNC = 60.0


class Cloud(Simulated):
    """Networks in memory, and the errors that the next calls raise."""

    def __init__(self):
        super().__init__()
        self.failures = []
        self.calls = []

    async def ensure(self, wanted):
        self._call("ensure")
        return await super().ensure(wanted)

    async def delete(self, uid, namespace, network_id=""):
        self._call("delete")
        return await super().delete(uid, namespace, network_id)

    def _call(self, name):
        self.calls.append(name)
        if self.failures:
            raise self.failures.pop(0)

    @property
    def shown(self):
        return {one.wanted.name: (one.wanted.cidr, one.wanted.gateway) for one in self.networks.values()}


@contextlib.asynccontextmanager
async def running(env, cloud, form, user=None):
    """The controller, for the length of a block."""
    if form == "manager":
        manager = env.manager(**({"user": user} if user else {}))
        reconciler.setup(manager, cloud, resync=RESYNC)
        async with env.run(manager):
            yield
        return
    stop = asyncio.Event()
    client = env.client_for(user, name="manager") if user else env.client_for("controller", groups=["system:masters"])
    task = asyncio.ensure_future(controller.run(client, cloud, stop, resync=RESYNC))
    try:
        yield
    finally:
        stop.set()
        await task


def network(name="a", cidr="10.0.0.0/8", gateway="10.0.0.1"):
    metadata = ObjectMeta(name=name, namespace="default")
    return Network(metadata=metadata, spec=NetworkSpec(cidr=cidr, gateway=gateway))


async def status_of(env, name="a"):
    return (await env.client.get(Network, name, namespace="default")).status


async def condition_of(env, name="a"):
    (ready,) = (await status_of(env, name)).conditions
    return ready.status, ready.reason, ready.message


async def events_of(env):
    events = await env.client.list(("events.k8s.io/v1", "Event"), namespace="default")
    return [(event["type"], event["reason"]) for event in sorted(events, key=lambda event: event["eventTime"])]


def with_controller(form, test, **options):
    async def main():
        async with Environment(crds=[EXAMPLE / "crd.yaml"], time="virtual", **options) as env:
            cloud = Cloud()
            async with running(env, cloud, form):
                await test(env, cloud)

    asyncio.run(main())


@pytest.mark.parametrize("form", FORMS)
def test_a_network_is_created_changed_and_deleted(form):
    async def test(env, cloud):
        (example,) = yaml.safe_load_all((EXAMPLE / "example-network.yaml").read_text())
        await env.client.create(example)
        await env.settled()
        assert cloud.shown == {"example-network": ("192.168.0.0/16", "192.168.0.1")}
        (made,) = cloud.networks.values()
        status = await status_of(env, "example-network")
        assert (status.network_id, status.subnet_id) == (made.network_id, made.subnet_id)
        assert (status.backend, status.observed_generation) == ("simulated", 1)
        assert (await condition_of(env, "example-network"))[:2] == ("True", "Reconciled")

        changed = {"spec": {"cidr": "192.168.0.0/24", "gateway": "192.168.0.9"}}
        await env.client.patch(Network, changed, name="example-network", namespace="default")
        await env.settled()
        assert cloud.shown == {"example-network": ("192.168.0.0/24", "192.168.0.9")}
        assert (await status_of(env, "example-network")).observed_generation == 2

        await env.client.delete(Network, "example-network", namespace="default")
        await env.client.wait_for(Network, "example-network", DELETED, namespace="default")
        assert cloud.networks == {}
        await env.settled()
        assert await events_of(env) == [("Normal", "Created"), ("Normal", "Updated"), ("Normal", "Deleted")]

    with_controller(form, test)


@pytest.mark.parametrize("form", FORMS)
def test_drift_is_repaired_when_the_network_is_looked_at_again(form):
    async def test(env, cloud):
        await env.client.create(network())
        await env.settled()
        ((uid, made),) = cloud.networks.items()
        made.wanted = dataclasses.replace(made.wanted, gateway="10.9.9.9")
        await env.advance(RESYNC)
        assert cloud.shown == {"a": ("10.0.0.0/8", "10.0.0.1")}
        del cloud.networks[uid]
        await env.advance(RESYNC)
        assert cloud.shown == {"a": ("10.0.0.0/8", "10.0.0.1")}
        assert (await status_of(env)).network_id == cloud.networks[uid].network_id
        assert await events_of(env) == [("Normal", "Created"), ("Normal", "Repaired"), ("Normal", "Repaired")]

    with_controller(form, test)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("down"), "Unknown"), (QuotaExceeded("no more"), "False"), (InUse("ports"), "False")],
)
def test_a_failure_is_in_the_condition_and_in_an_event_and_is_tried_again_later_each_time(form, error, status):
    async def test(env, cloud):
        cloud.failures = [error] * 4
        await env.client.create(network())
        await env.eventually(lambda: len(cloud.calls) == 3)
        assert await condition_of(env) == (status, error.reason, str(error))
        await env.advance(60)
        assert cloud.shown == {"a": ("10.0.0.0/8", "10.0.0.1")}
        assert (await condition_of(env))[:2] == ("True", "Reconciled")
        assert set(await events_of(env)) == {("Warning", error.reason), ("Normal", "Created")}

    with_controller(form, test)


@pytest.mark.parametrize("form", FORMS)
def test_the_time_that_the_backend_asks_for_is_waited(form):
    async def test(env, cloud):
        cloud.failures = [TooManyRequests("fewer", retry_after=20)]
        await env.client.create(network())
        await env.advance(19)
        assert cloud.calls == ["ensure"]
        assert (await condition_of(env))[:2] == ("False", "TooManyRequests")
        await env.advance(2)
        assert (await condition_of(env))[:2] == ("True", "Reconciled")

    with_controller(form, test)


@pytest.mark.parametrize("form", FORMS)
def test_an_object_stays_until_its_network_is_deleted(form):
    async def test(env, cloud):
        await env.client.create(network())
        await env.settled()
        (made,) = cloud.networks.values()
        made.ports = 1
        await env.client.delete(Network, "a", namespace="default")
        await env.advance(5)
        assert (await condition_of(env))[:2] == ("False", "InUse")
        made.ports = 0
        await env.advance(60)
        assert await env.client.find(Network, "a", namespace="default") is None
        assert cloud.networks == {}

    with_controller(form, test)


@pytest.mark.parametrize("form", FORMS)
def test_a_lost_status_write_leads_to_adoption_and_not_to_a_second_network(form):
    async def test(env, cloud):
        env.faults.add(verb="patch", resource="networks/status", then="server_error", times=1)
        await env.client.create(network())
        await env.advance(5)
        assert len(cloud.networks) == 1
        (made,) = cloud.networks.values()
        assert (await status_of(env)).network_id == made.network_id
        assert ("Normal", "Adopted") in await events_of(env)

    with_controller(form, test)


def test_an_object_that_the_definition_would_refuse_is_explained_and_left_alone():
    seed = {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "networks.samplecrd.k8s.io"},
        "spec": {
            "group": "samplecrd.k8s.io",
            "version": "v1",
            "names": {"kind": "Network", "plural": "networks"},
            "scope": "Namespaced",
        },
    }

    async def main():
        # Stored while the definition had no schema, which is how it looked in the days of v1beta1.
        async with Environment(objects=[seed], time="virtual") as env:
            await env.client.create(network(gateway="192.168.0.1"))
            await env.client.apply(yaml.safe_load((EXAMPLE / "crd.yaml").read_text()), force=True)
            cloud = Cloud()
            async with running(env, cloud, "manager"):
                await env.settled()
                problem = "the gateway 192.168.0.1 is not in 10.0.0.0/8"
                assert await condition_of(env) == ("False", "InvalidSpec", problem)
                assert cloud.calls == []

    asyncio.run(main())


@pytest.mark.parametrize("form", FORMS)
def test_the_role_of_the_manifest_is_sufficient_and_has_nothing_to_spare(form):
    role = next(
        one for one in yaml.safe_load_all((EXAMPLE / "deploy.yaml").read_text()) if one["kind"] == "ClusterRole"
    )

    async def main():
        async with Environment(crds=[EXAMPLE / "crd.yaml"], time="virtual") as env:
            user = await env.user("controller", rules=role["rules"])
            cloud = Cloud()
            cloud.networks["gone"] = SimulatedNetwork(_orphan(), "n", "s")
            async with running(env, cloud, form, user):
                await env.client.create(network())
                await env.settled()
                await env.client.delete(Network, "a", namespace="default")
                await env.client.wait_for(Network, "a", DELETED, namespace="default")
                await env.settled()
            assert cloud.networks == {}
            requests = env.history.requests(user="manager")
            assert [entry for entry in requests if entry.status == 403] == []
            used = {(entry.target.verb, entry.target.kind) for entry in requests}
            # Not in this test: the cluster's identity, repeated Events, and finalizers that others change meanwhile.
            assert _rights(role) - used == {("get", "namespaces"), ("patch", "events"), ("get", "networks")}

    asyncio.run(main())


def test_the_manifests_of_the_deployment_can_be_applied():
    async def main():
        async with Environment(objects=[EXAMPLE / "deploy.yaml"]) as env:
            made = await env.client.get(("apps/v1", "Deployment"), "network-controller", namespace="network-controller")
            (container,) = made["spec"]["template"]["spec"]["containers"]
            # What it is started with is what the program understands.
            options = parser().parse_args(container["args"])
            assert options.leader_elect

    asyncio.run(main())


def _orphan():
    from network_controller.backend import Wanted

    return Wanted("gone", "default", "old", "10.0.0.0/8")


def _rights(role):
    return {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}


def test_a_sweep_deletes_the_networks_of_objects_that_are_gone_in_the_namespaces_it_is_for():
    async def main():
        async with Environment(crds=[EXAMPLE / "crd.yaml"]) as env:
            kept = await env.client.create(network())
            cloud = Simulated()
            for uid, namespace in ((kept.metadata.uid, "default"), ("gone", "default"), ("other", "elsewhere")):
                wanted = dataclasses.replace(_orphan(), uid=uid, namespace=namespace)
                cloud.networks[uid] = SimulatedNetwork(wanted, uid, uid)
            assert await sweep(env.client, cloud, ["default"]) == 1
            assert set(cloud.networks) == {kept.metadata.uid, "other"}
            assert await sweep(env.client, cloud) == 1
            assert await cloud.owners() == {Owner(kept.metadata.uid, "default")}

    asyncio.run(main())


def test_a_sweep_that_fails_ends_nothing():
    class Broken(Simulated):
        asked = 0

        async def owners(self):
            self.asked += 1
            raise Unavailable("down")

    async def main():
        async with Environment(crds=[EXAMPLE / "crd.yaml"], time="virtual") as env:
            cloud = Broken()
            async with running(env, cloud, "manager"):
                await env.advance(700)
                await env.client.create(network())
                await env.settled()
            assert cloud.asked == 3
            assert len(cloud.networks) == 1

    asyncio.run(main())


def test_every_failure_has_a_reason_of_its_own():
    def classes(parent):
        return [one for child in parent.__subclasses__() for one in (child, *classes(child))]

    reasons = [one.reason for one in classes(BackendError)]
    assert len(set(reasons)) == len(reasons) == 7


@pytest.mark.parametrize(
    ("cidr", "gateway", "problem"),
    [
        ("192.168.0.0/16", "192.168.0.1", ""),
        ("192.168.0.0/16", "", ""),
        ("2001:db8::/32", "2001:db8::1", ""),
        ("10.0.0.0/8", "192.168.0.1", "the gateway 192.168.0.1 is not in 10.0.0.0/8"),
        ("10.0.0.1/8", "", "10.0.0.1/8 has host bits set"),
        ("nonsense", "", "'nonsense' does not appear to be an IPv4 or IPv6 network"),
        ("10.0.0.0/8", "nonsense", "'nonsense' does not appear to be an IPv4 or IPv6 address"),
    ],
)
def test_a_spec_that_is_not_valid_is_explained(cidr, gateway, problem):
    assert problem_of(NetworkSpec(cidr=cidr, gateway=gateway)) == problem


def test_the_definition_is_the_one_of_the_class():
    assert yaml.safe_load((EXAMPLE / "crd.yaml").read_text()) == definition(Network)
