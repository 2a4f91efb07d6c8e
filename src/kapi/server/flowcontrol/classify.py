"""From a request to its FlowSchema, and so to its priority level and its flow.

FlowSchemas are tried by `matchingPrecedence`, then by name; the first that matches decides. The requests of one user,
or of one namespace, under one FlowSchema are a flow: what fairness is between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kapi.api.user import User
    from kapi.server.requestinfo import RequestInfo

REMEMBERED: Final = 8192
"""Distinct requests whose FlowSchema is remembered."""
PRIORITY_LEVEL_HEADER: Final = "X-Kubernetes-PF-PriorityLevel-UID"
FLOW_SCHEMA_HEADER: Final = "X-Kubernetes-PF-FlowSchema-UID"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class Flow(NamedTuple):
    """The classification of a request."""

    schema: str
    """The name of its FlowSchema."""
    level: str
    """The name of its priority level."""
    distinguisher: str
    """The user or namespace that tells the flows of a FlowSchema apart; empty if they are one."""
    headers: tuple[tuple[str, str], ...] = ()
    """The response headers that tell which objects decided; uids only, because names may tell too much."""


class _Values:
    """A list of values of a rule, in which `*` stands for all."""

    def __init__(self, values: Sequence[str] | None) -> None:
        self._all = list(values or ()) == ["*"]
        self._values = frozenset(values or ())

    def __contains__(self, value: str) -> bool:
        return self._all or value in self._values


class _ResourceRule:
    def __init__(self, rule: Mapping[str, Any]) -> None:
        self._verbs = _Values(rule.get("verbs"))
        self._groups = _Values(rule.get("apiGroups"))
        self._resources = _Values(rule.get("resources"))
        self._namespaces = _Values(rule.get("namespaces"))
        self._cluster_scope = bool(rule.get("clusterScope"))

    def matches(self, info: RequestInfo) -> bool:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        if info.verb not in self._verbs or resource not in self._resources or info.group not in self._groups:
            return False
        return info.namespace in self._namespaces if info.namespace else self._cluster_scope


class _PathRule:
    def __init__(self, rule: Mapping[str, Any]) -> None:
        self._verbs = _Values(rule.get("verbs"))
        self._urls: list[str] = rule.get("nonResourceURLs") or []

    def matches(self, info: RequestInfo) -> bool:
        return info.verb in self._verbs and any(_matches_path(url, info.path) for url in self._urls)


def _matches_path(url: str, path: str) -> bool:
    if url in ("*", path):
        return True
    prefix = url.removesuffix("*")
    return path.startswith(prefix if prefix.endswith("/") else f"{prefix}/")


class _Rule:
    def __init__(self, rule: Mapping[str, Any]) -> None:
        self._subjects: list[Mapping[str, Any]] = rule.get("subjects") or []
        self._resources = [_ResourceRule(one) for one in rule.get("resourceRules") or ()]
        self._paths = [_PathRule(one) for one in rule.get("nonResourceRules") or ()]

    def matches(self, user: User, info: RequestInfo) -> bool:
        if not any(_matches_subject(subject, user) for subject in self._subjects):
            return False
        rules: Iterable[_ResourceRule | _PathRule] = self._resources if info.is_resource else self._paths
        return any(rule.matches(info) for rule in rules)


def _matches_subject(subject: Mapping[str, Any], user: User) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return (subject.get("user") or {}).get("name") in ("*", user.name)
    if kind == "Group":
        name = (subject.get("group") or {}).get("name")
        return name == "*" or name in user.groups
    if kind == "ServiceAccount" and user.name.startswith(_ACCOUNT_PREFIX):
        account = subject.get("serviceAccount") or {}
        namespace, _, name = user.name.removeprefix(_ACCOUNT_PREFIX).partition(":")
        return account.get("namespace") == namespace and account.get("name") in ("*", name)
    return False


class FlowSchema:
    """One FlowSchema."""

    def __init__(self, obj: Mapping[str, Any]) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self._uid: str = obj["metadata"].get("uid", "")
        self.headers: tuple[tuple[str, str], ...] = ()
        self.level: str = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
        self.precedence: int = spec.get("matchingPrecedence") or 1000
        self._distinguisher = (spec.get("distinguisherMethod") or {}).get("type", "")
        self._rules = [_Rule(rule) for rule in spec.get("rules") or ()]

    def set_level_uid(self, uid: str) -> None:
        """Take the uid of the priority level, which responses tell."""
        self.headers = ((PRIORITY_LEVEL_HEADER, uid), (FLOW_SCHEMA_HEADER, self._uid))

    def matches(self, user: User, info: RequestInfo) -> bool:
        """Return True if a request is of this FlowSchema."""
        return any(rule.matches(user, info) for rule in self._rules)

    def flow(self, user: User, info: RequestInfo) -> Flow:
        """Return the flow of a request that matches."""
        distinguisher = ""
        if self._distinguisher == "ByUser":
            distinguisher = user.name
        elif self._distinguisher == "ByNamespace":
            distinguisher = info.namespace
        return Flow(self.name, self.level, distinguisher, self.headers)


class Classifier:
    """The FlowSchemas of a server whose priority levels exist, in the order in which they are tried."""

    def __init__(self, schemas: Iterable[FlowSchema], fallback: FlowSchema) -> None:
        """`fallback` is the FlowSchema of requests that no other matches."""
        self._schemas = sorted(schemas, key=lambda schema: (schema.precedence, schema.name))
        self._fallback = fallback
        self._remembered: dict[tuple[str, tuple[str, ...], str, str, str, str, str], Flow] = {}

    def classify(self, user: User, info: RequestInfo) -> Flow:
        """Return the flow of a request."""
        if not info.is_resource:
            return self._find(user, info)
        # By name and groups, which is what FlowSchemas look at: a user of a token is another object in each request.
        key = (user.name, user.groups, info.verb, info.group, info.resource, info.subresource, info.namespace)
        flow = self._remembered.get(key)
        if flow is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            flow = self._remembered[key] = self._find(user, info)
        return flow

    def _find(self, user: User, info: RequestInfo) -> Flow:
        for schema in self._schemas:
            if schema.matches(user, info):
                return schema.flow(user, info)
        return self._fallback.flow(user, info)
