"""The authorizers of the modes AlwaysAllow and AlwaysDeny, which decide the same for every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.server.authz.authorizer import ALLOW, AccessRules, Decision, Verdict

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.authz.attributes import Attributes

_FORBIDDEN = Decision(Verdict.NO_OPINION, "Everything is forbidden.")


class AlwaysAllow:
    """Allows every request."""

    def decide(self, attributes: Attributes) -> Decision:
        """Allow."""
        return ALLOW

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return everything."""
        return AccessRules(
            [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        )


class AlwaysDeny:
    """Allows no request, but leaves the decision to others; members of system:masters are allowed before."""

    def decide(self, attributes: Attributes) -> Decision:
        """Have no opinion, with a reason."""
        return _FORBIDDEN

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return nothing."""
        return AccessRules([], [])
