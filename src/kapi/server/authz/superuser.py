"""The authorizers that need no configuration: the group that may do everything, and the paths open to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.authz.authorizer import ALLOW, NO_OPINION, AccessRules

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.authorizer import Decision

MASTERS = "system:masters"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
"""The paths of ClusterRole `system:public-info-viewer`; the paths of single health checks show why a check fails."""


class PrivilegedGroup:
    """Allows the members of one group everything."""

    def __init__(self, group: str = MASTERS) -> None:
        self._group = group

    def decide(self, attributes: Attributes) -> Decision:
        """Allow members; no opinion on others."""
        return ALLOW if self._group in attributes.user.groups else NO_OPINION

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return everything for members, nothing for others."""
        if self._group not in user.groups:
            return AccessRules([], [])
        return AccessRules(
            [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        )


class PublicPaths:
    """Allows every user, anonymous ones included, to read the server's health and version."""

    def decide(self, attributes: Attributes) -> Decision:
        """Allow GET and HEAD of a public path; no opinion on anything else."""
        if attributes.is_resource or attributes.verb not in ("get", "head"):
            return NO_OPINION
        return ALLOW if attributes.path in PUBLIC_PATHS else NO_OPINION

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return the public paths."""
        return AccessRules([], [{"verbs": ["get"], "nonResourceURLs": list(PUBLIC_PATHS)}])
