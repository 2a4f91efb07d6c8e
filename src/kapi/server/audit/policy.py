"""The audit policy: which requests are recorded, and how much of each.

The rules of an audit.k8s.io/v1 Policy are tried in order and the first that matches decides; a request that none
matches is not recorded. One bound is not the policy's to lift: of requests that carry credentials (Secrets, tokens)
no body is ever recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kapi.api import names
from kapi.api.fielderror import invalid, not_supported, required
from kapi.server.configfile import ConfigFile, ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kapi.api.fielderror import FieldError
    from kapi.api.meta import Object
    from kapi.api.user import User
    from kapi.server.requestinfo import RequestInfo

API_VERSION: Final = "audit.k8s.io/v1"
REQUEST_RECEIVED: Final = "RequestReceived"
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"
PANIC: Final = "Panic"
READS: Final = ("get", "list", "watch")
STAGES: Final = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)


class Level(IntEnum):
    """How much of a request is recorded; each level includes those before it."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS: Final = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}
LEVEL_NAMES: Final = {level: name for name, level in LEVELS.items()}
REMEMBERED: Final = 8192
"""Distinct requests whose configuration is remembered."""
MAX_REMEMBERED_LENGTH: Final = 512
"""The length of a path up to which parts of it are remembered: any client may send them."""

_CREDENTIALS = frozenset(
    {
        ("", "secrets", ""),
        ("", "serviceaccounts", "token"),
        ("authentication.k8s.io", "tokenreviews", ""),
    }
)

_RULE_SHAPE: Final[Mapping[str, Any]] = {
    "level": str,
    "users": [str],
    "userGroups": [str],
    "verbs": [str],
    "resources": [{"group": str, "resources": [str], "resourceNames": [str]}],
    "namespaces": [str],
    "nonResourceURLs": [str],
    "omitStages": [str],
    "omitManagedFields": bool,
}
_POLICY_SHAPE: Final[Mapping[str, Any]] = {"omitStages": [str], "omitManagedFields": bool, "rules": [_RULE_SHAPE]}


@dataclass(frozen=True, slots=True, eq=False)
class AuditConfig:
    """What the policy says of one request."""

    level: Level
    omit_stages: frozenset[str]
    omit_managed_fields: bool
    is_read: bool = False
    """True if the request changes nothing; set if `is_plain`."""
    is_plain: bool = False
    """True if nothing but metadata is recorded, once, and this is one object for all such requests of a user that have
    the same verb, resource and namespace."""


_Key = tuple["User", str, str, str, str, str, str]


class _GroupResources(NamedTuple):
    group: str
    resources: tuple[str, ...]
    names: frozenset[str]

    def matches(self, info: RequestInfo) -> bool:
        if self.group not in ("*", info.group):
            return False
        if not self.resources:
            return True
        if self.names and info.name not in self.names:
            return False
        combined = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        wanted = {"*", combined, f"{info.resource}/*"}
        if info.subresource:
            wanted.add(f"*/{info.subresource}")
        return not wanted.isdisjoint(self.resources)


class _Rule:
    """One rule of a policy."""

    def __init__(self, rule: Object, omit_stages: frozenset[str], *, omit_managed_fields: bool) -> None:
        own = rule.get("omitManagedFields")
        self.config = AuditConfig(
            LEVELS[rule["level"]],
            omit_stages | frozenset(rule.get("omitStages") or ()),
            omit_managed_fields if own is None else own,
        )
        self._users = frozenset(rule.get("users") or ())
        self._groups = frozenset(rule.get("userGroups") or ())
        self._verbs = frozenset(rule.get("verbs") or ())
        self._namespaces = frozenset(rule.get("namespaces") or ())
        self._urls = tuple(rule.get("nonResourceURLs") or ())
        self._resources = tuple(
            _GroupResources(
                entry.get("group") or "",
                tuple(entry.get("resources") or ()),
                frozenset(entry.get("resourceNames") or ()),
            )
            for entry in rule.get("resources") or ()
        )

    @property
    def looks_at_names(self) -> bool:
        """True if the name of the object matters."""
        return any(entry.names for entry in self._resources)

    def matches(self, user: User, info: RequestInfo) -> bool:
        """Return True if this rule decides about a request."""
        if self._users and user.name not in self._users:
            return False
        if self._groups and self._groups.isdisjoint(user.groups):
            return False
        if self._verbs and info.verb not in self._verbs:
            return False
        if self._namespaces or self._resources:
            return self._matches_resource(info)
        if self._urls:
            return not info.is_resource and any(_matches_path(info.path, url) for url in self._urls)
        return True

    def _matches_resource(self, info: RequestInfo) -> bool:
        if not info.is_resource or (self._namespaces and info.namespace not in self._namespaces):
            return False
        return not self._resources or any(entry.matches(info) for entry in self._resources)


def _matches_path(path: str, url: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


class Policy:
    """A policy, ready to be asked."""

    def __init__(self, policy: Mapping[str, Any]) -> None:
        self._omit_stages = frozenset(policy.get("omitStages") or ())
        self._omit_managed_fields = bool(policy.get("omitManagedFields"))
        self._rules = [
            _Rule(rule, self._omit_stages, omit_managed_fields=self._omit_managed_fields) for rule in policy["rules"]
        ]
        self._looks_at_names = any(rule.looks_at_names for rule in self._rules)
        self._remembered: dict[_Key, AuditConfig] = {}

    @classmethod
    def read(cls, path: Path) -> Policy:
        """Read a policy file.

        Raises:
            ConfigFileError: the file has mistakes, all of which the message names.
        """
        file = ConfigFile(path, {(API_VERSION, "Policy"): _POLICY_SHAPE})
        file.refuse(policy_errors(file.obj))
        if not file.obj.get("rules"):
            raise ConfigFileError(f"{path}: the policy has no rules, so nothing would be recorded")
        return cls(file.obj)

    def evaluate(self, user: User, info: RequestInfo) -> AuditConfig:
        """Return what to record of a request."""
        if self._looks_at_names or not info.is_resource or len(info.path) > MAX_REMEMBERED_LENGTH:
            return self._find(user, info)
        # The user of a connection is one object, so this finds all of its requests for one resource.
        key = (user, info.verb, info.group, info.version, info.resource, info.subresource, info.namespace)
        config = self._remembered.get(key)
        if config is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            config = self._remembered[key] = _plain(self._find(user, info), info.verb)
        return config

    def _find(self, user: User, info: RequestInfo) -> AuditConfig:
        for rule in self._rules:
            if rule.matches(user, info):
                config = rule.config
                if config.level > Level.METADATA and (info.group, info.resource, info.subresource) in _CREDENTIALS:
                    return replace(config, level=Level.METADATA)
                return config
        return AuditConfig(Level.NONE, self._omit_stages, self._omit_managed_fields)


def _plain(config: AuditConfig, verb: str) -> AuditConfig:
    """Return a configuration of its own for requests with a verb."""
    # The answer to a deletion may be a Status, which is recorded.
    is_plain = (
        config.level is Level.METADATA
        and config.omit_stages.isdisjoint((RESPONSE_COMPLETE, PANIC))
        and REQUEST_RECEIVED in config.omit_stages
        and verb not in ("delete", "deletecollection", "watch")
    )
    return replace(config, is_plain=is_plain, is_read=verb in READS)


def policy_errors(policy: Mapping[str, Any]) -> Iterator[FieldError]:
    """Find the mistakes in a policy of the right shape."""
    yield from _stage_errors("omitStages", policy.get("omitStages") or ())
    for index, rule in enumerate(policy.get("rules") or ()):
        yield from _rule_errors(f"rules[{index}]", rule)


def _rule_errors(path: str, rule: Object) -> Iterator[FieldError]:
    level = rule.get("level")
    if not level:
        yield required(f"{path}.level")
    elif level not in LEVELS:
        yield not_supported(f"{path}.level", level, LEVELS)
    for index, url in enumerate(rule.get("nonResourceURLs") or ()):
        where = f"{path}.nonResourceURLs[{index}]"
        if url != "*" and not url.startswith("/"):
            yield invalid(where, url, "non-resource URL rules must begin with a '/' character")
        if "*" in url[:-1]:
            yield invalid(where, url, "non-resource URL wildcards '*' must be the final character of the rule")
    for index, entry in enumerate(rule.get("resources") or ()):
        where = f"{path}.resources[{index}]"
        group = entry.get("group") or ""
        if group and group != "*" and (problems := names.dns_subdomain(group)):
            yield invalid(f"{where}.group", group, ",".join(problems))
        if entry.get("resourceNames") and not entry.get("resources"):
            yield invalid(
                f"{where}.resourceNames", entry["resourceNames"], "using resourceNames requires at least one resource"
            )
    yield from _stage_errors(f"{path}.omitStages", rule.get("omitStages") or ())
    if rule.get("nonResourceURLs") and (rule.get("resources") or rule.get("namespaces")):
        yield invalid(
            f"{path}.nonResourceURLs",
            rule["nonResourceURLs"],
            "rules cannot apply to both regular resources and non-resource URLs",
        )


def _stage_errors(path: str, stages: list[str] | tuple[()]) -> Iterator[FieldError]:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            yield invalid(f"{path}[{index}]", stage, f"allowed stages are {','.join(STAGES)}")


_CORE_CONFIG = {"group": "", "resources": ["configmaps"]}
_NOISE_URLS = ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*", "/metrics*"]
_CONTROL_PLANE = ["system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"]

DEFAULT_POLICY: Final[Mapping[str, Any]] = {
    "omitStages": [REQUEST_RECEIVED],
    "omitManagedFields": True,
    "rules": [
        {"level": "None", "nonResourceURLs": _NOISE_URLS},
        {"level": "None", "users": _CONTROL_PLANE, "verbs": READS},
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system", "system:nodes"], "verbs": READS},
        {
            "level": "None",
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
            "verbs": ["update"],
        },
        {
            "level": "None",
            "resources": [
                {"group": "", "resources": ["events"]},
                {"group": "events.k8s.io", "resources": ["events"]},
            ],
        },
        {"level": "Metadata", "resources": [_CORE_CONFIG]},
        {"level": "Metadata", "verbs": READS},
        {"level": "Metadata", "nonResourceURLs": ["*"]},
        {"level": "Request"},
    ],
}
"""The policy of a server that is given a log file and no policy.

It leaves out what would fill the log and tells little: probes, reads by the control plane and by nodes, renewed Leases
and Events. Of every other read it records who and when; of writes the body that was sent, but for ConfigMaps, which
may hold anything.
"""
