"""The custom kinds of the load: many small ones, a large one, and what their objects look like.

The small ones are written here: some twenty fields, with the defaults, limits and one rule that such definitions have.
Ten of them share a group, as the kinds of one operator do. The large one, and the one whose objects pass for typical,
are examples that the tests use too.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from bench.objects import NAMESPACE, template
from kapi.codec import yaml

EXAMPLES = Path(__file__).resolve().parent.parent / "tests" / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IN_A_GROUP = 10
"""Small kinds that share a group."""
VERSION = "v1"
SMALL = "small"
"""The run whose first small kind has the objects of the load."""

Object = dict[str, Any]

_NAME = "@name@"


def _text(description: str, **more: Any) -> Object:
    return {"type": "string", "description": description, **more}


def _count(description: str, **more: Any) -> Object:
    return {"type": "integer", "format": "int32", "minimum": 0, "description": description, **more}


_SPEC: Object = {
    "type": "object",
    "description": "What is wanted.",
    "required": ["engine", "size"],
    "properties": {
        "engine": _text("The software that runs.", enum=["postgres", "mysql", "redis"]),
        "version": _text("The version of it, as major and minor.", pattern=r"^\d+(\.\d+)?$", default="16"),
        "size": _text("How much is stored.", pattern=r"^[0-9]+(Mi|Gi|Ti)$"),
        "storageClass": _text("The class of the volumes.", maxLength=63),
        "minReplicas": _count("The fewest instances.", default=1),
        "maxReplicas": _count("The most instances.", default=3, maximum=99),
        "port": _count("Where it listens.", maximum=65535, default=5432),
        "paused": {"type": "boolean", "default": False, "description": "Whether nothing is done for now."},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}, "description": "What others look for."},
        "zones": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 8},
        "backup": {
            "type": "object",
            "properties": {
                "schedule": _text("When, as a cron expression.", default="0 3 * * *"),
                "keep": _count("How many are kept.", default=7),
                "bucket": _text("Where they go."),
            },
        },
        "users": {
            "type": "array",
            "maxItems": 64,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": _text("Who.", minLength=1, maxLength=63),
                    "role": _text("What they may do.", enum=["reader", "writer", "owner"], default="reader"),
                },
            },
        },
    },
    "x-kubernetes-validations": [
        {"rule": "self.minReplicas <= self.maxReplicas", "message": "minReplicas must not exceed maxReplicas"}
    ],
}
_STATUS: Object = {
    "type": "object",
    "properties": {
        "phase": _text("How far it is."),
        "ready": _count("The instances that answer."),
        "observedGeneration": {"type": "integer", "format": "int64"},
        "endpoint": _text("Where clients connect."),
    },
}
_SCHEMA: Object = {"type": "object", "required": ["spec"], "properties": {"spec": _SPEC, "status": _STATUS}}


def group_of(run: str, number: int) -> str:
    """The group of a small kind."""
    return f"{run}-{number // IN_A_GROUP}.bench.example.com"


def plural_of(number: int) -> str:
    """The plural of a small kind."""
    return f"stores{number}"


def small_definition(run: str, number: int) -> bytes:
    """A definition of some twenty fields, as JSON."""
    group, plural = group_of(run, number), plural_of(number)
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": f"store{number}", "kind": f"Store{number}"},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}],
                }
            ],
        },
    }
    return json.dumps(definition, separators=(",", ":")).encode()


def small_collection(run: str, number: int) -> str:
    """The path of the objects of a small kind."""
    return f"/apis/{group_of(run, number)}/{VERSION}/namespaces/{NAMESPACE}/{plural_of(number)}"


def small_object(run: str, number: int, name: str) -> bytes:
    """An object of a small kind, as JSON."""
    before, after = _small_parts()
    kind = f'{{"apiVersion":"{group_of(run, number)}/{VERSION}","kind":"Store{number}",'
    return b"".join((kind.encode(), before, name.encode(), after))


@functools.cache
def _small_parts() -> tuple[bytes, ...]:
    spec = {
        "engine": "postgres",
        "size": "20Gi",
        "storageClass": "fast",
        "maxReplicas": 5,
        "tags": {"team": "shop", "stage": "production"},
        "zones": ["a", "b"],
        "backup": {"bucket": "backups"},
        "users": [{"name": "app", "role": "writer"}, {"name": "reports"}],
    }
    whole = template({"metadata": {"name": _NAME, "labels": {"team": "shop"}}, "spec": spec}, _NAME)
    return whole[0].removeprefix(b"{"), whole[1]


# -- examples ---------------------------------------------------------------------------------------------------------


@functools.cache
def example(name: str) -> Object:
    """The definition of an example."""
    definition: Object = yaml.decode((EXAMPLES / f"{name}-crd.yaml").read_bytes())
    return definition


def example_object(name: str, called: str = "") -> Object:
    """The good object of an example: the first, or the one of a name."""
    objects: list[Object] = yaml.decode_all((EXAMPLES / f"{name}-good.yaml").read_bytes())
    return next(obj for obj in objects if not called or obj["metadata"]["name"] == called)


def large_definition() -> bytes:
    """The definition of some four hundred fields, as JSON."""
    return json.dumps(example("large")).encode()


@functools.cache
def large_collection() -> str:
    """The path of its objects."""
    spec = example("large")["spec"]
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/namespaces/{NAMESPACE}/{spec['names']['plural']}"


def large_object(name: str) -> bytes:
    """An object of some two hundred values, as JSON."""
    before, after = _large_parts()
    return b"".join((before, name.encode(), after))


@functools.cache
def _large_parts() -> tuple[bytes, ...]:
    obj = example_object("large")
    obj["metadata"]["name"] = _NAME
    return template(obj, _NAME)
