"""Rules for probes and lifecycle hooks: exactly one handler each, and sensible numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.api import fielderror, names
from kapi.registry.kinds import fieldrules

if TYPE_CHECKING:
    from kapi.registry.kinds.fieldrules import Errors

_SCHEMES = ("HTTP", "HTTPS")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def check_probes(errors: Errors, path: str, container: dict[str, Any], grace_period: int | None) -> None:
    """The three probes of a container; liveness and startup must succeed at once, readiness ends nothing."""
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is None:
            continue
        here = f"{path}.{kind}"
        _check_probe(errors, here, probe, grace_period)
        if kind == "readinessProbe":
            if "terminationGracePeriodSeconds" in probe:
                seconds = probe["terminationGracePeriodSeconds"]
                detail = "must not be set for readinessProbes"
                errors.append(fielderror.invalid(f"{here}.terminationGracePeriodSeconds", seconds, detail))
        elif probe.get("successThreshold", 0) != 1:
            threshold = probe.get("successThreshold", 0)
            errors.append(fielderror.invalid(f"{here}.successThreshold", threshold, "must be 1"))


def _check_probe(errors: Errors, path: str, probe: dict[str, Any], grace_period: int | None) -> None:
    _check_handler(errors, path, probe, grace_period)
    for name in _PROBE_NUMBERS:
        errors += fieldrules.not_negative(f"{path}.{name}", probe.get(name))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(fielderror.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))


def check_lifecycle(errors: Errors, path: str, lifecycle: dict[str, Any] | None, grace_period: int | None) -> None:
    """Validate the handlers that run after start and before stop."""
    if lifecycle is None:
        return
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            _check_handler(errors, f"{path}.{hook}", lifecycle[hook], grace_period)


def _check_handler(errors: Errors, path: str, holder: dict[str, Any], grace_period: int | None) -> None:
    found = False
    for kind in _HANDLERS:
        action = holder.get(kind)
        if action is None:
            continue
        if found:
            errors.append(fielderror.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))
            continue
        found = True
        _check_action(errors, f"{path}.{kind}", kind, action, grace_period)
    if not found:
        errors.append(fielderror.required(path, "must specify a handler type"))


def _check_action(errors: Errors, path: str, kind: str, action: dict[str, Any], grace_period: int | None) -> None:
    if kind == "exec":
        if not action.get("command"):
            errors.append(fielderror.required(f"{path}.command"))
    elif kind == "httpGet":
        _check_http_get(errors, path, action)
    elif kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace_period is not None and not 0 <= seconds <= grace_period:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_period})"
            errors.append(fielderror.invalid(path, seconds, detail))
    else:
        _check_port(errors, f"{path}.port", action.get("port", 0))


def _check_http_get(errors: Errors, path: str, action: dict[str, Any]) -> None:
    if not action.get("path"):
        errors.append(fielderror.required(f"{path}.path"))
    _check_port(errors, f"{path}.port", action.get("port", 0))
    if action.get("scheme") not in _SCHEMES:
        errors.append(fielderror.not_supported(f"{path}.scheme", action.get("scheme", ""), _SCHEMES))
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        errors += fieldrules.each(f"{path}.httpHeaders", name, names.http_header_name(name))


def _check_port(errors: Errors, path: str, port: int | str) -> None:
    sentences = names.port_number(port) if isinstance(port, int) else names.port_name(port)
    errors += fieldrules.each(path, port, sentences)
