"""The options of a control plane that are about admission, under the names of kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ORDER: Final = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "Initializers",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""All plug-ins of kube-apiserver, in the order in which they run; Initializers is where it was until v1.13."""

DEFAULT_OFF: Final = frozenset(
    {
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    }
)
"""The plug-ins that run only where they are asked for. NodeRestriction is on, as the mode Node of authorization is."""


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """The admission plug-ins of a server."""

    enabled: frozenset[str] = frozenset()
    """Plug-ins that are off by default."""
    disabled: frozenset[str] = frozenset()
    config_file: Path | None = None
    """An AdmissionConfiguration with the configuration of single plug-ins."""
    toleration_seconds: tuple[int, int] = (300, 300)
    """How long Pods stay on a node that is not ready, and on one that is not reachable."""

    @property
    def names(self) -> tuple[str, ...]:
        """The plug-ins that run, in order."""
        off = (DEFAULT_OFF - self.enabled) | self.disabled
        return tuple(name for name in ORDER if name not in off)


def parse_admission(
    *,
    enable: str = "",
    disable: str = "",
    config_file: Path | None = None,
    toleration_seconds: tuple[int, int] = (300, 300),
) -> AdmissionOptions:
    """Read the flags.

    Raises:
        ValueError: they cannot be used; the message says what would be valid.
    """
    enabled, disabled = _names("--enable-admission-plugins", enable), _names("--disable-admission-plugins", disable)
    both = sorted(enabled & disabled)
    if both:
        raise ValueError(f"[{' '.join(both)}] in --enable-admission-plugins and --disable-admission-plugins overlapped")
    return AdmissionOptions(enabled, disabled, config_file, toleration_seconds)


def _names(flag: str, text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    for name in sorted(names):
        if name not in ORDER:
            raise ValueError(f'{flag}: plugin "{name}" is unknown; the plug-ins are {", ".join(sorted(ORDER))}')
    return names
