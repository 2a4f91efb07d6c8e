"""The configuration of PodSecurity: PodSecurityConfiguration, with the policy of namespaces without labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api import names
from kapi.api.fielderror import duplicate, invalid
from kapi.server.admission.podsecurity.levels import (
    LATEST,
    LEVEL_DETAIL,
    PRIVILEGED,
    VERSION_DETAIL,
    LevelVersion,
    Policy,
    is_level,
    is_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.server.configfile import Shape

_SHAPE: Final[Shape] = {
    "defaults": {
        "enforce": str,
        "enforce-version": str,
        "audit": str,
        "audit-version": str,
        "warn": str,
        "warn-version": str,
    },
    "exemptions": {"usernames": [str], "namespaces": [str], "runtimeClasses": [str]},
}
KINDS: Final = {
    (f"pod-security.admission.config.k8s.io/{version}", "PodSecurityConfiguration"): _SHAPE
    for version in ("v1", "v1beta1", "v1alpha1")
}
"""The objects that configure PodSecurity, and their fields."""


class PodSecurityConfiguration(NamedTuple):
    """The policy where labels do not say otherwise, and what is exempt from all policies."""

    defaults: Policy = Policy()
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def configuration_of(obj: Object) -> PodSecurityConfiguration:
    """Return the configuration that a valid PodSecurityConfiguration describes."""
    defaults, exemptions = obj.get("defaults") or {}, obj.get("exemptions") or {}
    enforce, audit, warn = (
        LevelVersion(defaults.get(mode) or PRIVILEGED, defaults.get(f"{mode}-version") or LATEST)
        for mode in ("enforce", "audit", "warn")
    )
    return PodSecurityConfiguration(
        Policy(enforce, audit, warn),
        *(frozenset(exemptions.get(field) or ()) for field in ("usernames", "namespaces", "runtimeClasses")),
    )


def configuration_errors(obj: Object) -> Iterator[FieldError]:
    """Yield what is wrong with a PodSecurityConfiguration."""
    defaults, exemptions = obj.get("defaults") or {}, obj.get("exemptions") or {}
    for mode in ("enforce", "warn", "audit"):
        level, version = defaults.get(mode) or PRIVILEGED, defaults.get(f"{mode}-version") or LATEST
        if not is_level(level):
            yield invalid(f"defaults.{mode}", level, LEVEL_DETAIL)
        if not is_version(version):
            yield invalid(f"defaults.{mode}-version", version, VERSION_DETAIL)
    yield from _list_errors(exemptions, "namespaces", names.dns_label)
    yield from _list_errors(exemptions, "runtimeClasses", names.dns_subdomain)
    yield from _list_errors(exemptions, "usernames", lambda name: [] if name else ["username must not be empty"])


def _list_errors(exemptions: Object, field: str, rule: Callable[[str], list[str]]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, value in enumerate(exemptions.get(field) or ()):
        problems = rule(value)
        if problems:
            yield invalid(f"exemptions.{field}[{index}]", value, ", ".join(problems))
        elif value in seen:
            yield duplicate(f"exemptions.{field}[{index}]", value)
        seen.add(value)
