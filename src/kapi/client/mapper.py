"""The REST mapper: from names and kinds to the resources of a server.

`pods`, `pod`, `po`, `Pod`, `deployments.apps` and `deployments.v1.apps` all find one; so do the group, version and kind
of an object. Where several resources have a name, the first in the server's own order is meant. Discovery runs at the
first lookup, and again for a name that is not found, since it may have been added meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.client.errors import NoMatch
from kapi.client.transport.ratelimit import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapi.api.meta import GroupVersionKind, GroupVersionResource
    from kapi.client.discovery import APIResource, Discovered, DiscoveryClient

REFRESH_SECONDS: Final = 1.0
"""The seconds between two discoveries made because of lookups that found nothing."""
REFRESH_BURST: Final = 3
"""The number of such discoveries made at once: a program that defines a few kinds and uses them should not wait."""


class _Name(NamedTuple):
    """A name taken apart; None where it does not say."""

    resource: str
    group: str | None
    version: str | None


class RESTMapper:
    """Names to resources, for one server.

    `NoMatch` is raised only after a discovery that began after the lookup did. Lookups that find nothing share a
    discovery, and at most one is made per `refresh_seconds`, so that a program that keeps looking up a missing kind
    does not load the server.
    """

    def __init__(self, discovery: DiscoveryClient, *, refresh_seconds: float = REFRESH_SECONDS) -> None:
        self._discovery = discovery
        self._limit = TokenBucket(1 / refresh_seconds, REFRESH_BURST, clock=discovery.clock)
        self._refreshing = asyncio.Lock()
        self._indexed: Discovered | None = None
        self._by_kind: dict[GroupVersionKind, APIResource] = {}

    async def by_kind(self, gvk: GroupVersionKind) -> APIResource:
        """The resource that serves objects of a kind; `NoMatch` when there is none."""
        found = await self._find(lambda known: self._index(known).get(gvk))
        if found is None:
            raise NoMatch(
                f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
                + await self._discovery_failure(gvk.group, gvk.version)
            )
        return found

    async def by_resource(self, gvr: GroupVersionResource) -> APIResource:
        """A resource by its exact name; `NoMatch` when there is none."""
        found = await self._find(lambda known: next((each for each in known.resources if each.gvr == gvr), None))
        if found is None:
            where = f"{gvr.group}/{gvr.version}" if gvr.group else gvr.version
            raise NoMatch(
                f'no matches for resource "{gvr.resource}" in version "{where}"'
                + await self._discovery_failure(gvr.group, gvr.version)
            )
        return found

    async def by_name(self, name: str) -> APIResource:
        """The resource people mean by a name; `NoMatch` when there is none."""
        found = await self._find(lambda known: _by_name(known.resources, name))
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

    async def _find(self, look: Callable[[Discovered], APIResource | None]) -> APIResource | None:
        rounds = self._discovery.rounds
        found = look(await self._discovery.discover())
        return found if found is not None else look(await self._later_than(rounds))

    async def _later_than(self, rounds: int) -> Discovered:
        """Return a discovery that is newer than so many rounds."""
        async with self._refreshing:
            if self._discovery.rounds <= rounds:
                await self._limit.wait()
                self._discovery.invalidate()
            return await self._discovery.discover()

    def _index(self, known: Discovered) -> dict[GroupVersionKind, APIResource]:
        if self._indexed is not known:
            # Of several resources of a kind the first is meant, so it is entered last.
            self._by_kind = {resource.gvk: resource for resource in reversed(known.resources)}
            self._indexed = known
        return self._by_kind

    async def _discovery_failure(self, group: str, version: str) -> str:
        """Return why the discovery of a version failed, to be appended to an error; empty if it did not fail."""
        for failed, why in (await self._discovery.discover()).failures:
            if failed == (group, version):
                return f"; the server could not say what {failed} has: {why}"
        return ""


def _by_name(resources: tuple[APIResource, ...], name: str) -> APIResource | None:
    for wanted in _readings(name):
        if not wanted.resource:
            continue
        candidates = [
            resource
            for resource in resources
            if wanted.group in (None, resource.group) and wanted.version in (None, resource.version)
        ]
        # A resource's own name wins over a short name that another resource has.
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
