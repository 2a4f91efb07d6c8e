"""The authorizer of the group that may do everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.authz.authorizer import ALLOW, NO_OPINION, AccessRules

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.authorizer import Decision

MASTERS = "system:masters"


class PrivilegedGroup:
    """Allows the members of one group everything."""

    def __init__(self, group: str = MASTERS) -> None:
        self._group = group

    def decide(self, attributes: Attributes) -> Decision:
        """Allow members; no opinion on others."""
        return ALLOW if self._group in attributes.user.groups else NO_OPINION

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return nothing: the group is not listed, as in Kubernetes, where the role `cluster-admin` lists its rules."""
        return AccessRules([], [])
