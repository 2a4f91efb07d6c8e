"""Shared by the tests of definitions: a definition, and its way through decoding and the steps of the write path."""

from __future__ import annotations

import copy

from kind_support import Shelf, a_write

from kapi.registry import write as writepath
from kapi.registry.kinds.apiextensions import v1beta1
from kapi.registry.kinds.apiextensions.definitions import STRATEGIES
from kapi.schema.builtin.definitionsv1beta1 import definition_schema
from kapi.schema.builtin.typed import kind_schema

STRATEGY = STRATEGIES["apiextensions.k8s.io", "CustomResourceDefinition"]
V1 = kind_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def version(name="v1", *, storage=True, schema=None, **more):
    props = {"type": "object"} if schema is None else schema
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": props}, **more}


def definition(plural="things", kind="Thing", *, group="example.dev", versions=None, names=None, **spec):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **(names or {})},
            "versions": [version()] if versions is None else versions,
            **spec,
        },
    }


def old_form(group="example.dev", **spec):
    """A definition in v1beta1, without versions unless they are given."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "names": {"plural": "things", "kind": "Thing"}, **spec},
    }


def decoded(obj):
    """As a handler has it after reading a request: in the stored version, with defaults."""
    obj = copy.deepcopy(obj)
    legacy = obj["apiVersion"].endswith("v1beta1")
    unknown = (definition_schema() if legacy else V1).coerce(obj)
    assert unknown == []
    obj.setdefault("metadata", {})
    hub = v1beta1.to_v1(obj) if legacy else obj
    STRATEGY.default(hub)
    return hub


def create(obj, *others, **options):
    """The definition as it would be stored, and the field errors."""
    hub = decoded(obj)
    metadata = hub["metadata"]
    write = a_write(STRATEGY, namespaced=False, lookup=Shelf(customresourcedefinitions=list(others)), **options)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + "abcde"
    writepath.prepare_create(write, hub)
    errors = writepath.create_errors(write, hub)
    for key in ("uid", "creationTimestamp", "generation"):
        metadata.pop(key, None)
    return hub, errors


def stored(obj, *others):
    """A definition that is accepted."""
    hub, errors = create(obj, *others)
    assert errors == []
    hub["metadata"]["generation"] = 1
    return hub


def update(obj, old, *others):
    """The definition as an update would store it, and the field errors."""
    hub, before = decoded(obj), copy.deepcopy(old)
    write = a_write(
        STRATEGY, namespaced=False, operation="UPDATE", lookup=Shelf(customresourcedefinitions=[old, *others])
    )
    scope = write.store.object_scope
    writepath.prepare_update(write, scope, hub, old)
    errors = scope.validate(write, hub, old)
    assert old == before, "a hook changed the stored definition"
    return hub, errors


def causes(errors):
    return sorted([error.field, error.reason, error.body] for error in errors)
