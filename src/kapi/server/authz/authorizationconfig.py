"""The file of `--authorization-config`: an AuthorizationConfiguration, with the authorizers of a server in order.

Everything that is wrong is reported at once, with file, line and field, in the words of kube-apiserver.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.api import names
from kapi.api.fielderror import duplicate, invalid, not_supported, required, too_many
from kapi.api.go.durations import SECOND, parse_duration
from kapi.server.authz.matchconditions import ConditionError, MatchCondition
from kapi.server.authz.settings import MAX_TIMEOUT, WEBHOOK, AuthorizerConfig, WebhookSettings
from kapi.server.configfile import ConfigFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kapi.api.fielderror import FieldError

    Errors = Iterator[FieldError]

MAX_CONDITIONS: Final = 64

_SHAPE: Final[Mapping[str, Any]] = {
    "authorizers": [
        {
            "type": str,
            "name": str,
            "webhook": {
                "authorizedTTL": str,
                "cacheAuthorizedRequests": bool,
                "unauthorizedTTL": str,
                "cacheUnauthorizedRequests": bool,
                "timeout": str,
                "subjectAccessReviewVersion": str,
                "matchConditionSubjectAccessReviewVersion": str,
                "failurePolicy": str,
                "connectionInfo": {"type": str, "kubeConfigFile": str},
                "matchConditions": [{"expression": str}],
            },
        }
    ]
}
_VERSIONS: Final = ("apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1")


def read_authorization_config(path: Path, types: Collection[str]) -> list[AuthorizerConfig]:
    """Read a configuration file whose authorizers may be of these types.

    Raises:
        ConfigFileError: the file has mistakes, all of which the message names.
    """
    file = ConfigFile(path, {(version, "AuthorizationConfiguration"): _SHAPE for version in _VERSIONS})
    file.refuse(config_errors(file.obj, types))
    return [AuthorizerConfig(entry["type"], _settings(entry.get("webhook"))) for entry in file.obj["authorizers"]]


def _settings(webhook: Mapping[str, Any] | None) -> WebhookSettings | None:
    if webhook is None:
        return None
    remembers = [webhook.get(field, True) for field in ("cacheAuthorizedRequests", "cacheUnauthorizedRequests")]
    return WebhookSettings(
        Path(webhook["connectionInfo"]["kubeConfigFile"]),
        _seconds(webhook["authorizedTTL"]) if remembers[0] else 0.0,
        _seconds(webhook["unauthorizedTTL"]) if remembers[1] else 0.0,
        _seconds(webhook["timeout"]),
        webhook["failurePolicy"] == "Deny",
        tuple(MatchCondition(one["expression"]) for one in webhook.get("matchConditions") or ()),
    )


def config_errors(config: Mapping[str, Any], types: Collection[str]) -> Errors:
    """Find the mistakes in a configuration of the right shape."""
    entries: Sequence[Mapping[str, Any]] = config.get("authorizers") or ()
    if not entries:
        yield required("authorizers", "at least one authorization mode must be defined")
    seen_types, seen_names = set[str](), set[str]()
    for index, entry in enumerate(entries):
        path, kind, name = f"authorizers[{index}]", entry.get("type") or "", entry.get("name") or ""
        if not kind:
            yield required(f"{path}.type")
            continue
        if kind not in types:
            yield not_supported(f"{path}.type", kind, sorted(types))
            continue
        if kind in seen_types and kind != WEBHOOK:
            yield duplicate(f"{path}.type", kind)
            continue
        seen_types.add(kind)
        if not name:
            yield required(f"{path}.name")
        elif name in seen_names:
            yield duplicate(f"{path}.name", name)
        elif problems := names.dns_subdomain(name):
            yield invalid(f"{path}.name", name, f"authorizer name is invalid: {', '.join(problems)}")
        seen_names.add(name)
        if kind == WEBHOOK:
            yield from _webhook_errors(f"{path}.webhook", entry.get("webhook"))
        elif entry.get("webhook") is not None:
            yield invalid(f"{path}.webhook", "non-null", "may only be specified when type=Webhook")


def _webhook_errors(path: str, webhook: Mapping[str, Any] | None) -> Errors:
    if webhook is None:
        yield required(path, "required when type=Webhook")
        return
    yield from _duration_errors(f"{path}.timeout", webhook.get("timeout"), MAX_TIMEOUT)
    for field in ("authorizedTTL", "unauthorizedTTL"):
        yield from _duration_errors(f"{path}.{field}", webhook.get(field))
    conditions = webhook.get("matchConditions") or ()
    yield from _choice_errors(f"{path}.subjectAccessReviewVersion", webhook, ("v1",))
    if conditions or webhook.get("matchConditionSubjectAccessReviewVersion"):
        why = "required if match conditions are specified"
        yield from _choice_errors(f"{path}.matchConditionSubjectAccessReviewVersion", webhook, ("v1",), why)
    yield from _choice_errors(f"{path}.failurePolicy", webhook, ("NoOpinion", "Deny"))
    connection = webhook.get("connectionInfo") or {}
    yield from _choice_errors(f"{path}.connectionInfo.type", connection, ("KubeConfigFile",))
    file = connection.get("kubeConfigFile") or ""
    if not file:
        yield required(f"{path}.connectionInfo.kubeConfigFile")
    elif not Path(file).is_absolute():
        yield invalid(f"{path}.connectionInfo.kubeConfigFile", file, "must be an absolute path")
    elif not Path(file).is_file():
        yield invalid(f"{path}.connectionInfo.kubeConfigFile", file, "must be a regular file")
    yield from _condition_errors(f"{path}.matchConditions", conditions)


def _condition_errors(path: str, conditions: Sequence[Mapping[str, str]]) -> Errors:
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(path, len(conditions), MAX_CONDITIONS)
        return
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        where, expression = f"{path}[{index}].expression", condition.get("expression") or ""
        if not expression.strip():
            yield required(where)
        elif expression in seen:
            yield duplicate(where, expression)
        else:
            seen.add(expression)
            try:
                MatchCondition(expression)
            except ConditionError as error:
                yield invalid(where, expression, str(error))


def _choice_errors(path: str, entry: Mapping[str, Any], choices: Sequence[str], why: str = "") -> Errors:
    value = entry.get(path.rpartition(".")[2]) or ""
    if not value:
        yield required(path, why)
    elif value not in choices:
        yield not_supported(path, value, choices)


def _duration_errors(path: str, text: str | None, maximum: float | None = None) -> Errors:
    if not text:
        yield required(path)
        return
    try:
        seconds = _seconds(text)
    except ValueError as error:
        yield invalid(path, text, str(error))
        return
    if maximum is not None and not 0 < seconds <= maximum:
        yield invalid(path, text, f"must be > 0s and <= {maximum:.0f}s")
    elif seconds <= 0:
        yield invalid(path, text, "must be > 0s")


def _seconds(text: str) -> float:
    return parse_duration(text) / SECOND
