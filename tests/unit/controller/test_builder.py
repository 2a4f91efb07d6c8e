"""Controllers put together by the builder, at work against a control plane."""

import asyncio
import base64
import contextlib
import re

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from shelf import Shelf

from kapi.api.builtin.core_v1 import ConfigMap, Namespace, Secret
from kapi.api.errors import AlreadyExists
from kapi.api.meta import GroupVersionKind, GroupVersionResource
from kapi.base.clock import SystemClock
from kapi.client import APIResource, ClientConfig, DiscoveryClient, DynamicClient, RESTClient, RESTMapper
from kapi.client.errors import NoMatch
from kapi.controller.builder import builder
from kapi.controller.controller import SyncTimeout
from kapi.controller.predicate import has_labels, in_namespaces, on
from kapi.controller.reconcile import Request, Result
from kapi.controller.source import Trigger
from kapi.informer.factory import SharedInformerFactory
from kapi.informer.informer import SharedInformer
from live_plane import live_plane
from virtual_time import LoopClock, run

SECRET = GroupVersionKind("", "v1", "Secret")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
PATIENCE = 20


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    with live_plane(tmp_path_factory.mktemp("builder")) as kubeconfig:
        yield ClientConfig.from_kubeconfig(kubeconfig)


class Host:
    """The least that a manager is."""

    def __init__(self, rest):
        self.mapper = RESTMapper(DiscoveryClient(rest))
        self.informers = SharedInformerFactory(rest, mapper=self.mapper)
        self.client = DynamicClient(rest, self.mapper)
        self.clock = SystemClock()
        self.registry = CollectorRegistry()
        self.added = []

    def add(self, runnable):
        self.added.append(runnable)

    def resource(self, kind, namespace=""):
        plural = {SECRET: "secrets", CONFIG_MAP: "configmaps", NAMESPACE: "namespaces"}[kind]
        return self.client.resource(GroupVersionResource(kind.group, kind.version, plural), namespace)

    @contextlib.asynccontextmanager
    async def running(self):
        self.informers.start()
        tasks = [asyncio.create_task(runnable.run()) for runnable in self.added]
        try:
            yield
        finally:
            for runnable in self.added:
                runnable.stop()
            await asyncio.gather(*tasks)
            await self.informers.stop()


async def nothing(request):
    return None


def on_host(config, test):
    async def main():
        async with RESTClient(config) as rest, asyncio.timeout(PATIENCE):
            await test(Host(rest))

    asyncio.run(main())


class Seen:
    """What was reconciled; tests wait for what they expect instead of for a time."""

    def __init__(self):
        self.requests = []
        self._changed = asyncio.Event()

    def add(self, request):
        self.requests.append(request)
        self._changed.set()

    async def until(self, done):
        while not done(self.requests):
            self._changed.clear()
            await self._changed.wait()


def metadata(name, namespace=None, **more):
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **more}}


async def make_namespace(host, name):
    await host.resource(NAMESPACE).create({"apiVersion": "v1", "kind": "Namespace", **metadata(name)})


def config_map(name, namespace, **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", **metadata(name, namespace, **more)}


def owned_by(owner, kind, *, controller=True):
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": controller}
    return {"ownerReferences": [reference]}


def test_an_owner_is_reconciled_for_itself_for_what_it_owns_and_for_what_a_mapper_says(config):
    """A secret is copied into a config map; the copy is restored when it is changed or deleted."""

    async def test(host):
        await make_namespace(host, "copies")
        secrets, maps = host.resource(SECRET, "copies"), host.resource(CONFIG_MAP, "copies")
        seen = Seen()
        cache = host.informers.informer(Secret).lister

        async def reconcile(request):
            secret = cache.get(request.name, request.namespace)
            if secret is not None:
                data = {key: base64.b64decode(value).decode() for key, value in (secret.data or {}).items()}
                wanted = config_map(
                    request.name,
                    "copies",
                    **owned_by({"metadata": {"name": request.name, "uid": secret.metadata.uid}}, "Secret"),
                )
                wanted["data"] = data
                try:
                    await maps.create(wanted)
                except AlreadyExists:
                    await maps.replace({**await maps.get(request.name), "data": data})
            seen.add(request)

        controller = (
            builder(host)
            .for_(Secret)
            .owns(ConfigMap)
            .watches(Namespace, lambda namespace: [Request(namespace.metadata.name, "mapped")])
            .with_predicates(lambda event: "copies" in (event.object.key.namespace, event.object.key.name))
            .with_options(workers=2, timeout=10)
            .complete(reconcile)
        )
        assert (controller.name, host.added) == ("secret", [controller])
        async with host.running():
            await seen.until(lambda requests: Request("copies", "mapped") in requests)
            await secrets.create(
                {"apiVersion": "v1", "kind": "Secret", **metadata("a", "copies"), "stringData": {"colour": "red"}}
            )
            mine = Request("copies", "a")
            # Once for the secret, once for the config map that was made.
            await seen.until(lambda requests: requests.count(mine) >= 2)
            assert (await maps.get("a"))["data"] == {"colour": "red"}
            seen.requests.clear()
            await maps.delete("a")
            await seen.until(lambda requests: requests.count(mine) >= 2)
            assert (await maps.get("a"))["data"] == {"colour": "red"}
            seen.requests.clear()
            await maps.replace({**await maps.get("a"), "data": {"colour": "blue"}})
            await seen.until(lambda requests: requests.count(mine) >= 2)
            assert (await maps.get("a"))["data"] == {"colour": "red"}
        labels = {"controller": "secret", "result": "error"}
        assert host.registry.get_sample_value("controller_runtime_reconcile_total", labels) == 0

    on_host(config, test)


def test_a_cluster_scoped_owner_is_found_also_from_dictionaries_and_metadata(config):
    async def test(host):
        seen = Seen()

        async def reconcile(request):
            seen.add(request)

        only_mine = in_namespaces("", "outer")
        builder(host).for_(NAMESPACE, has_labels("kubernetes.io/metadata.name=outer")).owns(
            CONFIG_MAP, only_mine, metadata_only=True, every_owner=True
        ).watches_metadata(
            SECRET, lambda secret: [Request("by-metadata", secret.metadata.name)], in_namespaces("outer")
        ).named("outer").complete(reconcile)
        async with host.running():
            await make_namespace(host, "outer")
            await seen.until(lambda requests: Request("", "outer") in requests)
            seen.requests.clear()
            owner = await host.resource(NAMESPACE).get("outer")
            owned = config_map("a", "outer", **owned_by(owner, "Namespace", controller=False))
            await host.resource(CONFIG_MAP, "outer").create(owned)
            await seen.until(lambda requests: Request("", "outer") in requests)
            await host.resource(SECRET, "outer").create(
                {"apiVersion": "v1", "kind": "Secret", **metadata("s", "outer")}
            )
            await seen.until(lambda requests: Request("by-metadata", "s") in requests)
        assert set(seen.requests) == {Request("", "outer"), Request("by-metadata", "s")}

    on_host(config, test)


def test_controllers_that_look_at_the_same_kind_share_an_informer(config):
    async def test(host):
        builder(host).for_(Secret).complete(nothing)
        builder(host).for_(ConfigMap).watches(Secret, lambda secret: ()).complete(nothing)
        assert len(host.informers._informers) == 2
        async with host.running():
            await host.informers.wait_for_sync(10)

    on_host(config, test)


class LateMapper:
    """Knows a kind only after it has been asked so many times."""

    def __init__(self, refusals):
        self.refusals = refusals

    async def by_kind(self, gvk):
        self.refusals -= 1
        if self.refusals >= 0:
            raise NoMatch(f'no matches for kind "{gvk.kind}"')
        return APIResource(gvk.group, gvk.version, "things", gvk.kind, namespaced=False)


class ShelfHost:
    """A host whose kinds are all on one shelf."""

    def __init__(self, refusals):
        self.shelf, self.mapper = Shelf(), LateMapper(refusals)
        self.clock, self.registry, self.added, self.informers = LoopClock(), CollectorRegistry(), [], self
        self.made = []

    def informer(self, kind):
        self.made.append(SharedInformer(self.shelf, msgspec.json.decode, name=kind.kind, clock=self.clock))
        return self.made[-1]

    def add(self, runnable):
        self.added.append(runnable)


def test_a_controller_waits_until_the_kind_it_is_for_is_served():
    async def main():
        host, seen = ShelfHost(refusals=10), Seen()

        async def reconcile(request):
            seen.add((request, round(asyncio.get_running_loop().time() - 1000)))

        controller = builder(host).for_(SECRET, on(create=False)).owns(CONFIG_MAP).complete(reconcile)
        host.shelf.put("a", **owned_by({"metadata": {"name": "owner", "uid": "1"}}, "Secret"))
        running = asyncio.create_task(controller.run())
        await seen.until(lambda requests: requests)
        controller.stop()
        await running
        assert seen.requests == [(Request("", "owner"), 10)]
        for informer in host.made:
            await informer.stop()

    run(main())


def test_predicates_of_the_builder_apply_to_all_kinds_and_those_of_a_kind_to_that_kind():
    async def main():
        host, seen = ShelfHost(refusals=0), Seen()

        async def reconcile(request):
            seen.add((request.namespace, request.name))

        controller = (
            builder(host)
            .for_(SECRET, has_labels("itself"))
            .owns(CONFIG_MAP, has_labels("owned"))
            .watches(NAMESPACE, lambda obj: [Request("mapped", obj["metadata"]["name"])], has_labels("mapped"))
            .with_predicates(has_labels("!never"))
            .complete(reconcile)
        )
        owner = owned_by({"metadata": {"name": "owner", "uid": "1"}}, "Secret")
        every = {"itself": "", "owned": "", "mapped": ""}
        stranger = owned_by({"metadata": {"name": "stranger", "uid": "2"}}, "Secret")
        host.shelf.put("never", labels={**every, "never": ""}, **stranger)
        for label in every:
            host.shelf.put(f"only-{label}", labels={label: ""}, **owner)
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(10)
        controller.stop()
        await running
        assert sorted(seen.requests) == [("", "owner"), ("default", "only-itself"), ("mapped", "only-mapped")]
        for informer in host.made:
            await informer.stop()

    run(main())


def test_a_kind_that_is_never_served_is_named_when_the_controller_gives_up():
    async def main():
        host = ShelfHost(refusals=1000)
        controller = builder(host).for_(SECRET).owns(CONFIG_MAP).complete(nothing)
        words = re.escape("""controller 'secret': ConfigMap (no matches for kind "Secret") did not sync within 120 s""")
        with pytest.raises(SyncTimeout, match=words):
            await controller.run()
        for informer in host.made:
            await informer.stop()

    run(main())


def test_a_controller_can_work_without_any_kind(config):
    async def test(host):
        seen, trigger = Seen(), Trigger("clock")

        async def reconcile(request):
            seen.add(request)
            return Result(requeue_after=0.001) if len(seen.requests) < 3 else None

        builder(host).watches_source(trigger).named("ticks").complete(reconcile)
        async with host.running():
            trigger.fire(Request("", "tick"))
            await seen.until(lambda requests: len(requests) == 3)

    on_host(config, test)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda host: builder(host).complete(nothing), "watches nothing: call for_"),
        (lambda host: builder(host).named("x").complete(nothing), "watches nothing: call for_"),
        (lambda host: builder(host).watches(Secret, lambda secret: ()).complete(nothing), "has no name"),
        (lambda host: builder(host).owns(Secret).named("x").complete(nothing), "call for_, too"),
        (lambda host: builder(host).for_(Secret).for_(ConfigMap), "reconciles one kind, here Secret"),
        (lambda host: [builder(host).for_(Secret).complete(nothing) for _ in range(2)], "named 'secret' already"),
        (lambda host: builder(host).for_(Secret).with_options(workers=0), "workers=0"),
    ],
    ids=["nothing", "only a name", "no name", "owns without for", "two kinds", "name taken", "no workers"],
)
def test_what_cannot_work_is_refused_when_it_is_put_together(config, make, words):
    async def test(host):
        with pytest.raises(ValueError, match=words):
            make(host)
        assert len(host.added) == (words == "named 'secret' already")

    on_host(config, test)


def test_a_refused_controller_asks_for_no_informer(config):
    async def test(host):
        with pytest.raises(TypeError, match="42 is not a reconciler"):
            builder(host).for_(Secret).complete(42)
        with pytest.raises(TypeError, match="stands for no kind"):
            builder(host).for_(Secret).owns(int)
        assert host.informers._informers == {}

    on_host(config, test)
