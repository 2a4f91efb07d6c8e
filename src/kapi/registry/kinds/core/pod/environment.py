"""Rules for environment variables and for the references to fields and resources that feed them.

The same references stand in downward API volumes, which is why their checks are shared from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""Fields of the pod an environment variable may show."""

VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
"""Fields of the pod a downward API file may show."""

_KNOWN_FIELDS = frozenset((*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"))
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_ONE_OF = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def check_env(errors: Errors, path: str, variables: list[dict[str, Any]]) -> None:
    """Each variable has a name, and a value or one place to take it from."""
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if name:
            errors += fieldrules.each(f"{path}[{index}].name", name, names.env_var_name(name))
        else:
            errors.append(fielderror.required(f"{path}[{index}].name"))
        source = variable.get("valueFrom")
        if source is not None:
            _check_source(errors, f"{path}[{index}].valueFrom", source, variable.get("value", ""))


def _check_source(errors: Errors, path: str, source: dict[str, Any], value: str) -> None:
    if "fieldRef" in source:
        check_field_reference(errors, f"{path}.fieldRef", source["fieldRef"], ENV_FIELDS)
    if "resourceFieldRef" in source:
        check_resource_reference(errors, f"{path}.resourceFieldRef", source["resourceFieldRef"], in_volume=False)
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            _check_key_reference(errors, f"{path}.{kind}", source[kind])
    if "fileKeyRef" in source:
        _check_file_reference(errors, f"{path}.fileKeyRef", source["fileKeyRef"])
    if not source:
        errors.append(fielderror.invalid(path, "", _ONE_OF))
    elif value:
        errors.append(fielderror.invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.append(fielderror.invalid(path, "", "may not have more than one field specified at a time"))


def _check_key_reference(errors: Errors, path: str, reference: dict[str, Any]) -> None:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors += fieldrules.each(f"{path}.name", name, names.dns_subdomain(name))
    if key:
        errors += fieldrules.each(f"{path}.key", key, names.config_map_key(key))
    else:
        errors.append(fielderror.required(f"{path}.key"))


def _check_file_reference(errors: Errors, path: str, reference: dict[str, Any]) -> None:
    key, file = reference.get("key", ""), reference.get("path", "")
    if key:
        errors += fieldrules.each(f"{path}.key", key, names.env_var_name(key))
    else:
        errors.append(fielderror.required(f"{path}.key"))
    errors += fieldrules.required_dns_label(f"{path}.volumeName", reference.get("volumeName", ""))
    if not file:
        errors.append(fielderror.required(f"{path}.path"))
    elif ".." in file.split("/"):
        errors.append(fielderror.invalid(f"{path}.path", file, "must not contain '..'"))


def check_env_from(errors: Errors, path: str, sources: list[dict[str, Any]]) -> None:
    """Whole ConfigMaps or Secrets as variables, each with an optional prefix."""
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        prefix = source.get("prefix", "")
        if prefix:
            errors += fieldrules.each(f"{here}.prefix", prefix, names.env_var_name(prefix))
        count = 0
        for kind in ("configMapRef", "secretRef"):
            if kind not in source:
                continue
            count += 1
            name = source[kind].get("name", "")
            if name:
                errors += fieldrules.each(f"{here}.{kind}.name", name, names.dns_subdomain(name, prefix=True))
            else:
                errors.append(fielderror.required(f"{here}.{kind}.name"))
        if count == 0:
            errors.append(fielderror.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(fielderror.invalid(path, "", "may not have more than one field specified at a time"))


# -- references into the pod ------------------------------------------------------------------------------------------


def check_field_reference(errors: Errors, path: str, reference: dict[str, Any], allowed: tuple[str, ...]) -> None:
    """A field of the pod, or one label or annotation in brackets."""
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        errors.append(fielderror.required(f"{path}.apiVersion"))
        return
    if not field:
        errors.append(fielderror.required(f"{path}.fieldPath"))
        return
    base, key = _split_subscript(field)
    problem = _conversion_problem(version, field, base, key)
    if problem:
        errors.append(fielderror.invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}"))
    elif key is not None:
        # Annotation keys are validated without regard to case.
        key = key.lower() if base == "metadata.annotations" else key
        errors += fieldrules.each(path, key, names.qualified_name(key))
    else:
        base = "spec.nodeName" if base == "spec.host" else base
        if base not in allowed:
            errors.append(fielderror.not_supported(f"{path}.fieldPath", base, allowed))


def _split_subscript(field: str) -> tuple[str, str | None]:
    if field.endswith("']"):
        base, bracket, key = field[:-2].partition("['")
        if bracket and base:
            return base, key
    return field, None


def _conversion_problem(version: str, field: str, base: str, key: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if key is not None:
        subscripted = base in {"metadata.annotations", "metadata.labels"}
        return "" if subscripted else f"field label does not support subscript: {field}"
    return "" if field in _KNOWN_FIELDS or field == "spec.host" else f"field label not supported: {field}"


def check_resource_reference(errors: Errors, path: str, reference: dict[str, Any], *, in_volume: bool) -> None:
    """A request or limit of a container, in units of `divisor`."""
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        errors.append(fielderror.required(f"{path}.containerName"))
    elif not resource:
        errors.append(fielderror.required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(fielderror.not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = reference.get("divisor", "0")
    if divisor != "0":
        _check_divisor(errors, f"{path}.divisor", resource, divisor)


def _check_divisor(errors: Errors, path: str, resource: str, divisor: str) -> None:
    if resource.endswith(".cpu"):
        if divisor not in {"1", "1m"}:
            detail = "only divisor's values 1m and 1 are supported with the cpu resource"
            errors.append(fielderror.invalid(path, resource, detail))
        return
    if resource.endswith(".memory"):
        what = "memory"
    elif resource.endswith(".ephemeral-storage"):
        what = "local ephemeral storage"
    elif resource.startswith(_HUGE_PAGES):
        what = "hugepages"
    else:
        return
    if divisor not in _BYTE_DIVISORS:
        detail = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {what} resource"
        errors.append(fielderror.invalid(path, resource, detail))
