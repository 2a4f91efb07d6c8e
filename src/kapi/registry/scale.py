"""The scale sub-resource: one small kind (`autoscaling/v1` Scale) that shows and sets the replicas of many others.

`kubectl scale` and autoscalers read and write it without knowing what they scale.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

from kapi.api.errors import Invalid
from kapi.api.fielderror import invalid
from kapi.api.meta import GroupKind, GroupVersionKind
from kapi.api.ownership.apply import excluding
from kapi.api.ownership.fieldset import fields
from kapi.api.ownership.managedfields import FieldManager, parent_entries, scale_entries
from kapi.api.values import label_selector_to_text
from kapi.registry.encoding import HubObject
from kapi.registry.updatescope import UpdateScope
from kapi.schema.builtin.typed import kind_schema

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.ownership.fieldset import Path
    from kapi.api.ownership.managedfields import ReplicasPaths
    from kapi.cache.watchcache import Item
    from kapi.registry.fieldmanagers import FieldManagers
    from kapi.registry.request import Write
    from kapi.registry.strategy import Strategy

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
SCALE_KIND = GroupKind("autoscaling", "Scale")
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scales(Protocol):
    """Reads and writes the Scale of objects of one kind at one version."""

    replicas: Path
    """The field set of the wanted number of replicas."""

    def read(self, obj: Object) -> Object:
        """The Scale that a GET answers with."""
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
        """The Scale of an object."""
        return scale_of(obj)

    current = shown = read

    def write(self, obj: Object, scale: Object) -> Object:
        """The object with the wanted number of replicas."""
        return apply_scale(obj, scale)


class ScaleScope(UpdateScope):
    """The /scale endpoint: a Scale goes through admission, then its replicas are written into the object.

    A manager that owns the Scale's replicas owns the object's, at the version of the request.
    """

    def __init__(self, strategy: Strategy, scales: Scales, paths: ReplicasPaths) -> None:
        super().__init__(strategy)
        self._scales = scales
        self._paths = paths

    def live(self, write: Write, item: Item) -> Object:
        """The current Scale, with the owners of its replicas."""
        return self._owned_scale(write)

    def _owned_scale(self, write: Write) -> Object:
        assert write.old is not None
        scale = self._scales.current(write.old)
        entries = scale_entries(write.old["metadata"].get("managedFields"), self._paths)
        if entries:
            scale["metadata"]["managedFields"] = entries
        return scale

    def convert_in(self, write: Write, obj: Object) -> HubObject:
        """A Scale has one version."""
        return HubObject(obj)

    def default(self, write: Write, obj: HubObject) -> None:
        """A Scale has no defaults."""

    async def record_owners(self, write: Write, managers: FieldManagers, obj: HubObject) -> None:
        """Set the managedFields of the Scale."""
        scale_manager().update(self._owned_scale(write), obj, manager=write.field_manager, now=write.now)

    def admitted(self, obj: HubObject) -> Object:
        """The Scale of the object."""
        return self._scales.shown(obj)

    def merge(self, write: Write, obj: HubObject, item: Item) -> HubObject:
        """The object with the replicas of the Scale, and their owners."""
        assert write.old is not None
        entries = obj["metadata"].pop("managedFields", None)
        whole = HubObject(self._scales.write(write.store.decode(item), obj))
        before = write.old["metadata"].get("managedFields")
        owned = parent_entries(before, entries, write.resource.api_version, self._paths)
        if owned:
            whole["metadata"]["managedFields"] = owned
        return whole


@cache
def scale_manager() -> FieldManager:
    """The field manager of Scales."""
    return FieldManager(kind_schema(*SCALE).shape, SCALE, subresource="scale", reset=excluding(fields("status")))


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
