"""Roles and bindings: the shape of rules, subjects and references.

Whether a user may grant them is decided in admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import names
from kapi.api.fielderror import FieldError, invalid, not_supported, required
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write

GROUP = "rbac.authorization.k8s.io"
SUBJECT_KINDS = ("ServiceAccount", "User", "Group")


class _RbacStrategy(Strategy):
    """The base of all four kinds: any name that is a path segment is valid, and PUT creates."""

    allow_create_on_update = True

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        """A path segment: colons and capitals are fine. A prefix is held to the same."""
        return names.path_segment(name)


class RoleStrategy(_RbacStrategy):
    """The rules of Role."""

    def __init__(self, *, namespaced: bool = True) -> None:
        self._namespaced = namespaced

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Every rule names verbs, and what they apply to."""
        return [
            error
            for index, rule in enumerate(obj.get("rules") or ())
            for error in rule_errors(f"rules[{index}]", rule, namespaced=self._namespaced)
        ]


class ClusterRoleStrategy(RoleStrategy):
    """The rules of ClusterRole, which may also be put together from others."""

    def __init__(self) -> None:
        super().__init__(namespaced=False)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """As a Role, and selectors that select."""
        errors = super().validate_create(write, obj)
        if "aggregationRule" not in obj:
            return errors
        path = "aggregationRule.clusterRoleSelectors"
        selectors = obj["aggregationRule"].get("clusterRoleSelectors") or []
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errors.append(required(path, text))
        for index, selector in enumerate(selectors):
            errors += validate_label_selector(selector, f"{path}[{index}]")
        return errors


def rule_errors(path: str, rule: dict[str, Any], *, namespaced: bool) -> list[FieldError]:
    """One rule: verbs, and either resources or URLs."""
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs") or []
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(where, urls, text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


class RoleBindingStrategy(_RbacStrategy):
    """The rules of RoleBinding and, with other arguments, of ClusterRoleBinding."""

    def __init__(self, *, namespaced: bool = True) -> None:
        self._namespaced = namespaced
        self._role_kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)

    def default(self, obj: Object) -> None:
        """Roles, users and groups are of this API group."""
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
                subject["apiGroup"] = GROUP

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """A role that can be referred to from here, and subjects that can be."""
        reference = obj.get("roleRef") or {}
        errors = fieldrules.one_of("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,))
        errors += fieldrules.one_of("roleRef.kind", reference.get("kind", ""), self._role_kinds)
        errors += fieldrules.required_string("roleRef.name", reference.get("name"), fieldrules.path_segment)
        for index, subject in enumerate(obj.get("subjects") or ()):
            errors += _subject_errors(f"subjects[{index}]", subject, namespaced=self._namespaced)
        return errors

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """The role stays: a binding to another role is another binding."""
        errors = self.validate_create(write, obj)
        now, was = (_reference_as_printed(side.get("roleRef") or {}) for side in (obj, old))
        return errors if now == was else [*errors, invalid("roleRef", now, "cannot change roleRef")]


def _reference_as_printed(reference: dict[str, str]) -> dict[str, str]:
    """kube-apiserver prints its internal structure, whose field names are capitalised."""
    fields = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    return {printed: reference.get(field, "") for printed, field in fields}


def _subject_errors(path: str, subject: dict[str, Any], *, namespaced: bool) -> list[FieldError]:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    errors = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        if name:
            errors += fieldrules.dns_subdomain(f"{path}.name", name)
        errors += fieldrules.one_of(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in SUBJECT_KINDS:
        errors += fieldrules.one_of(f"{path}.apiGroup", group, (GROUP,))
    else:
        errors.append(not_supported(f"{path}.kind", kind, SUBJECT_KINDS))
    return errors


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "Role"): RoleStrategy(),
    (GROUP, "ClusterRole"): ClusterRoleStrategy(),
    (GROUP, "RoleBinding"): RoleBindingStrategy(),
    (GROUP, "ClusterRoleBinding"): RoleBindingStrategy(namespaced=False),
}
