"""The authorizers that need no configuration: the group that may do everything, and the paths open to all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.authz.authorizer import ALLOW, NO_OPINION, AccessRules

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.authorizer import Decision

MASTERS = "system:masters"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")


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
        path = attributes.path
        public = any(path == known or path.startswith(f"{known}/") for known in PUBLIC_PATHS)
        return ALLOW if public else NO_OPINION

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return the public paths."""
        urls = [url for path in PUBLIC_PATHS for url in (path, f"{path}/*")]
        return AccessRules([], [{"verbs": ["get"], "nonResourceURLs": urls}])
