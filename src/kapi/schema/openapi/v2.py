"""OpenAPI 2.0 (Swagger): one document for everything, which kubectl up to 1.23 or so and some tools still read.

The document is made of parts, so that a new custom kind costs its own part and not the whole: one part for all that is
built in, and one per group version of custom kinds. A part is encoded alone (`entries`, here for JSON, in `v2_protobuf`
for the other form), and encoded parts are joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapi.schema.openapi import components, operations, parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.meta import GroupVersion
    from kapi.schema.openapi.operations import Operation
    from kapi.schema.openapi.served import ServedResource

INFO = {"title": "Kubernetes", "version": "v1.36.0"}

_INLINE = frozenset({"dryRun", "fieldValidation"})
"""Parameters that old kubectl looks for at the operation, where it does not follow references."""
_SHARED_BODIES = {operations.PATCH: "body-Patch", operations.DELETE_OPTIONS: "body-DeleteOptions"}
_PARAMETERS = "#/parameters/"

_json = msgspec.json.Encoder().encode


class Part(NamedTuple):
    """Some of the paths of a document, and some of its definitions. Parts of one document have none in common."""

    paths: dict[str, Any]
    definitions: dict[str, components.Schema]


class Entries(NamedTuple):
    """A part, encoded: the entries of both maps, without the maps around them."""

    paths: bytes
    definitions: bytes


def builtin_part(resources: Iterable[ServedResource]) -> Part:
    """The paths of built-in kinds, and every definition they refer to."""
    paths = _paths(resources)
    return Part(_rendered(paths), components.closure(operations.definitions(paths), {}, components.V2))


def custom_part(resources: Iterable[ServedResource], definitions: Mapping[str, components.Schema]) -> Part:
    """The paths of custom kinds and their definitions; all others these refer to are in the part of the built-in ones.

    Needs the built-in part to have metadata, the kinds of patches, deletions and statuses, and `Scale`.
    """
    return Part(_rendered(_paths(resources)), dict(sorted(definitions.items())))


def frame() -> dict[str, Any]:
    """The fields of a document that are not made of parts."""
    return {
        "swagger": "2.0",
        "info": INFO,
        "parameters": _shared_parameters(),
        "securityDefinitions": {
            "BearerToken": {
                "type": "apiKey",
                "description": "Bearer Token authentication",
                "name": "authorization",
                "in": "header",
            }
        },
        "security": [{"BearerToken": []}],
    }


def entries(part: Part) -> Entries:
    """A part as JSON."""
    return Entries(_json(part.paths)[1:-1], _json(part.definitions)[1:-1])


def join(parts: Iterable[Entries]) -> bytes:
    """The document as JSON."""
    parts = list(parts)
    paths = b",".join(part.paths for part in parts if part.paths)
    definitions = b",".join(part.definitions for part in parts if part.definitions)
    return b"".join((_json(frame())[:-1], b',"paths":{', paths, b'},"definitions":{', definitions, b"}}"))


# -- paths ------------------------------------------------------------------------------------------------------------


def _paths(resources: Iterable[ServedResource]) -> operations.Paths:
    groups: dict[GroupVersion, list[ServedResource]] = {}
    for resource in resources:
        groups.setdefault(resource.group_version, []).append(resource)
    paths: operations.Paths = {}
    for group_version, served in sorted(groups.items()):
        paths |= operations.paths(group_version, served)
    return paths


def _rendered(paths: operations.Paths) -> dict[str, Any]:
    return {path: _path(path, found) for path, found in paths.items()}


def _path(path: str, found: list[Operation]) -> dict[str, Any]:
    item: dict[str, Any] = {operation.method: _operation(operation) for operation in found}
    shared = [{"$ref": _PARAMETERS + name} for name in parameters.PATH_PARAMETERS if f"{{{name}}}" in path]
    if any(operation.kind[2] for operation in found):
        shared.append({"$ref": _PARAMETERS + "pretty"})
    return item | {"parameters": shared} if shared else item


def _operation(operation: Operation) -> dict[str, Any]:
    schema = {"$ref": components.V2 + operation.result} if operation.result else {"type": "string"}
    rendered: dict[str, Any] = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "schemes": ["https"],
        "consumes": list(operation.consumes),
        "produces": list(operations.MEDIA_TYPES if operation.result else ("*/*",)),
        "responses": {code: {"description": reason, "schema": schema} for code, reason in operation.responses.items()}
        | {"401": {"description": "Unauthorized"}},
    }
    own: list[dict[str, Any]] = []
    if operation.body in _SHARED_BODIES:
        own.append({"$ref": _PARAMETERS + _SHARED_BODIES[operation.body]})
    elif operation.body:
        own.append(_body(operation.body))
    own += (_query(name) if name in _INLINE else {"$ref": _PARAMETERS + name} for name in operation.queries)
    if own:
        rendered["parameters"] = own
    return rendered | operation.extensions


# -- parameters -------------------------------------------------------------------------------------------------------


def _shared_parameters() -> dict[str, Any]:
    """The parameters that operations refer to, by name."""
    return {
        **{name: _query(name) for name in parameters.PARAMETERS if name not in _INLINE},
        **{
            name: {"name": name, "in": "path", "description": text, "required": True, "type": "string"}
            | {"uniqueItems": True}
            for name, text in parameters.PATH_PARAMETERS.items()
        },
        **{
            shared: _body(definition, required=definition != operations.DELETE_OPTIONS)
            for definition, shared in _SHARED_BODIES.items()
        },
    }


def _body(definition: str, *, required: bool = True) -> dict[str, Any]:
    body: dict[str, Any] = {"name": "body", "in": "body", "schema": {"$ref": components.V2 + definition}}
    return body | {"required": True} if required else body


def _query(name: str) -> dict[str, Any]:
    kind, text = parameters.PARAMETERS[name]
    return {"name": name, "in": "query", "description": text, "type": kind, "uniqueItems": True}
