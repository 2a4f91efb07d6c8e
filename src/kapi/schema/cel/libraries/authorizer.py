"""Authorization checks: `authorizer.group('apps').resource('deployments').namespace('a').check('create').allowed()`.

A check is built step by step, and `check` asks the function that the `Authorizer` was made with. Whether that answers
from memory or by a call to another process is the caller's business; a check is priced so that one expression can make
two of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kapi.api.names import dns_label, dns_subdomain
from kapi.api.user import User
from kapi.schema.cel.cost.calls import READ_FACTOR, CallCost, CallSite
from kapi.schema.cel.cost.estimates import Estimate, exactly
from kapi.schema.cel.cost.prices import LIST_CREATION, OBJECT_CREATION, Price, library_size
from kapi.schema.cel.library import Library
from kapi.schema.cel.types import BOOL, STRING, Overload, Type
from kapi.schema.cel.values import EvaluationError, Opaque, no_such_overload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Ask = Callable[["Check", str], "Answer"]
    """From a check and a verb to the decision."""

AUTHORIZER_TYPE: Final = Type("kubernetes.authorization.Authorizer")
PATH_CHECK_TYPE: Final = Type("kubernetes.authorization.PathCheck")
GROUP_CHECK_TYPE: Final = Type("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK_TYPE: Final = Type("kubernetes.authorization.ResourceCheck")
DECISION_TYPE: Final = Type("kubernetes.authorization.Decision")

CHECK_COST: Final = 350_000
"""The cost of one check."""
_REQUIREMENTS_PER_CHARACTER: Final = 0.5
_REQUIREMENT_COST: Final = LIST_CREATION + OBJECT_CREATION


class _Receiver(Opaque):
    """A value that has functions and cannot be compared."""

    __slots__ = ()

    def same(self, other: Any) -> bool:
        """Raise: checks and decisions have no equality."""
        no_such_overload()


@dataclass(frozen=True, slots=True, eq=False)
class Authorizer(_Receiver):
    """The value of `authorizer`: whose permissions are checked, and the function that decides."""

    cel_type: ClassVar[Type] = AUTHORIZER_TYPE
    user: User
    ask: Ask


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck(_Receiver):
    """`authorizer.group(…)`."""

    cel_type: ClassVar[Type] = GROUP_CHECK_TYPE
    authorizer: Authorizer
    group: str


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck(_Receiver):
    """`authorizer.path(…)`: a check of a path that is not of a resource."""

    cel_type: ClassVar[Type] = PATH_CHECK_TYPE
    authorizer: Authorizer
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck(_Receiver):
    """`authorizer.group(…).resource(…)`, and the value of `authorizer.requestResource`."""

    cel_type: ClassVar[Type] = RESOURCE_CHECK_TYPE
    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


Check = PathCheck | ResourceCheck


@dataclass(frozen=True, slots=True, eq=False)
class Answer(_Receiver):
    """The decision about a check."""

    cel_type: ClassVar[Type] = DECISION_TYPE
    allowed: bool
    reason: str = ""
    error: str = ""


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return replace(authorizer, user=User(f"system:serviceaccount:{namespace}:{name}", groups))


def _check(check: Check, verb: str) -> Answer:
    return check.authorizer.ask(check, verb)


def _with(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda check, value: replace(check, **{field: value})  # type: ignore[arg-type]


def _member(overload: str, args: tuple[Type, ...], result: Type) -> Overload:
    return Overload(overload, args, result, member=True)


def _narrows(overload: str) -> tuple[Overload, ...]:
    return (_member(overload, (RESOURCE_CHECK_TYPE, STRING), RESOURCE_CHECK_TYPE),)


def _reads(overload: str, result: Type) -> tuple[Overload, ...]:
    return (_member(overload, (DECISION_TYPE,), result),)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "path": (_member("authorizer_path", (AUTHORIZER_TYPE, STRING), PATH_CHECK_TYPE),),
    "group": (_member("authorizer_group", (AUTHORIZER_TYPE, STRING), GROUP_CHECK_TYPE),),
    "serviceAccount": (_member("authorizer_serviceaccount", (AUTHORIZER_TYPE, STRING, STRING), AUTHORIZER_TYPE),),
    "resource": (_member("groupcheck_resource", (GROUP_CHECK_TYPE, STRING), RESOURCE_CHECK_TYPE),),
    "subresource": _narrows("resourcecheck_subresource"),
    "namespace": _narrows("resourcecheck_namespace"),
    "name": _narrows("resourcecheck_name"),
    "check": (
        _member("pathcheck_check", (PATH_CHECK_TYPE, STRING), DECISION_TYPE),
        _member("resourcecheck_check", (RESOURCE_CHECK_TYPE, STRING), DECISION_TYPE),
    ),
    "errored": _reads("decision_errored", BOOL),
    "error": _reads("decision_error", STRING),
    "allowed": _reads("decision_allowed", BOOL),
    "reason": _reads("decision_reason", STRING),
}

IMPLEMENTATIONS: Final[dict[str, Callable[..., Any]]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": _with("subresource"),
    "resourcecheck_namespace": _with("namespace"),
    "resourcecheck_name": _with("name"),
    "pathcheck_check": _check,
    "resourcecheck_check": _check,
    "decision_errored": lambda answer: bool(answer.error),
    "decision_error": lambda answer: answer.error,
    "decision_allowed": lambda answer: answer.allowed,
    "decision_reason": lambda answer: answer.reason,
}


def _estimate_check(_: CallSite) -> CallCost:
    return CallCost(exactly(CHECK_COST))


def _selector_cost(length: Estimate) -> Estimate:
    requirements = length.scaled(_REQUIREMENTS_PER_CHARACTER).scaled(_REQUIREMENT_COST)
    return exactly(LIST_CREATION).plus(length.scaled(READ_FACTOR)).plus(requirements)


def _selector_price(args: Sequence[Any], result: Any) -> int:
    return _selector_cost(exactly(library_size(args[1]))).max


def _estimate_selector(site: CallSite) -> CallCost | None:
    return CallCost(_selector_cost(site.size(site.args[0]))) if len(site.args) == 1 else None


LIBRARY: Final = Library(
    name="kubernetes.authz",
    functions=FUNCTIONS,
    implementations=IMPLEMENTATIONS,
    prices={"check": CHECK_COST},
    estimates={"check": _estimate_check},
    since=(1, 27),
)

_SELECTORS: Final = ("fieldSelector", "labelSelector")
_SELECTOR_PRICES: Final[dict[str, Price]] = dict.fromkeys(_SELECTORS, _selector_price)

SELECTORS_LIBRARY: Final = Library(
    name="kubernetes.authzSelectors",
    functions={
        "fieldSelector": _narrows("authorizer_fieldselector"),
        "labelSelector": _narrows("authorizer_labelselector"),
    },
    implementations={
        "authorizer_fieldselector": _with("field_selector"),
        "authorizer_labelselector": _with("label_selector"),
    },
    prices=_SELECTOR_PRICES,
    estimates=dict.fromkeys(_SELECTORS, _estimate_selector),
    since=(1, 31),
)
