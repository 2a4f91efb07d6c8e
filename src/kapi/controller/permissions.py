"""The rights that a controller needs, declared next to its code, and the same as rules of RBAC.

    PERMISSIONS: Permissions = [
        {Network: ["list", "watch"], (Network, "status"): ["update"], ConfigMap: ["create", "patch"]},
    ]

`kapi generate rbac` writes the role of an operator from them. In a test `Environment.user(rules=PERMISSIONS)` gives
them to the operator, so that a right that is missing fails the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kapi.api.crd.resources import CustomResource, naming_of, plural_of
from kapi.api.meta import GroupVersionKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapi.api.meta import Object

Permissions: TypeAlias = Iterable[Mapping[Any, Any]]
"""Rules of RBAC, or resources with their verbs: `{Pod: ["get"], (Pod, "eviction"): ["create"], "pods/log": ["get"]}`.

A resource is a class of a custom or a built-in kind, such a class and a subresource, or a text: `PLURAL`,
`PLURAL.GROUP`, or either with `/SUBRESOURCE`.
"""

_FIELDS: Final = frozenset({"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"})


def policy_rules(permissions: Permissions) -> list[Object]:
    """Return permissions as the rules of a Role."""
    return [rule for given in permissions for rule in _rules(given)]


def _rules(given: Mapping[Any, Any]) -> Iterator[Object]:
    if given.keys() <= _FIELDS:
        yield dict(given)
        return
    for what, verbs in given.items():
        resource, group = _resource(what)
        yield {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _resource(what: Any) -> tuple[str, str]:
    if isinstance(what, str):
        main, slash, subresource = what.partition("/")
        resource, _, group = main.partition(".")
        return f"{resource}{slash}{subresource}", group
    cls, subresource = what if isinstance(what, tuple) else (what, "")
    plural, group = _names(cls)
    return f"{plural}/{subresource}" if subresource else plural, group


def _names(cls: Any) -> tuple[str, str]:
    if isinstance(cls, type) and issubclass(cls, CustomResource):
        naming = naming_of(cls)
        return naming.plural, naming.gvk.group
    gvk = getattr(cls, "gvk", None)
    if not isinstance(gvk, GroupVersionKind):
        raise TypeError(f"{cls!r} is no resource: expected the class of a kind, or a text such as 'pods' or 'pods/log'")
    # Of the built-in kinds one is called by its plural.
    return "endpoints" if gvk.kind == "Endpoints" else plural_of(gvk.kind), gvk.group
