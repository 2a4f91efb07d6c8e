"""What the tests of kinds share: a lookup over a dictionary, a write context, and short ways to run a strategy."""

from __future__ import annotations

import copy
import datetime as dt

from kapi.registry.strategy import WriteContext

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


def context(**options):
    return WriteContext(lookup=options.pop("lookup", Shelf()), now=NOW, **options)


def thing(name="a", namespace="default", **fields):
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


def created(strategy, obj, **options):
    """The object as it would be stored, and the texts of what is wrong with it."""
    obj = copy.deepcopy(obj)
    strategy.default(obj)
    writing = context(**options)
    if strategy.has_status and not getattr(strategy, "keeps_status_on_create", False):
        obj.pop("status", None)
    strategy.prepare_create(writing, obj)
    return obj, texts(strategy.validate_create(writing, obj))


def create_errors(strategy, obj, **options):
    return created(strategy, obj, **options)[1]


def updated(strategy, obj, old, **options):
    """The object as an update would store it, and the texts of what is wrong with it."""
    obj, before = copy.deepcopy(obj), copy.deepcopy(old)
    strategy.default(obj)
    writing = context(**options)
    if strategy.has_status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = copy.deepcopy(old["status"])
    strategy.prepare_update(writing, obj, old)
    errors = texts(strategy.validate_update(writing, obj, old))
    assert old == before, "a hook changed the stored object"
    return obj, errors


def update_errors(strategy, obj, old, **options):
    return updated(strategy, obj, old, **options)[1]


def status_errors(strategy, obj, old):
    obj = copy.deepcopy(obj)
    writing = context(subresource="status")
    strategy.prepare_status(writing, obj, old)
    return texts(strategy.validate_status(writing, obj, old))


def texts(errors):
    return [str(error) for error in errors]


def assert_idempotent(strategy, obj):
    """Defaulting and preparing twice changes nothing."""
    once, _ = created(strategy, obj)
    twice, _ = created(strategy, once)
    assert twice == once
