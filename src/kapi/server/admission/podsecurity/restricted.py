"""The checks that the restricted level adds: Pods are hardened by what is best practice today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.server.admission.podsecurity.baseline import PROFILES, seccomp_profile_1_19
from kapi.server.admission.podsecurity.pod import Violation, blamed, named, plural, quoted

if TYPE_CHECKING:
    from kapi.server.admission.podsecurity.pod import PodView

_ALLOWED_VOLUMES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_RESTRICTED_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def allow_privilege_escalation_1_8(pod: PodView) -> Violation | None:
    """A process may not gain more privileges than its parent."""
    wrong = [one.name for one in pod.containers if one.security.get("allowPrivilegeEscalation") is not False]
    if not wrong:
        return None
    detail = f"{named('container', wrong)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def allow_privilege_escalation_1_25(pod: PodView) -> Violation | None:
    """A process may not gain more privileges than its parent; Pods for Windows cannot say so."""
    return None if pod.is_windows else allow_privilege_escalation_1_8(pod)


def capabilities_restricted_1_22(pod: PodView) -> Violation | None:
    """All capabilities are dropped, and only NET_BIND_SERVICE is added."""
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for container in pod.containers:
        capabilities = container.security.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(container.name)
        beyond = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
        if beyond:
            adding.append(container.name)
            added |= beyond
    details = [f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        values = quoted(sorted(added))
        details.append(f"{named('container', adding)} must not include {values} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def capabilities_restricted_1_25(pod: PodView) -> Violation | None:
    """All capabilities are dropped, and only NET_BIND_SERVICE is added; Pods for Windows have none."""
    return None if pod.is_windows else capabilities_restricted_1_22(pod)


def restricted_volumes(pod: PodView) -> Violation | None:
    """Volumes are of types that the API server or a CSI driver provides."""
    wrong: list[str] = []
    types: set[str] = set()
    for volume in pod.spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _ALLOWED_VOLUMES):
            continue
        wrong.append(volume.get("name", ""))
        types.add(next((kind for kind in _RESTRICTED_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not wrong:
        return None
    verb = "uses" if len(wrong) == 1 else "use"
    what = plural("restricted volume type", len(types))
    return Violation("restricted volume types", f"{named('volume', wrong)} {verb} {what} {quoted(sorted(types))}")


def run_as_non_root_1_0(pod: PodView) -> Violation | None:
    """Containers are required to run as another user than root."""
    reason = "runAsNonRoot != true"
    wrong = [name for name, value in pod.setters("runAsNonRoot") if not value]
    if wrong:
        return Violation(reason, f"{blamed(wrong)} must not set securityContext.runAsNonRoot=false")
    if pod.security.get("runAsNonRoot"):
        return None
    unset = [one.name for one in pod.containers if one.security.get("runAsNonRoot") is None]
    if not unset:
        return None
    return Violation(reason, f"pod or {named('container', unset)} must set securityContext.runAsNonRoot=true")


def run_as_non_root_1_35(pod: PodView) -> Violation | None:
    """Containers are required to run as another user than root, but for Pods in a user namespace."""
    return None if pod.has_user_namespace else run_as_non_root_1_0(pod)


def run_as_user_1_23(pod: PodView) -> Violation | None:
    """No user is set to root."""
    wrong = [name for name, value in pod.setters("runAsUser") if value == 0]
    return Violation("runAsUser=0", f"{blamed(wrong)} must not set runAsUser=0") if wrong else None


def run_as_user_1_35(pod: PodView) -> Violation | None:
    """No user is set to root, but for Pods in a user namespace."""
    return None if pod.has_user_namespace else run_as_user_1_23(pod)


def seccomp_profile_restricted_1_19(pod: PodView) -> Violation | None:
    """A seccomp profile is set for every container, and is that of the runtime or of the node."""
    violation = seccomp_profile_1_19(pod)
    if violation is not None or (pod.security.get("seccompProfile") or {}).get("type") in PROFILES:
        return violation
    unset = [one.name for one in pod.containers if one.security.get("seccompProfile") is None]
    if not unset:
        return None
    where = f"pod or {named('container', unset)}"
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"{where} {what}")


def seccomp_profile_restricted_1_25(pod: PodView) -> Violation | None:
    """A seccomp profile is set for every container; Pods for Windows have none."""
    return None if pod.is_windows else seccomp_profile_restricted_1_19(pod)
