"""The priorities of group versions, which order discovery: those of their APIServices, or kube-apiserver's defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.versions import by_priority
from kapi.server.aggregation.apiservices import OWN_GROUP, Priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.server.aggregation.apiservices import GroupVersionKey

_CUSTOM: Final = Priority(1000, 100)
_OWN: Final = Priority(20001, 0)
"""Above every other, so that the group of APIServices comes first."""

# Of groups, and of their versions where it is not 15.
_GROUPS: Final = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
_VERSIONS: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("admissionregistration.k8s.io", "v1alpha1"): 1,
    ("apiextensions.k8s.io", "v1beta1"): 9,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}


def default_priority(group: str, version: str) -> Priority:
    """Return the priority of a group version that this server serves."""
    if group == OWN_GROUP:
        return _OWN
    if group not in _GROUPS:
        return _CUSTOM
    return Priority(_GROUPS[group], _VERSIONS.get((group, version), 15))


def ordered(keys: Iterable[GroupVersionKey], priorities: Mapping[GroupVersionKey, Priority]) -> dict[str, list[str]]:
    """Return groups and their versions in the order of discovery.

    A group is where its highest priority puts it. Equal groups are in the order of the names of their APIServices,
    equal versions in that of Kubernetes: v2, v1, v2beta1.
    """

    def priority(key: GroupVersionKey) -> Priority:
        return priorities.get(key) or default_priority(*key)

    def place(key: GroupVersionKey) -> tuple[int, str]:
        return -priority(key).group, f"{key[1]}.{key[0]}"

    groups: dict[str, list[str]] = {}
    for group, version in sorted(keys, key=place):
        groups.setdefault(group, []).append(version)
    for group, versions in groups.items():
        versions.sort(key=lambda version: (-priority((group, version)).version, by_priority(version)))
    return groups
