"""Shared by the tests of kinds: a lookup over a dictionary, a write, and the steps of the write path on one strategy."""

from __future__ import annotations

import copy
import datetime as dt
import functools

from kapi.api.errors import GroupResource
from kapi.api.meta import GroupVersionKind
from kapi.base.clock import SystemClock
from kapi.cache.watchcache import CacheHub
from kapi.registry import write as writepath
from kapi.registry.catalog import Catalog
from kapi.registry.encoding import BodyReader, head_of
from kapi.registry.request import Write, WriteOptions
from kapi.registry.resource import Resource
from kapi.registry.store import Store
from kapi.registry.strategy import Strategy
from kapi.schema.builtin.typed import kind_schema
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
