"""Rules for what decides where a pod may run: tolerations, affinity, spread constraints, gates.

Node selector terms are shared with volumes that are bound to nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import same

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

Spec = dict[str, Any]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SCHEDULE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_BOTH = "exists in both matchLabelKeys and labelSelector"
_NO_SELECTOR = "must not be specified when labelSelector is not set"


# -- tolerations ------------------------------------------------------------------------------------------------------


def check_tolerations(errors: Errors, path: str, tolerations: list[Spec]) -> None:
    """Validate the tolerations of a pod."""
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        if key:
            errors += fieldrules.each(f"{here}.key", key, names.qualified_name(key))
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(fielderror.invalid(f"{here}.operator", operator, detail))
        effect = toleration.get("effect", "")
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(fielderror.invalid(f"{here}.effect", effect, detail))
        _check_toleration_value(errors, f"{here}.operator", operator, toleration.get("value", ""))
        if effect and effect not in _EFFECTS:
            errors.append(fielderror.not_supported(f"{here}.effect", effect, _EFFECTS))


def _check_toleration_value(errors: Errors, path: str, operator: str, value: str) -> None:
    if operator in {"", "Equal"}:
        sentences = names.label_value(value)
        if sentences:
            errors.append(fielderror.invalid(path, value, ";".join(sentences)))
    elif operator == "Exists":
        if value:
            errors.append(fielderror.invalid(path, value, "value must be empty when `operator` is 'Exists'"))
    elif operator in {"Lt", "Gt"}:
        # Numeric comparison is a feature that v1.36 ships switched off, though its message already names it.
        errors.append(fielderror.not_supported(path, operator, ("Equal", "Exists", "Lt", "Gt")))
    else:
        errors.append(fielderror.not_supported(path, operator, ("Equal", "Exists")))


def check_only_added_tolerations(errors: Errors, path: str, new: list[Spec], old: list[Spec]) -> None:
    """A pod's tolerations may grow; of the existing ones only the seconds may change."""
    if not {*map(_without_seconds, old)} <= {*map(_without_seconds, new)}:
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(fielderror.forbidden(path, detail))
        return
    check_tolerations(errors, path, new)


def _without_seconds(toleration: Spec) -> frozenset[tuple[str, str]]:
    """The fields of a toleration that may not change; one that is empty says the same as one left out."""
    return frozenset((key, value) for key, value in toleration.items() if value and key != "tolerationSeconds")


# -- affinity ---------------------------------------------------------------------------------------------------------


def check_affinity(errors: Errors, path: str, affinity: Spec) -> None:
    """Attraction to nodes, and attraction to or repulsion from other pods."""
    node = affinity.get("nodeAffinity")
    if node is not None:
        if _REQUIRED in node:
            check_node_selector(errors, f"{path}.nodeAffinity.{_REQUIRED}", node[_REQUIRED])
        for index, term in enumerate(node.get(_PREFERRED, ())):
            here = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            _check_weight(errors, here, term)
            # A preference may name values no node can have; it is then simply never met.
            _check_node_term(errors, f"{here}.preference", term.get("preference", {}), check_values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            _check_pod_affinity(errors, f"{path}.{kind}", affinity[kind])


def _check_weight(errors: Errors, path: str, term: Spec) -> None:
    weight = term.get("weight", 0)
    if not 0 < weight <= 100:
        errors.append(fielderror.invalid(f"{path}.weight", weight, "must be in the range 1-100"))


def check_node_selector(errors: Errors, path: str, selector: Spec) -> None:
    """Alternatives of which one must hold; there must be one at least."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        errors.append(fielderror.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
    for index, term in enumerate(terms):
        _check_node_term(errors, f"{path}.nodeSelectorTerms[{index}]", term, check_values=True)


def _check_node_term(errors: Errors, path: str, term: Spec, *, check_values: bool) -> None:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        _check_node_expression(errors, here, requirement, check_values=check_values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        _check_node_field(errors, f"{path}.matchFields[{index}]", requirement)


def _check_node_expression(errors: Errors, path: str, requirement: Spec, *, check_values: bool) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in {"In", "NotIn"}:
        if not values:
            errors.append(fielderror.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(fielderror.forbidden(f"{path}.values", detail))
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(fielderror.required(f"{path}.values", detail))
    else:
        errors.append(fielderror.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    errors += fieldrules.each(f"{path}.key", key, names.qualified_name(key))
    if check_values:
        for index, value in enumerate(values):
            errors += fieldrules.each(f"{path}.values[{index}]", value, names.label_value(value))


def _check_node_field(errors: Errors, path: str, requirement: Spec) -> None:
    operator, values, key = (
        requirement.get("operator", ""),
        requirement.get("values", ()),
        requirement.get("key", ""),
    )
    if operator not in {"In", "NotIn"}:
        errors.append(fielderror.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(fielderror.required(f"{path}.values", detail))
    if key != "metadata.name":
        errors.append(fielderror.invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        errors += fieldrules.each(f"{path}.values[{index}]", value, names.dns_subdomain(value))


def _check_pod_affinity(errors: Errors, path: str, affinity: Spec) -> None:
    for index, term in enumerate(affinity.get(_REQUIRED, ())):
        _check_pod_term(errors, f"{path}.{_REQUIRED}[{index}]", term)
    for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
        here = f"{path}.{_PREFERRED}[{index}]"
        _check_weight(errors, here, weighted)
        _check_pod_term(errors, f"{here}.podAffinityTerm", weighted.get("podAffinityTerm", {}))


def _check_pod_term(errors: Errors, path: str, term: Spec) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        errors.extend(validate_label_selector(term.get(field), f"{path}.{field}"))
    for namespace in term.get("namespaces", ()):
        errors += fieldrules.each(f"{path}.namespace", namespace, names.dns_label(namespace))
    _check_label_keys(errors, path, term)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(fielderror.required(f"{path}.topologyKey", "can not be empty"))
    errors += fieldrules.each(f"{path}.topologyKey", key, names.qualified_name(key))


def _check_label_keys(errors: Errors, path: str, term: Spec) -> None:
    """`matchLabelKeys` and `mismatchLabelKeys`, which add the pod's own label values to the selector."""
    selector = term.get("labelSelector")
    match, mismatch = term.get("matchLabelKeys", ()), term.get("mismatchLabelKeys", ())
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.append(fielderror.forbidden(f"{path}.{field}", _NO_SELECTOR))
        elif keys:
            for index, key in enumerate(keys):
                errors += fieldrules.each(f"{path}.{field}[{index}]", key, names.qualified_name(key))
    if selector is not None:
        seen = set(selector.get("matchLabels", ()))
        first = {key: index for index, key in reversed([*enumerate(match)])}
        for expression in selector.get("matchExpressions", ()):
            key = expression.get("key", "")
            # Creation has merged the keys into the selector already: one found twice was named there as well.
            if key in first and key in seen:
                errors.append(fielderror.invalid(f"{path}[{first[key]}]", key, _BOTH))
            seen.add(key)
    excluded = frozenset(mismatch)
    for index, key in enumerate(match):
        if key in excluded:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(fielderror.invalid(f"{path}.matchLabelKeys[{index}]", key, detail))


def merge_label_keys(spec: Spec, labels: dict[str, str]) -> None:
    """Turn `matchLabelKeys` and `mismatchLabelKeys` of a new pod into selector expressions, in place."""
    terms = list(spec.get("topologySpreadConstraints", ()))
    affinity = spec.get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        side = affinity.get(kind, {})
        terms += [weighted.get("podAffinityTerm", {}) for weighted in side.get(_PREFERRED, ())]
        terms += side.get(_REQUIRED, ())
    for term in terms:
        selector = term.get("labelSelector")
        if selector is not None:
            _merge_into(selector, term, labels)


def _merge_into(selector: Spec, term: Spec, labels: dict[str, str]) -> None:
    keys = [
        (key, operator)
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field, ())
        if key in labels
    ]
    if not keys:
        return
    expressions = selector.setdefault("matchExpressions", [])
    known = {
        (expression.get("key", ""), expression.get("operator", ""))
        for expression in expressions
        if expression.get("values") == [labels.get(expression.get("key", ""))]
    }
    for key, operator in keys:
        if (key, operator) not in known:
            known.add((key, operator))
            expressions.append({"key": key, "operator": operator, "values": [labels[key]]})


# -- spreading --------------------------------------------------------------------------------------------------------


def check_spread_constraints(errors: Errors, path: str, constraints: list[Spec]) -> None:
    """Validate topology spread constraints."""
    last = {_spread_key(constraint): index for index, constraint in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        action, key = constraint.get("whenUnsatisfiable", ""), constraint.get("topologyKey", "")
        errors += fieldrules.positive(f"{here}.maxSkew", constraint.get("maxSkew", 0))
        if not key:
            errors.append(fielderror.required(f"{here}.topologyKey", "can not be empty"))
        if action not in _SCHEDULE_ACTIONS:
            errors.append(fielderror.not_supported(f"{here}.whenUnsatisfiable", action, _SCHEDULE_ACTIONS))
        if last[_spread_key(constraint)] > index:
            shown = f"{{{key}, {action}}}"
            errors.append(fielderror.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", shown))
        _check_min_domains(errors, f"{here}.minDomains", constraint.get("minDomains"), action)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if field in constraint and constraint[field] not in _INCLUSION_POLICIES:
                errors.append(fielderror.not_supported(f"{here}.{field}", constraint[field], _INCLUSION_POLICIES))
        _check_label_keys(errors, here, constraint)
        errors.extend(validate_label_selector(constraint.get("labelSelector"), f"{here}.labelSelector"))


def _spread_key(constraint: Spec) -> tuple[str, str]:
    return constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", "")


def _check_min_domains(errors: Errors, path: str, domains: int | None, action: str) -> None:
    if domains is None:
        return
    errors += fieldrules.positive(path, domains)
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(fielderror.invalid(path, domains, detail))


# -- gates ------------------------------------------------------------------------------------------------------------


def check_scheduling_gates(errors: Errors, path: str, gates: list[Spec]) -> None:
    """Names of what must happen before a pod is scheduled."""
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += fieldrules.each(f"{path}[{index}]", name, names.qualified_name(name))
        if name in seen:
            errors.append(fielderror.duplicate(f"{path}[{index}]", name))
        seen.add(name)


def check_only_removed_gates(errors: Errors, path: str, new: list[Spec], old: list[Spec]) -> None:
    """Gates may open, never close."""
    known = {gate.get("name", "") for gate in old}
    for index, gate in enumerate(new):
        name = gate.get("name", "")
        if name not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(fielderror.forbidden(f"{path}[{index}].name", detail))


def check_only_narrowed_nodes(errors: Errors, path: str, new: Spec, old: Spec) -> None:
    """While gated, a pod's choice of nodes may become narrower: additions to selectors only."""
    selector, before = new.get("nodeSelector", {}), old.get("nodeSelector", {})
    if any(selector.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(fielderror.invalid(f"{path}.nodeSelector", selector or None, detail))
    terms, old_terms = _required_terms(new), _required_terms(old)
    here = f"{path}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if old_terms and len(terms) != len(old_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(fielderror.invalid(here, terms or None, detail))
        return
    for index, (term, old_term) in enumerate(zip(terms, old_terms, strict=False)):
        if not _only_adds(term, old_term):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.append(fielderror.invalid(f"{here}[{index}]", term, detail))


def _required_terms(spec: Spec) -> list[Spec]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {})
    terms: list[Spec] = affinity.get("nodeSelectorTerms") or []
    return terms


def _only_adds(term: Spec, old: Spec) -> bool:
    before = {field: old.get(field, []) for field in ("matchExpressions", "matchFields")}
    if not any(before.values()):
        return not term.get("matchExpressions") and not term.get("matchFields")
    return all(same(term.get(field, [])[: len(items)], items) for field, items in before.items())
