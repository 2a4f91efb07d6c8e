"""The shapes of built-in kinds: how their fields are owned and merged by server-side apply.

Made from the definitions, struct by struct as objects need them, and shared by all kinds. The definitions leave out
two things: which keys of list items have defaults, and which fields the reference writes even when nobody set them.
The second matters because such a field exists in every object: who sets something inside it does not own it itself.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from kapi.api.ownership.shape import (
    ATOMIC_LIST,
    ATOMIC_MAP,
    DEDUCED,
    KEYED,
    SCALAR,
    SET,
    STRUCT,
    UNTYPED,
    WHOLE,
    Shape,
)
from kapi.schema.builtin import definitions as builtin
from kapi.schema.builtin import mergekeys as merging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.ownership.shape import Field, Key
    from kapi.schema.builtin.definitions import Node

_ZEROES: Final = {"string": "", "integer": 0, "number": 0, "boolean": False}
_ALWAYS_STRUCTS: Final = frozenset({"metadata", "spec", "status"})

_KEY_DEFAULTS: Final = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.LocalObjectReference", "name"): "",
}
"""What an item is without a key that it need not have. Keys it must have are empty then, of whatever type they are."""

_PRESENT: Final = """\
api.apps.v1.DaemonSetSpec updateStrategy
api.apps.v1.DeploymentSpec strategy
api.apps.v1.ReplicaSetSpec template
api.apps.v1.StatefulSetSpec updateStrategy
api.authentication.v1.SelfSubjectReviewStatus userInfo
api.authentication.v1.TokenReviewStatus user
api.core.v1.Container resources
api.core.v1.ContainerStateRunning startedAt
api.core.v1.ContainerStateTerminated finishedAt startedAt
api.core.v1.ContainerStatus lastState state
api.core.v1.EphemeralContainer resources
api.core.v1.Event eventTime firstTimestamp lastTimestamp source
api.core.v1.EventSeries lastObservedTime
api.core.v1.NodeDaemonEndpoints kubeletEndpoint
api.core.v1.NodeStatus daemonEndpoints nodeInfo
api.core.v1.PersistentVolumeClaimSpec resources
api.core.v1.PodTemplate template
api.core.v1.ServiceStatus loadBalancer
api.discovery.v1.Endpoint conditions
api.events.v1.Event deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource regarding
api.flowcontrol.v1.LimitedPriorityLevelConfiguration limitResponse
api.networking.v1.IngressServiceBackend port
api.networking.v1.IngressStatus loadBalancer
api.networking.v1.NetworkPolicySpec podSelector
api.resource.v1.AllocatedDeviceStatus conditions
api.resource.v1.AllocationResult devices
api.resource.v1.ResourceClaimSpec devices
api.storage.v1.VolumeError time
apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus acceptedNames conditions
"""
"""Fields that need not be set and are there all the same, by definition, without the common `io.k8s.` prefix."""

_ABSENT: Final = frozenset(
    {
        ("io.k8s.api.networking.v1.IPAddressSpec", "parentRef"),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresources", "status"),
    }
)
"""Fields that look as if they were always there and are not."""

_TIMES: Final = frozenset({builtin.TIME, builtin.MICRO_TIME})
_NULL_STRUCTS: Final = frozenset({"selector", "secretRef"})
"""Required structs that are null, not empty, when nobody set them."""


@functools.cache
def kind_shape(definition: str) -> Shape:
    """The shape of the objects of a definition."""
    return _struct(definition, atomic=False)


def _shape(node: Node) -> Shape:
    """The shape of a field, a list item or a map value."""
    if node.ref:
        special = _SPECIAL.get(node.ref)
        if special is not None:
            return special
        relation = node.map_type or builtin.definition(node.ref).map_type
        return _struct(node.ref, atomic=relation == "atomic")
    if node.type == "array":
        return _list(node)
    if node.type == "object":
        values = _shape(node.values) if node.values else DEDUCED
        return Shape(ATOMIC_MAP if node.map_type == "atomic" else STRUCT, values=values)
    return _SCALARS[_scalar(node)] if node.type else DEDUCED


@functools.cache
def _struct(definition: str, *, atomic: bool) -> Shape:
    kind = ATOMIC_MAP if atomic else STRUCT
    if not builtin.definition(definition).properties:
        return Shape(kind, values=DEDUCED)
    return Shape(kind, fill=lambda: _fields(definition))


def _fields(definition: str) -> tuple[Mapping[str, Field], Mapping[str, Any]]:
    node = builtin.definition(definition)
    optional = _present().get(definition, ())
    fields: dict[str, Field] = {}
    present: dict[str, Any] = {}
    for name, below in node.properties.items():
        fields[name] = (f"f:{name}", _shape(below))
        if _is_present(definition, name, below, named=name in node.required or name in optional):
            present[name] = {} if merging.is_struct(below) and name not in _NULL_STRUCTS else None
    return fields, present


def _is_present(definition: str, name: str, below: Node, *, named: bool) -> bool:
    """Whether a field is there even when nobody set it; `named` says that it is required, or in the table."""
    if below.ref in _TIMES:
        return named or definition.endswith("Condition")
    if merging.is_struct(below):
        return (named or name in _ALWAYS_STRUCTS) and (definition, name) not in _ABSENT
    return named and below.type in ("array", "object")


@functools.cache
def _present() -> dict[str, list[str]]:
    lines = (line.split() for line in _PRESENT.splitlines())
    return {f"io.k8s.{definition}": names for definition, *names in lines}


def _list(node: Node) -> Shape:
    assert node.items is not None
    items = _shape(node.items)
    if node.list_type == "map":
        return Shape(KEYED, items=items, keys=_keys(node.items.ref, node.list_map_keys))
    if node.list_type == "set":
        return Shape(SET, items=items)
    if not node.list_type and "merge" in node.patch_strategies:
        if node.patch_merge_key:
            return Shape(KEYED, items=items, keys=_keys(node.items.ref, (node.patch_merge_key,)))
        return Shape(SET, items=items)
    return Shape(ATOMIC_LIST, items=items)


def _keys(definition: str, names: tuple[str, ...]) -> list[Key]:
    item = builtin.definition(definition)
    return [(name, _key_default(definition, item, name)) for name in names]


def _key_default(definition: str, item: Node, name: str) -> Any:
    default = _KEY_DEFAULTS.get((definition, name))
    return _ZEROES.get(item.properties[name].type) if default is None and name in item.required else default


def _scalar(node: Node) -> str:
    if node.type in ("integer", "number"):
        return "numeric"
    if node.type == "boolean":
        return "boolean"
    return "string" if node.format in ("", "byte") else UNTYPED


_SCALARS: Final = {name: Shape(SCALAR, scalar=name) for name in ("numeric", "boolean", "string", UNTYPED)}
_FIELDS_V1: Final = Shape(ATOMIC_MAP)
_FIELDS_V1.values = _FIELDS_V1

_SPECIAL: Final = {
    builtin.INT_OR_STRING: _SCALARS[UNTYPED],
    builtin.QUANTITY: _SCALARS[UNTYPED],
    builtin.TIME: _SCALARS[UNTYPED],
    builtin.MICRO_TIME: _SCALARS[UNTYPED],
    builtin.RAW_EXTENSION: WHOLE,
    builtin.FIELDS_V1: _FIELDS_V1,
    builtin.JSON: DEDUCED,
    builtin.JSON_SCHEMA_OR_ARRAY: DEDUCED,
    builtin.JSON_SCHEMA_OR_BOOL: DEDUCED,
    builtin.JSON_SCHEMA_OR_STRINGS: DEDUCED,
}
