"""The rules of each built-in kind, gathered: strategies, special stores, conversions between versions.

A module here holds the kinds of one area and lists them in its `STRATEGIES`. A kind that is in none of them has the
plain strategy and is judged by its schema alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.registry.custom.definitionstore import DefinitionStore
from kapi.registry.kinds import (
    admissionregistration,
    apiregistration,
    certificates,
    flowcontrol,
    networking,
    policy,
    rbac,
    scheduling,
)
from kapi.registry.kinds import coordination as leases
from kapi.registry.kinds import resource as resourcekinds
from kapi.registry.kinds import storage as storagekinds
from kapi.registry.kinds.apiextensions import definitions
from kapi.registry.kinds.apiextensions.v1beta1 import from_v1 as to_old_definition
from kapi.registry.kinds.apiextensions.v1beta1 import to_v1 as to_definition
from kapi.registry.kinds.apps import replicas, workloads
from kapi.registry.kinds.autoscaling import horizontal as autoscaling
from kapi.registry.kinds.autoscaling.conversion import to_v1, to_v2
from kapi.registry.kinds.batch import strategies as batch
from kapi.registry.kinds.core import (
    configuration,
    endpoints,
    events,
    namespaces,
    nodes,
    quotas,
    serviceaccounts,
    volumes,
)
from kapi.registry.kinds.core.events import to_core_v1, to_events_v1
from kapi.registry.kinds.core.pod import pods
from kapi.registry.kinds.core.service import services
from kapi.registry.kinds.core.service.allocators import ServicePools
from kapi.registry.namespacestore import NamespaceStore
from kapi.schema.builtin.definitionsv1beta1 import definition_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.registry.store import Store
    from kapi.registry.strategy import Strategy
    from kapi.schema.builtin.typed import ObjectSchema

    Convert = Callable[[Object], Object]

_AREAS = (
    admissionregistration,
    apiregistration,
    autoscaling,
    batch,
    certificates,
    configuration,
    definitions,
    endpoints,
    events,
    flowcontrol,
    leases,
    namespaces,
    networking,
    nodes,
    pods,
    policy,
    quotas,
    rbac,
    replicas,
    resourcekinds,
    scheduling,
    serviceaccounts,
    services,
    storagekinds,
    volumes,
    workloads,
)


def strategies() -> dict[tuple[str, str], Strategy]:
    """The strategies of one control plane, by (group, kind). Services have pools, which no two control planes share."""
    gathered = {kind: strategy for area in _AREAS for kind, strategy in area.STRATEGIES.items()}
    return {**gathered, ("", "Service"): services.ServiceStrategy(ServicePools())}


STORES: dict[tuple[str, str], type[Store]] = {
    ("", "Namespace"): NamespaceStore,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): DefinitionStore,
}
"""Kinds whose store does more than the generic one."""

SCHEMAS: dict[tuple[str, str, str], Callable[[], ObjectSchema]] = {
    ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition"): definition_schema,
}
"""Served versions that the built-in definitions do not describe."""

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **{f"regarding.{field}": f"involvedObject.{field}" for field in _REFERENCE},
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}

CONVERSIONS: dict[tuple[str, str, str], tuple[Convert, Convert, dict[str, str]]] = {
    ("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition"): (to_definition, to_old_definition, {}),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): (to_v2, to_v1, {}),
    ("events.k8s.io", "v1", "Event"): (to_core_v1, to_events_v1, _EVENT_FIELDS),
}
"""Served versions that are not the stored one: to it, from it, and its names of selectable fields → the stored
one's."""
