"""Shared by the tests of kinds: a lookup over a dictionary, a write, and the steps of the write path on one strategy."""

from __future__ import annotations

import copy
import datetime as dt
import functools

import msgspec

from kapi.api.meta import GroupResource, GroupVersionKind
from kapi.base.clock import SystemClock
from kapi.cache.watchcache import CacheHub
from kapi.registry import write as writepath
from kapi.registry.catalog import Catalog
from kapi.registry.encoding import BodyReader, draft, head_of
from kapi.registry.kinds.core.service.records import ServiceRecords
from kapi.registry.kinds.core.service.services import ServiceStrategy
from kapi.registry.request import Write, WriteOptions
from kapi.registry.resource import Resource
from kapi.registry.store import Store
from kapi.registry.strategies import strategies
from kapi.registry.strategy import Strategy
from kapi.schema.builtin.typed import kind_schema
from kapi.storage.interface import Delete, Put
from kapi.storage.memory import MemoryStorage

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
NOW_TEXT = "2026-01-02T03:04:05Z"


class Shelf:
    """A Lookup over objects in memory."""

    def __init__(self, **resources):
        self.resources = resources

    def get(self, resource, namespace, name):
        for obj in self.resources.get(resource.partition(".")[0], ()):
            metadata = obj["metadata"]
            if metadata["name"] == name and metadata.get("namespace", "") == namespace:
                return obj
        return None

    def list(self, resource, namespace="", *, ending=""):
        objects = self.resources.get(resource.partition(".")[0], ())
        return [obj for obj in objects if not namespace or obj["metadata"].get("namespace") == namespace]


def resource_of(strategy, *, namespaced=True, clock=None):
    """A resource over a fresh store, with a strategy; its kind is the one that has this strategy, or ConfigMap."""
    gvk = _kinds().get(type(strategy), GroupVersionKind("", "v1", "ConfigMap"))
    hub = CacheHub(MemoryStorage(), lambda _: BodyReader(head_of(gvk.api_version, gvk.kind), None), clock=clock)
    plural = f"{gvk.kind.lower()}s"
    store = Store(
        gvk=gvk,
        resource=GroupResource(gvk.group, plural),
        namespaced=namespaced,
        strategy=strategy,
        storage=hub.storage,
        hub=hub,
        schema=lambda: kind_schema(*gvk),
    )
    verbs = ("create", "update", "delete")
    return Resource(gvk.group, gvk.version, plural, gvk.kind, gvk.kind.lower(), namespaced, verbs, store=store)


@functools.cache
def _kinds():
    catalog = Catalog(MemoryStorage(), SystemClock())
    return {type(one.store.strategy): one.store.gvk for one in catalog if one.store is not None}


@functools.cache
def all_strategies():
    """The strategies of all built-in kinds, by (group, kind)."""
    return strategies(Catalog(MemoryStorage(), SystemClock()).hub, ("10.0.0.0/24",))


def a_write(strategy=None, *, lookup=None, now=NOW, dry_run=False, namespaced=True, **options):
    """A write of an object with a strategy."""
    return Write(
        options.pop("operation", "CREATE"),
        resource_of(strategy or Strategy(), namespaced=namespaced),
        lookup=lookup or Shelf(),
        now=now,
        options=WriteOptions(dry_run=dry_run),
        **options,
    )


class ServiceCluster:
    """The strategy of Services on a store of its own, with ServiceCIDR `kubernetes` and the Services it committed."""

    def __init__(self, cidrs=("10.0.0.0/24",), ports=range(30000, 32768)):
        self.storage = MemoryStorage()
        self.catalog = Catalog(self.storage, SystemClock(), service_cidrs=cidrs)
        self.records = ServiceRecords(self.catalog.hub, cidrs, ports)
        self.strategy = ServiceStrategy(self.records)
        at_once(self.catalog.load())
        self.put("servicecidrs.networking.k8s.io", "ServiceCIDR", thing("kubernetes", "", spec={"cidrs": [*cidrs]}))

    def put(self, resource, kind, obj, *companions):
        """Store an object of a built-in resource as it is."""
        store = self.catalog.store(resource)
        metadata = obj["metadata"]
        obj = {**obj, "kind": kind, "apiVersion": store.gvk.api_version}
        key = store.key(metadata.get("namespace", ""), metadata["name"])
        found = store.cache.get(key)
        expected = 0 if found is None else found.revision
        at_once(self.storage.commit([Put(key, draft(obj), expected), *companions]))

    def create(self, spec, name="a", namespace="default"):
        obj, errors = created(self.strategy, thing(name, namespace, spec=spec))
        assert errors == []
        return self.commit(obj, None)

    def update(self, old, spec):
        obj, errors = updated(self.strategy, {**old, "spec": spec}, old)
        assert errors == []
        return self.commit(obj, old)

    def commit(self, obj, old):
        companions = self.strategy.commit_with(a_write(), obj, old)
        self.put("services", "Service", companions.obj, *companions.operations)
        companions.done(True)
        return companions.obj

    def delete(self, obj):
        companions = self.strategy.commit_with(a_write(), None, obj)
        item = self.catalog.store("services").get(obj["metadata"]["namespace"], obj["metadata"]["name"])
        at_once(self.storage.commit([Delete(item.key, item.revision), *companions.operations]))
        companions.done(True)

    @property
    def addresses(self):
        """The names of all IPAddress objects."""
        return {item.name for item in self.catalog.store("ipaddresses.networking.k8s.io").cache.items()}

    @property
    def ports(self):
        """The node ports that are reserved, and for which Service."""
        ports = {}
        for item in self.catalog.hub.cache("/registry/reservations/nodeports/").items():
            ports |= msgspec.json.decode(b"{" + item.body)["content"]
        return {int(port): owner for port, owner in ports.items()}


def at_once(work):
    """The result of a coroutine that never waits for anything."""
    try:
        while True:
            work.send(None)
    except StopIteration as done:
        return done.value


class Changed(writepath.Source):
    """The wanted state that a function makes of the current one, in place."""

    def __init__(self, change, *, is_patch=False):
        self._change = change
        self.is_patch = is_patch

    async def __call__(self, live):
        obj = live()
        self._change(obj)
        return obj


def thing(name="a", namespace="default", **fields):
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def created(strategy, obj, **options):
    """The object as it would be stored, without what is random in it, and the texts of its errors."""
    obj = copy.deepcopy(obj)
    write = a_write(strategy, namespaced=bool(obj["metadata"].get("namespace")), **options)
    write.store.object_scope.default(write, obj)
    writepath.prepare_create(write, obj)
    errors = writepath.create_errors(write, obj)
    for key in ("uid", "creationTimestamp", "generation"):
        obj["metadata"].pop(key, None)
    return obj, texts(errors)


def create_errors(strategy, obj, **options):
    return created(strategy, obj, **options)[1]


def updated(strategy, obj, old, **options):
    """The object as an update would store it, and the texts of its errors."""
    return _updated(strategy, "object_scope", obj, old, **options)


def _updated(strategy, scope, obj, old, **options):
    obj, old = copy.deepcopy(obj), copy.deepcopy(old)
    for one in (obj, old):
        one["metadata"].setdefault("resourceVersion", "1")
    before = copy.deepcopy(old)
    write = a_write(strategy, namespaced=bool(obj["metadata"].get("namespace")), operation="UPDATE", **options)
    scope = getattr(write.store, scope)
    if not write.subresource:
        scope.default(write, obj)
    writepath.prepare_update(write, scope, obj, old)
    errors = writepath.update_errors(write, scope, obj, old)
    assert old == before, "a hook changed the stored object"
    del obj["metadata"]["resourceVersion"]
    return obj, texts(errors)


def update_errors(strategy, obj, old, **options):
    return updated(strategy, obj, old, **options)[1]


def status_errors(strategy, obj, old):
    return _updated(strategy, "status_scope", obj, old, subresource="status")[1]


def texts(errors):
    return [str(error) for error in errors]


def assert_idempotent(strategy, obj):
    """Defaulting and preparing twice changes nothing."""
    once, _ = created(strategy, obj)
    twice, _ = created(strategy, once)
    assert twice == once
