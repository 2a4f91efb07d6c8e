"""Match conditions: CEL expressions that decide whether a webhook or a policy is asked about a request.

A condition that is false means no match, whatever the others do. Without one, a condition that fails is an error, and
the failure policy decides: `Fail` refuses the request, `Ignore` means no match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.schema.admission.environments import base_environment
from kapi.schema.admission.expressions import compile_expression
from kapi.schema.cel.types import BOOL
from kapi.server.admission.expressions import (
    Allowance,
    Authorization,
    Evaluation,
    OutOfBudget,
    evaluate,
)
from kapi.server.authz.authorizer import aggregate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.schema.admission.expressions import Compiled
    from kapi.schema.cel.environment import Environment
    from kapi.server.admission.celvariables import AdmittedObject
    from kapi.server.authz.authorizer import Authorizer

BUDGET: Final = 2_500_000
"""The most that all conditions may cost together on one request."""


class Match(NamedTuple):
    """The outcome: a match, or the condition that is false, or an error that refuses the request."""

    matches: bool
    failed_condition: str = ""
    """The name of the first condition that is false."""
    error: str = ""


class MatchConditions:
    """The compiled conditions of one webhook or policy."""

    def __init__(
        self,
        conditions: Sequence[Mapping[str, Any]],
        *,
        ignores_failure: bool,
        environment: Environment | None = None,
        composed: Mapping[str, Compiled] | None = None,
    ) -> None:
        """`environment` and `composed` are those of a policy; webhooks have neither."""
        environment = environment or base_environment()
        self._names = [one["name"] for one in conditions]
        self._expressions = [compile_expression(one["expression"], environment, (BOOL,)) for one in conditions]
        self._ignores_failure = ignores_failure
        self._composed = composed

    async def match(
        self, admitted: AdmittedObject, authorizer: Authorizer, allowance: Allowance | None = None
    ) -> Match:
        """Evaluate the conditions on a request, off the event loop if that takes long."""
        authorization = Authorization(authorizer, admitted.write, admitted.obj)
        # As in Kubernetes, conditions see the resource of the request where another version of it was matched.
        variables = admitted._replace(resource=admitted.write.resource).variables()
        return await evaluate(lambda rest: self.evaluate(variables, authorization, rest), allowance or Allowance())

    def evaluate(self, variables: dict[str, Any], authorization: Authorization, allowance: Allowance) -> Match:
        """Evaluate the conditions with the given variables."""
        evaluation = Evaluation(variables, BUDGET, allowance, authorization=authorization, composed=self._composed)
        try:
            outcomes = [evaluation.run(one) for one in self._expressions]
        except OutOfBudget as error:
            return self._failure(str(error))
        errors = []
        for name, outcome in zip(self._names, outcomes, strict=True):
            if outcome.error:
                errors.append(outcome.error)
            elif outcome.value is False:
                return Match(matches=False, failed_condition=name)
        return self._failure(aggregate(errors)) if errors else Match(matches=True)

    def _failure(self, error: str) -> Match:
        return Match(matches=False) if self._ignores_failure else Match(matches=False, error=error)
