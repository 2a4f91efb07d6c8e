"""The scale sub-resource: one small kind (`autoscaling/v1` Scale) as a window onto many.

`kubectl scale` and autoscalers read and write it without knowing what they scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kapi.api.errors import GroupKind, Invalid
from kapi.api.fielderror import invalid
from kapi.api.ownership.fieldset import fields
from kapi.api.values import label_selector_to_text

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.ownership.fieldset import Path

SCALE_KIND = GroupKind("autoscaling", "Scale")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scales(Protocol):
    """Reads and writes the Scale of objects of one kind at one version."""

    replicas: Path
    """Where the wanted number is, as the owners of fields name it."""

    def read(self, obj: Object) -> Object:
        """The Scale for who asks for it."""
        ...

    def current(self, obj: Object) -> Object:
        """The Scale a write begins from."""
        ...

    def shown(self, obj: Object) -> Object:
        """The Scale as admission sees it and as a write answers it."""
        ...

    def write(self, obj: Object, scale: Object) -> Object:
        """The object, changed to the wanted number of replicas."""
        ...


class BuiltInScales:
    """The Scales of built-in kinds, which all keep their replicas in the same places."""

    replicas = fields("spec", "replicas")

    def read(self, obj: Object) -> Object:
        """The Scale of an object, whoever asks."""
        return scale_of(obj)

    current = shown = read

    def write(self, obj: Object, scale: Object) -> Object:
        """The object with the wanted number of replicas."""
        return apply_scale(obj, scale)


def scale_of(obj: Object) -> Object:
    """The Scale of an object."""
    metadata = obj["metadata"]
    spec, status = obj.get("spec", {}), obj.get("status", {})
    scale_status: Object = {"replicas": status.get("replicas", 0)}
    selector = _selector(spec.get("selector"))
    if selector:
        scale_status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": {"replicas": replicas} if (replicas := spec.get("replicas", 0)) else {},
        "status": scale_status,
    }


def apply_scale(obj: Object, scale: Object) -> Object:
    """The object with the wanted number of replicas; preconditions in the Scale's metadata become the object's."""
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        raise Invalid.of(
            SCALE_KIND,
            obj["metadata"]["name"],
            [invalid("spec.replicas", replicas, "must be greater than or equal to 0")],
        )
    obj.setdefault("spec", {})["replicas"] = replicas
    metadata = scale.get("metadata", {})
    obj["metadata"]["resourceVersion"] = metadata.get("resourceVersion", "")
    if metadata.get("uid"):
        obj["metadata"]["uid"] = metadata["uid"]
    return obj


def _selector(selector: Object | None) -> str:
    if not selector:
        return ""
    if "matchLabels" in selector or "matchExpressions" in selector:
        return label_selector_to_text(selector)
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
