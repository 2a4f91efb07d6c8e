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
MAX_COMPARISONS: Final = 50_000
"""A small object can name so many combinations of groups, resources and verbs that comparing all would take hours."""

_FIELDS: Final = ("apiGroups", "resources", "resourceNames", "nonResourceURLs", "verbs")


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

    def covers(self, rule: PolicyRule) -> bool:
        """Return True if the rule allows everything that another one allows."""
        groups, resources, names, urls, verbs = (rule.get(field) or () for field in _FIELDS)
        if not (self._all_verbs or self._verbs.issuperset(verbs)):
            return False
        if not (self._all_groups or self._groups.issuperset(groups)):
            return False
        if not self._all_resources and not all(map(self._covers_resource, resources)):
            return False
        if self.names and not (names and self.names.issuperset(names)):
            return False
        return all(url in self._urls or url.startswith(self._prefixes) for url in urls)

    def _covers_resource(self, resource: str) -> bool:
        _, slash, subresource = resource.partition("/")
        return resource in self._resources or (bool(slash) and f"*/{subresource}" in self._resources)


def missing_rules(owned: Sequence[Rule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return what `wanted` allows and `owned` does not, as rules of one verb and one resource or path each.

    Raises:
        TooManyRules: there is too much to compare.
    """
    missing: list[PolicyRule] = []
    left = MAX_COMPARISONS
    for rule in wanted:
        left -= len(owned)
        # That one owned rule covers all of it is the common case, and spares taking it apart.
        if any(owner.covers(rule) for owner in owned):
            continue
        left -= _count(rule) * max(len(owned), 1)
        if left < 0:
            raise TooManyRules("the rules have too many combinations of groups, resources, verbs and names to compare")
        missing += [single for single in _singles(rule) if not any(owner.covers(single) for owner in owned)]
    return missing


def _count(rule: PolicyRule) -> int:
    groups, resources, names, urls, verbs = (len(rule.get(field) or ()) for field in _FIELDS)
    return (groups * resources * max(names, 1) + urls) * verbs


def _singles(rule: PolicyRule) -> list[PolicyRule]:
    """Return the same as rules of one verb and one resource, name or path each."""
    groups, resources, names, urls, verbs = (rule.get(field) or () for field in _FIELDS)
    singles: list[PolicyRule] = []
    for group in groups:
        for resource in resources:
            for verb in verbs:
                single = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                singles += [{**single, "resourceNames": [name]} for name in names] if names else [single]
    return [*singles, *({"nonResourceURLs": [url], "verbs": [verb]} for url in urls for verb in verbs)]


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
