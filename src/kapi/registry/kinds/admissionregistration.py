"""Webhook configurations, and the rules and match conditions that they share with admission policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kapi.api import names
from kapi.api.fielderror import FieldError, duplicate, invalid, required, too_many
from kapi.api.go.text import quote
from kapi.api.selectors import validate_label_selector
from kapi.registry.kinds import fieldrules
from kapi.registry.kinds.sameness import same
from kapi.registry.strategy import Strategy

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.schema.admission.expressions import Compiled

GROUP = "admissionregistration.k8s.io"
REVIEW_VERSIONS = ("v1", "v1beta1")
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES = ("*", "Cluster", "Namespaced")

_NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_ALL_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_MAX_MATCH_CONDITIONS = 64
_URL_FORM = "; desired format: https://host[/path]"


class WebhookConfigurationStrategy(Strategy):
    """The rules of ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""

    allow_unconditional_update = False
    tracks_generation = True

    def __init__(self, *, mutating: bool) -> None:
        self._mutating = mutating

    def default(self, obj: Object) -> None:
        """Webhooks that fail refuse the request, match equivalent versions and answer within ten seconds."""
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (hook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)

    def validate_create(self, write: Write, obj: Object) -> list[FieldError]:
        """Each webhook by itself, and names that differ."""
        return self._errors(obj.get("webhooks") or [], [])

    def validate_update(self, write: Write, obj: Object, old: Object) -> list[FieldError]:
        """As on create; what older versions of the API let in may stay."""
        return self._errors(obj.get("webhooks") or [], old.get("webhooks") or [])

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """The webhooks are all there is."""
        return not same(obj.get("webhooks"), old.get("webhooks"))

    def _errors(self, hooks: list[dict[str, Any]], stored: list[dict[str, Any]]) -> list[FieldError]:
        strict = all(hook.get("sideEffects") in _NO_SIDE_EFFECTS for hook in stored)
        recognized = all(set(hook.get("admissionReviewVersions") or ()) & set(REVIEW_VERSIONS) for hook in stored)
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, hook in enumerate(hooks):
            path, name = f"webhooks[{index}]", hook.get("name", "")
            errors += _hook_errors(path, hook, _NO_SIDE_EFFECTS if strict else _ALL_SIDE_EFFECTS)
            versions = hook.get("admissionReviewVersions") or []
            errors += _version_errors(f"{path}.admissionReviewVersions", versions, recognized=recognized)
            if name and name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return errors


def _hook_errors(path: str, hook: dict[str, Any], side_effects: tuple[str, ...]) -> list[FieldError]:
    name = hook.get("name", "")
    where = f"{path}.name"
    errors = fieldrules.each(where, name, names.fully_qualified_name(name)) if name else [required(where)]
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += operation_errors(f"{path}.rules[{index}]", rule)
        errors += rule_errors(f"{path}.rules[{index}]", rule)
    errors += fieldrules.one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), ("Fail", "Ignore"))
    errors += fieldrules.one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), ("Equivalent", "Exact"))
    effects = hook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(side_effects)}"))
    else:
        errors += fieldrules.one_of(f"{path}.sideEffects", effects, side_effects)
    seconds = hook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, text))
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(hook.get(field), f"{path}.{field}")
    if "reinvocationPolicy" in hook:
        policies = ("IfNeeded", "Never")
        errors += fieldrules.one_of(f"{path}.reinvocationPolicy", hook["reinvocationPolicy"], policies)
    errors += client_config_errors(f"{path}.clientConfig", hook.get("clientConfig") or {})
    return errors + match_condition_errors(f"{path}.matchConditions", hook.get("matchConditions") or [])


def client_config_errors(path: str, config: dict[str, Any]) -> list[FieldError]:
    """Validate the address of a webhook: a URL or a Service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url_errors(f"{path}.url", url) if url is not None else _service_errors(f"{path}.service", service or {})


def _url_errors(path: str, url: str) -> list[FieldError]:
    try:
        if url.startswith(":"):
            raise ValueError(f"parse {quote(url)}: missing protocol scheme")
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    errors: list[FieldError] = []
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_URL_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))
    return errors


def _service_errors(path: str, service: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    # kube-apiserver has the two mixed up: it blames `namespace` for a missing name and the other way round.
    if not service.get("namespace"):
        errors.append(required(f"{path}.name"))
    if not service.get("name"):
        errors.append(required(f"{path}.namespace"))
    port = service.get("port", 443)
    if names.port_number(port):
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(names.port_number(port))}"))
    target = service.get("path")
    return errors + (_path_errors(f"{path}.path", target) if target and target != "/" else [])


def _path_errors(path: str, target: str) -> list[FieldError]:
    if target == "//":
        return [invalid(path, target, "segment[0] may not be empty")]
    errors = [] if target.startswith("/") else [invalid(path, target, "must start with a '/'")]
    for index, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(path, target, f"segment[{index}] may not be empty"))
            continue
        errors += [invalid(path, target, f"segment[{index}]: {sentence}") for sentence in names.dns_subdomain(step)]
    return errors


# -- rules -----------------------------------------------------------------------------------------------------------


def operation_errors(path: str, rule: dict[str, Any]) -> list[FieldError]:
    """Validate the operations of a rule."""
    operations = rule.get("operations") or []
    errors = [] if operations else [required(f"{path}.operations")]
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        errors.append(invalid(f"{path}.operations", operations, text))
    for index, operation in enumerate(operations):
        errors += fieldrules.one_of(f"{path}.operations[{index}]", operation, OPERATIONS)
    return errors


def rule_errors(path: str, rule: dict[str, Any]) -> list[FieldError]:
    """Validate the groups, versions, resources and scope of a rule."""
    errors: list[FieldError] = []
    for field, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}"))
        if len(values) > 1 and "*" in values:
            text = f"if '*' is present, must not specify other {what}"
            errors.append(invalid(f"{path}.{field}", values, text))
    versions = rule.get("apiVersions") or []
    errors += [required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version]
    errors += _resource_errors(f"{path}.resources", rule.get("resources") or [])
    if "scope" in rule:
        errors += fieldrules.one_of(f"{path}.scope", rule["scope"], SCOPES)
    return errors


def _resource_errors(path: str, resources: list[str]) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    all_of_resource: set[str] = set()
    all_of_subresource: set[str] = set()
    for index, entry in enumerate(resources):
        where = f"{path}[{index}]"
        if not entry:
            errors.append(required(where))
        resource, slash, subresource = entry.partition("/")
        if not slash:
            continue
        if resource in all_of_resource:
            errors.append(invalid(where, entry, f"if '{resource}/*' is present, must not specify {entry}"))
        if subresource in all_of_subresource:
            errors.append(invalid(where, entry, f"if '*/{subresource}' is present, must not specify {entry}"))
        if subresource == "*":
            all_of_resource.add(resource)
        if resource == "*":
            all_of_subresource.add(subresource)
    return errors + _wildcard_errors(path, resources)


def _wildcard_errors(path: str, resources: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    plain = [entry for entry in resources if "/" not in entry and entry]
    # The last resource without a sub-resource decides, in kube-apiserver as here.
    if "*" in plain and plain[-1] != "*":
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, text))
    return errors


def _version_errors(path: str, versions: list[str], *, recognized: bool) -> list[FieldError]:
    listed = ", ".join(REVIEW_VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {listed}")]
    errors: list[FieldError] = []
    repeated = frozenset(fieldrules.repeated(versions))
    for index, version in enumerate(versions):
        if index in repeated:
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        errors += fieldrules.each(f"{path}[{index}]", version, names.dns1035_label(version))
    if recognized and not set(versions) & set(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {listed}"))
    return errors


def match_condition_errors(
    path: str, conditions: list[dict[str, Any]], *, has_params: bool = False
) -> list[FieldError]:
    """Validate match conditions; their expressions must compile."""
    errors: list[FieldError] = []
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_MATCH_CONDITIONS))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name", "")
        source = condition.get("expression", "").strip()
        if source:
            errors += _expression_errors(f"{where}.expression", source, has_params=has_params)
        else:
            errors.append(required(f"{where}.expression"))
        errors += fieldrules.required_string(f"{where}.name", name, fieldrules.qualified_name)
        if name and name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
    return errors


def _expression_errors(path: str, source: str, *, has_params: bool) -> list[FieldError]:
    # Imported here: most servers never see an expression.
    from kapi.schema.admission.expressions import PolicyExpressions

    compiled = PolicyExpressions(has_params=has_params, has_variables=False).condition(source)
    return compile_errors(path, source, compiled)


def compile_errors(path: str, shown: str, compiled: Compiled) -> list[FieldError]:
    """Return the error of an expression that cannot be compiled."""
    if not compiled.error:
        return []
    if compiled.is_internal:
        return [FieldError("InternalError", path, f"Internal error: {compiled.error}")]
    return [invalid(path, shown, compiled.error)]


STRATEGIES: dict[tuple[str, str], Strategy] = {
    (GROUP, "ValidatingWebhookConfiguration"): WebhookConfigurationStrategy(mutating=False),
    (GROUP, "MutatingWebhookConfiguration"): WebhookConfigurationStrategy(mutating=True),
}
