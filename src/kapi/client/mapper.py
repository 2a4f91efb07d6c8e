"""From what people and manifests call a resource to the resource the server has.

`pods`, `pod`, `po`, `Pod`, `deployments.apps` and `deployments.v1.apps` all find one; so do the group, version and kind
of an object. Where several resources answer to a name, the first in the server's own order is meant. Nothing is asked
before the first question. A name that is not found makes the mapper ask the server again, for it may have been added
since.
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
"""How often, over time, things that are not found make the mapper ask the server what it serves."""
REFRESH_BURST: Final = 3
"""How often they do so at once: a program that defines a kind or two and goes on to use them should not wait."""


class _Name(NamedTuple):
    """A name taken apart; None where it does not say."""

    resource: str
    group: str | None
    version: str | None


class RESTMapper:
    """Names to resources, for one server.

    That something does not exist is only ever said by a server that was asked after the question was. Questions that
    find nothing share an answer, and wait for each other once there are more of them than one per `refresh_seconds`, so
    that a program that keeps asking for what is not there cannot keep the server busy.
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
                + await self._excuse(gvk.group, gvk.version)
            )
        return found

    async def by_resource(self, gvr: GroupVersionResource) -> APIResource:
        """A resource by its exact name; `NoMatch` when there is none."""
        found = await self._find(lambda known: next((each for each in known.resources if each.gvr == gvr), None))
        if found is None:
            where = f"{gvr.group}/{gvr.version}" if gvr.group else gvr.version
            raise NoMatch(
                f'no matches for resource "{gvr.resource}" in version "{where}"'
                + await self._excuse(gvr.group, gvr.version)
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
        """What the server says when it is asked after so many rounds."""
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

    async def _excuse(self, group: str, version: str) -> str:
        """What is to be said of a version that the server could not describe."""
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
