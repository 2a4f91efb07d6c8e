"""Tables of webhooks, admission policies, API services and flow control.

Flow schemas are the only kind whose list is not sorted by name but in the order in which they are matched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kapi.registry.tables import cells
from kapi.registry.tables.table import AGE, NAME, Table, integer, text

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.tables.table import Row

_ADMISSION = "admissionregistration.k8s.io"
_FLOW = "flowcontrol.apiserver.k8s.io"
_decode = msgspec.json.Decoder().decode

# -- admission --------------------------------------------------------------------------------------------------------


def _webhooks(obj: Object, now: dt.datetime) -> list[Any]:
    return [cells.name(obj), len(cells.items(obj, "webhooks")), cells.age(obj, now)]


def _policy(rules: str) -> Row:
    """The row of an admission policy whose rules are under this field."""

    def row(obj: Object, now: dt.datetime) -> list[Any]:
        spec = cells.part(obj, "spec")
        kind = spec.get("paramKind")
        parameters = cells.UNSET if kind is None else f"{cells.string(kind, 'apiVersion')}/{cells.string(kind, 'kind')}"
        return [cells.name(obj), len(cells.items(spec, rules)), parameters, cells.age(obj, now)]

    return row


def _selector_dump(selector: Object) -> str:
    """A label selector in the notation of Go's protobuf printer, which kube-apiserver prints in this cell."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(cells.part(selector, "matchLabels").items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{cells.string(each, 'key')},Operator:{cells.string(each, 'operator')},"
        f"Values:[{' '.join(cells.items(each, 'values'))}],}},"
        for each in cells.items(selector, "matchExpressions")
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _parameter(reference: Object) -> str:
    """The parameters of a binding. A star stands for the namespace of the request, or for none."""
    if name := cells.string(reference, "name"):
        return f"{cells.string(reference, 'namespace') or '*'}/{name}"
    selector = reference.get("selector")
    return cells.UNSET if selector is None else _selector_dump(selector)


def _policy_binding(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    return [
        cells.name(obj),
        cells.string(spec, "policyName"),
        _parameter(cells.part(spec, "paramRef")),
        cells.age(obj, now),
    ]


# -- API services -----------------------------------------------------------------------------------------------------


def _availability(obj: Object) -> str:
    conditions = cells.items(obj, "status", "conditions")
    available = next((each for each in conditions if each.get("type") == "Available"), None)
    if available is None:
        return "Unknown"
    status, reason = cells.string(available, "status"), cells.string(available, "reason")
    return f"{status} ({reason})" if status != "True" and reason else status


def _api_service(obj: Object, now: dt.datetime) -> list[Any]:
    service = cells.part(obj, "spec").get("service")
    backend = "Local" if service is None else f"{cells.string(service, 'namespace')}/{cells.string(service, 'name')}"
    return [cells.name(obj), backend, _availability(obj), cells.age(obj, now)]


# -- flow control -----------------------------------------------------------------------------------------------------


def _flow_schema(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    method = spec.get("distinguisherMethod")
    dangling = cells.status_of(cells.items(obj, "status", "conditions"), "Dangling")
    return [
        cells.name(obj),
        cells.string(spec, "priorityLevelConfiguration", "name"),
        cells.count(spec, "matchingPrecedence"),
        cells.NONE if method is None else cells.string(method, "type"),
        cells.age(obj, now),
        "?" if dangling is None else dangling,
    ]


def _matching_order(item: Item) -> tuple[int, str]:
    return cells.count(_decode(b"{" + item.body), "spec", "matchingPrecedence"), item.name


def _by_precedence(items: Sequence[Item]) -> Sequence[Item]:
    return sorted(items, key=_matching_order)


def _priority_level(obj: Object, now: dt.datetime) -> list[Any]:
    spec = cells.part(obj, "spec")
    limited = spec.get("limited")
    queuing = cells.part(spec, "limited", "limitResponse").get("queuing")
    lengths = ("queues", "handSize", "queueLengthLimit")
    return [
        cells.name(obj),
        cells.string(spec, "type"),
        cells.NONE if limited is None else cells.count(limited, "nominalConcurrencyShares"),
        *(cells.NONE if queuing is None else cells.count(queuing, field) for field in lengths),
        cells.age(obj, now),
    ]


_WEBHOOKS = Table((NAME, integer("Webhooks", "How many webhooks are configured."), AGE), _webhooks)
_PARAM_KIND = text("ParamKind", "The kind of the parameters the policy takes.")
_BINDINGS = Table(
    (
        NAME,
        text("PolicyName", "The policy that is bound."),
        text("ParamRef", "The parameters it is bound with."),
        AGE,
    ),
    _policy_binding,
)

TABLES = {
    (_ADMISSION, "mutatingwebhookconfigurations"): _WEBHOOKS,
    (_ADMISSION, "validatingwebhookconfigurations"): _WEBHOOKS,
    (_ADMISSION, "validatingadmissionpolicies"): Table(
        (NAME, integer("Validations", "How many rules the policy checks."), _PARAM_KIND, AGE), _policy("validations")
    ),
    (_ADMISSION, "mutatingadmissionpolicies"): Table(
        (NAME, integer("Mutations", "How many changes the policy makes."), _PARAM_KIND, AGE), _policy("mutations")
    ),
    (_ADMISSION, "validatingadmissionpolicybindings"): _BINDINGS,
    (_ADMISSION, "mutatingadmissionpolicybindings"): _BINDINGS,
    ("apiregistration.k8s.io", "apiservices"): Table(
        (
            NAME,
            text("Service", "The service that answers for the API, or Local."),
            text("Available", "Whether the API can be used."),
            AGE,
        ),
        _api_service,
    ),
    (_FLOW, "flowschemas"): Table(
        (
            NAME,
            text("PriorityLevel", "The priority level matching requests get."),
            text("MatchingPrecedence", "The precedence among flow schemas; the lowest is matched first."),
            text("DistinguisherMethod", "What tells one flow of requests from another."),
            AGE,
            text("MissingPL", "Whether the priority level does not exist."),
        ),
        _flow_schema,
        arrange=_by_precedence,
    ),
    (_FLOW, "prioritylevelconfigurations"): Table(
        (
            NAME,
            text("Type", "Whether requests of this level are limited."),
            text("NominalConcurrencyShares", "The share of the server this level gets."),
            text("Queues", "How many queues the level has."),
            text("HandSize", "How many queues one flow may use."),
            text("QueueLengthLimit", "How many requests one queue holds."),
            AGE,
        ),
        _priority_level,
    ),
}
