"""FlowSchema and PriorityLevelConfiguration: how requests are sorted when the server is busy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.fieldrules import annotations_of, spec_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

GROUP = "flowcontrol.apiserver.k8s.io"
MAX_PRECEDENCE = 10000
MAX_QUEUES = 10_000_000
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
SUBJECT_KINDS = ("Group", "ServiceAccount", "User")

_MAX_HASH_BITS = 60
_PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_SUBJECT_FIELDS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}


def _condition_errors(obj: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{index}].type", condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(path, kind))
        seen.add(kind)
        if not kind:
            errors.append(required(path))
    return errors


# -- FlowSchema ------------------------------------------------------------------------------------------------------


class FlowSchemaStrategy(Strategy):
    """The rules of FlowSchema."""

    has_status = True
    tracks_generation = True
    resets_metadata_on_status = True

    def default(self, obj: Object) -> None:
        """In the middle of the order."""
        spec = spec_of(obj)
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A place in the order, a priority level, and rules."""
        spec = obj["spec"]
        errors = _precedence_errors(obj["metadata"].get("name", ""), spec.get("matchingPrecedence", 0))
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in {"ByNamespace", "ByUser"}:
            printed = {"Type": method.get("type", "")}
            errors.append(not_supported("spec.distinguisherMethod.type", printed, ("ByNamespace", "ByUser")))
        level = (spec.get("priorityLevelConfiguration") or {}).get("name")
        path = "spec.priorityLevelConfiguration.name"
        errors += (
            fieldrules.dns_subdomain(path, level) if level else [required(path, "must reference a priority level")]
        )
        for index, rule in enumerate(spec.get("rules") or ()):
            errors += _rule_errors(f"spec.rules[{index}]", rule)
        return errors

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Each condition once."""
        return _condition_errors(obj)


def _precedence_errors(name: str, precedence: int) -> list[FieldError]:
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        return [invalid(path, precedence, "must be a positive value")]
    if precedence > MAX_PRECEDENCE:
        return [invalid(path, precedence, f"must not be greater than {MAX_PRECEDENCE}")]
    if precedence == 1 and name != "exempt":
        return [invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")]
    return []


def _rule_errors(path: str, rule: dict[str, Any]) -> list[FieldError]:
    subjects = rule.get("subjects") or []
    errors = [] if subjects else [required(f"{path}.subjects", "subjects must contain at least one value")]
    for index, subject in enumerate(subjects):
        errors += _subject_errors(f"{path}.subjects[{index}]", subject)
    resources, urls = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not resources and not urls:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, text))
    for index, entry in enumerate(resources):
        errors += _resource_rule_errors(f"{path}.resourceRules[{index}]", entry)
    for index, entry in enumerate(urls):
        errors += _url_rule_errors(f"{path}.nonResourceRules[{index}]", entry)
    return errors


def _subject_errors(path: str, subject: dict[str, Any]) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECT_FIELDS:
        return [not_supported(f"{path}.kind", kind, SUBJECT_KINDS)]
    field = _SUBJECT_FIELDS[kind]
    value, where = subject.get(field), f"{path}.{field}"
    errors: list[FieldError] = []
    if value is None:
        errors.append(required(where, f"{field} is required when subject kind is '{kind}'"))
    elif kind == "ServiceAccount":
        errors += _account_errors(where, value)
    elif not value.get("name"):
        errors.append(required(f"{where}.name"))
    others = ((other, name) for other, name in _SUBJECT_FIELDS.items() if other != kind and name in subject)
    return errors + [
        forbidden(f"{path}.{name}", f"{name} is forbidden when subject kind is not '{other}'") for other, name in others
    ]


def _account_errors(path: str, account: dict[str, Any]) -> list[FieldError]:
    name, namespace = account.get("name", ""), account.get("namespace", "")
    errors: list[FieldError] = []
    if name != "*":
        errors += fieldrules.required_string(f"{path}.name", name, fieldrules.dns_subdomain)
    if not namespace:
        errors.append(required(f"{path}.namespace", "must specify namespace for service account"))
        return errors
    return errors + fieldrules.dns_label(f"{path}.namespace", namespace)


def _alone_errors(path: str, values: list[str], missing: str, others: str) -> list[FieldError]:
    """A list that must have something in it, and in which `*` stands alone."""
    if not values:
        return [required(path, missing)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {others}")]
    return []


def _verb_errors(path: str, verbs: list[str]) -> list[FieldError]:
    errors = _alone_errors(path, verbs, "verbs must contain at least one value", "verbs")
    if "*" not in verbs and not set(verbs) <= set(VERBS):
        errors.append(not_supported(path, verbs, VERBS))
    return errors


def _resource_rule_errors(path: str, rule: dict[str, Any]) -> list[FieldError]:
    errors = _verb_errors(f"{path}.verbs", rule.get("verbs") or [])
    text = "resource rules must supply at least one api group"
    errors += _alone_errors(f"{path}.apiGroups", rule.get("apiGroups") or [], text, "api groups")
    text = "resource rules must supply at least one resource"
    errors += _alone_errors(f"{path}.resources", rule.get("resources") or [], text, "resources")
    namespaces, where = rule.get("namespaces") or [], f"{path}.namespaces"
    if namespaces or not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        errors += _alone_errors(where, namespaces, text, "namespaces")
    for index, namespace in enumerate(namespaces if "*" not in namespaces else ()):
        for sentence in names.dns_label(namespace):
            text = f"each member of this list must be '*' or a DNS-1123 label; {sentence}"
            errors.append(invalid(f"{where}[{index}]", namespace, text))
    return errors


def _url_rule_errors(path: str, rule: dict[str, Any]) -> list[FieldError]:
    urls, where = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    errors = _verb_errors(f"{path}.verbs", rule.get("verbs") or [])
    text = "nonResourceURLs must contain at least one value"
    errors += _alone_errors(where, urls, text, "non-resource URLs")
    for index, url in enumerate(urls if "*" not in urls else ()):
        complaint = _url_complaint(url)
        if complaint:
            errors.append(invalid(f"{where}[{index}]", url, complaint))
    return errors


def _url_complaint(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


# -- PriorityLevelConfiguration --------------------------------------------------------------------------------------


class PriorityLevelConfigurationStrategy(Strategy):
    """The rules of PriorityLevelConfiguration."""

    has_status = True
    tracks_generation = True
    resets_metadata_on_status = True

    def default(self, obj: Object) -> None:
        """A modest share, nothing lent, and queues that shuffle well."""
        spec = spec_of(obj)
        if "exempt" in spec:
            spec["exempt"].setdefault("nominalConcurrencyShares", 0)
            spec["exempt"].setdefault("lendablePercent", 0)
        if "limited" not in spec:
            return
        limited = spec["limited"]
        if limited.get("nominalConcurrencyShares") is None:
            limited["nominalConcurrencyShares"] = 30
        limited.setdefault("lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for field, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                if not queuing.get(field):
                    queuing[field] = value

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Exempt is exempt; everything else has limits."""
        errors: list[FieldError] = []
        if _PRESERVE_ZERO in annotations_of(obj):
            errors.append(forbidden("metadata.annotations", f"annotation '{_PRESERVE_ZERO}' is forbidden"))
        spec = obj["spec"]
        kind = spec.get("type", "")
        if (obj["metadata"].get("name") == "exempt") != (kind == "Exempt"):
            errors.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
        return errors + _level_errors(spec, kind)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Each condition once."""
        return _condition_errors(obj)


def _level_errors(spec: dict[str, Any], kind: str) -> list[FieldError]:
    limited, exempt = spec.get("limited"), spec.get("exempt")
    errors: list[FieldError] = []
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        return errors + _share_errors("spec.exempt", exempt or {})
    if kind == "Limited":
        if exempt is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            return [*errors, required("spec.limited", "must not be empty when type is Limited")]
        return errors + _limited_errors("spec.limited", limited)
    return [not_supported("spec.type", kind, ("Exempt", "Limited"))] if kind else [required("spec.type")]


def _share_errors(path: str, part: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    shares, lendable = part.get("nominalConcurrencyShares") or 0, part.get("lendablePercent", 0)
    if shares < 0:
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    return errors + fieldrules.each(f"{path}.lendablePercent", lendable, names.in_range(lendable, 0, 100))


def _limited_errors(path: str, limited: dict[str, Any]) -> list[FieldError]:
    errors = _share_errors(path, limited)
    response, where = limited.get("limitResponse") or {}, f"{path}.limitResponse"
    kind, queuing = response.get("type", ""), response.get("queuing")
    if not kind:
        errors.append(required(f"{where}.type"))
    elif kind == "Reject":
        if queuing is not None:
            text = "must be nil if limited.limitResponse.type is not Limited"
            errors.append(forbidden(f"{where}.queuing", text))
    elif kind != "Queue":
        errors.append(not_supported(f"{where}.type", kind, ("Queue", "Reject")))
    elif queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        errors.append(required(f"{where}.queuing", text))
    else:
        errors += _queuing_errors(f"{where}.queuing", queuing)
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        text = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, text))
    return errors


def _queuing_errors(path: str, queuing: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    length, queues, hand = (queuing.get(field, 0) for field in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > MAX_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {MAX_QUEUES}"))
    if hand <= 0:
        errors.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif _entropy_bits(queues, hand) > _MAX_HASH_BITS:
        deal = f"required entropy bits of deckSize {queues} and handSize {hand}"
        text = f"{deal} should not be greater than {_MAX_HASH_BITS}"
        errors.append(invalid(f"{path}.handSize", hand, text))
    return errors


def _entropy_bits(queues: int, hand: int) -> int:
    """Return the number of hash bits that dealing such a hand takes."""
    return math.ceil(math.log2(queues) * hand)


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "FlowSchema"): FlowSchemaStrategy(),
    (GROUP, "PriorityLevelConfiguration"): PriorityLevelConfigurationStrategy(),
}
