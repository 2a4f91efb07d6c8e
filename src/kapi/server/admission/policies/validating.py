"""The ValidatingAdmissionPolicy plug-in: asks all policies that match, and refuses what one of them denies."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.server.admission.policies.metrics import PolicyMetrics, error_type
from kapi.server.admission.policies.params import Params
from kapi.server.admission.policies.refusal import failed_validation
from kapi.server.admission.policies.source import PolicySource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource
    from kapi.server.admission.celvariables import AdmittedObject
    from kapi.server.admission.policies.requests import PolicyRequest
    from kapi.server.admission.policies.source import Binding, Invocation, Policy
    from kapi.server.admission.policies.validator import Decision, Result, Validator
    from kapi.server.authz.authorizer import Authorizer

KIND: Final = "ValidatingAdmissionPolicy"
FAILURE_ANNOTATION: Final = "validation.policy.admission.k8s.io/validation_failure"
_MOST_FAILURES: Final = 50
_LONGEST_ANNOTATION: Final = 10 * 1024


class _Denial(NamedTuple):
    policy: str
    binding: str
    """Empty when the policy itself cannot be used."""
    message: str
    reason: str = "Invalid"

    def text(self) -> str:
        bound = f" with binding '{self.binding}'" if self.binding else ""
        return f"{KIND} '{self.policy}'{bound} denied request: {self.message}"


class ValidatingPolicies:
    """Evaluates the policies that match a request."""

    reads_only = True

    def __init__(
        self, catalog: Catalog, authorizer: Authorizer, registry: CollectorRegistry, forget: Callable[[], None]
    ) -> None:
        self._source: PolicySource[Validator] = PolicySource(catalog, "validatingadmissionpolicies", _compile, forget)
        self._params = Params(catalog)
        self._authorizer = authorizer
        self._registry = registry
        self._metrics: PolicyMetrics | None = None

    async def prepare(self) -> None:
        """Read what has changed."""
        await self._source.prepare()

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True if a policy that has a binding matches such requests."""
        return bool(self._source.hooks(operation, resource, subresource))

    async def validate(self, write: Write, obj: Object | None, old: Object | None) -> None:
        """Evaluate the policies; raise if one of them denies the request."""
        from kapi.server.admission.policies.requests import PolicyRequest

        request = PolicyRequest(write, obj, old, self._authorizer)
        outcome = _Outcome()
        for hook in self._source.hooks(write.operation, write.resource, write.subresource):
            match = request.match(hook, outcome.misconfigured)
            if match is None:
                continue
            # Most policies need not be waited for: they have no params, and the objects were converted for another.
            validator, admitted = hook.policy.ready, request.converted(match)
            found: Sequence[Invocation] = hook.invocations
            if not found or validator is None or admitted is None:
                found = await request.invocations(hook, match, self._params, outcome.misconfigured)
                if not found:
                    continue
                validator, admitted = await hook.policy.compiled(), await request.admitted(match)
            await self._ask(hook.policy, validator, found, admitted, request, outcome)
        if outcome.failures:
            write.audit_annotations.setdefault(FAILURE_ANNOTATION, _go_json(outcome.failures[:_MOST_FAILURES]))
        if outcome.denials:
            denial = outcome.denials[0]
            raise failed_validation(write, obj, denial.reason, denial.text())

    async def _ask(
        self,
        policy: Policy[Validator],
        validator: Validator,
        found: Sequence[Invocation],
        admitted: AdmittedObject,
        request: PolicyRequest,
        outcome: _Outcome,
    ) -> None:
        """Evaluate a policy for each of its bindings and params."""
        from kapi.server.admission.expressions import evaluate

        annotations: dict[str, list[str]] = {}
        for binding, _, param in found:
            variables = request.variables(admitted, param, validator.used)
            conditions = request.condition_variables(admitted, param) if validator.has_conditions else {}
            result = await evaluate(
                partial(validator.validate, variables, conditions, request.authorization), request.allowance
            )
            if result is not validator.admits:
                self._take(result, policy, binding, request, outcome, annotations)
        for key, values in annotations.items():
            request.write.audit_annotations.setdefault(f"{policy.name}/{key}", ", ".join(values))

    def _take(
        self,
        result: Result,
        policy: Policy[Validator],
        binding: Binding,
        request: PolicyRequest,
        outcome: _Outcome,
        annotations: dict[str, list[str]],
    ) -> None:
        """Do what a binding says with the decisions of its policy."""
        for index, decision in enumerate(result.decisions):
            if decision.denies:
                for action in binding.spec.get("validationActions") or ():
                    self._enforce(action, index, decision, policy, binding, request.write, outcome)
            elif decision.is_error:
                self._observe(decision.seconds, policy, binding, error_type(decision.message), "allow")
        for annotation in result.annotations:
            if annotation.error:
                outcome.denials.append(_Denial(policy.name, binding.name, annotation.error))
                self._observe(annotation.seconds, policy, binding, error_type(annotation.error), "deny")
                continue
            value = annotation.value.encode()[:_LONGEST_ANNOTATION].decode(errors="ignore")
            values = annotations.setdefault(annotation.key, [])
            if value not in values:
                values.append(value)

    def _enforce(
        self,
        action: str,
        index: int,
        decision: Decision,
        policy: Policy[Validator],
        binding: Binding,
        write: Write,
        outcome: _Outcome,
    ) -> None:
        message = decision.message
        if action == "Deny":
            outcome.denials.append(_Denial(policy.name, binding.name, message, decision.reason or "Invalid"))
        elif action == "Audit":
            outcome.failures.append(
                {
                    "message": message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": index,
                    "validationActions": binding.spec["validationActions"],
                }
            )
        elif action == "Warn":
            write.warnings.append(
                f"Validation failed for {KIND} '{policy.name}' with binding '{binding.name}': {message}"
            )
        self._observe(decision.seconds, policy, binding, error_type(message), action.lower())

    def _observe(self, seconds: float, policy: Policy[Any], binding: Binding, error: str, action: str) -> None:
        if self._metrics is None:
            self._metrics = PolicyMetrics(self._registry, "validating", "enforcement_action")
        self._metrics.observe(seconds, policy.name, binding.name, error, action)


class _Outcome:
    """What the policies have decided about one request so far."""

    __slots__ = ("denials", "failures")

    def __init__(self) -> None:
        self.denials: list[_Denial] = []
        self.failures: list[dict[str, Any]] = []
        """For the audit log."""

    def misconfigured(self, policy: Policy[Any], binding: str, message: str) -> None:
        """Take note of a policy or a binding that cannot be used: its failure policy decides."""
        if not policy.ignores_failure:
            self.denials.append(_Denial(policy.name, binding, message))


def _compile(name: str, spec: Object) -> Validator:
    # Imported here: the expression language is a good part of all imports, and many servers have no policy.
    from kapi.server.admission.policies.validator import Validator

    return Validator(name, spec)


def _go_json(value: Any) -> str:
    """Return JSON as Go writes it, in which `<`, `>` and `&` are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
