"""The labels of Nodes that kubelets may set: those outside kubernetes.io and k8s.io, and a few of those inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_RESTRICTED: Final = "node-restriction.kubernetes.io"
_KUBELET: Final = frozenset({
    "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "kubernetes.io/os", "kubernetes.io/arch",
    "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
})  # fmt: skip
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBERNETES_DOMAINS: Final = ("kubernetes.io", "k8s.io")


def forbidden_changes(labels: Mapping[str, str] | None, old: Mapping[str, str] | None) -> list[str]:
    """Return the labels that were added, changed or removed and are not for kubelets to set, sorted."""
    now, before = labels or {}, old or {}
    changed = (key for key in {**now, **before} if now.get(key) != before.get(key))
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    if _is_in(domain, (_RESTRICTED,)):
        return True
    return _is_in(domain, _KUBERNETES_DOMAINS) and key not in _KUBELET and not _is_in(domain, _KUBELET_DOMAINS)


def _is_in(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
