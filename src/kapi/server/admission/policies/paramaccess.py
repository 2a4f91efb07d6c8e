"""The guard of params: who writes a policy or a binding must be allowed to read the params that it refers to.

A policy shows its params to everyone it refuses, in messages. So its author must be able to read all objects of its
paramKind, and the author of a binding those that its paramRef means. It is part of validation in kube-apiserver, not a
plug-in: it cannot be switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import Invalid
from kapi.api.fielderror import forbidden
from kapi.api.meta import GroupVersion
from kapi.registry.request import CREATE, UPDATE
from kapi.server.admission.matching import GROUP
from kapi.server.authz.attributes import Attributes
from kapi.server.authz.superuser import MASTERS

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.api.user import User
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.authz.authorizer import Authorizer

_POLICIES: Final = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}
"""The policies of each kind of binding."""
_ALL: Final = ("*", "*", "*")


class ParamAccessCheck:
    """Refuses policies and bindings whose params their writer may not read."""

    reads_only = True

    def __init__(self, catalog: Catalog, authorizer: Authorizer) -> None:
        self._catalog = catalog
        self._authorizer = authorizer

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True for the creation and update of policies and bindings."""
        if resource.group != GROUP or operation not in (CREATE, UPDATE) or subresource:
            return False
        return resource.resource in _POLICIES or resource.resource in _POLICIES.values()

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Raise Invalid if the user may not read the params."""
        if obj is None or MASTERS in write.user.groups:
            return
        spec, before = obj["spec"], {} if old is None else old["spec"]
        if write.resource.resource in _POLICIES:
            field, why = "spec.paramRef", await self._binding_refusal(write, spec, before)
        else:
            field, why = "spec.paramKind", await self._policy_refusal(write.user, spec, before)
        if why:
            raise Invalid.of(write.resource.group_kind, obj["metadata"].get("name", ""), [forbidden(field, why)])

    async def _policy_refusal(self, user: User, spec: Object, before: Object) -> str:
        kind = spec.get("paramKind")
        if kind is None or kind == before.get("paramKind"):
            return ""
        group, version, resource, _ = self._resolved(kind)
        error = await self._denied(user, "get", group, version, resource, "*", "*")
        if error is None:
            return ""
        shown = f"(kind={kind.get('kind', '')}, apiVersion={kind.get('apiVersion', '')})"
        return error or (
            f'user {_go_user(user)} must have "get" permission on all objects of the referenced paramKind {shown}'
        )

    async def _binding_refusal(self, write: Write, spec: Object, before: Object) -> str:
        reference, name = spec.get("paramRef"), spec.get("policyName", "")
        if reference is None or (reference == before.get("paramRef") and name == before.get("policyName")):
            return ""
        policy = self._catalog.get(f"{_POLICIES[write.resource.resource]}.{GROUP}", "", name)
        kind = None if policy is None else policy["spec"].get("paramKind")
        group, version, resource, unresolved = (*_ALL, "") if kind is None else self._resolved(kind)
        verb = "get" if reference.get("name") else "list"
        error = await self._denied(
            write.user, verb, group, version, resource, reference.get("namespace", ""), reference.get("name", "")
        )
        if error is None:
            return ""
        if error:
            return f"failed to authorize request: {error}"
        user = _go_user(write.user)
        all_of_it = f'user {user} does not have "{verb}" permission for all groups, versions and resources'
        if policy is None:
            return f"unable to get policy {name} to determine minimum required permissions and {all_of_it}"
        if unresolved and kind is not None:
            shown = f"&{{{kind.get('apiVersion', '')} {kind.get('kind', '')}}}"
            return f"unable to {unresolved} paramKind {shown} to determine minimum required permissions and {all_of_it}"
        return f'user {user} does not have "{verb}" permission on the object referenced by paramRef'

    def _resolved(self, kind: dict[str, Any]) -> tuple[str, str, str, str]:
        """Return the group, version and resource of a kind, `*` for what is not known, and what failed."""
        try:
            version = GroupVersion.parse(kind.get("apiVersion", ""))
        except ValueError:
            return (*_ALL, "parse")
        name = kind.get("kind", "")
        found = next((one for one in self._catalog if one.group_version == version and one.kind == name), None)
        if found is None:
            return version.group, version.version, "*", "resolve"
        return version.group, version.version, found.resource, ""

    async def _denied(self, user: User, verb: str, *where: str) -> str | None:
        """Return None if the user is allowed, the error of the authorizer, or an empty string."""
        group, version, resource, namespace, name = where
        attributes = Attributes(user, verb, group, version, resource, "", namespace, name)
        decision = self._authorizer.decide(attributes) or await self._authorizer.authorize(attributes)
        return None if decision.allowed else decision.error


def _go_user(user: User) -> str:
    """Return a user as Go prints one."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
