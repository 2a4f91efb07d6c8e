"""The compiled form of a ValidatingAdmissionPolicy, and its evaluation for one binding and one param."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.schema.admission.environments import AUTHORIZER, REQUEST_RESOURCE, VARIABLES
from kapi.schema.admission.expressions import policy_expressions
from kapi.schema.cel.values import type_of
from kapi.server.admission.expressions import Evaluation, Outcome, OutOfBudget
from kapi.server.admission.matchconditions import MatchConditions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.schema.admission.expressions import Compiled
    from kapi.server.admission.expressions import Allowance, Authorization

BUDGET: Final = 10_000_000
"""The most that the expressions of a policy may cost for one binding and one param."""
_LONGEST_MESSAGE: Final = 5 * 1024
"""In bytes; a longer one that an expression made is not shown."""

_now = time.perf_counter


class Decision(NamedTuple):
    """The outcome of one validation."""

    denies: bool
    message: str = ""
    is_error: bool = False
    """The validation could not be evaluated; whether it denies is up to the failure policy."""
    reason: str = ""
    seconds: float = 0.0


class Annotation(NamedTuple):
    """An audit annotation that an expression made, or the error that refuses the request."""

    key: str
    value: str
    error: str = ""
    seconds: float = 0.0


class Result(NamedTuple):
    """The outcome of all validations, in their order, and the audit annotations."""

    decisions: list[Decision]
    annotations: list[Annotation]


class _Validation(NamedTuple):
    expression: Compiled
    message_expression: Compiled | None
    message: str
    reason: str


NOTHING: Final = Result([], [])
ADMITTED: Final = Decision(denies=False)


class Validator:
    """A compiled policy. What cannot be compiled is an error when it is evaluated."""

    def __init__(self, name: str, spec: Object) -> None:
        expressions = policy_expressions(spec)
        self._ignores_failure = spec.get("failurePolicy") == "Ignore"
        self._composed = expressions.variables
        self._validations = [
            _Validation(
                expressions.condition(one.get("expression", "")),
                expressions.message(one["messageExpression"]) if one.get("messageExpression") else None,
                one.get("message", "").strip(),
                one.get("reason") or "Invalid",
            )
            for one in spec.get("validations") or ()
        ]
        self._annotations = [
            (one.get("key", ""), expressions.audit_annotation(one.get("valueExpression", "")))
            for one in spec.get("auditAnnotations") or ()
        ]
        conditions = spec.get("matchConditions")
        self._conditions = (
            MatchConditions(
                conditions,
                ignores_failure=self._ignores_failure,
                environment=expressions.environment(),
                composed=self._composed,
            )
            if conditions
            else None
        )
        self.has_conditions = self._conditions is not None
        self._has_messages = any(one.message_expression for one in self._validations)
        expected = [one.expression for one in self._validations]
        self._asks = asks_authorizer([*self._composed.values(), *expected])
        self._composed_of_validations = self._composed if VARIABLES in used_variables(expected) else {}
        self.admits = Result([ADMITTED] * len(expected), [])
        """The result where nothing is denied and nothing annotated."""
        self.used = used_variables(
            [*self._composed.values(), *expected]
            + [one.message_expression for one in self._validations if one.message_expression]
            + [expression for _, expression in self._annotations]
        )
        """The variables that the expressions need, without those of match conditions."""

    def validate(
        self,
        variables: dict[str, Any],
        condition_variables: dict[str, Any],
        authorization: Authorization,
        allowance: Allowance,
    ) -> Result:
        """Evaluate the policy; match conditions have variables of their own."""
        if self._conditions is not None:
            match = self._conditions.evaluate(condition_variables, authorization, allowance)
            if match.error:
                return self._failure(match.error)
            if not match.matches:
                return NOTHING
        evaluation = Evaluation(
            variables,
            BUDGET,
            allowance,
            authorization=authorization if self._asks else None,
            composed=self._composed_of_validations,
        )
        try:
            decisions = self._decisions(evaluation, variables, allowance)
            if self._annotations:
                return Result(decisions or self.admits.decisions, self._publish(variables, allowance))
            return Result(decisions, []) if decisions else self.admits
        except OutOfBudget as error:
            return self._failure(str(error))

    def _failure(self, error: str) -> Result:
        return Result([Decision(not self._ignores_failure, error, is_error=True)], [])

    def _decisions(self, evaluation: Evaluation, variables: dict[str, Any], allowance: Allowance) -> list[Decision]:
        """The decisions, in order; empty when all validations admit the request, as most do."""
        outcomes = []
        is_admitted = True
        for one in self._validations:
            start = _now()
            outcome = evaluation.run(one.expression)
            is_admitted = is_admitted and outcome.value is True
            outcomes.append((outcome, _now() - start))
        if is_admitted:
            # Kubernetes evaluates the messages all the same; that has no effect unless they cost millions.
            return []
        messages: list[Outcome | None] = [None] * len(outcomes)
        failure = ""
        if self._has_messages:
            # Messages are evaluated apart: they cannot ask the authorizer, and have what is left of the budget.
            rest = Evaluation(variables, evaluation.budget, allowance, composed=self._composed)
            try:
                messages = [
                    rest.run(one.message_expression) if one.message_expression else None for one in self._validations
                ]
            except OutOfBudget as error:
                failure = f"failed messageExpression: {error}"
        return [
            self._decision(validation, outcome, message, failure, seconds)
            for validation, (outcome, seconds), message in zip(self._validations, outcomes, messages, strict=True)
        ]

    def _decision(
        self, validation: _Validation, outcome: Outcome, message: Outcome | None, failure: str, seconds: float
    ) -> Decision:
        error = outcome.error or failure
        if error:
            return Decision(not self._ignores_failure, error, is_error=True, seconds=seconds)
        if outcome.value is True:
            return ADMITTED
        text = _message(message) or validation.message or f"failed expression: {validation.expression.source.strip()}"
        return Decision(denies=True, message=text, reason=validation.reason, seconds=seconds)

    def _publish(self, variables: dict[str, Any], allowance: Allowance) -> list[Annotation]:
        evaluation = Evaluation(variables, BUDGET, allowance, composed=self._composed)
        published = []
        for key, expression in self._annotations:
            start = _now()
            outcome = evaluation.run(expression)
            seconds = _now() - start
            if outcome.error:
                if not self._ignores_failure:
                    published.append(Annotation(key, "", outcome.error, seconds))
            elif isinstance(outcome.value, str):
                if value := outcome.value.strip():
                    published.append(Annotation(key, value))
            elif outcome.value is not None:
                published.append(Annotation(key, "", _wrong_type(expression.source, outcome.value), seconds))
        return published


def _wrong_type(source: str, value: Any) -> str:
    return (
        f"valueExpression '{source}' resulted in unsupported return type: {type_of(value).name}. "
        "Return type must be either string or null."
    )


def _message(outcome: Outcome | None) -> str:
    if outcome is None or outcome.error or not isinstance(outcome.value, str):
        return ""
    text = outcome.value.strip()
    return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text


def used_variables(expressions: Iterable[Compiled]) -> frozenset[str]:
    """Return the names of the variables that expressions need."""
    return frozenset(name for one in expressions if one.program is not None for name in one.program.variables)


def asks_authorizer(expressions: Iterable[Compiled]) -> bool:
    """Return True if one of the expressions uses the authorizer."""
    return not used_variables(expressions).isdisjoint({AUTHORIZER, REQUEST_RESOURCE})
