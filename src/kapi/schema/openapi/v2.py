"""OpenAPI 2.0 (Swagger): one document for everything, which kubectl up to 1.23 or so and some tools still read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.schema.openapi import components, operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kapi.api.meta import GroupVersion
    from kapi.schema.openapi.operations import Operation
    from kapi.schema.openapi.served import ServedResource

INFO = {"title": "Kubernetes", "version": "v1.36.0"}


def document(
    resources: Iterable[ServedResource], *, custom: Mapping[str, components.Schema] | None = None
) -> dict[str, Any]:
    """The document of all resources. `custom` has the schemas of those that are not built in, by name."""
    groups: dict[GroupVersion, list[ServedResource]] = {}
    for resource in resources:
        groups.setdefault(resource.group_version, []).append(resource)
    paths: operations.Paths = {}
    for group_version, served in sorted(groups.items()):
        paths |= operations.paths(group_version, served)
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": {path: _path(path, found) for path, found in paths.items()},
        "definitions": components.closure(operations.definitions(paths), custom or {}, components.V2),
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


def _path(path: str, found: list[Operation]) -> dict[str, Any]:
    item: dict[str, Any] = {operation.method: _operation(operation) for operation in found}
    parameters = [
        {"name": name, "in": "path", "description": text, "required": True, "type": "string", "uniqueItems": True}
        for name, text in operations.PATH_PARAMETERS.items()
        if f"{{{name}}}" in path
    ]
    if any(operation.kind[2] for operation in found):
        parameters.append(_query("pretty"))
    return item | {"parameters": parameters} if parameters else item


def _operation(operation: Operation) -> dict[str, Any]:
    schema = {"$ref": components.V2 + operation.result} if operation.result else {"type": "string"}
    rendered: dict[str, Any] = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "schemes": ["https"],
        "consumes": list(operations.PATCH_TYPES if operation.method == "patch" else ("*/*",)),
        "produces": list(operations.MEDIA_TYPES if operation.result else ("*/*",)),
        "responses": {code: {"description": reason, "schema": schema} for code, reason in operation.responses.items()}
        | {"401": {"description": "Unauthorized"}},
    }
    parameters: list[dict[str, Any]] = []
    if operation.body:
        body: dict[str, Any] = {"name": "body", "in": "body", "schema": {"$ref": components.V2 + operation.body}}
        parameters.append(body | {"required": True} if operation.is_body_required else body)
    parameters.extend(_query(name) for name in operation.queries)
    if parameters:
        rendered["parameters"] = parameters
    return rendered | operation.extensions


def _query(name: str) -> dict[str, Any]:
    kind, text = operations.PARAMETERS[name]
    return {"name": name, "in": "query", "description": text, "type": kind, "uniqueItems": True}
