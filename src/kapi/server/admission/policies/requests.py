"""One request as policies see it: matched versions of its objects, its namespace, and which bindings apply to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.errors import ApiError
from kapi.schema.admission.environments import NAMESPACE_OBJECT, OBJECT, OLD_OBJECT, PARAMS, REQUEST
from kapi.server.admission.celvariables import AdmittedObject, namespace_value
from kapi.server.admission.expressions import Allowance, Authorization
from kapi.server.admission.matching import NAMESPACES, RequestNamespace
from kapi.server.admission.policies.params import ConfigurationError
from kapi.server.admission.policies.source import Invocation
from kapi.server.admission.request import admitted_name
from kapi.server.admission.versions import decoded, in_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.request import Write
    from kapi.server.admission.matching import ResourceMatch
    from kapi.server.admission.policies.params import Params
    from kapi.server.admission.policies.source import Hook, Policy
    from kapi.server.authz.authorizer import Authorizer

    Misconfigured = Callable[[Policy[Any], str, str], None]
    """Called with a policy, the name of a binding (empty for the policy itself) and why it cannot be used."""


VARIABLE_NAMES: Final = frozenset({OBJECT, OLD_OBJECT, REQUEST, NAMESPACE_OBJECT, PARAMS})


class PolicyRequest:
    """One request. What several policies need of it is made once."""

    __slots__ = (
        "_namespace_value",
        "_variables",
        "_versions",
        "allowance",
        "authorization",
        "name",
        "namespace",
        "obj",
        "old",
        "write",
    )

    def __init__(self, write: Write, obj: Object | None, old: Object | None, authorizer: Authorizer) -> None:
        self.write = write
        self.obj = obj
        self.old = old
        self.name = admitted_name(write, obj)
        self.namespace = RequestNamespace(write)
        """The namespace of the request; that of a Namespace is the Namespace itself."""
        self.authorization = Authorization(authorizer, write, obj)
        self.allowance = Allowance()
        self._versions: dict[GroupVersionKind, AdmittedObject] = {}
        self._variables: dict[GroupVersionKind, dict[str, Any]] = {}
        """Those of expressions without params, by matched kind."""
        self._namespace_value: Object | None = None

    def replace(self, obj: Object) -> None:
        """Make the object, in place, what a policy has made of it."""
        assert self.obj is not None
        self.obj.clear()
        self.obj.update(obj)
        self._forget()

    def decode(self) -> None:
        """Decode the object, which policies have changed, as that of a request is: it loses unknown fields."""
        assert self.obj is not None
        decoded(self.obj, self.write.resource, self.write.kind)
        self._forget()

    def _forget(self) -> None:
        self._versions.clear()
        self._variables.clear()

    def converted(self, match: ResourceMatch) -> AdmittedObject | None:
        """Return what `admitted` returns if that has been called for the kind of a rule before, else None."""
        return self._versions.get(match.kind)

    async def admitted(self, match: ResourceMatch) -> AdmittedObject:
        """Return the objects in the version that a rule matched."""
        found = self._versions.get(match.kind)
        if found is None:
            obj, old = await self._version(match, self.obj), await self._version(match, self.old)
            found = self._versions[match.kind] = AdmittedObject(self.write, obj, old, match.resource, match.kind)
        return found

    async def _version(self, match: ResourceMatch, obj: Object | None) -> Object | None:
        return None if obj is None else await in_version(self.write, obj, match.resource, match.kind)

    def variables(
        self, admitted: AdmittedObject, params: Object | None, used: Collection[str] = VARIABLE_NAMES
    ) -> dict[str, Any]:
        """Return the variables of expressions, at least those that are used; nothing may change them."""
        found = self._variables.get(admitted.kind)
        if found is None:
            found = self._variables[admitted.kind] = {OBJECT: admitted.obj, OLD_OBJECT: admitted.old, PARAMS: None}
        if REQUEST in used and REQUEST not in found:
            found[REQUEST] = admitted.request()
        if NAMESPACE_OBJECT in used and NAMESPACE_OBJECT not in found:
            found[NAMESPACE_OBJECT] = self._namespace_object()
        return found if params is None else {**found, PARAMS: params}

    def condition_variables(self, admitted: AdmittedObject, params: Object | None) -> dict[str, Any]:
        """Return the variables of match conditions: without the namespace, and with the resource of the request."""
        if admitted.resource is not self.write.resource:
            return admitted._replace(resource=self.write.resource).variables(params)
        return {**self.variables(admitted, params), NAMESPACE_OBJECT: None}

    def _namespace_object(self) -> Object | None:
        name = self.namespace.name
        if self._namespace_value is None and name and self.write.resource.group_resource != NAMESPACES:
            self._namespace_value = namespace_value(self.write.lookup.get("namespaces", "", name))
        return self._namespace_value

    def match(self, hook: Hook[Any], misconfigured: Misconfigured) -> ResourceMatch | None:
        """Return the rule of a policy that covers the request; None if it does not apply, or cannot be used."""
        try:
            return hook.matcher.match(self.namespace, self.obj, self.old, self.name)
        except ApiError as error:
            misconfigured(hook.policy, "", f"failed to configure policy: {error}")
            return None

    async def invocations(
        self, hook: Hook[Any], match: ResourceMatch, params: Params, misconfigured: Misconfigured
    ) -> list[Invocation]:
        """Return the bindings of a policy that apply to the request, each once for each of its params."""
        found: list[Invocation] = []
        try:
            resource = params.resource(hook.policy.spec.get("paramKind"))
            await hook.policy.compiled()
        except (ApiError, ConfigurationError) as error:
            misconfigured(hook.policy, "", f"failed to configure policy: {error}")
            return found
        for binding, matcher in hook.bindings:
            try:
                if matcher is not None and matcher.match(self.namespace, self.obj, self.old, self.name) is None:
                    continue
                collected = await params.collect(resource, binding.spec.get("paramRef"), self.namespace.name)
                await self.admitted(match)
            except (ApiError, ConfigurationError) as error:
                misconfigured(hook.policy, binding.name, f"failed to configure binding: {error}")
            else:
                found += [Invocation(binding, match, param) for param in collected]
        return found
