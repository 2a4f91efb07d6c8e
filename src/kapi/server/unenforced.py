"""Kinds that are stored and served but not enforced by this server.

A client that creates one must not take the success for protection, so every create, update and patch of such an object
is answered with a `Warning` header. A row is deleted with the change that enforces the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.api.meta import GroupKind
from kapi.codec import json
from kapi.server.transport.message import Body, Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.registry.resource import Resource

_ADMISSION: Final = "admissionregistration.k8s.io"

_NO_WEBHOOKS: Final = "admission webhooks are not called by this server"
_NO_POLICIES: Final = "admission policies are not evaluated by this server"
_NO_QUOTA: Final = "resource quotas are not enforced by this server: only their status is kept up to date"

UNENFORCED: Final[Mapping[GroupKind, str]] = {
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): _NO_WEBHOOKS,
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): _NO_WEBHOOKS,
    GroupKind(_ADMISSION, "MutatingAdmissionPolicy"): _NO_POLICIES,
    GroupKind(_ADMISSION, "MutatingAdmissionPolicyBinding"): _NO_POLICIES,
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicy"): _NO_POLICIES,
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicyBinding"): _NO_POLICIES,
    GroupKind(
        "", "ResourceQuota"
    ): "resource quotas are not enforced by this server: only their status is kept up to date",
    GroupKind("", "LimitRange"): "limit ranges are not enforced by this server",
}
_REMOTE_API_SERVICES: Final = "requests are not forwarded to other API servers by this server"

_WRITES = frozenset({"create", "update", "patch"})


def unenforced_warning(verb: str, subresource: str, resource: Resource, response: Response) -> str:
    """Return the warning for the response to a write; an empty string where there is nothing to warn of."""
    if verb not in _WRITES or subresource or response.status >= 300:
        return ""
    if resource.group_kind == GroupKind("apiregistration.k8s.io", "APIService"):
        return _REMOTE_API_SERVICES if _is_remote(response) else ""
    return UNENFORCED.get(resource.group_kind, "")


def _is_remote(response: Response) -> bool:
    """Return True for the response to the write of an APIService that names a Service."""
    if isinstance(response.body, Body):
        return True  # Too long to look at, so rather one warning too many.
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    try:
        obj = json.decode(body)
    except ValueError:
        return True  # In YAML, or compressed.
    spec = obj.get("spec") or {}
    return "service" in spec or obj.get("kind") != "APIService"
