"""The matching of requests that webhooks and admission policies share: rules, match policy and selectors.

What a rule asks of a request (operation, group, version, resource, sub-resource, scope) is known from its operation
and its resource alone, so `ResourceRules.matches` decides it once for each combination, and the caller remembers it.
What remains for each request is the name, if a rule of a policy has names, and the two selectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.api.errors import InternalError, NotFound
from kapi.api.meta import GroupResource, GroupVersionKind
from kapi.api.selectors import SelectorError, from_label_selector
from kapi.registry.catalog import Catalog
from kapi.registry.request import CREATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kapi.api.errors import ApiError
    from kapi.api.meta import Object
    from kapi.api.selectors import LabelSelector
    from kapi.registry.request import Write
    from kapi.registry.resource import Resource

GROUP: Final = "admissionregistration.k8s.io"
EXEMPT: Final = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)
"""Kinds that no webhook or policy is asked about, so that one that refuses everything can be deleted."""

NAMESPACES: Final = GroupResource("", "namespaces")
_MOST_LABELS: Final = 64
"""Labels of a namespace that each selector may remember."""


class ResourceMatch(NamedTuple):
    """A rule that covers a request: the resource and kind to see its object in, and the names it is limited to."""

    resource: Resource
    """The resource of the request, or an equivalent one, which then is the version that objects are converted to."""
    kind: GroupVersionKind
    names: frozenset[str]
    """The `resourceNames` of the rule; empty for any name."""


class RequestKind:
    """What rules ask of a request. Equivalents of its resource are looked for once, however many rules there are."""

    def __init__(self, operation: str, resource: Resource, subresource: str, catalog: Catalog) -> None:
        self.operation = operation
        self.resource = resource
        self.subresource = subresource
        self._catalog = catalog
        self._others: list[Resource] | None = None

    @property
    def others(self) -> list[Resource]:
        """The other resources that show the same objects."""
        if self._others is None:
            found = equivalents(self._catalog, self.resource, self.subresource)
            self._others = [one for one in found if one is not self.resource]
        return self._others


class Rule:
    """One entry of `rules`, `resourceRules` or `excludeResourceRules`."""

    __slots__ = ("_groups", "_operations", "_resources", "_scope", "_versions", "names")

    def __init__(self, rule: Object) -> None:
        self._operations = frozenset(rule.get("operations") or ())
        self._groups = frozenset(rule.get("apiGroups") or ())
        self._versions = frozenset(rule.get("apiVersions") or ())
        self._resources = [_split(one) for one in rule.get("resources") or ()]
        self._scope = rule.get("scope") or "*"
        self.names = frozenset(rule.get("resourceNames") or ())

    def covers(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Return True if a request is what the rule names."""
        return (
            self._covers_scope(resource)
            and _names(self._operations, operation)
            and _names(self._groups, resource.group)
            and _names(self._versions, resource.version)
            and any(name in ("*", resource.resource) and below in ("*", subresource) for name, below in self._resources)
        )

    def _covers_scope(self, resource: Resource) -> bool:
        if self._scope == "*":
            return True
        return self._scope == ("Namespaced" if resource.namespaced else "Cluster")


def _split(entry: str) -> tuple[str, str]:
    resource, _, subresource = entry.partition("/")
    return resource, subresource


def _names(values: frozenset[str], wanted: str) -> bool:
    return wanted in values or "*" in values


class ResourceRules:
    """The rules of one webhook or policy, with its match policy."""

    def __init__(self, rules: Iterable[Object], *, match_policy: str | None) -> None:
        self._rules = [Rule(rule) for rule in rules]
        self._is_equivalent = match_policy == "Equivalent"

    def __bool__(self) -> bool:
        """False without any rule."""
        return bool(self._rules)

    def matches(self, request: RequestKind) -> tuple[ResourceMatch, ...]:
        """Return the rules that cover a request, in order: those for its own resource before those for equivalents."""
        found = _covering(self._rules, request.operation, [request.resource], request.subresource)
        if self._is_equivalent:
            found += _covering(self._rules, request.operation, request.others, request.subresource)
        return tuple(found)


def _covering(
    rules: Iterable[Rule], operation: str, resources: Sequence[Resource], subresource: str
) -> list[ResourceMatch]:
    return [
        ResourceMatch(resource, kind_of(resource, subresource), rule.names)
        for rule in rules
        for resource in resources
        if rule.covers(operation, resource, subresource)
    ]


def first_match(matches: Iterable[ResourceMatch], name: str) -> ResourceMatch | None:
    """Return the first match that is not limited to other names."""
    for one in matches:
        if not one.names or name in one.names:
            return one
    return None


def kind_of(resource: Resource, subresource: str) -> GroupVersionKind:
    """Return the kind of the objects of a resource or of one of its sub-resources."""
    found = resource.subresources.get(subresource)
    if found is None:
        return resource.gvk
    return GroupVersionKind(found.group or resource.group, found.version or resource.version, found.kind)


def equivalents(catalog: Catalog, resource: Resource, subresource: str) -> list[Resource]:
    """Return the served resources that show the same stored objects and have the sub-resource.

    These are the versions of the resource, and that of another group which shares its storage, as Events do.
    """
    if resource.store is None:
        return [resource]
    prefix = resource.store.prefix
    return [
        other
        for other in catalog
        if other.resource == resource.resource
        and other.store is not None
        and other.store.prefix == prefix
        and (not subresource or subresource in other.subresources)
    ]


def is_exempt(resource: Resource) -> bool:
    """Return True for the configurations of admission themselves."""
    return resource.group == GROUP and resource.kind in EXEMPT


# -- selectors --------------------------------------------------------------------------------------------------------


class Selectors:
    """The namespaceSelector and the objectSelector of a webhook, a policy or a binding."""

    __slots__ = ("_decided", "_namespace", "_object")

    def __init__(self, namespace: Object | None, obj: Object | None) -> None:
        self._namespace = _compiled(namespace)
        self._object = _compiled(obj)
        self._decided: tuple[dict[str, str], bool] = {}, False
        """The labels of the stored namespace that was looked at last, and if they were selected."""

    def match(self, namespace: RequestNamespace, obj: Object | None, old: Object | None) -> bool:
        """Return True if both select a request.

        Raises NotFound if the namespace to look at is missing, and InternalError for a selector that cannot be used,
        unless the other selector excludes the request.
        """
        failure: ApiError | None = None
        try:
            if not self._match_namespace(namespace, obj):
                return False
        except (NotFound, InternalError) as error:
            failure = error
        if not self._match_objects(obj, old):
            return False
        if failure is not None:
            raise failure
        return True

    def _match_namespace(self, namespace: RequestNamespace, obj: Object | None) -> bool:
        if not namespace.name and not namespace.is_written:
            return True  # Objects of the cluster are never excluded.
        selector = self._namespace
        if isinstance(selector, str):
            raise InternalError.of(selector)
        if not selector:
            return True
        labels = namespace.labels(obj)
        known, is_selected = self._decided
        if labels is not known:
            is_selected = selector.matches(labels)
            # Those of a Namespace that is written may still be changed.
            if not namespace.is_written and len(labels) <= _MOST_LABELS:
                self._decided = labels, is_selected
        return is_selected

    def _match_objects(self, obj: Object | None, old: Object | None) -> bool:
        selector = self._object
        if isinstance(selector, str):
            raise InternalError.of(selector)
        if not selector:
            return True
        # The options of a CONNECT have no metadata: no selector but the empty one selects them.
        return any(one is not None and "metadata" in one and selector.matches(_labels(one)) for one in (obj, old))


def _compiled(selector: Object | None) -> LabelSelector | str:
    """Return the selector, or the reason why it cannot be used."""
    try:
        return from_label_selector(selector)
    except SelectorError as error:
        return str(error)


def _labels(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def namespace_of(write: Write) -> str:
    """Return the namespace of a request as admission sees it: that of a Namespace is the Namespace itself."""
    return write.name if write.resource.group_resource == NAMESPACES else write.namespace


class RequestNamespace:
    """The namespace of a request; its labels are looked up once for all selectors."""

    __slots__ = ("_labels", "_write", "is_written", "name")

    def __init__(self, write: Write) -> None:
        self._write = write
        self._labels: dict[str, str] | None = None
        self.name = namespace_of(write)
        self.is_written = write.resource.resource == NAMESPACES.resource
        """The request is about Namespaces."""

    def labels(self, obj: Object | None) -> dict[str, str]:
        """Return the labels; of a Namespace that is written, those it will have. Raises NotFound if it is missing."""
        write = self._write
        if self.is_written and not write.subresource and write.operation in (CREATE, UPDATE):
            return _labels(obj or {})
        if self._labels is None:
            self._labels = self._stored()
        return self._labels

    def _stored(self) -> dict[str, str]:
        lookup = self._write.lookup
        if isinstance(lookup, Catalog):
            # The watch cache has the labels, so that the namespace need not be decoded for them.
            item = lookup.store(NAMESPACES.resource).find("", self.name)
            if item is not None:
                return item.labels or {}
        elif (found := lookup.get("namespaces", "", self.name)) is not None:
            return _labels(found)
        raise NotFound.of(NAMESPACES, self.name)
