"""Delete and deletecollection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kapi.api.errors import BadRequest, Invalid, NotFound
from kapi.api.fielderror import FieldError, invalid, not_supported
from kapi.api.limits import OFF_LOOP_BYTES
from kapi.api.meta import GroupKind, GroupVersionKind
from kapi.codec import json, protobuf, yaml
from kapi.codec.errors import DecodeError
from kapi.codec.negotiate import PROTOBUF, YAML, body_type
from kapi.registry import write as writepath
from kapi.registry.deletion import DeleteOptions, without_preconditions
from kapi.registry.encoding import uid_of
from kapi.registry.request import DELETE
from kapi.schema.builtin.typed import TypeMismatch, kind_schema
from kapi.server.handlers.decode import check_size
from kapi.server.handlers.options import META, list_options, parse_integer
from kapi.server.handlers.read import select
from kapi.server.handlers.respond import list_response, object_response, status_response, view_for
from kapi.server.handlers.write import new_write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kapi.api.meta import Object
    from kapi.registry.request import Write
    from kapi.registry.store import ReadyItem
    from kapi.registry.write import Written
    from kapi.server.context import Context
    from kapi.server.transport.message import Response

POLICIES = ("Foreground", "Background", "Orphan")
AT_ONCE = 128
"""How many objects of a collection are deleted at the same time: those share commits and leave time for others."""


async def delete(context: Context) -> Response:
    """DELETE of one object."""
    view = view_for(context, listing=False)
    options = await read_options(context)
    written = await writepath.delete(new_write(context, DELETE, options))
    if not written.deleted:
        code = 202 if options.orphan is False else 200
        return await object_response(context, code, view.one(written.item))
    if context.served.stored.strategy.returns_deleted_object:
        return await object_response(context, 200, view.one(written.item))
    return status_response(context, _success(context, written))


def _success(context: Context, written: Written) -> Object:
    resource, item = context.served, written.item
    details: Object = {"name": item.name, "group": resource.group, "kind": resource.resource}
    details["uid"] = uid_of(item.body)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


async def delete_collection(context: Context) -> Response:
    """DELETE of a collection: every object that matches, each by itself; answers with the list of them."""
    view = view_for(context, listing=True)
    options = await read_options(context)
    items, meta = await select(context, list_options(context.query, context.served, watch=False))
    write = new_write(context, DELETE, without_preconditions(options))
    await delete_all(write, items)
    return await list_response(context, view, items, meta)


async def delete_all(write: Write, items: Sequence[ReadyItem]) -> None:
    """Delete objects, many at a time. After an error none is begun; of several errors, the first object's is raised."""
    waiting = iter(enumerate(items))
    failures: dict[int, Exception] = {}

    async def work() -> None:
        for position, item in waiting:
            if failures:
                return
            try:
                await writepath.delete(write.of_object(item.namespace, item.name))
            except NotFound:
                continue
            except Exception as error:
                failures[position] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(items))):
            group.create_task(work())
    if failures:
        raise failures[min(failures)]


async def read_options(context: Context) -> DeleteOptions:
    """The options of a deletion: from the body when there is one, else from the query."""
    request = context.request
    check_size(request)
    if not request.body:
        return options_of(_from_query(context.query))
    media = body_type(request.headers.get("content-type"))
    if len(request.body) < OFF_LOOP_BYTES:
        fields = _from_body(request.body, media)
    else:
        fields = await context.services.large.decode(_from_body, request.body, media)
    if context.audit is not None:
        context.audit.request_object(fields)
    return options_of(fields)


def options_of(fields: Object) -> DeleteOptions:
    """The options of a DeleteOptions object."""
    errors = _errors(fields)
    if errors:
        raise Invalid.of(GroupKind(META, "DeleteOptions"), "", errors)
    preconditions = fields.get("preconditions") or {}
    return DeleteOptions(
        grace_period=fields.get("gracePeriodSeconds"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=fields.get("propagationPolicy"),
        orphan=fields.get("orphanDependents"),
        dry_run=bool(fields.get("dryRun")),
    )


def _from_body(body: bytes, media: str) -> Object:
    try:
        fields: Any
        if media == PROTOBUF:
            fields = protobuf.decode(body)
        elif media == YAML:
            fields = yaml.decode(body)
        else:
            fields = json.decode(body)
    except DecodeError as error:
        raise BadRequest(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(fields, dict) or fields.get("kind", "DeleteOptions") != "DeleteOptions":
        raise BadRequest("decoded object cannot be converted to DeleteOptions")
    try:
        kind_schema(*GroupVersionKind("", "v1", "DeleteOptions")).coerce(fields)
    except TypeMismatch as error:
        raise BadRequest(f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: {error}') from None
    return fields


def _from_query(query: Mapping[str, str]) -> Object:
    fields: Object = {}
    if "gracePeriodSeconds" in query:
        fields["gracePeriodSeconds"] = parse_integer(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        fields["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        fields["orphanDependents"] = query["orphanDependents"].lower() not in ("false", "0")
    if "dryRun" in query:
        fields["dryRun"] = [query["dryRun"]]
    return fields


def _errors(fields: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = fields.get("propagationPolicy")
    if policy is not None and fields.get("orphanDependents") is not None:
        errors.append(
            invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy is not None and policy not in POLICIES:
        errors.append(not_supported("propagationPolicy", policy, (*POLICIES, "nil")))
    dry_run = fields.get("dryRun")
    if dry_run and dry_run != ["All"]:
        errors.append(not_supported("dryRun", dry_run, ("All",)))
    return errors
