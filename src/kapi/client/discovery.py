"""Discovery: the groups, versions and resources that a server serves.

Two requests where the server has aggregated discovery, one per group version where it has not. The result is cached
until `invalidate`; all users of a server share one `DiscoveryClient`. A group that cannot be discovered, because the
server behind it is down, is a failure of that group alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from kapi.api.errors import ApiError, NotFound
from kapi.api.meta import GroupVersion, GroupVersionKind, GroupVersionResource
from kapi.base.clock import SystemClock
from kapi.client.errors import AnswerError, ConnectionLost, TransportTimeout
from kapi.client.rest import JSON

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.client.rest import RESTClient

T = TypeVar("T")

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED_BETA: Final = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
_ACCEPT: Final = f"{_AGGREGATED},{_AGGREGATED_BETA},{JSON}"
_AT_ONCE: Final = 16
_MAX_VERSIONS: Final = 4096
"""Group versions that are asked about one by one; a cluster has a hundred or two."""


@dataclass(frozen=True, slots=True)
class APIResource:
    """A resource as the server describes it. `subresources` are names such as `status` and `scale`."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def gvr(self) -> GroupVersionResource:
        """Return the group, version and resource."""
        return GroupVersionResource(self.group, self.version, self.resource)

    @property
    def gvk(self) -> GroupVersionKind:
        """Return the group, version and kind of its objects."""
        return GroupVersionKind(self.group, self.version, self.kind)

    def __str__(self) -> str:
        return str(self.gvr.group_resource)


@dataclass(frozen=True, slots=True)
class Discovered:
    """All a server serves, in its own order: core first, then by group, the preferred version of each first.

    `failures` has the groups that could not be asked about, with the reason; the rest is usable all the same.
    """

    resources: tuple[APIResource, ...]
    group_versions: tuple[GroupVersion, ...]
    failures: tuple[tuple[GroupVersion, str], ...] = ()


class DiscoveryClient:
    """Asks once and remembers. `rounds` is how often the server was asked, each round counted from its beginning."""

    def __init__(self, rest: RESTClient, *, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.rounds = 0
        self._rest = rest
        self._known: Discovered | None = None
        self._lock = asyncio.Lock()

    @property
    def is_cached(self) -> bool:
        """Return True if the next answer comes from memory."""
        return self._known is not None

    def invalidate(self) -> None:
        """Drop the cached result, so that the next call asks the server."""
        self._known = None

    async def discover(self) -> Discovered:
        """Everything the server serves; callers at the same time share one round of requests."""
        async with self._lock:
            if self._known is None:
                self.rounds += 1
                core, groups = await _all(self._core(), self._below("/apis"))
                parts = [*core, *groups]
                self._known = Discovered(
                    tuple(resource for part in parts for resource in part.resources),
                    tuple(version for part in parts for version in part.group_versions),
                    tuple(failure for part in parts for failure in part.failures),
                )
            return self._known

    async def server_version(self) -> Object:
        """Return the server's `/version`."""
        answer = await self._rest.request("GET", "/version")
        if not isinstance(answer, dict):
            raise AnswerError("/version is not an object")
        return answer

    async def _core(self) -> list[Discovered]:
        try:
            return await self._below("/api")
        except NotFound:
            return []  # a server that is not a whole control plane, such as an extension API server

    async def _below(self, path: str) -> list[Discovered]:
        answer = await self._rest.send("GET", path, accept=_ACCEPT)
        # A server that does not know the aggregated form answers with plain JSON; only the type tells them apart.
        is_aggregated = "as=APIGroupDiscoveryList" in answer.headers.get("Content-Type", "").replace(" ", "")
        is_kept = is_aggregated and len(answer.body) <= _MAX_KEPT
        try:
            if is_kept and (kept := _kept.get(answer.body)) is not None:
                return kept
            document = answer.decoded()
            if not isinstance(document, dict):
                raise AnswerError(f"{path} is not an object")
            if is_aggregated:
                found = [_aggregated_group(group) for group in document.get("items") or []]
                if is_kept:
                    _keep(answer.body, found)
                return found
            versions = list(_listed_versions(document))
        except (AttributeError, KeyError, TypeError):
            raise AnswerError(f"{path} does not describe groups and versions") from None
        if len(versions) > _MAX_VERSIONS:
            raise AnswerError(f"{path} names {len(versions)} group versions; at most {_MAX_VERSIONS} are asked about")
        return await self._one_by_one(versions)

    async def _one_by_one(self, versions: list[GroupVersion]) -> list[Discovered]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(version: GroupVersion) -> Discovered:
            async with limit:
                try:
                    # A server behind this one that is down is not waited for: it must not take the others with it.
                    document = await self._rest.request("GET", _path(version), retries=0)
                    return Discovered(tuple(_listed_resources(version, document)), (version,))
                except (ApiError, AnswerError, ConnectionLost, TransportTimeout) as error:
                    why = str(error)
                except (AttributeError, KeyError, TypeError):
                    why = "the answer does not describe resources"
            return Discovered((), (version,), ((version, why),))

        return await _all(*map(ask, versions))


def _path(version: GroupVersion) -> str:
    return (
        f"/apis/{quote(version.group)}/{quote(version.version)}" if version.group else f"/api/{quote(version.version)}"
    )


async def _all(*requests: Coroutine[Any, Any, T]) -> list[T]:
    """Wait for all requests, then return their results or raise the first error.

    `asyncio.gather` alone would leave the others running after an error, and their sockets would outlive the client.
    """
    results: list[T] = []
    for result in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


# -- the aggregated form ----------------------------------------------------------------------------------------------

# What the last few documents say: clients of one server, and of the forks of a test's, are sent the same ones.
_kept: dict[bytes, list[Discovered]] = {}
_MOST_KEPT: Final = 4
_MAX_KEPT: Final = 1024 * 1024


def _keep(body: bytes, found: list[Discovered]) -> None:
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()  # not one by one: synchronous clients have threads
    _kept[body] = found


def _aggregated_group(group: Object) -> Discovered:
    name = (group.get("metadata") or {}).get("name") or ""
    resources: list[APIResource] = []
    versions: list[GroupVersion] = []
    failures: list[tuple[GroupVersion, str]] = []
    for entry in group.get("versions") or []:
        version = GroupVersion(name, entry["version"])
        versions.append(version)
        if entry.get("freshness") == "Stale":
            failures.append((version, "the server's knowledge of it is stale"))
        resources += (_aggregated_resource(version, each) for each in entry.get("resources") or [])
    return Discovered(tuple(resources), tuple(versions), tuple(failures))


def _aggregated_resource(version: GroupVersion, entry: Object) -> APIResource:
    return APIResource(
        group=version.group,
        version=version.version,
        resource=entry["resource"],
        kind=(entry.get("responseKind") or {}).get("kind", ""),
        namespaced=entry.get("scope") == "Namespaced",
        singular=entry.get("singularResource", ""),
        short_names=tuple(entry.get("shortNames") or ()),
        categories=tuple(entry.get("categories") or ()),
        verbs=tuple(entry.get("verbs") or ()),
        subresources=tuple(sub["subresource"] for sub in entry.get("subresources") or ()),
    )


# -- the old form -----------------------------------------------------------------------------------------------------


def _listed_versions(document: Object) -> Iterator[GroupVersion]:
    """The versions of `/api` or `/apis`, the preferred one of each group first."""
    if document.get("kind") == "APIVersions":
        yield from (GroupVersion("", version) for version in document.get("versions") or [])
        return
    for group in document.get("groups") or []:
        preferred = (group.get("preferredVersion") or {}).get("version")
        versions = [entry["version"] for entry in group.get("versions") or []]
        for version in sorted(versions, key=lambda version: version != preferred):
            yield GroupVersion(group["name"], version)


def _listed_resources(version: GroupVersion, document: Any) -> Iterator[APIResource]:
    entries: Iterable[Object] = document.get("resources") or [] if isinstance(document, dict) else []
    below: dict[str, list[str]] = {}
    for entry in entries:
        parent, slash, name = entry["name"].partition("/")
        if slash:
            below.setdefault(parent, []).append(name)
    for entry in entries:
        if "/" not in entry["name"]:
            yield APIResource(
                # An entry may belong to another group than the list it is in.
                group=entry.get("group") or version.group,
                version=entry.get("version") or version.version,
                resource=entry["name"],
                kind=entry.get("kind", ""),
                namespaced=bool(entry.get("namespaced")),
                singular=entry.get("singularName", ""),
                short_names=tuple(entry.get("shortNames") or ()),
                categories=tuple(entry.get("categories") or ()),
                verbs=tuple(entry.get("verbs") or ()),
                subresources=tuple(below.get(entry["name"], ())),
            )
