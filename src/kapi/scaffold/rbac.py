"""The role of an operator from the permissions that its code declares, and the comparison with what tests asked for.

A test run with `pytest --kapi-requests=FILE` records the requests of managers. Least privilege by measurement: a right
that was asked for and not declared is missing, one that was declared and never asked for is excess.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapi.controller.permissions import policy_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.controller.permissions import Permissions

API: Final = "rbac.authorization.k8s.io/v1"
_FIELDS: Final = ("apiGroups", "resources", "resourceNames", "nonResourceURLs")
_LEASES: Final = ("coordination.k8s.io", "leases")
_EVENTS: Final = ("events.k8s.io", "events")


class Right(NamedTuple):
    """One verb on one resource of one group; the resource may have a sub-resource."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        main, slash, sub = self.resource.partition("/")
        return f"{self.verb} {main}{f'.{self.group}' if self.group else ''}{slash}{sub}"


class Asked(NamedTuple):
    """A right that a request needed, and the name of the object if the request had one."""

    right: Right
    name: str = ""


def merged_rules(permissions: Permissions) -> list[Object]:
    """Return the rules of a role, as few as say the same, in a fixed order."""
    verbs: dict[tuple[Any, ...], set[str]] = {}
    for rule in policy_rules(permissions):
        names = [sorted(set(rule.get(field) or ())) for field in _FIELDS]
        if names[0] and names[1]:
            for group, resource in product(names[0], names[1]):
                verbs.setdefault((group, resource, tuple(names[2])), set()).update(rule.get("verbs") or ())
        else:
            verbs.setdefault(("", "", (), tuple(names[3])), set()).update(rule.get("verbs") or ())
    together: dict[tuple[Any, ...], list[str]] = {}
    for (group, resource, *rest), found in sorted(verbs.items()):
        together.setdefault((group, tuple(sorted(found)), *rest), []).append(resource)
    return [_rule(key, resources) for key, resources in sorted(together.items(), key=lambda one: (one[0][0], one[1]))]


def _rule(key: tuple[Any, ...], resources: list[str]) -> Object:
    group, verbs, names, *urls = key
    if urls:
        return {"nonResourceURLs": list(urls[0]), "verbs": list(verbs)}
    rule: Object = {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
    return {**rule, "resourceNames": list(names)} if names else rule


# -- the comparison ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rights that are missing in a declaration, and those that no request needed."""

    missing: list[Right]
    excess: list[Right]


def read_requests(data: bytes) -> set[Asked]:
    """Return the rights in a record of requests, lines of JSON.

    Raises:
        ValueError: it is no such record.
    """
    try:
        lines = [msgspec.json.decode(line, type=dict[str, str]) for line in data.splitlines() if line.strip()]
        return {Asked(Right(one["verb"], one["group"], one["resource"]), one.get("name", "")) for one in lines}
    except (msgspec.DecodeError, KeyError) as error:
        raise ValueError(f"no record of requests, which pytest --kapi-requests=FILE writes: {error}") from None


def compare(permissions: Permissions, asked: Iterable[Asked]) -> Comparison:
    """Compare declared permissions with the rights that requests needed.

    The Lease of leader election is not part of the comparison: its Role is a manifest of its own. Events are created
    and, when they repeat, patched; a test seldom has them repeat, so one of the two stands for both. A cache that
    watches needs to list as well: whether it does depends on the server, which may send the list as part of the watch.
    """
    needed = {one for one in asked if (one.right.group, one.right.resource) != _LEASES}
    if any((one.right.group, one.right.resource) == _EVENTS for one in needed):
        needed |= {Asked(Right(verb, *_EVENTS)) for verb in ("create", "patch")}
    needed |= {Asked(one.right._replace(verb="list"), one.name) for one in needed if one.right.verb == "watch"}
    rules = policy_rules(permissions)
    missing = {one.right for one in needed if not any(_allows(rule, one) for rule in rules)}
    excess = {
        right
        for rule in rules
        for right in _rights(rule)
        if not any(one.right == right and _allows(rule, one) for one in needed)
    }
    return Comparison(sorted(missing), sorted(excess))


def _allows(rule: Object, asked: Asked) -> bool:
    verb, group, resource = asked.right
    names = rule.get("resourceNames") or ()
    _, slash, sub = resource.partition("/")
    return (
        not {"*", verb}.isdisjoint(rule.get("verbs") or ())
        and not {"*", group}.isdisjoint(rule.get("apiGroups") or ())
        and not {"*", resource, f"*/{sub}" if slash else resource}.isdisjoint(rule.get("resources") or ())
        and (not names or asked.name in names)
    )


def _rights(rule: Object) -> Iterator[Right]:
    """Return the rights of a rule. A wildcard is a right that no request needs, so it is always excess."""
    for group, resource, verb in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("verbs") or ()
    ):
        yield Right(verb, group, resource)
