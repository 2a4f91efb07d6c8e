"""The strategies of the built-in kinds, with their special stores and the conversions between their versions.

`kapi.registry.kinds` has a package or module per API group; each module lists its kinds in `STRATEGIES`. A kind that is
in none of them has the default strategy and is validated by its schema alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.registry.custom.definitionstore import DefinitionStore
from kapi.registry.kinds import (
    admissionpolicies,
    admissionregistration,
    apiregistration,
    certificates,
    coordination,
    discovery,
    flowcontrol,
    node,
    policy,
    rbac,
    resource,
    scheduling,
)
from kapi.registry.kinds.apiextensions import definitions
from kapi.registry.kinds.apiextensions.v1beta1 import from_v1 as to_old_definition
from kapi.registry.kinds.apiextensions.v1beta1 import to_v1 as to_definition
from kapi.registry.kinds.apps import controllerrevisions, daemonsets, deployments, replicasets, statefulsets
from kapi.registry.kinds.autoscaling import horizontal
from kapi.registry.kinds.autoscaling.conversion import to_v1, to_v2
from kapi.registry.kinds.batch import cronjobs, jobs
from kapi.registry.kinds.core import (
    configmaps,
    endpoints,
    events,
    limitranges,
    namespaces,
    nodes,
    persistentvolumeclaims,
    persistentvolumes,
    replicationcontrollers,
    resourcequotas,
    secrets,
    serviceaccounts,
)
from kapi.registry.kinds.core.events import to_core_v1, to_events_v1
from kapi.registry.kinds.core.pod import pods
from kapi.registry.kinds.core.service.records import ServiceRecords
from kapi.registry.kinds.core.service.services import ServiceStrategy
from kapi.registry.kinds.networking import ingresses, networkpolicies, servicecidrs
from kapi.registry.kinds.storage import attachments, classes, csi
from kapi.registry.namespacestore import NamespaceStore
from kapi.schema.builtin.definitionsv1beta1 import definition_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import CacheHub
    from kapi.registry.store import Store
    from kapi.registry.strategy import Strategy
    from kapi.schema.builtin.typed import ObjectSchema

    Convert = Callable[[Object], Object]

_MODULES = (
    # core
    configmaps,
    endpoints,
    events,
    limitranges,
    namespaces,
    nodes,
    persistentvolumeclaims,
    persistentvolumes,
    pods,
    replicationcontrollers,
    resourcequotas,
    secrets,
    serviceaccounts,
    # apps
    controllerrevisions,
    daemonsets,
    deployments,
    replicasets,
    statefulsets,
    # batch
    cronjobs,
    jobs,
    # networking.k8s.io
    ingresses,
    networkpolicies,
    servicecidrs,
    # storage.k8s.io
    attachments,
    classes,
    csi,
    # one module each
    admissionpolicies,
    admissionregistration,
    apiregistration,
    certificates,
    coordination,
    definitions,
    discovery,
    flowcontrol,
    horizontal,
    node,
    policy,
    rbac,
    resource,
    scheduling,
)


def strategies(hub: CacheHub, service_cidrs: Sequence[str]) -> dict[tuple[str, str], Strategy]:
    """Return the strategies by (group, kind). That of Service reads what is allocated from the watch cache."""
    gathered = {kind: strategy for module in _MODULES for kind, strategy in module.STRATEGIES.items()}
    return {**gathered, ("", "Service"): ServiceStrategy(ServiceRecords(hub, service_cidrs))}


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
