"""Authorization: the contract of an authorizer, the union of several, and the words of a refusal.

Every authorizer allows, denies, or has no opinion. The first that allows or denies decides; where none does, the
request is refused. RBAC, node authorization and webhooks are members of the union like any other.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, runtime_checkable

from kapi.api.errors import Forbidden, InternalServerError
from kapi.api.go.text import quote
from kapi.api.meta import GroupResource
from kapi.server.context import DECISION, REASON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.user import User
    from kapi.server.authz.attributes import Attributes


class Verdict(Enum):
    """The three answers of an authorizer."""

    ALLOW = "allow"
    DENY = "deny"
    NO_OPINION = "no opinion"


class Decision(NamedTuple):
    """A verdict, a reason for people, and what went wrong on the way to it. An allowed request may have errors too."""

    verdict: Verdict
    reason: str = ""
    error: str = ""

    @property
    def allowed(self) -> bool:
        """True if the request may go on."""
        return self.verdict is Verdict.ALLOW


ALLOW = Decision(Verdict.ALLOW)
NO_OPINION = Decision(Verdict.NO_OPINION)

_NO_OPINION = Verdict.NO_OPINION
"""Kept here because a member of an enum costs a look-up in its class, on the path of every request."""


class AccessRules(NamedTuple):
    """The actions a user is allowed in a namespace, as SelfSubjectRulesReview lists them."""

    resources: list[dict[str, list[str]]]
    paths: list[dict[str, list[str]]]
    incomplete: bool = False
    error: str = ""


@runtime_checkable
class LocalAuthorizer(Protocol):
    """An authorizer that decides from memory: no wait, no exception."""

    def decide(self, attributes: Attributes) -> Decision:
        """Allow, deny, or have no opinion."""
        ...

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return what the user may do in a namespace, as far as this authorizer can list it."""
        ...


class RemoteAuthorizer(Protocol):
    """An authorizer that may wait for an answer from outside this process. Failures are decisions with an error."""

    async def authorize(self, attributes: Attributes) -> Decision:
        """Allow, deny, or have no opinion."""
        ...

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return what the user may do in a namespace, as far as this authorizer can list it."""
        ...


class Authorizer:
    """A union of authorizers, asked in order until one allows or denies.

    Most requests are decided by the local members that come first. `decide` asks those alone, so that a request they
    decide does not pay for a coroutine; `authorize` asks all.
    """

    def __init__(self, *members: LocalAuthorizer | RemoteAuthorizer) -> None:
        self.replace(*members)

    def replace(self, *members: LocalAuthorizer | RemoteAuthorizer) -> None:
        """Ask these members from now on."""
        self._members = members
        local = itertools.takewhile(lambda member: isinstance(member, LocalAuthorizer), members)
        self._first = [cast("LocalAuthorizer", member).decide for member in local]
        self.may_wait = len(self._first) < len(members)
        """True if a request may have to wait for an answer from outside this process."""

    def decide(self, attributes: Attributes) -> Decision | None:
        """Return the decision of the local members that come first, None when they have no opinion."""
        for ask in self._first:
            decision = ask(attributes)
            if decision.verdict is not _NO_OPINION:
                return decision
        return None

    def decide_now(self, attributes: Attributes) -> Decision | None:
        """Return what `authorize` would; None when that has to wait for an answer from outside this process."""
        unsure: list[Decision] = []
        for ask in self._first:
            decision = ask(attributes)
            if decision.verdict is not _NO_OPINION:
                return decision
            unsure.append(decision)
        return None if self.may_wait else _union(unsure)

    async def authorize(self, attributes: Attributes) -> Decision:
        """Return the first verdict that is an opinion; without one, the reasons and errors of all members."""
        unsure: list[Decision] = []
        for member in self._members:
            if isinstance(member, LocalAuthorizer):
                decision = member.decide(attributes)
            else:
                decision = await member.authorize(attributes)
            if decision.verdict is not _NO_OPINION:
                return decision
            unsure.append(decision)
        return _union(unsure)

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return what all members together allow the user to do in a namespace."""
        parts = [member.rules(user, namespace) for member in self._members]
        return AccessRules(
            [rule for part in parts for rule in part.resources],
            [rule for part in parts for rule in part.paths],
            any(part.incomplete for part in parts),
            aggregate([part.error for part in parts if part.error]),
        )


def _union(decisions: list[Decision]) -> Decision:
    reasons = [decision.reason for decision in decisions if decision.reason]
    errors = [decision.error for decision in decisions if decision.error]
    return Decision(Verdict.NO_OPINION, "\n".join(reasons), aggregate(errors))


def aggregate(errors: Iterable[str]) -> str:
    """Join errors as Kubernetes prints several: each once."""
    distinct = list(dict.fromkeys(errors))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


async def require(
    authorizer: Authorizer, attributes: Attributes, url: str, annotations: dict[str, str] | None = None
) -> None:
    """Return if a request to `url` is allowed; raise the error it is refused with otherwise.

    The decision is added to `annotations`, the audit annotations of the request.
    """
    decision = authorizer.decide(attributes) or await authorizer.authorize(attributes)
    if annotations is not None:
        annotate(decision, annotations)
    if decision.allowed:
        return
    if decision.error:
        raise InternalServerError(url, decision.error)
    raise refusal(attributes, decision.reason)


def annotate(decision: Decision, annotations: dict[str, str]) -> None:
    """Add a decision about a request to its audit annotations."""
    if decision.error and not decision.allowed:
        annotations[REASON] = "internal error"
        return
    annotations[DECISION] = "allow" if decision.allowed else "forbid"
    annotations[REASON] = decision.reason


def refusal(attributes: Attributes, reason: str) -> Forbidden:
    """Return the 403 of a request that was not allowed."""
    a = attributes
    user = quote(a.user.name)
    if not a.is_resource:
        why = f"User {user} cannot {a.verb} path {quote(a.path)}"
        return Forbidden.of(GroupResource("", ""), "", _with_reason(why, reason))
    resource = quote(f"{a.resource}/{a.subresource}" if a.subresource else a.resource)
    scope = f"in the namespace {quote(a.namespace)}" if a.namespace else "at the cluster scope"
    why = f"User {user} cannot {a.verb} resource {resource} in API group {quote(a.group)} {scope}"
    return Forbidden.of(GroupResource(a.group, a.resource), a.name, _with_reason(why, reason))


def _with_reason(why: str, reason: str) -> str:
    why = why.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"{why}: {reason}" if reason else why
