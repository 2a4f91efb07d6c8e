"""The users that the built-in controllers act as.

Each controller acts as the service account that kube-controller-manager uses for it, and has the permissions of the
ClusterRole `system:controller:<account>`, no more. What kube-apiserver does itself is done as `system:apiserver`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kapi.controlplane.controllers import names
from kapi.server.authz.superuser import MASTERS


class Identity(NamedTuple):
    """The name and groups of a user, as the in-process transport is given them."""

    user: str
    groups: tuple[str, ...] = ()


def service_account(name: str, namespace: str = "kube-system") -> Identity:
    """Return the identity of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups)


APISERVER: Final = Identity("system:apiserver", (MASTERS,))
CONTROLLER_MANAGER: Final = Identity("system:kube-controller-manager")
"""The manager itself: its events, its Lease, and the tokens of service accounts, for which no account can be used."""

ACCOUNTS: Final = {
    names.GARBAGE_COLLECTOR: "generic-garbage-collector",
    names.NAMESPACE: "namespace-controller",
    names.SERVICEACCOUNT: "service-account-controller",
    names.ROOT_CA_CERTIFICATE_PUBLISHER: "root-ca-cert-publisher",
    names.RESOURCEQUOTA: "resourcequota-controller",
    names.TTL_AFTER_FINISHED: "ttl-after-finished-controller",
    names.CRONJOB: "cronjob-controller",
    names.ENDPOINTS: "endpoint-controller",
    names.ENDPOINTSLICE: "endpointslice-controller",
    names.ENDPOINTSLICE_MIRRORING: "endpointslicemirroring-controller",
    names.PERSISTENTVOLUMECLAIM_PROTECTION: "pvc-protection-controller",
    names.PERSISTENTVOLUME_PROTECTION: "pv-protection-controller",
    names.VOLUMEATTRIBUTESCLASS_PROTECTION: "volumeattributesclass-protection-controller",
    names.DISRUPTION: "disruption-controller",
    names.POD_GARBAGE_COLLECTOR: "pod-garbage-collector",
    names.SERVICE_CIDR: "service-cidrs-controller",
    names.CLUSTERROLE_AGGREGATION: "clusterrole-aggregation-controller",
    names.CERTIFICATE_SIGNING: "certificate-controller",
    names.CERTIFICATE_APPROVING: "certificate-controller",
    names.CERTIFICATE_CLEANER: "certificate-controller",
    names.VALIDATINGADMISSIONPOLICY_STATUS: "validatingadmissionpolicy-status-controller",
}
"""The service account of each controller that has one."""


def identity_of(controller: str) -> Identity:
    """Return the identity of a controller by its name; that of the server for what kube-apiserver does itself."""
    if controller == names.SERVICEACCOUNT_TOKEN:
        return CONTROLLER_MANAGER
    account = ACCOUNTS.get(controller)
    return APISERVER if account is None else service_account(account)
