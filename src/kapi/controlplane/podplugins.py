"""The admission plug-ins for Pods, nodes and namespaces, made of the parts of a server.

Those that run only where they are asked for are imported when they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.server.admission.defaultingressclass import DefaultIngressClass
from kapi.server.admission.noderestriction.plugin import NodeRestriction
from kapi.server.admission.nodetaint import TaintNodesByCondition
from kapi.server.admission.pods.declaredfeatures import NodeDeclaredFeatureValidator
from kapi.server.admission.pods.resize import PodResizeValidator
from kapi.server.admission.pods.runtimeclass import RuntimeClass
from kapi.server.admission.pods.tolerationseconds import DefaultTolerationSeconds
from kapi.server.admission.pods.topologylabels import PodTopologyLabels
from kapi.server.admission.podsecurity.configuration import (
    KINDS,
    PodSecurityConfiguration,
    configuration_errors,
    configuration_of,
)
from kapi.server.admission.podsecurity.plugin import PodSecurity
from kapi.server.configfile import ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.controlplane.admission import Parts
    from kapi.server.admission.chain import Plugin

_SELECTORS: Final = "podNodeSelectorPluginConfig"


def _pod_security(parts: Parts) -> Plugin:
    configuration = PodSecurityConfiguration()
    if (given := parts.configurations.get("PodSecurity")) is not None:
        file, field, obj = given.read(KINDS)
        prefix = f"{field}." if field else ""
        file.refuse(error._replace(field=f"{prefix}{error.field}") for error in configuration_errors(obj))
        configuration = configuration_of(obj)
    return PodSecurity(parts.catalog, configuration, parts.registry, parts.clock)


def _pod_toleration_restriction(parts: Parts) -> Plugin:
    from kapi.server.admission.pods import tolerationrestriction

    given = parts.configurations.get("PodTolerationRestriction")
    if given is None:
        return tolerationrestriction.PodTolerationRestriction(parts.catalog)
    file, field, obj = given.read(tolerationrestriction.KINDS)
    prefix = f"{field}." if field else ""
    file.refuse(tolerationrestriction.configuration_errors(prefix, obj))
    default, allowed = obj.get("default") or (), obj.get("whitelist") or ()
    return tolerationrestriction.PodTolerationRestriction(parts.catalog, default, allowed)


def _pod_node_selector(parts: Parts) -> Plugin:
    from kapi.server.admission.pods.nodeselector import PodNodeSelector

    given = parts.configurations.get("PodNodeSelector")
    selectors = (given.read_untyped() if given is not None else {}).get(_SELECTORS) or {}
    if not isinstance(selectors, dict) or not all(isinstance(value, str) for value in selectors.values()):
        raise ConfigFileError(f"PodNodeSelector: {_SELECTORS}: must be node selectors by the names of namespaces")
    return PodNodeSelector(parts.catalog, selectors)


def _always_pull_images(parts: Parts) -> Plugin:
    from kapi.server.admission.pods.pullpolicy import AlwaysPullImages

    return AlwaysPullImages()


def _extended_resource_toleration(parts: Parts) -> Plugin:
    from kapi.server.admission.pods.extendedresources import ExtendedResourceToleration

    return ExtendedResourceToleration()


def _limit_anti_affinity(parts: Parts) -> Plugin:
    from kapi.server.admission.pods.antiaffinity import LimitPodHardAntiAffinityTopology

    return LimitPodHardAntiAffinityTopology()


def _owner_references(parts: Parts) -> Plugin:
    from kapi.server.admission.ownerreferences import OwnerReferencesPermissionEnforcement

    return OwnerReferencesPermissionEnforcement(parts.catalog, parts.authorizer)


def _deny_external_ips(parts: Parts) -> Plugin:
    from kapi.server.admission.externalips import DenyServiceExternalIPs

    return DenyServiceExternalIPs()


def _namespace_exists(parts: Parts) -> Plugin:
    from kapi.server.admission.namespaces import NamespaceExists

    return NamespaceExists(parts.catalog)


def _namespace_auto_provision(parts: Parts) -> Plugin:
    from kapi.server.admission.namespaces import NamespaceAutoProvision

    return NamespaceAutoProvision(parts.catalog)


def _always_admit(parts: Parts) -> Plugin:
    from kapi.server.admission.fixed import AlwaysAdmit

    return AlwaysAdmit()


def _always_deny(parts: Parts) -> Plugin:
    from kapi.server.admission.fixed import AlwaysDeny

    return AlwaysDeny()


POD_PLUGINS: Final[Mapping[str, Callable[[Parts], Plugin]]] = {
    "AlwaysAdmit": _always_admit,
    "AlwaysDeny": _always_deny,
    "AlwaysPullImages": _always_pull_images,
    "ClusterTrustBundleAttest": _always_admit,
    "DefaultIngressClass": lambda parts: DefaultIngressClass(parts.catalog),
    "DefaultTolerationSeconds": lambda parts: DefaultTolerationSeconds(*parts.toleration_seconds),
    "DenyServiceExternalIPs": _deny_external_ips,
    "ExtendedResourceToleration": _extended_resource_toleration,
    "JobValidation": _always_admit,
    "LimitPodHardAntiAffinityTopology": _limit_anti_affinity,
    "NamespaceAutoProvision": _namespace_auto_provision,
    "NamespaceExists": _namespace_exists,
    "NodeDeclaredFeatureValidator": lambda parts: NodeDeclaredFeatureValidator(parts.catalog),
    "NodeRestriction": lambda parts: NodeRestriction(parts.catalog, parts.authorizer),
    "OwnerReferencesPermissionEnforcement": _owner_references,
    "PodGroupProtection": _always_admit,
    "PodGroupWorkloadExists": _always_admit,
    "PodNodeSelector": _pod_node_selector,
    "PodResizeValidator": lambda parts: PodResizeValidator(parts.catalog),
    "PodSecurity": _pod_security,
    "PodTolerationRestriction": _pod_toleration_restriction,
    "PodTopologyLabels": lambda parts: PodTopologyLabels(parts.catalog.store("nodes")),
    "RuntimeClass": lambda parts: RuntimeClass(parts.catalog),
    "TaintNodesByCondition": lambda parts: TaintNodesByCondition(),
}
"""By name. Those that always admit belong to features that are off in Kubernetes v1.36, unless they are switched on."""
