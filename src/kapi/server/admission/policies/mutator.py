"""The compiled form of a MutatingAdmissionPolicy, and the evaluation of its mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.schema.admission.expressions import policy_expressions
from kapi.schema.cel.libraries.mutation import to_json, type_name_errors
from kapi.schema.cel.values import Constructed, EvaluationError
from kapi.server.admission.expressions import Evaluation, OutOfBudget
from kapi.server.admission.matchconditions import MatchConditions
from kapi.server.admission.policies.validator import BUDGET, asks_authorizer

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.schema.admission.expressions import Compiled
    from kapi.server.admission.expressions import Allowance, Authorization
    from kapi.server.admission.matchconditions import Match

JSON_PATCH: Final = "JSONPatch"
_NOT_JSON: Final = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
_EXACT: Final = 2**53


class MutationError(Exception):
    """A mutation cannot be evaluated, or its result cannot be applied; the text says why."""


class Mutation(NamedTuple):
    """One entry of `mutations`."""

    is_json_patch: bool
    expression: Compiled


class Mutator:
    """A compiled policy. What cannot be compiled is an error when it is evaluated."""

    def __init__(self, name: str, spec: Object) -> None:
        expressions = policy_expressions(spec)
        self._composed = expressions.variables
        self.mutations: list[Mutation] = []
        for one in spec.get("mutations") or ():
            is_patch = one.get("patchType") == JSON_PATCH
            source: str = (one.get("jsonPatch" if is_patch else "applyConfiguration") or {}).get("expression", "")
            compiled = expressions.json_patch(source) if is_patch else expressions.apply_configuration(source)
            self.mutations.append(Mutation(is_patch, compiled))
        conditions = spec.get("matchConditions")
        self._conditions = (
            MatchConditions(
                conditions,
                ignores_failure=spec.get("failurePolicy") == "Ignore",
                environment=expressions.environment(),
                composed=self._composed,
            )
            if conditions
            else None
        )
        self._asks = asks_authorizer([*self._composed.values(), *(one.expression for one in self.mutations)])

    def match(self, variables: dict[str, Any], authorization: Authorization, allowance: Allowance) -> Match | None:
        """Evaluate the match conditions; None when there are none."""
        return None if self._conditions is None else self._conditions.evaluate(variables, authorization, allowance)

    def evaluate(
        self, mutation: Mutation, variables: dict[str, Any], authorization: Authorization, allowance: Allowance
    ) -> Any:
        """Return the operations of a JSON patch, or an apply configuration, as JSON; raises MutationError."""
        if mutation.expression.program is None:
            raise MutationError(mutation.expression.error)
        evaluation = Evaluation(
            variables, BUDGET, allowance, authorization=authorization if self._asks else None, composed=self._composed
        )
        try:
            outcome = evaluation.run(mutation.expression)
        except OutOfBudget as error:
            raise MutationError(str(error)) from None
        if outcome.error:
            raise MutationError(outcome.error)
        if mutation.is_json_patch:
            return [_operation(one) for one in outcome.value]
        return _configuration(outcome.value)


def _check_type_names(value: Constructed) -> None:
    if errors := type_name_errors(value):
        raise MutationError(f"type mismatch: {chr(10).join(errors)}")


def _configuration(value: Constructed) -> Any:
    _check_type_names(value)
    try:
        return to_json(value)
    except EvaluationError as error:
        raise MutationError(error.text) from None


def _operation(patch: Constructed) -> dict[str, Any]:
    """Return one operation of a JSON patch as the client of a PATCH would send it."""
    fields = patch.fields
    operation = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if isinstance(value, Constructed):
            _check_type_names(value)
        try:
            operation["value"] = _whole_numbers(to_json(value))
        except EvaluationError as error:
            raise MutationError(f"{_NOT_JSON}: {error.text}") from None
    return operation


def _whole_numbers(value: Any) -> Any:
    """Return JSON in which numbers without a fraction are integers, as Go writes them."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(item) for key, item in value.items()}
    return [_whole_numbers(item) for item in value] if isinstance(value, list) else value
