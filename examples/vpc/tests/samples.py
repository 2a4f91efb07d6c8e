"""Objects for tests: those of config/samples, with other names."""

from pathlib import Path
from typing import TypeVar

import msgspec
from kapi import Client, CustomResource
from kapi.codec import yaml
from kapi.controller.objects.conditions import is_true

ROOT = Path(__file__).parents[1]
T = TypeVar("T", bound=CustomResource)


def sample(kind: type[T], name: str, namespace: str = "default") -> T:
    """Return the sample of a kind, with a name."""
    for path in sorted((ROOT / "config" / "samples").glob("*.yaml")):
        for document in yaml.decode_all(path.read_bytes()):
            if (document.get("apiVersion"), document.get("kind")) == (kind.gvk.api_version, kind.gvk.kind):
                document["metadata"] = {"name": name}
                if kind.naming.namespaced:
                    document["metadata"]["namespace"] = namespace
                return msgspec.convert(document, kind)
    raise LookupError(f"config/samples has no {kind.gvk.kind} of {kind.gvk.api_version}")


async def is_ready(client: Client, kind: type[CustomResource], name: str, namespace: str = "default") -> bool:
    """Return True if the condition Ready of an object is true, and of its latest generation."""
    stored = await client.get(kind, name, namespace=namespace if kind.naming.namespaced else "")
    status = msgspec.to_builtins(stored).get("status") or {}
    is_current = status.get("observedGeneration") == stored.metadata.generation
    return is_current and is_true(status.get("conditions"), "Ready")
