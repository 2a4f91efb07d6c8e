"""Admission policies and their bindings: defaults and validation. Their expressions must compile.

Expressions that were accepted once are compiled again on an update; there is one set of libraries only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, forbidden, invalid, not_supported, required
from kapi.api.jsonpath.path import compile_path
from kapi.api.jsonpath.steps import JSONPathError
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.admissionregistration import (
    GROUP,
    compile_errors,
    match_condition_errors,
    operation_errors,
    rule_errors,
)
from kapi.registry.kinds.fieldrules import spec_of
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.schema.admission.expressions import PolicyExpressions

    Spec = dict[str, Any]

_FAILURE_POLICIES: Final = ("Fail", "Ignore")
_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")
_PATCH_TYPES: Final = ("ApplyConfiguration", "JSONPatch")
_MUTATING_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_MOST_ANNOTATIONS: Final = 20
_LONGEST_VALUE_EXPRESSION: Final = 5 * 1024
_NOTHING_TO_DO: Final = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE: Final = "name and selector are mutually exclusive"
_DENY_AND_WARN: Final = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"}
    | {"let", "loop", "package", "namespace", "return", "var", "void", "while"}
)


def _default_match(match: Spec | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            rule.setdefault("scope", "*")


class _PolicyStrategy(Strategy):
    """The rules that both kinds of policy share."""

    allow_unconditional_update = False
    tracks_generation = True

    def default(self, obj: Object) -> None:
        """A policy that cannot be evaluated refuses the request."""
        spec = spec_of(obj)
        spec.setdefault("failurePolicy", "Fail")
        _default_match(spec.get("matchConstraints"))

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate the policy, and compile its expressions."""
        return self._errors(obj, None)

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create; match conditions that were accepted are left alone."""
        return self._errors(obj, old)

    def _errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        spec = spec_of(obj)
        errors = fieldrules.one_of("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE_POLICIES)
        if spec.get("paramKind") is not None:
            errors += _param_kind_errors("spec.paramKind", spec["paramKind"])
        errors += self._constraint_errors("spec.matchConstraints", spec.get("matchConstraints"))
        if old is None or not _same_conditions(spec, spec_of(old)):
            conditions = spec.get("matchConditions") or []
            has_params = spec.get("paramKind") is not None
            errors += match_condition_errors("spec.matchConditions", conditions, has_params=has_params)
        return errors

    def _constraint_errors(self, path: str, match: Spec | None) -> list[FieldError]:
        if match is None:
            return [required(path)]
        errors = _match_errors(path, match)
        if not match.get("resourceRules"):
            errors.append(required(f"{path}.resourceRules"))
        return errors


class ValidatingAdmissionPolicyStrategy(_PolicyStrategy):
    """The rules of ValidatingAdmissionPolicy, whose status tells about its expressions."""

    has_status = True
    resets_metadata_on_status = True

    def _errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        spec = spec_of(obj)
        errors = super()._errors(obj, old)
        expressions = _compiler(spec, has_variables=bool(spec.get("variables")))
        errors += _variable_errors(spec, expressions)
        validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
        if not validations and not annotations:
            return [
                *errors,
                required("spec.validations", _NOTHING_TO_DO),
                required("spec.auditAnnotations", _NOTHING_TO_DO),
            ]
        for index, validation in enumerate(validations):
            errors += _validation_errors(f"spec.validations[{index}]", validation, expressions)
        return errors + _annotation_errors(obj["metadata"].get("name", ""), annotations, expressions)

    def validate_status(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """Validate the warnings of type checking."""
        errors: list[FieldError] = []
        checking = (obj.get("status") or {}).get("typeChecking") or {}
        for index, warning in enumerate(checking.get("expressionWarnings") or ()):
            path = f"status.typeChecking.expressionWarnings[{index}]"
            if not warning.get("warning"):
                errors.append(required(f"{path}.warning"))
            errors += _field_reference_errors(f"{path}.fieldRef", warning.get("fieldRef", "").strip())
        return errors


class MutatingAdmissionPolicyStrategy(_PolicyStrategy):
    """The rules of MutatingAdmissionPolicy."""

    def _errors(self, obj: Object, old: Object | None) -> list[FieldError]:
        spec = spec_of(obj)
        errors = super()._errors(obj, old)
        expressions = _compiler(spec)
        errors += _variable_errors(spec, expressions)
        mutations = spec.get("mutations") or []
        if not mutations:
            errors.append(required("spec.mutations", "mutations must contain at least one item"))
        for index, mutation in enumerate(mutations):
            errors += _mutation_errors(f"spec.mutations[{index}]", mutation, expressions)
        policy = spec.get("reinvocationPolicy", "")
        return errors + fieldrules.required_choice("spec.reinvocationPolicy", policy, _REINVOCATION_POLICIES)

    def _constraint_errors(self, path: str, match: Spec | None) -> list[FieldError]:
        return super()._constraint_errors(path, match) + _mutating_operation_errors(path, match)


class AdmissionPolicyBindingStrategy(Strategy):
    """The rules of the bindings of both kinds of policy."""

    allow_unconditional_update = False
    tracks_generation = True

    def __init__(self, *, mutating: bool) -> None:
        self._mutating = mutating

    def default(self, obj: Object) -> None:
        """Fill in the defaults of what a binding matches."""
        _default_match(spec_of(obj).get("matchResources"))

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Validate what the binding refers to and matches."""
        spec = spec_of(obj)
        errors = fieldrules.required_string("spec.policyName", spec.get("policyName"), fieldrules.dns_subdomain)
        if spec.get("paramRef") is not None:
            errors += _param_ref_errors("spec.paramRef", spec["paramRef"])
        match = spec.get("matchResources")
        if match is not None:
            errors += _match_errors("spec.matchResources", match)
        if self._mutating:
            return errors + _mutating_operation_errors("spec.matchResources", match)
        return errors + _action_errors("spec.validationActions", spec.get("validationActions") or [])


def _same_conditions(spec: Spec, old: Spec) -> bool:
    return all((spec.get(field) or None) == (old.get(field) or None) for field in ("paramKind", "matchConditions"))


# -- params and matching ----------------------------------------------------------------------------------------------


def _param_kind_errors(path: str, kind: Spec) -> list[FieldError]:
    errors: list[FieldError] = []
    version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    where = f"{path}.apiVersion"
    if not version:
        errors.append(required(where))
    elif version.count("/") > 1:
        errors.append(invalid(where, version, f"unexpected GroupVersion string: {version}"))
    else:
        errors += _api_version_errors(where, version)
    if not name:
        errors.append(required(f"{path}.kind"))
    elif messages := names.dns1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        errors.append(invalid(f"{path}.kind", name, text))
    return errors


def _api_version_errors(path: str, api_version: str) -> list[FieldError]:
    group, _, version = api_version.rpartition("/")
    errors: list[FieldError] = []
    if group and (messages := names.dns_subdomain(group)):
        errors.append(invalid(path, group, ",".join(messages)))
    if not version:
        errors.append(invalid(path, api_version, "version must be specified"))
    elif messages := names.dns1035_label(version):
        errors.append(invalid(path, version, ",".join(messages)))
    return errors


def _param_ref_errors(path: str, reference: Spec) -> list[FieldError]:
    name, selector = reference.get("name", ""), reference.get("selector")
    errors: list[FieldError] = []
    if name:
        errors += fieldrules.path_segment(f"{path}.name", name)
        if selector is not None:
            errors.append(forbidden(f"{path}.name", _EXCLUSIVE))
    if selector is not None:
        errors += validate_label_selector(selector, f"{path}.selector")
        if name:
            errors.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction", "")
    return errors + fieldrules.required_choice(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)


def _match_errors(path: str, match: Spec) -> list[FieldError]:
    errors = fieldrules.one_of(f"{path}.matchPolicy", match.get("matchPolicy"), _MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        if match.get(field) is None:
            errors.append(required(f"{path}.{field}"))
        errors += validate_label_selector(match.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            errors += _named_rule_errors(f"{path}.{field}[{index}]", rule)
    return errors


def _named_rule_errors(path: str, rule: Spec) -> list[FieldError]:
    errors: list[FieldError] = []
    listed = rule.get("resourceNames") or []
    repeated = frozenset(fieldrules.repeated(listed))
    for index, name in enumerate(listed):
        errors += fieldrules.path_segment(f"{path}.resourceNames[{index}]", name)
        if index in repeated:
            errors.append(duplicate(f"{path}.resourceNames[{index}]", name))
    return errors + operation_errors(path, rule) + rule_errors(path, rule)


def _mutating_operation_errors(path: str, match: Spec | None) -> list[FieldError]:
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)
        for rule in (match or {}).get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _MUTATING_OPERATIONS
    ]


def _action_errors(path: str, actions: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    repeated = frozenset(fieldrules.repeated(actions))
    for index, action in enumerate(actions):
        errors += fieldrules.one_of(f"{path}[{index}]", action, _ACTIONS)
        if index in repeated:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        errors.append(invalid(path, actions, _DENY_AND_WARN))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


# -- expressions ------------------------------------------------------------------------------------------------------


def _compiler(spec: Spec, *, has_variables: bool = True) -> PolicyExpressions:
    # Imported here: most servers never see a policy.
    from kapi.schema.admission.expressions import PolicyExpressions

    return PolicyExpressions(has_params=spec.get("paramKind") is not None, has_variables=has_variables)


def _variable_errors(spec: Spec, expressions: PolicyExpressions) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(spec.get("variables") or ()):
        path, name, source = f"spec.variables[{index}]", variable.get("name", ""), variable.get("expression", "")
        if not name.strip():
            errors.append(required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            errors.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
        if source.strip():
            errors += compile_errors(f"{path}.expression", source, expressions.add_variable(name, source))
        else:
            errors.append(required(f"{path}.expression", "expression is not specified"))
    return errors


def _validation_errors(path: str, validation: Spec, expressions: PolicyExpressions) -> list[FieldError]:
    errors: list[FieldError] = []
    source, message = validation.get("expression", ""), validation.get("message", "")
    if source.strip():
        errors += compile_errors(f"{path}.expression", source, expressions.condition(source))
    else:
        errors.append(required(f"{path}.expression", "expression is not specified"))
    made = validation.get("messageExpression", "")
    if made and not made.strip():
        errors.append(invalid(f"{path}.messageExpression", made, "must be non-empty if specified"))
    elif made:
        errors += compile_errors(f"{path}.messageExpression", made, expressions.message(made))
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if validation.get("reason") is not None:
        errors += fieldrules.one_of(f"{path}.reason", validation["reason"], _REASONS)
    return errors


def _annotation_errors(policy: str, annotations: list[Spec], expressions: PolicyExpressions) -> list[FieldError]:
    errors: list[FieldError] = []
    path = "spec.auditAnnotations"
    if len(annotations) > _MOST_ANNOTATIONS:
        text = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        # kube-apiserver shows its own names of the fields.
        shown = [{"Key": one.get("key", ""), "ValueExpression": one.get("valueExpression", "")} for one in annotations]
        errors.append(invalid(path, shown, text))
    repeated = frozenset(fieldrules.repeated(annotation.get("key", "") for annotation in annotations))
    for index, annotation in enumerate(annotations):
        where, key, source = f"{path}[{index}]", annotation.get("key", ""), annotation.get("valueExpression", "")
        if policy:
            errors += fieldrules.qualified_name(f"{where}.key", f"{policy}/{key}")
        else:
            errors.append(invalid(f"{where}.key", key, "requires metadata.name be non-empty"))
        trimmed, place = source.strip(), f"{where}.valueExpression"
        if not trimmed:
            errors.append(required(place, "valueExpression is not specified"))
        elif len(trimmed.encode()) > _LONGEST_VALUE_EXPRESSION:
            errors.append(required(place, f"must not exceed {_LONGEST_VALUE_EXPRESSION} bytes in length"))
        else:
            errors += compile_errors(place, source, expressions.audit_annotation(trimmed))
        if index in repeated:
            errors.append(duplicate(f"{where}.key", key))
    return errors


def _mutation_errors(path: str, mutation: Spec, expressions: PolicyExpressions) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if kind not in _PATCH_TYPES:
        return fieldrules.required_choice(f"{path}.patchType", kind, _PATCH_TYPES)
    field, other = ("jsonPatch", "applyConfiguration") if kind == "JSONPatch" else ("applyConfiguration", "jsonPatch")
    errors: list[FieldError] = []
    if mutation.get(field) is None:
        errors.append(required(f"{path}.{field}", f"must be specified when patchType is {kind}"))
    else:
        source, where = mutation[field].get("expression", "").strip(), f"{path}.{field}.expression"
        compile_ = expressions.json_patch if kind == "JSONPatch" else expressions.apply_configuration
        errors += compile_errors(where, source, compile_(source)) if source else [required(where)]
    if mutation.get(other) is not None:
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}"))
    return errors


def _field_reference_errors(path: str, reference: str) -> list[FieldError]:
    if not reference:
        return [required(path)]
    try:
        compile_path(reference)
    except JSONPathError as error:
        return [invalid(path, reference, f"invalid JSONPath: {error}")]
    return []


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "ValidatingAdmissionPolicy"): ValidatingAdmissionPolicyStrategy(),
    (GROUP, "ValidatingAdmissionPolicyBinding"): AdmissionPolicyBindingStrategy(mutating=False),
    (GROUP, "MutatingAdmissionPolicy"): MutatingAdmissionPolicyStrategy(),
    (GROUP, "MutatingAdmissionPolicyBinding"): AdmissionPolicyBindingStrategy(mutating=True),
}
