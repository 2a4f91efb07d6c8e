"""Discovery of other API servers: what each of them serves in its group version, read once a minute.

While a server is away, the last that was read from it is shown as stale. Clients then report that group version alone
as failed, and all others work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from kapi.server.aggregation.documents import DISCOVERY_USER
from kapi.server.aggregation.followers import Followers, Pace
from kapi.server.aggregation.upstream import UpstreamError

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.aggregation.apiservices import ApiServices, GroupVersionKey, RemoteAPIService
    from kapi.server.aggregation.documents import Document, Documents

T = TypeVar("T")

PACE: Final = Pace(interval=60.0, first_backoff=0.5, max_backoff=60.0)
SECONDS: Final = 5.0

_V2: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_ACCEPT: Final = f"{_V2},application/json"


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Subresource(msgspec.Struct, omit_defaults=True):
    subresource: str
    responseKind: _Kind = msgspec.field(default_factory=_Kind)  # noqa: N815 - as in the document
    acceptedTypes: list[_Kind] = []  # noqa: N815
    verbs: list[str] = []


class _Resource(msgspec.Struct, omit_defaults=True):
    resource: str
    responseKind: _Kind = msgspec.field(default_factory=_Kind)  # noqa: N815
    scope: str = ""
    singularResource: str = ""  # noqa: N815
    verbs: list[str] = []
    shortNames: list[str] = []  # noqa: N815
    categories: list[str] = []
    subresources: list[_Subresource] = []


class _Version(msgspec.Struct):
    version: str
    resources: list[_Resource] = []


class _Metadata(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    versions: list[_Version] = []


class _GroupList(msgspec.Struct):
    items: list[_Group] = []


class _LegacyResource(msgspec.Struct):
    name: str
    kind: str = ""
    singularName: str = ""  # noqa: N815
    namespaced: bool = False
    group: str = ""
    version: str = ""
    verbs: list[str] = []
    shortNames: list[str] = []  # noqa: N815
    categories: list[str] = []


class _LegacyList(msgspec.Struct):
    resources: list[_LegacyResource] = []


class _Known(msgspec.Struct):
    """What was read last of a group version."""

    resources: list[_Resource] = []
    etag: str = ""
    is_current: bool = False


class RemoteDiscovery:
    """What other servers serve. `changes` grows whenever that is another."""

    def __init__(self, services: ApiServices, documents: Documents) -> None:
        self._services = services
        self._documents = documents
        self._known: dict[GroupVersionKey, _Known] = {}
        self.changes = 0
        self.followers = Followers(services, self._refresh, self._forget, PACE)

    def entry(self, key: GroupVersionKey) -> Object:
        """Return the version entry of a group version in aggregated discovery."""
        known = self._known.get(key) or _Known()
        entry: Object = {"version": key[1]}
        if known.resources:
            entry["resources"] = [msgspec.to_builtins(one) for one in known.resources]
        return {**entry, "freshness": "Current" if known.is_current else "Stale"}

    def _forget(self, key: GroupVersionKey) -> None:
        self._known.pop(key, None)
        self.changes += 1

    async def _refresh(self, api: RemoteAPIService) -> None:
        key = (api.group, api.version)
        known = self._known.get(key) or _Known()
        try:
            fresh = await self._read(api, known)
        except UpstreamError:
            self._set(key, _Known(known.resources, known.etag, is_current=False))
            raise
        self._set(key, fresh)

    def _set(self, key: GroupVersionKey, fresh: _Known) -> None:
        if key in self._services.remote and self._known.get(key) != fresh:
            self._known[key] = fresh
            self.changes += 1

    async def _read(self, api: RemoteAPIService, known: _Known) -> _Known:
        """Read the aggregated form, or the old one from a server that does not have it."""
        document = await self._get(api, "/apis", _ACCEPT, known.etag if known.is_current else "")
        if document.status == 304:
            return known
        if document.status == 503:
            raise UpstreamError("the server is not available")
        if document.status == 200 and "as=APIGroupDiscoveryList" in document.content_type:
            groups = _decoded(document.body, _GroupList)
            return _Known(_resources_of(groups, api), document.etag, is_current=True)
        document = await self._get(api, api.path, "application/json")
        if document.status != 200:
            raise UpstreamError(f"discovery was answered with {document.status}")
        return _Known(_converted(_decoded(document.body, _LegacyList), api), is_current=True)

    async def _get(self, api: RemoteAPIService, path: str, accept: str, etag: str = "") -> Document:
        return await self._documents.get(api, path, DISCOVERY_USER, accept=accept, etag=etag, seconds=SECONDS)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamError(f"discovery cannot be read: {error}") from None


def _resources_of(groups: _GroupList, api: RemoteAPIService) -> list[_Resource]:
    """Return the resources of one group version; what a server says about others does not count."""
    for group in groups.items:
        if group.metadata.name == api.group:
            for version in group.versions:
                if version.version == api.version:
                    return version.resources
    return []


def _converted(document: _LegacyList, api: RemoteAPIService) -> list[_Resource]:
    """Return the resources of the old form, sub-resources below the resources they belong to."""
    found: dict[str, _Resource] = {}
    for one in document.resources:
        kind = _Kind(one.group or api.group, one.version or api.version, one.kind)
        name, slash, below = one.name.partition("/")
        scope = "Namespaced" if one.namespaced else "Cluster"
        if not slash:
            found[name] = _Resource(name, kind, scope, one.singularName, one.verbs, one.shortNames, one.categories, [])
        elif name in found:
            found[name].subresources.append(_Subresource(below, kind, [], one.verbs))
    return list(found.values())
