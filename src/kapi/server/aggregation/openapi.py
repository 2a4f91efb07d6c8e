"""OpenAPI of other API servers: the description of each group version, read once a minute and kept while they are away.

Of what a server describes, only the paths of its own group version count. Version 3 has a document per group version,
which is kept as it is. Version 2 is one document for everything: the paths of the group version and the definitions
they refer to are taken out of it. A definition that has the name of a built-in one gets a name of its own, because the
two may differ.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from kapi.codec import json
from kapi.schema.builtin import definitions as builtin
from kapi.schema.openapi import components, v2
from kapi.server.aggregation.documents import OPENAPI_USER
from kapi.server.aggregation.followers import Followers, Pace
from kapi.server.aggregation.upstream import UpstreamError

if TYPE_CHECKING:
    from kapi.server.aggregation.apiservices import ApiServices, GroupVersionKey, RemoteAPIService
    from kapi.server.aggregation.documents import Document, Documents

PACE: Final = Pace(interval=60.0, first_backoff=1.0, max_backoff=60.0)
SECONDS: Final = 60.0

_V2: Final = "/openapi/v2"
_V3: Final = "/openapi/v3"
_SHARED_DEFINITIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""The definitions that all servers have in common and that do not change; the built-in part has them."""
_PARAMETERS: Final = "#/parameters/"


class Description(NamedTuple):
    """A document, compressed, and its hash."""

    hash: str
    content: bytes


class RemoteOpenAPI:
    """The descriptions of other servers. `changes` grows whenever one is another."""

    def __init__(self, services: ApiServices, documents: Documents) -> None:
        self._services = services
        self._documents = documents
        self._etags: dict[GroupVersionKey, str] = {}
        self.v3: dict[str, Description] = {}
        """The documents of version 3 by their key in the index, `apis/GROUP/VERSION`."""
        self.v2: dict[str, Description] = {}
        """The parts of version 2 by the same key, as JSON of `paths` and `definitions`."""
        self.changes = 0
        self.followers = Followers(services, self._refresh, self._forget, PACE)

    def _forget(self, key: GroupVersionKey) -> None:
        self._etags.pop(key, None)
        name = _name(key)
        if self.v3.pop(name, None) is not None or self.v2.pop(name, None) is not None:
            self.changes += 1
        self.v2.pop(name, None)

    async def _refresh(self, api: RemoteAPIService) -> None:
        if not api.is_available:
            return  # It is woken when that has changed.
        await self._refresh_v3(api)
        await self._refresh_v2(api)

    async def _refresh_v3(self, api: RemoteAPIService) -> None:
        name = _name((api.group, api.version))
        index = await self._get(api, _V3)
        if index.status == 404:
            return
        announced = _announced_hash(_decoded(index), name)
        known = self.v3.get(name)
        if announced is None or (announced and known is not None and known.hash == announced):
            return
        document = await self._get(api, f"{_V3}/{name}")
        if document.status != 200 or not isinstance(_decoded(document), dict):
            raise UpstreamError(f"OpenAPI was answered with {document.status}")
        content = await asyncio.to_thread(zlib.compress, document.body)
        self._set(self.v3, api, Description(announced or _hash(document.body), content))

    async def _refresh_v2(self, api: RemoteAPIService) -> None:
        key = (api.group, api.version)
        document = await self._get(api, _V2, self._etags.get(key, ""))
        if document.status in (304, 404):
            return
        content = _decoded(document)
        if document.status != 200 or not isinstance(content, dict):
            raise UpstreamError(f"OpenAPI was answered with {document.status}")
        try:
            part = await asyncio.to_thread(part_of, content, f"{api.path}/")
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise UpstreamError(f"OpenAPI cannot be read: {error}") from None
        self._etags[key] = document.etag
        body = json.encode({"paths": part.paths, "definitions": part.definitions})
        self._set(self.v2, api, Description(_hash(body), zlib.compress(body)))

    def _set(self, kept: dict[str, Description], api: RemoteAPIService, found: Description) -> None:
        key = (api.group, api.version)
        if key in self._services.remote and kept.get(_name(key)) != found:
            kept[_name(key)] = found
            self.changes += 1

    async def _get(self, api: RemoteAPIService, path: str, etag: str = "") -> Document:
        return await self._documents.get(api, path, OPENAPI_USER, accept="application/json", etag=etag, seconds=SECONDS)


def unpacked(found: Description) -> v2.Part:
    """Return a part of version 2."""
    content = json.decode(zlib.decompress(found.content))
    return v2.Part(content["paths"], content["definitions"])


def part_of(document: dict[str, Any], prefix: str) -> v2.Part:
    """Return the part of a document of version 2 that is about the paths below a prefix."""
    parameters = document.get("parameters") or {}
    paths = {
        path: _inlined(item, parameters)
        for path, item in (document.get("paths") or {}).items()
        if path.startswith(prefix) or f"{path}/" == prefix
    }
    definitions = document.get("definitions") or {}
    found: dict[str, Any] = {}
    waiting = list(components.references(paths, components.V2))
    while waiting:
        name = waiting.pop()
        if name in found or _is_shared(name) or name not in definitions:
            continue
        found[name] = definitions[name]
        waiting += components.references(found[name], components.V2)
    names = {name: f"{name}_v2" if _is_built_in(name) else name for name in found}
    renamed = {names[name]: _renamed(definition, names) for name, definition in sorted(found.items())}
    return v2.Part(_renamed(paths, names), renamed)


def _inlined(value: Any, parameters: dict[str, Any]) -> Any:
    """Return a value in which references to the parameters of its document are replaced with these."""
    if isinstance(value, list):
        return [_inlined(one, parameters) for one in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith(_PARAMETERS):
        return parameters[reference.removeprefix(_PARAMETERS)]
    return {key: _inlined(one, parameters) for key, one in value.items()}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    result = {key: _renamed(one, names) for key, one in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith(components.V2):
        name = reference.removeprefix(components.V2)
        result["$ref"] = components.V2 + names.get(name, name)
    return result


def _is_shared(name: str) -> bool:
    return name.startswith(_SHARED_DEFINITIONS) and _is_built_in(name)


def _is_built_in(name: str) -> bool:
    try:
        builtin.definition(name)
    except KeyError:
        return False
    return True


def _name(key: GroupVersionKey) -> str:
    return f"apis/{key[0]}/{key[1]}" if key[0] else f"api/{key[1]}"


def _decoded(document: Document) -> Any:
    try:
        return json.decode(document.body)
    except (ValueError, RecursionError):
        raise UpstreamError(f"OpenAPI cannot be read: the answer with {document.status} is not JSON") from None


def _announced_hash(index: Any, name: str) -> str | None:
    """Return the hash of a document as the index announces it; empty if it has none, None if there is no document."""
    try:
        url = index["paths"][name].get("serverRelativeURL") or ""
        found = parse_qs(urlsplit(url).query).get("hash", [""])[0]
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    return found if found.isalnum() else ""


def _hash(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()
