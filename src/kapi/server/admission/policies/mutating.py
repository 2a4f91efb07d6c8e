"""The MutatingAdmissionPolicy plug-in: lets all policies that match change the object, one after the other."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api.errors import ServiceUnavailable
from kapi.api.limits import OFF_LOOP_BYTES
from kapi.registry.encoding import copy_of
from kapi.registry.request import DELETE
from kapi.schema.builtin.typed import kind_schema
from kapi.server.admission.chain import reinvocation_of
from kapi.server.admission.policies.metrics import PolicyMetrics, error_type
from kapi.server.admission.policies.params import Params
from kapi.server.admission.policies.refusal import failed_mutations
from kapi.server.admission.policies.source import PolicySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Reinvocation, Write
    from kapi.registry.resource import Resource
    from kapi.schema.builtin.typed import ObjectSchema
    from kapi.server.admission.matching import ResourceMatch
    from kapi.server.admission.policies.mutator import Mutation, Mutator
    from kapi.server.admission.policies.requests import PolicyRequest
    from kapi.server.admission.policies.source import Invocation, Policy
    from kapi.server.authz.authorizer import Authorizer

KIND: Final = "MutatingAdmissionPolicy"
_DELAYED: Final = "There can be a delay between when CustomResourceDefinitions are created and when they are available."
_NOT_TYPED: Final = "error applying patch: failed to convert patch object to typed object"
_now = time.perf_counter

Key = tuple[str, str, str, str]
"""A policy, a binding, and the namespace and name of a param."""


class _Error(NamedTuple):
    policy: str
    binding: str
    """Empty when the policy itself cannot be used."""
    message: str
    is_misconfigured: bool = False

    def text(self) -> str:
        if self.binding:
            return f"policy '{self.policy}' with binding '{self.binding}' denied request: {self.message}"
        return f'policy "{self.policy}" denied request: {self.message}'


class _Invoked:
    """Which policies are to be invoked again in the second run of the mutating plug-ins."""

    __slots__ = ("due", "is_mutated", "last", "reinvocable")

    def __init__(self) -> None:
        self.last: Object | None = None
        """The object as the policies left it."""
        self.reinvocable: set[Key] = set()
        self.due: set[Key] = set()
        self.is_mutated = False
        """True if a mutation was applied in this run, whether it changed the object or not."""

    def changed(self) -> None:
        """Take note of a change: those that were invoked before are due."""
        self.due |= self.reinvocable
        self.reinvocable = set()


class MutatingPolicies:
    """Evaluates the policies that match a request, and applies their mutations."""

    def __init__(
        self, catalog: Catalog, authorizer: Authorizer, registry: CollectorRegistry, forget: Callable[[], None]
    ) -> None:
        self._source: PolicySource[Mutator] = PolicySource(catalog, "mutatingadmissionpolicies", _compile, forget)
        self._params = Params(catalog, with_kind=False)
        self._authorizer = authorizer
        self._registry = registry
        self._metrics: PolicyMetrics | None = None

    async def prepare(self) -> None:
        """Read what has changed."""
        await self._source.prepare()

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True if a policy that has a binding matches such requests."""
        return operation != DELETE and bool(self._source.hooks(operation, resource, subresource))

    async def mutate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Apply the mutations of the policies, in order of name; raise if one of them fails."""
        from kapi.server.admission.policies.requests import PolicyRequest

        request = PolicyRequest(write, obj, old, self._authorizer)
        errors: list[_Error] = []
        invocations: list[tuple[Policy[Mutator], Invocation]] = []

        def misconfigured(policy: Policy[Mutator], binding: str, message: str) -> None:
            if not policy.ignores_failure:
                errors.append(_Error(policy.name, binding, message, is_misconfigured=True))

        for hook in self._source.hooks(write.operation, write.resource, write.subresource):
            match = request.match(hook, misconfigured)
            if match is not None:
                found = await request.invocations(hook, match, self._params, misconfigured)
                invocations += [(hook.policy, invocation) for invocation in found]
        if invocations:
            await self._invoke_all(invocations, request, errors)
        if errors:
            texts = [error.text() for error in errors]
            raise failed_mutations(write, obj, texts, is_misconfigured=errors[0].is_misconfigured)

    async def _invoke_all(
        self, invocations: list[tuple[Policy[Mutator], Invocation]], request: PolicyRequest, errors: list[_Error]
    ) -> None:
        reinvocation = reinvocation_of(request.write)
        state: _Invoked = reinvocation.values.setdefault(KIND, _Invoked())
        if reinvocation.is_second and state.last != request.obj:
            state.changed()  # Another plug-in has changed the object since.
        state.is_mutated = False
        for policy, invocation in invocations:
            await self._invoke(policy, invocation, request, reinvocation, errors)
        if state.is_mutated:
            if request.write.resource.custom is not None and not errors:
                request.decode()
            # As in Kubernetes, also a policy that is alone is invoked again for its own mutation.
            state.changed()
            reinvocation.requested = True
        if state.due:
            state.last = copy_of(request.obj)

    async def _invoke(
        self,
        policy: Policy[Mutator],
        invocation: Invocation,
        request: PolicyRequest,
        reinvocation: Reinvocation,
        errors: list[_Error],
    ) -> None:
        from kapi.server.admission.expressions import evaluate

        mutator, binding, param = await policy.compiled(), invocation.binding, invocation.param
        admitted = await request.admitted(invocation.match)
        variables = request.condition_variables(admitted, param)
        conditions = await evaluate(
            lambda allowance: mutator.match(variables, request.authorization, allowance), request.allowance
        )
        if conditions is not None and not conditions.matches:
            if conditions.error and not policy.ignores_failure:
                errors.append(_Error(policy.name, binding.name, conditions.error))
            return
        state: _Invoked = reinvocation.values[KIND]
        key = _key(policy, invocation)
        if reinvocation.is_second and key not in state.due:
            return
        changed = False
        for mutation in mutator.mutations if request.obj is not None else ():
            changed |= await self._mutate(policy, invocation, mutation, request, state, errors)
        if changed:
            state.changed()
            reinvocation.requested = True
        if policy.spec.get("reinvocationPolicy") == "IfNeeded":
            state.reinvocable.add(key)

    async def _mutate(
        self,
        policy: Policy[Mutator],
        invocation: Invocation,
        mutation: Mutation,
        request: PolicyRequest,
        state: _Invoked,
        errors: list[_Error],
    ) -> bool:
        """Apply one mutation; returns True if it has changed the object."""
        from kapi.server.admission.expressions import evaluate
        from kapi.server.admission.policies.mutator import MutationError
        from kapi.server.admission.versions import in_store

        mutator, binding, match = await policy.compiled(), invocation.binding, invocation.match
        admitted = await request.admitted(match)
        variables = request.variables(admitted, invocation.param)
        start = _now()
        try:
            patch = await evaluate(
                lambda allowance: mutator.evaluate(mutation, variables, request.authorization, allowance),
                request.allowance,
            )
            assert admitted.obj is not None
            work = partial(_patched, admitted.obj, patch, mutation, match, request.write.kind)
            patched = work() if request.write.object_bytes < OFF_LOOP_BYTES else await asyncio.to_thread(work)
        except MutationError as error:
            self._observe(_now() - start, policy, invocation, error_type(str(error)))
            if not policy.ignores_failure:
                errors.append(_Error(policy.name, binding.name, str(error)))
            return False
        hub = await in_store(request.write, patched, match.resource, match.kind)
        state.is_mutated = True
        changed: bool = hub != request.obj
        if changed:
            request.replace(hub)
        self._observe(_now() - start, policy, invocation, "no_error")
        return changed

    def _observe(self, seconds: float, policy: Policy[Any], invocation: Invocation, error: str) -> None:
        if self._metrics is None:
            self._metrics = PolicyMetrics(self._registry, "mutating")
        self._metrics.observe(seconds, policy.name, invocation.binding.name, error)


def _key(policy: Policy[Any], invocation: Invocation) -> Key:
    metadata = {} if invocation.param is None else invocation.param["metadata"]
    return policy.name, invocation.binding.name, metadata.get("namespace", ""), metadata.get("name", "")


def _patched(obj: Object, patch: Any, mutation: Mutation, match: ResourceMatch, requested: GroupVersionKind) -> Object:
    """Return the object, which is of a matched kind, after a mutation."""
    from kapi.server.admission.policies.mutator import MutationError
    from kapi.server.admission.policies.patches import apply_configured, json_patched
    from kapi.server.admission.versions import decoded

    kind, is_builtin = match.kind, match.resource.custom is None
    schema = _schema(match)
    if mutation.is_json_patch:
        patched = json_patched(obj, patch, schema if is_builtin else None)
    elif kind == match.resource.gvk:
        patched = apply_configured(obj, patch, schema.shape)
    else:
        raise MutationError(f"{_NOT_TYPED}: no corresponding type for {_shown(kind)}")
    if is_builtin and kind.version != requested.version:
        # kube-apiserver cannot bring the object back to the version of the request, and says so.
        one, other = (f"({version}.{kind.kind})" for version in (kind.version, requested.version))
        raise MutationError(f"converting {one} to {other}: unknown conversion")
    patched = copy_of(patched)
    if not is_builtin and isinstance(patched, dict) and _same_kind(patched, obj):
        return patched  # Objects of custom kinds are decoded after all mutations.
    return decoded(patched, match.resource, kind)


def _same_kind(one: Object, other: Object) -> bool:
    return all(one.get(field) == other[field] for field in ("apiVersion", "kind"))


def _schema(match: ResourceMatch) -> ObjectSchema:
    """Return the schema of a matched kind, which may be that of a sub-resource. Options of a CONNECT have none."""
    if match.kind == match.resource.gvk:
        return match.resource.schema
    try:
        return kind_schema(*match.kind)
    except KeyError:
        raise ServiceUnavailable(f"Resource kind {_shown(match.kind)} not found. {_DELAYED}") from None


def _shown(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}, Kind={kind.kind}"


def _compile(name: str, spec: Object) -> Mutator:
    # Imported here: the expression language is a good part of all imports, and many servers have no policy.
    from kapi.server.admission.policies.mutator import Mutator

    return Mutator(name, spec)
