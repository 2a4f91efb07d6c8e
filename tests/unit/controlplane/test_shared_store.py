"""Control planes that share a store: their Leases, the endpoints of `kubernetes`, one leader, the same keys."""

import asyncio
import contextlib
import json

import pytest

from controller_api import with_controllers
from endpoint_objects import EP, ES, addresses, listed
from kapi.base.tls import KeyPair, client_context
from kapi.controlplane.assemble import ControlPlane, serve
from kapi.controlplane.bootstrap import BootstrapError
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.kubernetesservice import add_kubernetes_service_controller
from kapi.controlplane.identitylease import PATH as LEASES
from kapi.controlplane.identitylease import IdentityLease
from kapi.controlplane.options import Options
from live_plane import closed
from shared_cluster import Cluster

SHARED = "etcd://a-double"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"


def options(folder, number, **more):
    return Options(
        data_dir=folder / f"server-{number}",
        port=0,
        storage=SHARED,
        pki_dir=more.pop("pki_dir", folder / "pki"),
        advertise_address=f"192.0.2.{number}",
        **more,
    )


@contextlib.asynccontextmanager
async def control_plane(cluster, chosen):
    plane = ControlPlane(chosen, storage=await cluster.connect())
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


async def ask(plane, path, method="GET", body=b""):
    reply = await plane.transport.request(method, path, {"content-type": "application/json"}, body)
    return json.loads(await reply.read())


async def until(condition):
    """Wait until a coroutine function returns True."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 (what is waited for is done by tasks of the control planes)
            await asyncio.sleep(0.02)


def published(plane, *expected):
    """A condition: the Service `kubernetes` has these addresses."""

    async def condition():
        found = (await ask(plane, ENDPOINTS)).get("subsets") or []
        return [address["ip"] for subset in found for address in subset["addresses"]] == list(expected)

    return condition


async def leader(plane):
    return (await ask(plane, f"{LEASES}/kapi-controllers")).get("spec", {}).get("holderIdentity") or ""


def test_two_control_planes_have_a_lease_each_and_both_addresses_are_published(tmp_path):
    async def main():
        cluster = Cluster()
        async with control_plane(cluster, options(tmp_path, 1)) as one:
            await until(published(one, "192.0.2.1"))
            async with control_plane(cluster, options(tmp_path, 2)) as two:
                names = [item["metadata"]["name"] for item in (await ask(two, LEASES))["items"]]
                assert len([name for name in names if name.startswith("apiserver-")]) == 2

                async def both():
                    found = (await ask(two, ENDPOINTS))["subsets"]
                    return sorted(address["ip"] for subset in found for address in subset["addresses"]) == [
                        "192.0.2.1",
                        "192.0.2.2",
                    ]

                await until(both)
                await two.retire()
                await until(published(one, "192.0.2.1"))

    asyncio.run(main())


def test_one_control_plane_runs_the_controllers_and_the_other_takes_over(tmp_path):
    async def main():
        cluster = Cluster()
        async with contextlib.AsyncExitStack() as stack:
            first = contextlib.AsyncExitStack()
            one = await first.enter_async_context(control_plane(cluster, options(tmp_path, 1)))

            async def has_leader():
                return "192.0.2.1" in await leader(one)

            await until(has_leader)
            two = await stack.enter_async_context(control_plane(cluster, options(tmp_path, 2)))
            assert "192.0.2.1" in await leader(two)
            await first.aclose()

            async def has_taken_over():
                return "192.0.2.2" in await leader(two)

            await until(has_taken_over)
            # A controller works: a new namespace gets its ServiceAccount, also when that is deleted.
            await ask(two, "/api/v1/namespaces", "POST", b'{"metadata":{"name":"new"}}')
            account = "/api/v1/namespaces/new/serviceaccounts/default"
            before = (await ask(two, account))["metadata"]["uid"]
            await ask(two, account, "DELETE")

            async def is_back():
                return (await ask(two, account)).get("metadata", {}).get("uid", before) != before

            await until(is_back)

    asyncio.run(main())


def test_servers_that_share_their_keys_accept_the_same_certificates(tmp_path):
    async def main():
        cluster = Cluster()
        async with control_plane(cluster, options(tmp_path, 1)), control_plane(cluster, options(tmp_path, 2)) as two:
            pki = tmp_path / "pki"
            admin = client_context(pki / "ca.crt", files=KeyPair(pki / "admin.crt", pki / "admin.key"))
            host, port = two.url.removeprefix("https://").split(":")
            _, writer = await asyncio.open_connection(host, int(port), ssl=admin, server_hostname="localhost")
            await closed(writer)
            # What names the address of one server is its own.
            assert not (pki / "server.crt").exists()
            assert (tmp_path / "server-1/pki/server.crt").exists()

    asyncio.run(main())


def test_a_server_with_other_keys_is_refused_while_one_is_alive(tmp_path):
    async def main():
        cluster = Cluster()
        async with control_plane(cluster, options(tmp_path, 1)) as one:
            with pytest.raises(BootstrapError, match=r"192\.0\.2\.1.*give all servers the same ones: --pki-dir DIR"):
                async with control_plane(cluster, options(tmp_path, 2, pki_dir=None)):
                    pass
            await one.retire()
            async with control_plane(cluster, options(tmp_path, 2, pki_dir=None)):
                pass

    asyncio.run(main())


def test_folders_of_keys_are_made_once_by_servers_that_start_together(tmp_path):
    from kapi.controlplane.bootstrap import ensure_credentials

    async def main():
        made = await asyncio.gather(
            *(asyncio.to_thread(ensure_credentials, options(tmp_path, number)) for number in range(1, 5))
        )
        assert len({credentials.fingerprint() for credentials in made}) == 1
        assert len({credentials.token for credentials in made}) == 1

    asyncio.run(main())


# -- who is alive ----------------------------------------------------------------------------------------------------

ALONE = ControllerSettings(address="192.0.2.7", port=6443, shares_store=True)


def server(api, number, port=6443):
    return IdentityLease(api.transport, f"192.0.2.{number}:{port}", api.clock, shares_store=True)


@with_controllers(add_kubernetes_service_controller, settings=ALONE)
async def test_a_server_that_does_not_renew_its_lease_is_not_published_any_more(api):
    running = asyncio.ensure_future(server(api, 7).run())
    await server(api, 8).renew()
    await api.run_until_idle(1)
    assert listed(api, "kubernetes") == addresses(api, "kubernetes") == {"192.0.2.7": True, "192.0.2.8": True}
    await asyncio.sleep(25)
    assert "192.0.2.8" in listed(api, "kubernetes")
    await asyncio.sleep(10)
    assert listed(api, "kubernetes") == addresses(api, "kubernetes") == {"192.0.2.7": True}
    running.cancel()


@with_controllers(add_kubernetes_service_controller, settings=ALONE)
async def test_a_server_whose_clock_is_wrong_is_published_while_it_renews_its_lease(api):
    wrong = server(api, 8)
    await server(api, 7).renew()
    for minute in range(4):
        await wrong.renew()
        lease = (await api.get(f"{LEASES}/{wrong.name}")).json
        lease["spec"]["renewTime"] = f"2001-01-01T00:0{minute}:00.000000Z"
        assert (await api.put(f"{LEASES}/{wrong.name}", lease)).status == 200
        await api.run_until_idle(1)
        # When its Lease is seen for the first time, what it says of the time counts.
        assert ("192.0.2.8" in listed(api, "kubernetes")) is (minute > 0)
        await asyncio.sleep(20)


@with_controllers(add_kubernetes_service_controller, settings=ALONE)
async def test_servers_on_two_ports_are_two_subsets_and_the_slice_has_the_lower_port(api):
    for number, port in ((7, 6443), (8, 6444), (9, 6443)):
        await server(api, number, port).renew()
    await api.run_until_idle(1)
    subsets = (await api.get(f"{EP}/kubernetes"))["subsets"]
    assert [([one["ip"] for one in subset["addresses"]], subset["ports"][0]["port"]) for subset in subsets] == [
        (["192.0.2.7", "192.0.2.9"], 6443),
        (["192.0.2.8"], 6444),
    ]
    assert addresses(api, "kubernetes") == {"192.0.2.7": True, "192.0.2.9": True}
    assert (await api.get(f"{ES}/kubernetes"))["ports"][0]["port"] == 6443


@with_controllers(add_kubernetes_service_controller, settings=ALONE)
async def test_leases_that_are_no_identity_or_name_no_usable_address_are_left_out(api):
    await server(api, 7).renew()
    for name, address in (("apiserver-a", "127.0.0.1:6443"), ("apiserver-b", "nowhere"), ("other", "192.0.2.9:6443")):
        body = {"metadata": {"name": name, "annotations": {"kubernetes.io/peer-advertise-address": address}}}
        now = api.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await api.made(LEASES, {**body, "spec": {"renewTime": now, "leaseDurationSeconds": 3600}})
    await api.run_until_idle(1)
    assert listed(api, "kubernetes") == {"192.0.2.7": True}


# -- a graceful stop -------------------------------------------------------------------------------------------------


def test_after_the_signal_requests_are_served_for_the_delay_while_readiness_fails(tmp_path):
    async def main():
        stop, planes = asyncio.Event(), []
        chosen = Options(data_dir=tmp_path / "data", port=0, storage="memory", shutdown_delay=600.0)
        running = asyncio.ensure_future(serve(chosen, stop, planes.append))

        async def has_started():
            return bool(planes)

        await until(has_started)
        (plane,) = planes
        pki = chosen.pki_path
        context = client_context(pki / "ca.crt", files=KeyPair(pki / "admin.crt", pki / "admin.key"))
        host, port = plane.url.removeprefix("https://").split(":")

        async def get(path):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            await closed(writer)
            return int(head.split(" ", 2)[1]), "connection: close" in head

        assert await get("/readyz") == (200, False)
        stop.set()

        async def is_retired():
            return (await get("/readyz"))[0] == 500

        await until(is_retired)
        assert await get("/api/v1/namespaces") == (200, True)
        assert await get("/livez") == (200, True)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
