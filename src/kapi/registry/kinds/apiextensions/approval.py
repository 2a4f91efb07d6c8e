"""Groups that belong to the Kubernetes community, and the annotation that lets a definition use one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from kapi.api.go.text import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION: Final = "api-approved.kubernetes.io"
_DOMAINS: Final = ("k8s.io", "kubernetes.io")
_PROPOSAL: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_MUST: Final = f"protected groups must have approval annotation {quote(ANNOTATION)}"

MISSING, INVALID, APPROVED, BYPASSED = (
    "MissingAnnotation",
    "InvalidAnnotation",
    "ApprovedAnnotation",
    "UnapprovedAnnotation",
)
"""The states of the approval annotation, which are also the reasons of its condition."""


class Approval(NamedTuple):
    """The state of the approval annotation of a definition, and a message about it."""

    state: str
    message: str


def is_protected(group: str) -> bool:
    """Return True if a group is protected: a subdomain of k8s.io or kubernetes.io."""
    return any(group == domain or group.endswith(f".{domain}") for domain in _DOMAINS)


def approval_of(annotations: Mapping[str, str] | None) -> Approval:
    """Return what the annotations say about the approval of a definition."""
    value = (annotations or {}).get(ANNOTATION, "")
    if not value:
        return Approval(MISSING, f"{_MUST}, {_PROPOSAL}")
    if value.startswith("unapproved"):
        return Approval(BYPASSED, f"not approved: {quote(value)}")
    if _is_url(value):
        return Approval(APPROVED, f"approved in {value}")
    return Approval(INVALID, f'{_MUST} with either a URL or a reason starting with "unapproved", {_PROPOSAL}')


def _is_url(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
