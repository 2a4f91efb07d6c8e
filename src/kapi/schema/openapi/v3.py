"""OpenAPI 3.0: one document per group version, and the index that finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.schema.openapi import components, operations, parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.meta import GroupVersion
    from kapi.schema.openapi.operations import Operation
    from kapi.schema.openapi.served import ServedResource

INFO = {"title": "Kubernetes", "version": "1.36"}
CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
"""The `info` of documents that have custom resources only."""


def document(
    group_version: GroupVersion,
    resources: Iterable[ServedResource],
    *,
    custom: Mapping[str, components.Schema] | None = None,
    info: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The document of a group version. `custom` has the schemas of resources that are not built in, by name."""
    return _document(operations.paths(group_version, resources), custom or {}, info or INFO)


def index(hashes: Mapping[str, str]) -> dict[str, Any]:
    """The answer of `/openapi/v3`: keys are paths without the leading slash, such as `apis/apps/v1`."""
    return {
        "paths": {
            key: {"serverRelativeURL": f"/openapi/v3/{key}?hash={value}"} for key, value in sorted(hashes.items())
        }
    }


def key(group_version: GroupVersion) -> str:
    """The key of a group version in the index."""
    return operations.root_path(group_version)[1:]


def _document(paths: operations.Paths, custom: Mapping[str, components.Schema], info: dict[str, str]) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": {path: _path(path, found) for path, found in paths.items()},
        "components": {
            "schemas": components.closure(operations.definitions(paths), custom, components.V3),
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey",
                    "description": "Bearer Token authentication",
                    "name": "authorization",
                    "in": "header",
                }
            },
        },
    }


def _path(path: str, found: list[Operation]) -> dict[str, Any]:
    item: dict[str, Any] = {operation.method: _operation(operation) for operation in found}
    shared = [
        {"name": name, "in": "path", "description": text, "required": True, "schema": _type("string")}
        for name, text in parameters.PATH_PARAMETERS.items()
        if f"{{{name}}}" in path
    ]
    if any(operation.kind[2] for operation in found):
        shared.append(_query("pretty"))
    return item | {"parameters": shared} if shared else item


def _operation(operation: Operation) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": components.V3 + operation.result} if operation.result else {"type": "string"}
    media: tuple[str, ...] = operations.MEDIA_TYPES if operation.result else ("*/*",)
    if operation.streams:
        media = (*media, operations.WATCH_TYPE)
    rendered: dict[str, Any] = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "responses": {
            code: {"description": reason, "content": {kind: {"schema": schema} for kind in media}}
            for code, reason in operation.responses.items()
        }
        | {"401": {"description": "Unauthorized"}},
    }
    if operation.queries:
        rendered["parameters"] = [_query(name) for name in operation.queries]
    if operation.body:
        body: dict[str, Any] = {
            "content": {kind: {"schema": {"$ref": components.V3 + operation.body}} for kind in operation.consumes}
        }
        rendered["requestBody"] = body | {"required": True} if operation.is_body_required else body
    return rendered | operation.extensions


def _query(name: str) -> dict[str, Any]:
    kind, text = parameters.PARAMETERS[name]
    return {"name": name, "in": "query", "description": text, "schema": _type(kind)}


def _type(kind: str) -> dict[str, Any]:
    return {"type": kind, "uniqueItems": True}
