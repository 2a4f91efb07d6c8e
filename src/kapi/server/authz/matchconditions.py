"""Match conditions of authorization webhooks: CEL expressions that decide whether a webhook is asked about a request.

They see `request`, the spec of the SubjectAccessReview. A condition that is false skips the webhook, whatever the
others do; without one, a condition that fails is an error, and the webhook's failure policy decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.schema.cel.environment import Environment, ResultTypeError
from kapi.schema.cel.run.code import BudgetExceeded, ProgramError
from kapi.schema.cel.syntax.issues import ExpressionErrors
from kapi.schema.cel.types import BOOL, STRING, Object, list_of, map_of
from kapi.schema.cel.values import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TEXTS: Final = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_REQUIREMENT: Final = {"key": STRING, "operator": STRING, "values": list_of(STRING)}


def _selector(kind: str) -> Object:
    requirement = Object(f"kubernetes.{kind}SelectorRequirement", fields=_REQUIREMENT)
    fields = {"rawSelector": STRING, "requirements": list_of(requirement)}
    return Object(f"kubernetes.{kind}SelectorAttributes", fields=fields)


_RESOURCE: Final = Object(
    "kubernetes.ResourceAttributes",
    fields={
        **dict.fromkeys(_TEXTS, STRING),
        "fieldSelector": _selector("Field"),
        "labelSelector": _selector("Label"),
    },
)
_PATH: Final = Object("kubernetes.NonResourceAttributes", fields={"path": STRING, "verb": STRING})
_REQUEST: Final = Object(
    "kubernetes.SubjectAccessReviewSpec",
    fields={
        "resourceAttributes": _RESOURCE,
        "nonResourceAttributes": _PATH,
        "user": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
        "uid": STRING,
    },
)
_ENVIRONMENT: Final = Environment({"request": _REQUEST})


class ConditionError(ValueError):
    """A condition cannot be compiled, or failed; the text says why."""


class MatchCondition:
    """One compiled condition."""

    def __init__(self, source: str) -> None:
        self._source = source
        try:
            self._program = _ENVIRONMENT.compile(source, BOOL)
        except ExpressionErrors as error:
            raise ConditionError(f"compilation failed: {error}") from None
        except ResultTypeError:
            raise ConditionError("must evaluate to bool") from None
        except ProgramError as error:
            raise ConditionError(f"program instantiation failed: {error}") from None

    def holds(self, request: Mapping[str, Any]) -> bool:
        """Return True if the condition holds for a request; `ConditionError` if it cannot be evaluated."""
        try:
            return bool(self._program.evaluate({"request": request})[0])
        except (EvaluationError, BudgetExceeded) as error:
            raise ConditionError(f"expression '{self._source}' resulted in error: {error}") from None


def all_match(conditions: Iterable[MatchCondition], spec: Mapping[str, Any]) -> bool:
    """Return True if all conditions hold for the spec of a review; `ConditionError` if none is false and one fails."""
    request, failures = _with_empty_fields(spec), list[str]()
    for condition in conditions:
        try:
            if not condition.holds(request):
                return False
        except ConditionError as error:
            failures.append(str(error))
    if failures:
        raise ConditionError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
    return True


def _with_empty_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with its empty strings and lists, so that expressions need no `has` for them."""
    request = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if "resourceAttributes" in spec:
        request["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **spec["resourceAttributes"]}
    return request
