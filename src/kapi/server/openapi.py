"""/openapi/v3 and /openapi/v2: what `kubectl explain`, client-side validation and generators read.

A document's hash is taken from what it is made of (the generated schemas and the catalog's rows), not from its
bytes, so that the index costs nothing and a document is built only when somebody asks for it; then off the event
loop, and kept compressed.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from typing import TYPE_CHECKING

from kapi.api.meta import GroupVersion
from kapi.codec import json
from kapi.schema import builtin
from kapi.schema.openapi import v2, v2_protobuf, v3
from kapi.schema.openapi.served import ServedResource, Subresource

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.registry.catalog import Catalog
    from kapi.registry.resource import Resource


class OpenAPI:
    """The documents of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._documents: dict[str, bytes] = {}
        self._hashes: dict[str, str] | None = None
        self._lock = asyncio.Lock()

    @property
    def hashes(self) -> dict[str, str]:
        """Every v3 document by its key in the index, with its hash."""
        if self._hashes is None:
            self._hashes = {
                v3.key(GroupVersion(group, version)): self._hash([served(one) for one in resources.values()])
                for group, versions in self._catalog.groups.items()
                for version, resources in versions.items()
            }
        return self._hashes

    def index(self) -> Object:
        """GET /openapi/v3."""
        return v3.index(self.hashes)

    async def v3_document(self, key: str) -> bytes:
        """GET /openapi/v3/<key>; the key must be in `hashes`."""
        group, _, version = key.removeprefix("apis/").removeprefix("api/").rpartition("/")
        resources = self._catalog.groups[group][version]
        return await self._document(
            f"v3:{key}",
            lambda: json.encode(v3.document(GroupVersion(group, version), [served(one) for one in resources.values()])),
        )

    @property
    def v2_hash(self) -> str:
        """The hash of the v2 document."""
        return self._hash([served(one) for one in self._catalog])

    async def v2_document(self, *, protobuf: bool) -> bytes:
        """GET /openapi/v2, as JSON or in protobuf."""
        encode = v2_protobuf.encode if protobuf else json.encode
        resources = [served(one) for one in self._catalog]
        return await self._document(f"v2:{protobuf}", lambda: encode(v2.document(resources)))

    async def _document(self, name: str, build: Callable[[], bytes]) -> bytes:
        async with self._lock:
            compressed = self._documents.get(name)
            if compressed is None:
                body = await asyncio.to_thread(build)
                self._documents[name] = await asyncio.to_thread(zlib.compress, body, 6)
                return body
        return await asyncio.to_thread(zlib.decompress, compressed)

    def _hash(self, resources: list[ServedResource]) -> str:
        digest = hashlib.sha512(builtin.fingerprint())
        for resource in resources:
            digest.update(json.encode(_row(resource)))
        return digest.hexdigest().upper()


def _row(resource: ServedResource) -> list[object]:
    return [
        resource.group,
        resource.version,
        resource.plural,
        resource.kind,
        resource.namespaced,
        sorted(resource.verbs),
        [[sub.name, sub.kind, sorted(sub.verbs)] for sub in resource.subresources],
    ]


def served(resource: Resource) -> ServedResource:
    """A resource as its description needs it."""
    return ServedResource(
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
