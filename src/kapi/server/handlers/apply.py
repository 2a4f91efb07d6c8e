"""Server-side apply: a PATCH that says what its sender wants, and merges it with what others want.

The configuration is merged into the object by schema and ownership (`kapi.api.ownership.managedfields`); the result
is written as an update, or as a creation when there is no object yet.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from kapi.api.errors import AlreadyExists, BadRequest, Conflict, NotFound
from kapi.api.go.types import ANY_MAP, json_type, unmarshal_error
from kapi.codec import yaml
from kapi.codec.errors import DecodeError
from kapi.codec.limits import YAML_OFF_LOOP_BYTES
from kapi.registry.encoding import copy_of
from kapi.schema.builtin.typed import TypeMismatch
from kapi.schema.structural.metadata import coerce_object_meta
from kapi.server.handlers.decode import check_size, shape_up, shape_up_metadata
from kapi.server.handlers.options import apply_options
from kapi.server.handlers.respond import object_response, view_for
from kapi.server.handlers.write import (
    admit_for,
    authorize_create,
    check_name,
    create_object,
    drop_repeated_owners,
    operation_of,
    settle_namespace,
    write_context,
)
from kapi.server.ownership import beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.api.ownership.managedfields import FieldManager
    from kapi.registry.outcome import Written
    from kapi.registry.store import Rules
    from kapi.server.context import Context
    from kapi.server.handlers.options import ApplyOptions
    from kapi.server.transport.message import Response


class Configuration(NamedTuple):
    """What a request applies: the decoded body, and which of its keys are there twice."""

    value: Object
    duplicates: list[str]


async def apply_with(context: Context, rules: Rules) -> Response:
    """Apply a configuration, as far as an endpoint's rules let the result through."""
    store, info = context.served.stored, context.info
    view = view_for(context, listing=False)
    options = apply_options(context.query)
    if rules is not store.rules:
        store.get(info.namespace, info.name)  # a sub-resource is of something; that comes before what the body says
    config = await read_config(context)
    while True:
        absent = rules is store.rules and store.find(info.namespace, info.name) is None
        try:
            if absent:
                written = await _create(context, config, options)
            else:
                written = await _update(context, config, options, rules)
        except AlreadyExists:
            continue  # somebody was quicker to create it: apply to that
        except NotFound:
            if absent or rules is not store.rules:
                raise
            continue  # somebody was quicker to delete it: create it
        return await object_response(context, 201 if written.created else 200, view.one(written.item))


async def read_config(context: Context) -> Configuration:
    """The configuration of a request, which is YAML or JSON."""
    request = context.request
    check_size(request)
    try:
        if len(request.body) > YAML_OFF_LOOP_BYTES:
            value, duplicates = await asyncio.to_thread(yaml.decode_with_duplicates, request.body)
        else:
            value, duplicates = yaml.decode_with_duplicates(request.body)
    except DecodeError as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        problem = unmarshal_error(json_type(value), ANY_MAP)
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
    return Configuration(value, duplicates)


def merged(
    context: Context, owners: FieldManager, live: Object | None, config: Configuration, options: ApplyOptions
) -> Object:
    """The object once the configuration is applied to it, with the name and the namespace of the URL.

    Conflicts are told before duplicate keys, and these before a wrong name, as in the reference.
    """
    obj = owners.apply(
        live,
        copy_of(config.value),
        manager=options.write.field_manager,
        force=options.force,
        now=context.services.clock.now(),
    )
    if config.duplicates and options.write.field_validation == "Strict":
        problems = yaml.strict_error(config.duplicates)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {problems}")
    if options.write.field_validation == "Warn":
        context.warnings += [problem for problem in config.duplicates if problem not in context.warnings]
    metadata = obj["metadata"]
    if metadata.get("uid") and live is None:
        why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        raise Conflict.of(context.served.group_resource, context.info.name, why)
    settle_namespace(context, metadata)
    check_name(context, metadata)
    return obj


async def _create(context: Context, config: Configuration, options: ApplyOptions) -> Written:
    resource = context.served
    await authorize_create(context)
    obj = await beside(resource, lambda: _merge(context, None, config, options))
    obj["metadata"].pop("resourceVersion", None)
    hub = resource.convert_in(obj)
    resource.stored.strategy.default(hub)
    return await create_object(context, hub, options.write, applied=True)


async def _update(context: Context, config: Configuration, options: ApplyOptions, rules: Rules) -> Written:
    info, resource = context.info, context.served
    store = resource.stored
    operation = operation_of(context, "UPDATE", info.name, options.write)

    async def build(old: Object, fresh: Callable[[], Object]) -> Object:
        live = resource.convert_out(fresh())
        obj = resource.convert_in(await beside(resource, lambda: _merge(context, live, config, options)))
        drop_repeated_owners(context, obj["metadata"])
        if resource.custom is None or _changes(live, obj):
            # Another version than the stored one may have defaults of its own. Who applies nothing new adds none.
            store.strategy.default(obj)
        await context.services.admission.mutate(operation, obj, old)
        return obj

    writing = write_context(context, options.write)
    try:
        return await store.update(
            writing, info.namespace, info.name, build, admit_for(context, operation), rules=rules, patch=True
        )
    finally:
        context.warnings += dict.fromkeys(writing.warnings)


def _changes(live: Object, obj: Object) -> bool:
    """Whether an apply changed anything but who owns what."""
    before, after = ({**one, "metadata": {**one["metadata"], "managedFields": None}} for one in (live, obj))
    return before != after


def _merge(context: Context, live: Object | None, config: Configuration, options: ApplyOptions) -> Object:
    """The object once the configuration is applied, in the version of the URL and in its schema's shape."""
    resource = context.served
    whole = merged(context, context.services.owners.of(resource, context.info.subresource), live, config, options)
    entries = whole["metadata"].pop("managedFields", None)
    # The configuration may have written the version of its kind in another way.
    whole["apiVersion"], whole["kind"] = resource.api_version, resource.kind
    # The merge may have left nulls, and shares its parts with the live object; decoding it makes it our own.
    obj: Object = copy_of(whole)
    try:
        if resource.custom is None:
            shape_up(obj, resource.schema)
        else:
            # The result for a custom kind is judged as it is, with the nulls that are left, but for its metadata.
            shape_up_metadata(obj, coerce_object_meta)
    except TypeMismatch as error:
        raise BadRequest(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from None
    if entries:
        obj["metadata"]["managedFields"] = entries
    return obj
