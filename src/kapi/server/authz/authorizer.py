"""Whether a user may do what a request asks.

`Authorizer` is the seam; today's is the smallest that is safe: members of `system:masters` may do everything,
everybody may see whether the server is healthy and what it is, and that is all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kapi.api.errors import Forbidden, GroupResource

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.requestinfo import RequestInfo

MASTERS = "system:masters"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")


class Attributes(NamedTuple):
    """One question: may this user do this?"""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """Set for non-resource requests only."""


class Decision(NamedTuple):
    """The answer, and why if there is something to say."""

    allowed: bool
    reason: str = ""


class Rules(NamedTuple):
    """What a user may do, as SelfSubjectRulesReview lists it."""

    resources: list[dict[str, list[str]]]
    paths: list[dict[str, list[str]]]
    incomplete: bool = False


class Authorizer(Protocol):
    """Answers questions about permissions. Never raises, never waits."""

    def authorize(self, attributes: Attributes) -> Decision:
        """Yes or no."""
        ...

    def rules(self, user: User, namespace: str) -> Rules:
        """Everything the user may do in a namespace."""
        ...


class MastersAuthorizer:
    """`system:masters` may do everything; anybody may read the public paths; nobody else may do anything."""

    def authorize(self, attributes: Attributes) -> Decision:
        """Yes or no."""
        if MASTERS in attributes.user.groups:
            return Decision(allowed=True)
        if attributes.verb in ("get", "head") and _is_public(attributes.path):
            return Decision(allowed=True)
        return Decision(allowed=False)

    def rules(self, user: User, namespace: str) -> Rules:
        """Everything the user may do in a namespace."""
        if MASTERS in user.groups:
            return Rules(
                [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            )
        public = [url for path in PUBLIC_PATHS for url in (path, f"{path}/*")]
        return Rules([], [{"verbs": ["get"], "nonResourceURLs": public}])


def _is_public(path: str) -> bool:
    return any(path == public or path.startswith(f"{public}/") for public in PUBLIC_PATHS)


def attributes_of(user: User, info: RequestInfo) -> Attributes:
    """The question a request asks."""
    if not info.is_resource:
        return Attributes(user, info.verb, path=info.path)
    return Attributes(
        user, info.verb, info.group, info.version, info.resource, info.subresource, info.namespace, info.name
    )


def refusal(attributes: Attributes, decision: Decision) -> Forbidden:
    """The 403 for a question answered with no."""
    a = attributes
    if a.path:
        why = f'User "{a.user.name}" cannot {a.verb} path "{a.path}"'
        return Forbidden.of(GroupResource("", ""), "", _with_reason(why, decision))
    resource = f"{a.resource}/{a.subresource}" if a.subresource else a.resource
    scope = f'in the namespace "{a.namespace}"' if a.namespace else "at the cluster scope"
    why = f'User "{a.user.name}" cannot {a.verb} resource "{resource}" in API group "{a.group}" {scope}'
    return Forbidden.of(GroupResource(a.group, a.resource), a.name, _with_reason(why, decision))


def _with_reason(why: str, decision: Decision) -> str:
    text = f"{why}: {decision.reason}" if decision.reason else why
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
