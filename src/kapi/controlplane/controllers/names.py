"""The names of the built-in controllers, and which of them `--controllers` enables.

Names and aliases are kube-controller-manager's (`cmd/kube-controller-manager/names`). `event-ttl-controller` is ours:
Kubernetes leaves the expiry of Events to leases of etcd.
"""

from __future__ import annotations

from typing import Final

from kapi.controlplane.options import OptionError

GARBAGE_COLLECTOR: Final = "garbage-collector-controller"
NAMESPACE: Final = "namespace-controller"
SERVICEACCOUNT: Final = "serviceaccount-controller"
ROOT_CA_CERTIFICATE_PUBLISHER: Final = "root-ca-certificate-publisher-controller"
SERVICEACCOUNT_TOKEN: Final = "serviceaccount-token-controller"  # noqa: S105 - a name, not a token
RESOURCEQUOTA: Final = "resourcequota-controller"
TTL_AFTER_FINISHED: Final = "ttl-after-finished-controller"
CRONJOB: Final = "cronjob-controller"
EVENT_TTL: Final = "event-ttl-controller"
ENDPOINTS: Final = "endpoints-controller"
ENDPOINTSLICE: Final = "endpointslice-controller"
ENDPOINTSLICE_MIRRORING: Final = "endpointslice-mirroring-controller"
PERSISTENTVOLUMECLAIM_PROTECTION: Final = "persistentvolumeclaim-protection-controller"
PERSISTENTVOLUME_PROTECTION: Final = "persistentvolume-protection-controller"
VOLUMEATTRIBUTESCLASS_PROTECTION: Final = "volumeattributesclass-protection-controller"
DISRUPTION: Final = "disruption-controller"
POD_GARBAGE_COLLECTOR: Final = "pod-garbage-collector-controller"
SERVICE_CIDR: Final = "service-cidr-controller"
CLUSTERROLE_AGGREGATION: Final = "clusterrole-aggregation-controller"
CERTIFICATE_SIGNING: Final = "certificatesigningrequest-signing-controller"
CERTIFICATE_APPROVING: Final = "certificatesigningrequest-approving-controller"
CERTIFICATE_CLEANER: Final = "certificatesigningrequest-cleaner-controller"
VALIDATINGADMISSIONPOLICY_STATUS: Final = "validatingadmissionpolicy-status-controller"

ALIASES: Final = {
    GARBAGE_COLLECTOR: ("garbagecollector",),
    NAMESPACE: ("namespace",),
    SERVICEACCOUNT: ("serviceaccount",),
    ROOT_CA_CERTIFICATE_PUBLISHER: ("root-ca-cert-publisher",),
    SERVICEACCOUNT_TOKEN: ("serviceaccount-token",),
    RESOURCEQUOTA: ("resourcequota",),
    TTL_AFTER_FINISHED: ("ttl-after-finished",),
    CRONJOB: ("cronjob",),
    EVENT_TTL: (),
    ENDPOINTS: ("endpoint",),
    ENDPOINTSLICE: ("endpointslice",),
    ENDPOINTSLICE_MIRRORING: ("endpointslicemirroring",),
    PERSISTENTVOLUMECLAIM_PROTECTION: ("pvc-protection",),
    PERSISTENTVOLUME_PROTECTION: ("pv-protection",),
    VOLUMEATTRIBUTESCLASS_PROTECTION: (),
    DISRUPTION: ("disruption",),
    POD_GARBAGE_COLLECTOR: ("podgc",),
    SERVICE_CIDR: (),
    CLUSTERROLE_AGGREGATION: ("clusterrole-aggregation",),
    CERTIFICATE_SIGNING: ("csrsigning",),
    CERTIFICATE_APPROVING: ("csrapproving",),
    CERTIFICATE_CLEANER: ("csrcleaner",),
    VALIDATINGADMISSIONPOLICY_STATUS: (),
}
"""Every controller, with the names it had in older versions of Kubernetes."""

NAMES: Final = frozenset(ALIASES)

_CANONICAL: Final = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}


def enabled_controllers(text: str) -> frozenset[str]:
    """The controllers that a value of `--controllers` enables.

    `*` stands for all, `name` enables a controller, `-name` disables it; the first word about a controller counts. An
    empty list enables none. With nothing but `-name` all others are enabled, though kube-controller-manager wants
    `*,-name`. It refuses `-*`, and so do we.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    choices: dict[str, bool] = {}
    for word in words:
        if word == "*":
            continue
        alias = word.removeprefix("-")
        name = _CANONICAL.get(alias)
        if name is None:
            # The words of kube-controller-manager.
            hint = "; to enable none: --controllers=" if word == "-*" else ""
            raise OptionError(f'--controllers: "{alias}" is not in the list of known controllers: {_listed()}{hint}')
        choices.setdefault(name, not word.startswith("-"))
    default = "*" in words or (bool(words) and not any(choices.values()))
    return frozenset(name for name in NAMES if choices.get(name, default))


def _listed() -> str:
    return ", ".join(sorted(NAMES))
