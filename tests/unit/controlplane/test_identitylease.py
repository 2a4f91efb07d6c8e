"""The identity Lease of a server: its name, renewal, and the end of Leases of servers that are gone."""

import asyncio
import re

from api_client import served
from kapi.controlplane.identitylease import PATH, IdentityLease, server_identity

LABELS = {"apiserver.kubernetes.io/identity": "kube-apiserver"}


def lease(name, renewed, labels=None, seconds=3600):
    spec = {"holderIdentity": "x", "leaseDurationSeconds": seconds, "renewTime": renewed}
    metadata = {"name": name, "labels": LABELS if labels is None else labels}
    return {"metadata": metadata, "spec": spec}


def test_name_is_that_of_kube_apiserver_and_differs_by_host_and_address():
    names = {server_identity(host, address) for host in ("a", "b") for address in ("192.0.2.1:1", "192.0.2.1:2")}
    assert len(names) == 4
    assert all(re.fullmatch("apiserver-[a-z2-7]{26}", name) for name in names)
    assert server_identity("a", "192.0.2.1:1") in names


@served
async def test_lease_names_its_holder(api):
    one = IdentityLease(api.transport, "192.0.2.1:6443", api.clock)
    await one.renew()
    found = (await api.get(f"{PATH}/{one.name}")).json
    assert found["metadata"]["labels"].items() >= LABELS.items()
    assert found["metadata"]["annotations"] == {"kubernetes.io/peer-advertise-address": "192.0.2.1:6443"}
    assert re.fullmatch(f"{one.name}_[0-9a-f-]{{36}}", found["spec"]["holderIdentity"])
    assert found["spec"]["leaseDurationSeconds"] == 3600


@served
async def test_lease_is_renewed_and_its_holder_replaced_after_a_restart(api):
    one = IdentityLease(api.transport, "192.0.2.1:6443", api.clock)
    await one.renew()
    first = (await api.get(f"{PATH}/{one.name}"))["spec"]
    task = asyncio.ensure_future(one.run())
    await asyncio.sleep(700)
    second = (await api.get(f"{PATH}/{one.name}"))["spec"]
    task.cancel()
    assert second["renewTime"] > first["renewTime"]
    assert second["holderIdentity"] == first["holderIdentity"]
    await IdentityLease(api.transport, "192.0.2.1:6443", api.clock).renew()
    third = (await api.get(f"{PATH}/{one.name}"))["spec"]
    assert third["holderIdentity"] != first["holderIdentity"]


@served
async def test_a_run_after_a_failure_renews_a_lease_that_is_due(api):
    one = IdentityLease(api.transport, "192.0.2.1:6443", api.clock)
    await one.renew()
    first = (await api.get(f"{PATH}/{one.name}"))["spec"]["renewTime"]
    for age, renews in ((1, False), (700, True)):
        await asyncio.sleep(age)
        task = asyncio.ensure_future(one.run())
        await asyncio.sleep(1)
        task.cancel()
        assert ((await api.get(f"{PATH}/{one.name}"))["spec"]["renewTime"] > first) is renews


@served
async def test_expired_leases_of_other_servers_are_deleted(api):
    now = api.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for obj in (
        lease("apiserver-gone", "2001-01-01T00:00:00.000000Z"),
        lease("apiserver-alive", now),
        lease("someone-elses", "2001-01-01T00:00:00.000000Z", labels={}),
    ):
        await api.made(PATH, obj)
    one = IdentityLease(api.transport, "192.0.2.1:6443", api.clock)
    await one.renew()
    task = asyncio.ensure_future(one.run())
    await asyncio.sleep(1)
    assert set((await api.get(PATH)).names) == {"apiserver-alive", "someone-elses", one.name}
    task.cancel()
