"""The manager against a whole control plane over real sockets: order, leadership, own writes, and the way out.

With KUBEBUILDER_ASSETS set, the same tests run against a real kube-apiserver, too.
"""

import asyncio

import msgspec
import pytest

from kapi import Client, CustomResource, Leadership, Manager, Model, ObjectKey, ObjectMeta, definition, resource
from kapi.api.builtin.core_v1 import ConfigMap
from kapi.api.errors import NotFound
from kapi.client import ALL_NAMESPACES
from kapi.client.errors import NoMatch
from kapi.controller.manager import LeadershipLost
from kapi.controller.objects.ownership import set_controller_reference
from kube_apiserver_plane import kube_apiserver_plane
from live_plane import live_plane


class WidgetSpec(Model):
    size: int = 1


class WidgetStatus(Model):
    seen: int = 0


@resource("managed.example.com/v1")
class Widget(CustomResource, kw_only=True):
    spec: WidgetSpec = msgspec.field(default_factory=WidgetSpec)
    status: WidgetStatus | None = None


@pytest.fixture(scope="module", params=[live_plane, kube_apiserver_plane], ids=["kapi", "kube-apiserver"])
def kubeconfig(tmp_path_factory, request):
    with request.param(tmp_path_factory.mktemp("plane")) as path:
        yield path


def widget(name, size=1):
    return Widget(metadata=ObjectMeta(name=name, namespace="default"), spec=WidgetSpec(size=size))


def managed(kubeconfig, test):
    """Run a test with a client; every kind and object of earlier tests is gone."""

    async def main():
        async with Client.connect(kubeconfig=kubeconfig, field_manager="tests") as client, asyncio.timeout(60):
            await client.apply(definition(Widget), force=True)
            await served(client)
            await client.delete_all(Widget, namespace="default")
            await client.delete_all(ConfigMap, namespace="default")
            await test(client)

    asyncio.run(main())


async def served(client):
    """Wait until the kind is served: here that is at once, elsewhere it takes a moment."""
    while True:
        try:
            await client.list(Widget, namespace="default")
        except (NoMatch, NotFound):
            await asyncio.sleep(0.1)
        else:
            return


async def until(condition):
    """Wait for what other tasks bring about."""
    while not condition():  # noqa: ASYNC110 - many things at once are waited for
        await asyncio.sleep(0.005)


def test_an_operator_makes_what_objects_ask_for(kubeconfig):
    async def test(client):
        manager = Manager(client)

        async def reconcile(request):
            found = await manager.client.find(Widget, request)
            if found is None:
                return
            settings = ConfigMap(
                metadata=ObjectMeta(name=request.name, namespace=request.namespace),
                data={"size": str(found.spec.size)},
            )
            set_controller_reference(found, settings)
            await manager.client.apply(settings, force=True)
            if found.status is None or found.status.seen != found.spec.size:
                found.status = WidgetStatus(seen=found.spec.size)
                await manager.client.update_status(found)

        manager.builder().for_(Widget).owns(ConfigMap).with_options(workers=4).complete(reconcile)
        running = asyncio.ensure_future(manager.run(signals=False))
        for number in range(20):
            await client.create(widget(f"w{number}", number))
        for number in range(20):
            await client.wait_for(
                Widget, f"w{number}", lambda one, n=number: one.status is not None and one.status.seen == n, timeout=30
            )
        made = await client.list(ConfigMap, namespace="default")
        sizes = {one.metadata.name: one.data["size"] for one in made.items if "size" in one.data}
        assert sizes == {f"w{n}": str(n) for n in range(20)}
        # An object of the controller that is deleted is created again.
        await client.delete(ConfigMap, "w7", namespace="default")
        await client.wait_for(ConfigMap, "w7", lambda one: one.data["size"] == "7", namespace="default", timeout=30)
        manager.stop()
        await running

    managed(kubeconfig, test)


def test_a_get_after_a_write_shows_the_write(kubeconfig):
    """Five hundred increments, each read through the cache: without the guard some would be lost or refused."""

    async def test(client):
        manager = Manager(client)

        async def reconcile(request):
            return

        manager.builder().for_(Widget).complete(reconcile)
        await client.create(widget("counter", 0))
        running = asyncio.ensure_future(manager.run(signals=False))
        await manager.informers.wait_for_sync(30)
        key = ObjectKey("default", "counter")
        for number in range(500):
            current = await manager.client.get(Widget, key)
            assert current.spec.size == number
            current.spec.size += 1
            await manager.client.update(current)
        await manager.client.delete(current)
        assert await manager.client.find(Widget, key) is None
        made = await manager.client.create(widget("counter", 7))
        assert (await manager.client.get(Widget, key)).metadata.uid == made.metadata.uid
        assert [one.spec.size for one in await manager.client.list(Widget, namespace="default")] == [7]
        manager.stop()
        await running

    managed(kubeconfig, test)


def test_what_is_outside_of_the_watched_namespace_is_read_from_the_server(kubeconfig):
    async def test(client):
        manager = Manager(client, namespace="default")
        manager.builder().for_(Widget).complete(lambda request: asyncio.sleep(0))
        running = asyncio.ensure_future(manager.run(signals=False))
        await manager.informers.wait_for_sync(30)
        elsewhere = widget("far")
        elsewhere.metadata.namespace = "kube-public"
        await client.create(elsewhere)
        await client.create(widget("near"))
        assert (await manager.client.get(Widget, ObjectKey("kube-public", "far"))).metadata.name == "far"
        assert {one.metadata.name for one in await manager.client.list(Widget, namespace="kube-public")} >= {"far"}
        await manager.client.create(widget("own"))
        listed = {one.metadata.name for one in await manager.client.list(Widget, namespace=ALL_NAMESPACES)}
        assert {"near", "own"} <= listed
        assert "far" not in listed
        await manager.client.delete(await manager.client.get(Widget, ObjectKey("kube-public", "far")))
        assert await manager.client.find(Widget, ObjectKey("kube-public", "far")) is None
        manager.stop()
        await running

    managed(kubeconfig, test)


def test_most_reads_do_not_reach_the_server(kubeconfig):
    async def test(client):
        manager = Manager(client)
        manager.builder().for_(Widget).complete(lambda request: asyncio.sleep(0))
        await client.create(widget("quiet"))
        running = asyncio.ensure_future(manager.run(signals=False))
        await manager.informers.wait_for_sync(30)
        asked = 0
        send = client.rest.send

        async def counting(*args, **options):
            nonlocal asked
            asked += 1
            return await send(*args, **options)

        client.rest.send = counting
        for _ in range(100):
            assert (await manager.client.get(Widget, ObjectKey("default", "quiet"))).spec.size == 1
            assert len(await manager.client.list(Widget, namespace=ALL_NAMESPACES)) == 1
        assert asked == 0
        manager.stop()
        await running

    managed(kubeconfig, test)


def test_the_second_of_two_managers_waits_and_takes_over(kubeconfig):
    async def test(client):
        acted = []

        def manager(name):
            lease = Leadership("the-managers", "default", name, lease_seconds=3, renew_seconds=2, retry_seconds=0.2)
            made = Manager(client, leadership=lease)

            async def reconcile(request):
                acted.append((name, request.name))

            made.builder().for_(Widget).named(f"widgets-{name}").complete(reconcile)
            return made

        first, second = manager("a"), manager("b")
        one = asyncio.ensure_future(first.run(signals=False))
        await until(lambda: first.elector.is_leading)
        two = asyncio.ensure_future(second.run(signals=False))
        await client.create(widget("x"))
        await until(lambda: ("a", "x") in acted)
        assert not any(name == "b" for name, _ in acted)
        first.stop()
        await one
        await until(lambda: ("b", "x") in acted)
        second.stop()
        await two

    managed(kubeconfig, test)


def test_a_manager_that_loses_its_lease_stops_what_leads_and_says_so(kubeconfig):
    async def test(client):
        lease = Leadership("lost", "default", "a", lease_seconds=3, renew_seconds=2, retry_seconds=0.1)
        manager = Manager(client, leadership=lease)
        manager.builder().for_(Widget).complete(lambda request: asyncio.sleep(0))
        running = asyncio.ensure_future(manager.run(signals=False))
        await until(lambda: manager.elector.is_leading)
        patch = {"spec": {"holderIdentity": "thief"}}
        await client.patch(("coordination.k8s.io/v1", "Lease"), patch, name="lost", namespace="default")
        with pytest.raises(LeadershipLost, match="thief leads now"):
            await running

    managed(kubeconfig, test)


def test_a_candidate_that_never_led_can_be_stopped(kubeconfig):
    async def test(client):
        def lease(name):
            return Leadership("candidates", "default", name, lease_seconds=30, renew_seconds=20, retry_seconds=0.1)

        leader, candidate = Manager(client, leadership=lease("a")), Manager(client, leadership=lease("b"))
        one = asyncio.ensure_future(leader.run(signals=False))
        await until(lambda: leader.elector.is_leading)
        two = asyncio.ensure_future(candidate.run(signals=False))
        await until(lambda: candidate.elector.leader == "a")
        candidate.stop()
        await two
        leader.stop()
        await one

    managed(kubeconfig, test)


async def page(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


def test_the_pages_tell_whether_the_manager_is_ready(kubeconfig):
    async def test(client):
        manager = Manager(client, pages=("127.0.0.1", 0))
        manager.builder().for_(Widget).complete(lambda request: asyncio.sleep(0))
        wrong = ["not today"]
        manager.add_check("mood", lambda: wrong[0] if wrong else None)
        running = asyncio.ensure_future(manager.run(signals=False))
        await until(lambda: manager.pages_port)
        await manager.informers.wait_for_sync(30)
        assert (await page(manager.pages_port, "/healthz"))[0] == 200
        assert (await page(manager.pages_port, "/elsewhere"))[0] == 404
        assert await page(manager.pages_port, "/readyz") == (500, "[+]caches ok\n[-]mood not today\n")
        wrong.clear()
        assert (await page(manager.pages_port, "/readyz"))[0] == 200
        status, metrics = await page(manager.pages_port, "/metrics")
        assert status == 200
        for name in (
            "controller_runtime_max_concurrent_reconciles",
            "informer_items",
            "reflector_lists_total",
            "rest_client_requests_total",
            "workqueue_depth",
        ):
            assert f"\n{name}{{" in metrics
        manager.stop()
        await running

    managed(kubeconfig, test)


def test_what_fails_ends_the_manager_and_is_raised(kubeconfig):
    class Failing:
        name = "failing"
        needs_leader_election = False

        async def run(self):
            raise RuntimeError("broken")

        def stop(self):
            """It is over already."""

    async def test(client):
        manager = Manager(client)
        manager.builder().for_(Widget).complete(lambda request: asyncio.sleep(0))
        manager.add(Failing())
        with pytest.raises(RuntimeError, match="broken"):
            await manager.run(signals=False)
        with pytest.raises(RuntimeError, match="is running already"):
            manager.add(Failing())

    managed(kubeconfig, test)


def test_a_recorder_that_is_first_asked_for_in_a_reconcile_records_events_while_the_manager_runs(kubeconfig):
    async def test(client):
        manager = Manager(client)

        async def reconcile(request):
            found = await manager.client.find(Widget, request)
            if found is not None:
                manager.recorder("example.com/widgets").normal(found, "Seen", f"size {found.spec.size}")

        manager.builder().for_(Widget).complete(reconcile)
        created = await client.create(widget("recorded", 7))
        running = asyncio.ensure_future(manager.run(signals=False))
        try:
            async with client.watch(("events.k8s.io/v1", "Event"), namespace="default") as changes:
                async for change in changes:
                    if change.object["regarding"].get("uid") == created.metadata.uid:
                        assert change.object["note"] == "size 7"
                        break
        finally:
            manager.stop()
            await running

    managed(kubeconfig, test)
