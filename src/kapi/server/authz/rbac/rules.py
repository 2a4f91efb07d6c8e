"""Policy rules of roles: which requests a rule allows, and which rules cover others.

A rule in the form of the API is a `PolicyRule` dictionary; `Rule` is the same compiled for decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kapi.api.go.text import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    PolicyRule = Mapping[str, Any]

ALL: Final = "*"
MAX_COMPARISONS: Final = 100_000
"""A small object can name so many combinations of groups, resources and verbs that comparing all would take hours."""


class TooManyRules(ValueError):
    """Rules that have more combinations of groups, resources, verbs and names than this server compares."""


class Rule:
    """One rule of a role, compiled."""

    __slots__ = (
        "_all_groups",
        "_all_resources",
        "_all_verbs",
        "_groups",
        "_prefixes",
        "_resources",
        "_urls",
        "_verbs",
        "names",
        "source",
    )

    def __init__(self, rule: PolicyRule) -> None:
        self.source = rule
        self._verbs = frozenset(rule.get("verbs") or ())
        self._groups = frozenset(rule.get("apiGroups") or ())
        self._resources = frozenset(rule.get("resources") or ())
        self._all_verbs = ALL in self._verbs
        self._all_groups = ALL in self._groups
        self._all_resources = ALL in self._resources
        self.names: frozenset[str] = frozenset(rule.get("resourceNames") or ())
        """The objects that the rule is about; all when empty."""
        urls = rule.get("nonResourceURLs") or ()
        self._urls = frozenset(urls)
        self._prefixes = tuple(url.rstrip(ALL) for url in urls if url.endswith(ALL))

    def allows_resource(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Return True if the rule allows a verb on a resource, for all objects or for those in `names`."""
        if not (self._all_verbs or verb in self._verbs) or not (self._all_groups or group in self._groups):
            return False
        if self._all_resources:
            return True
        if not subresource:
            return resource in self._resources
        return f"{resource}/{subresource}" in self._resources or f"*/{subresource}" in self._resources

    def allows_path(self, verb: str, path: str) -> bool:
        """Return True if the rule allows a verb on a path that is not a resource."""
        if not (self._all_verbs or verb in self._verbs):
            return False
        return path in self._urls or path.startswith(self._prefixes)


def missing_rules(owned: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return what `wanted` allows and `owned` does not, as rules of one verb and one resource or path each."""
    return [single for rule in wanted if not _covered(owned, rule) for single in _missing(owned, rule)]


def _covered(owned: Sequence[PolicyRule], rule: PolicyRule) -> bool:
    """Return True if one of the owned rules covers all of a rule: the common case, without taking it apart."""
    return any(_covers(owner, rule) for owner in owned)


def _missing(owned: Sequence[PolicyRule], rule: PolicyRule) -> list[PolicyRule]:
    verbs, names = rule.get("verbs") or (), rule.get("resourceNames") or ()
    groups, resources, urls = (rule.get(field) or () for field in ("apiGroups", "resources", "nonResourceURLs"))
    count = (len(groups) * len(resources) * max(len(names), 1) + len(urls)) * len(verbs)
    if count * max(len(owned), 1) > MAX_COMPARISONS:
        raise TooManyRules(f"a rule with {count} combinations of groups, resources, verbs and names is too large")
    singles: list[PolicyRule] = []
    for group in groups:
        for resource in resources:
            for verb in verbs:
                single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                singles += [{**single, "resourceNames": [name]} for name in names] if names else [single]
    singles += [{"nonResourceURLs": [url], "verbs": [verb]} for url in urls for verb in verbs]
    return [single for single in singles if not _covered(owned, single)]


def _covers(owner: PolicyRule, rule: PolicyRule) -> bool:
    """Return True if an owned rule allows everything that another rule allows."""
    if not _has_all(owner.get("verbs") or (), rule.get("verbs") or ()):
        return False
    if not _has_all(owner.get("apiGroups") or (), rule.get("apiGroups") or ()):
        return False
    resources = owner.get("resources") or ()
    if ALL not in resources:
        for resource in rule.get("resources") or ():
            _, slash, subresource = resource.partition("/")
            if resource not in resources and not (slash and f"*/{subresource}" in resources):
                return False
    names = owner.get("resourceNames") or ()
    if names and not (rule.get("resourceNames") and set(rule["resourceNames"]) <= set(names)):
        return False
    urls = owner.get("nonResourceURLs") or ()
    return all(any(_url_covers(url, path) for url in urls) for path in rule.get("nonResourceURLs") or ())


def _has_all(owned: Sequence[str], wanted: Sequence[str]) -> bool:
    return ALL in owned or set(wanted) <= set(owned)


def _url_covers(owned: str, path: str) -> bool:
    return owned == path or (owned.endswith(ALL) and path.startswith(owned.rstrip(ALL)))


def describe_rules(singles: Iterable[PolicyRule]) -> list[str]:
    """Return the lines that name missing rules in an error: the verbs of a resource together, in order, once each."""
    compact: dict[object, dict[str, Any]] = {}
    for index, rule in enumerate(singles):
        key: object = index
        if "nonResourceURLs" not in rule:
            key = (rule["apiGroups"][0], rule["resources"][0], *rule.get("resourceNames", ()))
        known = compact.setdefault(key, {**rule, "verbs": []})
        known["verbs"] += rule["verbs"]
    return sorted({_describe(rule) for rule in compact.values()})


_PRINTED: Final = {
    "APIGroups": "apiGroups",
    "Resources": "resources",
    "NonResourceURLs": "nonResourceURLs",
    "ResourceNames": "resourceNames",
    "Verbs": "verbs",
}


def _describe(rule: PolicyRule) -> str:
    parts = [f"{printed}:{quoted_list(rule[field])}" for printed, field in _PRINTED.items() if rule.get(field)]
    return f"{{{', '.join(parts)}}}"


def quoted_list(texts: Iterable[str]) -> str:
    """Return strings as Go prints a slice of them with %q."""
    return f"[{' '.join(map(quote, texts))}]"
