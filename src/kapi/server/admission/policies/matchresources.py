"""The MatchResources of a policy or a binding: rules, excluded rules and selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.server.admission.matching import ResourceMatch, ResourceRules, Selectors, first_match, kind_of

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.admission.matching import RequestKind, RequestNamespace


class ResourceMatcher(NamedTuple):
    """What remains to be decided for each request to one resource with one operation: names and selectors."""

    matches: tuple[ResourceMatch, ...]
    excluded: tuple[ResourceMatch, ...]
    selectors: Selectors

    def match(
        self, namespace: RequestNamespace, obj: Object | None, old: Object | None, name: str
    ) -> ResourceMatch | None:
        """Return the rule that covers a request, or None.

        Raises NotFound if the namespace to look at is missing, and InternalError for a selector that cannot be used.
        """
        if self.excluded and first_match(self.excluded, name) is not None:
            return None
        found = first_match(self.matches, name)
        return found if found is not None and self.selectors.match(namespace, obj, old) else None


class MatchResources:
    """One MatchResources. Without rules it covers everything, but for what is excluded."""

    def __init__(self, spec: Object) -> None:
        policy = spec.get("matchPolicy")
        self._rules = ResourceRules(spec.get("resourceRules") or (), match_policy=policy)
        self._excluded = ResourceRules(spec.get("excludeResourceRules") or (), match_policy=policy)
        self._selectors = Selectors(spec.get("namespaceSelector"), spec.get("objectSelector"))

    def matcher(self, request: RequestKind) -> ResourceMatcher | None:
        """Return the matcher of requests to a resource; None when no rule covers any of them."""
        if self._rules:
            matches = self._rules.matches(request)
        else:
            resource = request.resource
            matches = (ResourceMatch(resource, kind_of(resource, request.subresource), frozenset()),)
        excluded = self._excluded.matches(request)
        if not matches or any(not one.names for one in excluded):
            return None
        return ResourceMatcher(matches, excluded, self._selectors)
