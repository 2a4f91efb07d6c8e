"""The guard against privilege escalation: no user grants what it does not have.

A role may only have rules that its writer has in the same scope, and a binding may only refer to a role all of whose
rules its writer has; the verbs `escalate` on roles and `bind` on the role that is referred to lift that. It runs as the
last plug-in of mutating admission: kube-apiserver checks at the same point, after what admission changes and before
validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import Forbidden, NotFound, PlainError
from kapi.api.go.text import quote
from kapi.registry.request import CREATE, UPDATE
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.authorizer import aggregate
from kapi.server.authz.rbac.policy import GROUP, RoleNotFound, UnsupportedRole
from kapi.server.authz.rbac.rules import TooManyRules, describe_rules, missing_rules, quoted_list
from kapi.server.authz.superuser import MASTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.authz.authorizer import Authorizer
    from kapi.server.authz.rbac.policy import Policy
    from kapi.server.authz.rbac.rules import Rule

_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
_EVERYTHING: Final = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_AGGREGATION: Final = "must have cluster-admin privileges to use the aggregationRule"
_COLLECTED_FIELDS: Final = ("ownerReferences", "finalizers", "managedFields")
"""What the garbage collector changes."""


class EscalationCheck:
    """Refuses roles and bindings that grant more than their writer has."""

    def __init__(self, policy: Policy, authorizer: Authorizer) -> None:
        self._policy = policy
        self._authorizer = authorizer

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for the creation and update of roles and bindings."""
        return resource.group == GROUP and operation in (CREATE, UPDATE)

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise to refuse; nothing is changed. Members of system:masters have everything."""
        if MASTERS in write.user.groups or obj is None:
            return
        if old is not None and _only_collected_fields_differ(obj, old):
            return
        if write.resource.resource in _ROLES:
            await self._check_role(write, obj, old)
        elif write.resource.resource in _BINDINGS:
            await self._check_binding(write, obj)

    async def _check_role(self, write: Write, role: Object, old: Object | None) -> None:
        # The name is that of the URL: a creation has none there, so a permission for one name does not allow it.
        name = "" if write.verb == "create" else write.name
        if await self._may(write, "escalate", write.resource.resource, name):
            return
        self._require(write, role, role.get("rules") or ())
        if _is_aggregated(role) or _is_aggregated(old or {}):
            self._require(write, role, _EVERYTHING, _AGGREGATION)

    async def _check_binding(self, write: Write, binding: Object) -> None:
        reference: dict[str, Any] = binding.get("roleRef") or {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if f"{kind.lower()}s" in _ROLES and await self._may(write, "bind", f"{kind.lower()}s", name):
            return
        try:
            rules = self._policy.role_rules(kind, write.namespace, name)
        except UnsupportedRole as error:
            raise PlainError(str(error)) from None
        except RoleNotFound:
            raise NotFound.of(write.resource.group_resource, name) from None
        self._require(write, binding, [rule.source for rule in rules])

    async def _may(self, write: Write, verb: str, resource: str, name: str) -> bool:
        attributes = Attributes(write.user, verb, GROUP, "*", resource, "", write.namespace, name)
        decision = self._authorizer.decide(attributes) or await self._authorizer.authorize(attributes)
        return decision.allowed

    def _require(self, write: Write, obj: Object, wanted: Iterable[Any], instead: str = "") -> None:
        """Raise Forbidden unless the user has all the rules that are wanted."""
        owned: list[Rule] = []
        errors: list[str] = []
        for grant in self._policy.grants(write.user, write.namespace):
            owned += grant.rules
            errors += [grant.error] if grant.error else []
        try:
            missing = missing_rules(owned, wanted)
        except TooManyRules as error:
            raise Forbidden.of(write.resource.group_resource, obj["metadata"].get("name", ""), str(error)) from None
        if not missing:
            return
        user = write.user
        why = f"user {quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant RBAC permissions "
        why += "not currently held:\n" + "\n".join(describe_rules(missing))
        if errors:
            why += f"; resolution errors: [{aggregate(errors)}]"
        raise Forbidden.of(write.resource.group_resource, obj["metadata"].get("name", ""), instead or why)


def _is_aggregated(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_collected_fields_differ(obj: Object, old: Object) -> bool:
    def rest(one: Object) -> Object:
        metadata = {key: value for key, value in one["metadata"].items() if key not in _COLLECTED_FIELDS and value}
        return {**{key: value for key, value in one.items() if value}, "metadata": metadata}

    return rest(obj) == rest(old)
