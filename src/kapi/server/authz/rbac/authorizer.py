"""The RBAC authorizer: decides by the roles that are bound to a user and its groups.

A decision is remembered for all requests that differ in the object's name alone, so that most requests cost one look-up
in a dictionary. Any change of a role or binding empties that dictionary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.server.authz.authorizer import NO_OPINION, AccessRules, Decision, Verdict, aggregate

if TYPE_CHECKING:
    from kapi.api.user import User
    from kapi.server.authz.attributes import Attributes
    from kapi.server.authz.rbac.policy import Policy

MAX_REMEMBERED: Final = 8192
MAX_KEY_LENGTH: Final = 2048
"""Requests that are longer than this are decided each time: any client may send them."""


class _Remembered(NamedTuple):
    """The decision about all objects, and those about objects that rules name, which are looked at first."""

    decision: Decision
    named: tuple[tuple[frozenset[str], Decision], ...] = ()


class RbacAuthorizer:
    """Allows what the roles of a user allow; has no opinion otherwise."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._remembered: dict[tuple[object, ...], _Remembered] = {}
        policy.on_change(self._remembered.clear)

    def decide(self, attributes: Attributes) -> Decision:
        """Allow, or have no opinion; selectors are not looked at."""
        user = attributes.user
        # Everything but the name and the selectors; slices are the cheapest way to a key.
        key = (user.name, user.groups, attributes[1:7], attributes[8:10])
        found = self._remembered.get(key)
        if found is None:
            found = self._find(attributes)
            if sum(map(len, (user.name, *user.groups, *attributes[1:7], attributes.path))) < MAX_KEY_LENGTH:
                if len(self._remembered) >= MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = found
        if found.named:
            for names, decision in found.named:
                if attributes.name in names:
                    return decision
        return found.decision

    def _find(self, attributes: Attributes) -> _Remembered:
        user, verb, group, _, resource, subresource, namespace, _, is_resource, path, *_ = attributes
        named: list[tuple[frozenset[str], Decision]] = []
        errors: list[str] = []
        for grant in self._policy.grants(user, namespace if is_resource else ""):
            if grant.error:
                errors.append(grant.error)
                continue
            for rule in grant.rules:
                if is_resource:
                    if not rule.allows_resource(verb, group, resource, subresource):
                        continue
                elif not rule.allows_path(verb, path):
                    continue
                allowed = Decision(Verdict.ALLOW, f"RBAC: allowed by {grant.source}")
                if not (rule.names and is_resource):
                    return _Remembered(allowed, tuple(named))
                named.append((rule.names, allowed))
        refused = Decision(Verdict.NO_OPINION, f"RBAC: {aggregate(errors)}") if errors else NO_OPINION
        return _Remembered(refused, tuple(named))

    def rules(self, user: User, namespace: str) -> AccessRules:
        """Return the rules of all roles that are bound to a user, in the cluster and in a namespace."""
        result = AccessRules([], [])
        errors: list[str] = []
        for grant in self._policy.grants(user, namespace):
            if grant.error:
                errors.append(grant.error)
            for rule in grant.rules:
                if rule.source.get("resources"):
                    fields = ("verbs", "apiGroups", "resources", "resourceNames")
                    result.resources.append({field: rule.source[field] for field in fields if rule.source.get(field)})
                if rule.source.get("nonResourceURLs"):
                    result.paths.append({field: rule.source[field] for field in ("verbs", "nonResourceURLs")})
        return result._replace(error=aggregate(errors))
