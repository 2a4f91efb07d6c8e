"""From what people and manifests call a resource to the resource the server has.

`pods`, `pod`, `po`, `Pod`, `deployments.apps` and `deployments.v1.apps` all find one; so do the group, version and kind
of an object. Where several resources answer to a name, the first in the server's own order is meant. A name that is not
found makes the mapper ask the server once more, for it may have been added since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapi.client.errors import NoMatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.meta import GroupVersionKind
    from kapi.client.discovery import APIResource, DiscoveryClient


class _Name(NamedTuple):
    """A name taken apart; None where it does not say."""

    resource: str
    group: str | None
    version: str | None


class RESTMapper:
    """Names to resources, for one server."""

    def __init__(self, discovery: DiscoveryClient) -> None:
        self._discovery = discovery

    async def by_kind(self, gvk: GroupVersionKind) -> APIResource:
        """The resource that serves objects of a kind; `NoMatch` when there is none."""
        found = await self._find(lambda resources: _first(resources, gvk))
        if found is None:
            raise NoMatch(f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"')
        return found

    async def by_name(self, name: str) -> APIResource:
        """The resource people mean by a name; `NoMatch` when there is none."""
        found = await self._find(lambda resources: _by_name(resources, name))
        if found is None:
            raise NoMatch(f'the server doesn\'t have a resource type "{name.split(".", 1)[0]}"')
        return found

    async def by_category(self, category: str) -> list[APIResource]:
        """The resources of a category such as `all`, each in its preferred version; none when nothing is in it."""
        found: dict[tuple[str, str], APIResource] = {}
        for resource in (await self._discovery.discover()).resources:
            if category in resource.categories:
                found.setdefault((resource.group, resource.resource), resource)
        return list(found.values())

    async def _find(self, look: Callable[[tuple[APIResource, ...]], APIResource | None]) -> APIResource | None:
        was_cached = self._discovery.is_cached
        found = look((await self._discovery.discover()).resources)
        if found is None and was_cached:
            self._discovery.invalidate()
            found = look((await self._discovery.discover()).resources)
        return found


def _first(resources: tuple[APIResource, ...], gvk: GroupVersionKind) -> APIResource | None:
    return next((resource for resource in resources if resource.gvk == gvk), None)


def _by_name(resources: tuple[APIResource, ...], name: str) -> APIResource | None:
    for wanted in _readings(name):
        if not wanted.resource:
            continue
        candidates = [
            resource
            for resource in resources
            if wanted.group in (None, resource.group) and wanted.version in (None, resource.version)
        ]
        # A resource's own name goes before a short name that some other resource has taken.
        for is_called in (_is_named, _is_shortened, _is_of_kind):
            for resource in candidates:
                if is_called(resource, wanted.resource):
                    return resource
    return None


def _is_named(resource: APIResource, name: str) -> bool:
    return name.lower() in (resource.resource, resource.singular)


def _is_shortened(resource: APIResource, name: str) -> bool:
    return name in resource.short_names


def _is_of_kind(resource: APIResource, name: str) -> bool:
    return name.lower() == resource.kind.lower()


def _readings(name: str) -> Iterator[_Name]:
    """The ways to read a name: `a.b.c` may be a version and a group, or a group with a dot."""
    resource, dot, rest = name.partition(".")
    if not dot:
        yield _Name(resource, None, None)
        return
    version, dot, group = rest.partition(".")
    if dot:
        yield _Name(resource, group, version)
    yield _Name(resource, rest, None)
