"""Annotations that named AppArmor and seccomp profiles before there were fields for them.

An AppArmor annotation of a Pod is copied to the field. A seccomp annotation has no effect any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.registry.kinds.core.pod.security import check_app_armor, each_container

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_LOCAL: Final = "localhost/"

_USE_APP_ARMOR: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_USE_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'


def copy_app_armor_profiles(pod: Object) -> list[str]:
    """Set the AppArmor profiles of containers that only annotations name; returns warnings about the annotations."""
    annotations = pod["metadata"].get("annotations")
    if not annotations or not any(key.startswith(APP_ARMOR) for key in annotations):
        return []
    spec = pod["spec"]
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    warnings = []
    pod_profile = (spec.get("securityContext") or {}).get("appArmorProfile")
    for _, container in each_container(spec, "spec"):
        key = APP_ARMOR + container.get("name", "")
        context = container.get("securityContext") or {}
        if key not in annotations or context.get("appArmorProfile") is not None:
            continue
        profile = _profile(annotations[key])
        if profile is not None and profile == pod_profile:
            continue
        if profile is not None:
            container["securityContext"] = {**context, "appArmorProfile": profile}
        warnings.append(f"metadata.annotations[{key}]: {_USE_APP_ARMOR}")
    return warnings


def _profile(annotation: str) -> Spec | None:
    """Return the profile that an annotation names, None if that is not valid."""
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    if not annotation.startswith(_LOCAL):
        return None
    profile = {"type": "Localhost", "localhostProfile": annotation.removeprefix(_LOCAL)}
    errors: Errors = []
    check_app_armor(errors, "", profile)
    return None if errors else profile


def pod_profile_warnings(path: str, annotations: dict[str, str], spec: Spec) -> Iterator[str]:
    """Yield the warning about the annotation for a whole Pod."""
    if _SECCOMP_POD in annotations and (spec.get("securityContext") or {}).get("seccompProfile") is None:
        yield f"{path}metadata.annotations[{_SECCOMP_POD}]: {_USE_SECCOMP}"


def container_profile_warnings(path: str, annotations: dict[str, str], spec: Spec, container: Spec) -> Iterator[str]:
    """Yield the warnings about the annotations for a container; those of Pods about AppArmor come from the copy."""
    context, name = container.get("securityContext") or {}, container.get("name", "")
    if context.get("seccompProfile") is None and (key := _SECCOMP_CONTAINER + name) in annotations:
        yield f"{path}metadata.annotations[{key}]: {_USE_SECCOMP}"
    if path and context.get("appArmorProfile") is None and (key := APP_ARMOR + name) in annotations:
        pod_profile = (spec.get("securityContext") or {}).get("appArmorProfile")
        if pod_profile is None or pod_profile != _profile(annotations[key]):
            yield f"{path}metadata.annotations[{key}]: {_USE_APP_ARMOR}"
