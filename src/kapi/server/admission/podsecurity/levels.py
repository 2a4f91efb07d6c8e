"""Levels and versions of the Pod Security Standards, and the policy that the labels of a namespace ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.fielderror import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.fielderror import FieldError

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LATEST: Final = "latest"

PREFIX: Final = "pod-security.kubernetes.io/"
"""The prefix of the labels of namespaces, and of the annotations of audit events."""
ENFORCE: Final = f"{PREFIX}enforce"
ENFORCE_VERSION: Final = f"{PREFIX}enforce-version"
AUDIT: Final = f"{PREFIX}audit"
AUDIT_VERSION: Final = f"{PREFIX}audit-version"
WARN: Final = f"{PREFIX}warn"
WARN_VERSION: Final = f"{PREFIX}warn-version"

LABELS: Final = frozenset({ENFORCE, ENFORCE_VERSION, AUDIT, AUDIT_VERSION, WARN, WARN_VERSION})

LEVEL_DETAIL: Final = "must be one of privileged, baseline, restricted"
VERSION_DETAIL: Final = 'must be "latest" or "v1.x"'

_ORDER: Final = {PRIVILEGED: 0, BASELINE: 1, RESTRICTED: 2}
_MINOR: Final = re.compile(r"v1\.([0-9]|[1-9][0-9]*)", re.ASCII).fullmatch
_MAX_MINOR: Final = 2**63 - 1
_MAX_MINOR_DIGITS: Final = 19


class LevelVersion(NamedTuple):
    """A level of the standards at a version of Kubernetes: `latest` or `v1.x`."""

    level: str
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def is_equivalent(self, other: LevelVersion) -> bool:
        """Return True if both ask for the same; the version of `privileged` is without effect."""
        return self == other or self.level == other.level == PRIVILEGED

    @property
    def minor(self) -> int | None:
        """The x of `v1.x`; None for `latest`."""
        return None if self.version == LATEST else int(self.version[3:])


class Policy(NamedTuple):
    """What is enforced, audited and warned about in a namespace."""

    enforce: LevelVersion = LevelVersion(PRIVILEGED)
    audit: LevelVersion = LevelVersion(PRIVILEGED)
    warn: LevelVersion = LevelVersion(PRIVILEGED)

    @property
    def is_privileged(self) -> bool:
        """True if nothing is refused, audited or warned about."""
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED

    def is_equivalent(self, other: Policy) -> bool:
        """Return True if both ask for the same."""
        return all(mine.is_equivalent(its) for mine, its in zip(self, other, strict=True))


def is_level(text: str) -> bool:
    """Return True for the name of a level."""
    return text in _ORDER


def is_version(text: str) -> bool:
    """Return True for `latest` and `v1.x`."""
    if text == LATEST:
        return True
    found = _MINOR(text)
    return found is not None and len(found[1]) <= _MAX_MINOR_DIGITS and int(found[1]) <= _MAX_MINOR


def is_stricter(level: str, other: str) -> bool:
    """Return True if a level allows less than another."""
    return _ORDER[level] > _ORDER[other]


class _Labels:
    """The labels of a namespace, read one by one; what is wrong with them is collected."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.errors: list[FieldError] = []

    def level(self, label: str, default: str, otherwise: str) -> str:
        """Return the level that a label names, or `otherwise` when that is no level."""
        text = self.labels.get(label)
        if text is None:
            return default
        if is_level(text):
            return text
        self.errors.append(invalid(f"metadata.labels[{label}]", text, LEVEL_DETAIL))
        return otherwise

    def version(self, label: str, default: str) -> str:
        """Return the version that a label names, `latest` when that is no version."""
        text = self.labels.get(label)
        if text is None:
            return default
        if is_version(text):
            return text
        self.errors.append(invalid(f"metadata.labels[{label}]", text, VERSION_DETAIL))
        return LATEST


def policy_of(labels: Mapping[str, str] | None, defaults: Policy) -> tuple[Policy, list[FieldError]]:
    """Return the policy that the labels of a namespace ask for, and what is wrong with the labels.

    A wrong level is restricted where it is enforced, and privileged where it is audited or warned about.
    """
    if not labels or LABELS.isdisjoint(labels):
        return defaults, []
    read = _Labels(labels)
    enforce, audit, warn = defaults
    enforce = LevelVersion(
        read.level(ENFORCE, enforce.level, RESTRICTED), read.version(ENFORCE_VERSION, enforce.version)
    )
    audit = LevelVersion(read.level(AUDIT, audit.level, PRIVILEGED), read.version(AUDIT_VERSION, audit.version))
    warn = LevelVersion(read.level(WARN, warn.level, PRIVILEGED), read.version(WARN_VERSION, warn.version))
    if WARN not in labels and is_level(labels.get(ENFORCE, "")) and is_stricter(enforce.level, warn.level):
        # What is enforced is also warned about, so that the author of a workload sees why its Pods are refused.
        warn = LevelVersion(enforce.level, warn.version if WARN_VERSION in labels else enforce.version)
    return Policy(enforce, audit, warn), read.errors
