"""/openapi/v3 and /openapi/v2: what `kubectl explain`, client-side validation and generators read.

A document's hash is taken from what it is made of (the generated schemas, the catalog's rows, the fingerprints of
custom kinds), not from its bytes, so that the index costs little and a document is built only when a client asks for
it; then off the event loop, and kept compressed. When a definition changes, the hashes change at once, and of what was
built only the group versions it belongs to are built again. Those of other API servers are what these have sent.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import zlib
from typing import TYPE_CHECKING, NamedTuple

from kapi.api.meta import GroupVersion
from kapi.codec import json
from kapi.schema.builtin import definitions as builtin
from kapi.schema.openapi import components, custom, v2, v2_protobuf, v3
from kapi.schema.openapi.served import ServedResource, Subresource
from kapi.server.aggregation.openapi import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource
    from kapi.server.aggregation.openapi import Description, RemoteOpenAPI

KEPT_BYTES = 4 * 1024 * 1024
"""The size of the cache of v3 documents, compressed. All built-in ones fit; a thousand custom ones may not."""
_BUILT_IN = ""
"""The key of the part of the v2 document that has all built-in kinds."""


class _Packed(NamedTuple):
    """An encoded part of the v2 document, compressed, and the hash of what it was made of."""

    hash: str
    split: int
    content: bytes

    def entries(self) -> v2.Entries:
        content = zlib.decompress(self.content)
        return v2.Entries(content[: self.split], content[self.split :])


class OpenAPI:
    """The documents of a catalog, and of other servers."""

    def __init__(self, catalog: Catalog, remote: RemoteOpenAPI | None = None) -> None:
        self._catalog = catalog
        self._remote = remote
        self._seen = (-1, -1)
        """The state of the catalog and of other servers that the hashes are of."""
        self._hashes: dict[str, str] = {}
        self._v2_hash = ""
        self._documents: dict[str, tuple[str, bytes]] = {}
        """v3 documents by key, each with its hash; those asked for last are last."""
        self._parts: dict[bool, dict[str, _Packed]] = {False: {}, True: {}}
        """The parts of the v2 document as JSON and (true) in protobuf; only what was asked for."""
        self._v3_lock, self._v2_lock = asyncio.Lock(), asyncio.Lock()

    @property
    def hashes(self) -> dict[str, str]:
        """Every v3 document by its key in the index, with its hash."""
        self._refresh()
        return self._hashes

    @property
    def v2_hash(self) -> str:
        """The hash of the v2 document."""
        self._refresh()
        return self._v2_hash

    def _refresh(self) -> None:
        current = (self._catalog.changes, 0 if self._remote is None else self._remote.changes)
        if self._seen == current:
            return
        self._seen = current
        self._hashes = {
            v3.key(GroupVersion(group, version)): _hash(resources.values())
            for group, versions in self._catalog.groups.items()
            for version, resources in versions.items()
        }
        parts = dict(self._hashes)
        if self._remote is not None:
            self._hashes |= {key: found.hash for key, found in self._remote.v3.items()}
            parts |= {key: found.hash for key, found in self._remote.v2.items()}
        every = "".join(f"{key}={value}\n" for key, value in sorted(parts.items()))
        self._v2_hash = hashlib.sha512(every.encode()).hexdigest().upper()
        self._documents = {key: kept for key, kept in self._documents.items() if kept[0] == self._hashes.get(key)}

    def index(self) -> Object:
        """GET /openapi/v3."""
        return v3.index(self.hashes)

    async def v3_document(self, key: str) -> bytes:
        """GET /openapi/v3/<key>; the key must be in `hashes`."""
        known = self.hashes[key]
        if self._remote is not None and (found := self._remote.v3.get(key)) is not None:
            return await asyncio.to_thread(zlib.decompress, found.content)
        group, _, version = key.removeprefix("apis/").removeprefix("api/").rpartition("/")
        resources = list(self._catalog.groups[group][version].values())
        async with self._v3_lock:
            kept = self._documents.pop(key, None)
            if kept is None or kept[0] != known:
                body = await asyncio.to_thread(_v3_document, GroupVersion(group, version), resources)
                kept = known, await asyncio.to_thread(zlib.compress, body)
            self._keep(key, kept)
        return await asyncio.to_thread(zlib.decompress, kept[1])

    def _keep(self, key: str, kept: tuple[str, bytes]) -> None:
        self._documents[key] = kept
        size = sum(len(content) for _, content in self._documents.values())
        while size > KEPT_BYTES and len(self._documents) > 1:
            oldest = next(iter(self._documents))
            size -= len(self._documents.pop(oldest)[1])

    async def v2_document(self, *, protobuf: bool) -> bytes:
        """GET /openapi/v2, as JSON or in protobuf."""
        wanted, parts = self._v2_parts(), self._parts[protobuf]
        async with self._v2_lock:
            for key, (known, resources) in wanted.items():
                if key not in parts or parts[key].hash != known:
                    # One at a time: between two of them the event loop gets its turn.
                    parts[key] = await asyncio.to_thread(_pack, known, resources, protobuf)
            for key, found in self._remote_parts().items():
                if key not in parts or parts[key].hash != found.hash:
                    parts[key] = await asyncio.to_thread(_pack_remote, found, protobuf)
                wanted[key] = (found.hash, [])
            for key in parts.keys() - wanted.keys():
                del parts[key]
            current = [parts[key] for key in wanted]
        return await asyncio.to_thread(_join, current, protobuf)

    def _remote_parts(self) -> dict[str, Description]:
        return {} if self._remote is None else self._remote.v2

    def _v2_parts(self) -> dict[str, tuple[str, list[Resource]]]:
        """The parts of the v2 document: all built-in kinds, and custom ones by group version."""
        built_in: list[Resource] = []
        parts = {_BUILT_IN: ("", built_in)}
        for group, versions in self._catalog.groups.items():
            for version, resources in versions.items():
                own = [one for one in resources.values() if one.custom is not None]
                built_in += (one for one in resources.values() if one.custom is None)
                if own:
                    key = v3.key(GroupVersion(group, version))
                    parts[key] = (self.hashes[key], own)
        return parts


def _hash(resources: Iterable[Resource]) -> str:
    digest = hashlib.sha512(builtin.fingerprint())
    for resource in resources:
        digest.update(json.encode(_row(resource)))
    return digest.hexdigest().upper()


def _row(resource: Resource) -> list[object]:
    """The description of a resource in a document; of a custom one, a digest stands for all but its verbs."""
    if resource.custom is not None:
        return [resource.group, resource.version, resource.resource, resource.verbs, resource.custom.description]
    return [
        resource.group,
        resource.version,
        resource.resource,
        resource.kind,
        resource.namespaced,
        sorted(resource.verbs),
        [[sub.name, sub.kind, sorted(sub.verbs)] for sub in resource.subresources.values()],
    ]


# -- building, off the loop -------------------------------------------------------------------------------------------


def _v3_document(group_version: GroupVersion, resources: list[Resource]) -> bytes:
    definitions = _definitions(resources, components.V3)
    info = v3.CUSTOM_INFO if all(one.custom is not None for one in resources) else None
    described = [served(one) for one in resources]
    return json.encode(v3.document(group_version, described, custom=definitions, info=info))


def _pack(known: str, resources: list[Resource], protobuf: bool) -> _Packed:
    described = [served(one) for one in resources]
    definitions = _definitions(resources, components.V2)
    part = v2.custom_part(described, definitions) if definitions else v2.builtin_part(described)
    entries = v2_protobuf.entries(part) if protobuf else v2.entries(part)
    return _Packed(known, len(entries.paths), zlib.compress(entries.paths + entries.definitions))


def _pack_remote(found: Description, protobuf: bool) -> _Packed:
    part = unpacked(found)
    try:
        entries = v2_protobuf.entries(part) if protobuf else v2.entries(part)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Something that the format of protobuf has no place for, or we do not know; the form in JSON has it.
        entries = v2.Entries(b"", b"")
    return _Packed(found.hash, len(entries.paths), zlib.compress(entries.paths + entries.definitions))


def _join(parts: list[_Packed], protobuf: bool) -> bytes:
    entries = (part.entries() for part in parts)
    return v2_protobuf.join(entries) if protobuf else v2.join(entries)


def _definitions(resources: list[Resource], base: str) -> dict[str, components.Schema]:
    """The definitions of the custom kinds among the resources."""
    found: dict[str, components.Schema] = {}
    for resource in resources:
        version = resource.custom
        if version is not None:
            found |= custom.definitions(
                served(resource), version.props, preserve_unknown=version.preserve_unknown, base=base
            )
    return found


def served(resource: Resource) -> ServedResource:
    """A resource as its description needs it."""
    described = ServedResource(
        group=resource.group,
        version=resource.version,
        plural=resource.resource,
        singular=resource.singular,
        kind=resource.kind,
        namespaced=resource.namespaced,
        verbs=frozenset(resource.verbs),
        subresources=tuple(
            Subresource(
                sub.name, sub.group or resource.group, sub.version or resource.version, sub.kind, frozenset(sub.verbs)
            )
            for sub in resource.subresources.values()
        ),
        short_names=resource.short_names,
        categories=resource.categories,
    )
    if resource.custom is None:
        return described
    return dataclasses.replace(
        described,
        definition=custom.definition_name(*resource.gvk),
        list_kind=resource.list_kind,
        list_definition=custom.definition_name(resource.group, resource.version, resource.list_kind),
        selectable=resource.selectable,
    )
