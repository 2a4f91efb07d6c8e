"""Create and update (PUT), on main endpoints and sub-resources that take the whole object.

decode → convert to the stored version → default → mutating admission → store (prepare, validate, validating
admission, commit) → convert back
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import AlreadyExists, BadRequest, Conflict, NotFound
from kapi.registry.encoding import copy_of
from kapi.registry.strategy import WriteContext
from kapi.server.admission.chain import Operation
from kapi.server.authz.attributes import attributes_of
from kapi.server.authz.authorizer import require
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.options import WriteOptions, write_options
from kapi.server.handlers.respond import object_response, view_for
from kapi.server.ownership import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object
    from kapi.registry.outcome import Admit, Written
    from kapi.registry.resource import Resource
    from kapi.registry.store import Rules
    from kapi.server.context import Context
    from kapi.server.transport.message import Response

_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


async def create(context: Context) -> Response:
    """POST to a collection."""
    resource = context.served
    view = view_for(context, listing=False)
    options = write_options(context.query, "CreateOptions")
    obj = await read_object(context, _expected(resource), validation=options.field_validation)
    settle_namespace(context, obj["metadata"])
    hub = resource.convert_in(obj)
    resource.stored.strategy.default(hub)
    written = await create_object(context, hub, options)
    return await object_response(context, 201, view.one(written.item))


def _expected(resource: Resource) -> Expectation:
    return Expectation(resource.gvk, resource.schema, is_custom=resource.custom is not None)


async def create_object(context: Context, hub: Object, options: WriteOptions, *, applied: bool = False) -> Written:
    """Everything after decoding and defaulting, on the stored version; `applied` when ownership is recorded already."""
    metadata = hub["metadata"]
    for key in _SYSTEM_FIELDS:
        metadata.pop(key, None)
    drop_repeated_owners(context, metadata)
    if not applied:
        await record(context, None, hub, options)
    operation = operation_of(context, "CREATE", metadata.get("name", ""), options)
    await context.services.admission.mutate(operation, hub, None)
    drop_repeated_owners(context, metadata)
    writing = write_context(context, options)
    try:
        return await context.served.stored.create(writing, hub, admit_for(context, operation))
    finally:
        context.warnings += writing.warnings


async def update(context: Context) -> Response:
    """PUT of one object."""
    return await put(context, context.served.stored.rules)


async def update_status(context: Context) -> Response:
    """PUT of /status."""
    return await put(context, context.served.stored.status_rules)


async def put(context: Context, rules: Rules) -> Response:
    """Replace an object, as far as an endpoint's rules let the request through."""
    resource, info = context.served, context.info
    store = resource.stored
    view = view_for(context, listing=False)
    options = write_options(context.query, "UpdateOptions")
    body = await read_object(context, _expected(resource), validation=options.field_validation)
    check_name(context, body["metadata"])
    settle_namespace(context, body["metadata"])
    hub = resource.convert_in(body)
    drop_repeated_owners(context, hub["metadata"])
    store.strategy.default(hub)
    creates = rules is store.rules and store.strategy.allow_create_on_update
    while True:
        absent = creates and store.find(info.namespace, info.name) is None
        try:
            written = await (
                _create_by_put(context, hub, options) if absent else _replace(context, hub, options, rules)
            )
        except AlreadyExists:
            continue  # somebody was quicker to create it: replace that
        except NotFound:
            if absent or not creates:
                raise
            continue  # somebody was quicker to delete it: create it
        return await object_response(context, 201 if written.created else 200, view.one(written.item))


async def _replace(context: Context, hub: Object, options: WriteOptions, rules: Rules) -> Written:
    info = context.info
    operation = operation_of(context, "UPDATE", info.name, options)
    # With a resourceVersion a lost race is a Conflict. Without, the update is built again, so the body must not change.
    conditional = hub["metadata"].get("resourceVersion", "") not in ("", "0")

    async def build(old: Object, fresh: Callable[[], Object]) -> Object:
        obj = hub if conditional else copy_of(hub)
        await record(context, old, obj, options)
        await context.services.admission.mutate(operation, obj, old)
        return obj

    writing = write_context(context, options)
    try:
        return await context.served.stored.update(
            writing, info.namespace, info.name, build, admit_for(context, operation), rules=rules
        )
    finally:
        context.warnings += dict.fromkeys(writing.warnings)


async def _create_by_put(context: Context, hub: Object, options: WriteOptions) -> Written:
    hub = copy_of(hub)
    metadata = hub["metadata"]
    if metadata.get("uid"):
        store, info = context.served.stored, context.info
        raise Conflict.of(
            store.resource,
            info.name,
            f"StorageError: invalid object, Code: 4, Key: {store.key(info.namespace, info.name)}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: ",
        )
    await authorize_create(context)
    metadata.pop("resourceVersion", None)
    return await create_object(context, hub, options)


# -- shared by the handlers that write ------------------------------------------------------------------------------


def write_context(context: Context, options: WriteOptions) -> WriteContext:
    """What the registry's hooks may know."""
    user = context.user
    return WriteContext(
        lookup=context.services.catalog,
        now=context.services.clock.now(),
        user=user.name,
        groups=user.groups,
        user_uid=user.uid,
        user_extra=user.extra,
        dry_run=options.dry_run,
        subresource=context.info.subresource,
    )


def operation_of(context: Context, kind: str, name: str, options: WriteOptions) -> Operation:
    """The operation, as admission sees it."""
    info = context.info
    return Operation(kind, context.served, info.subresource, info.namespace, name, context.user, options.dry_run)


def admit_for(context: Context, operation: Operation) -> Admit:
    """Validating admission of an operation, for the store to call."""
    admission = context.services.admission

    async def admit(obj: Object | None, old: Object | None) -> None:
        await admission.validate(operation, obj, old)

    return admit


async def authorize_create(context: Context) -> None:
    """An update or an apply that creates needs the right to create as well."""
    attributes = attributes_of(context.user, context.info)._replace(verb="create")
    await require(context.services.authorizer, attributes, context.request.path)


def settle_namespace(context: Context, metadata: Object) -> None:
    """The namespace of the URL is the namespace of the object; a cluster-scoped object has none."""
    if not context.served.namespaced:
        metadata.pop("namespace", None)
        return
    namespace = context.info.namespace
    if metadata.get("namespace") not in (None, "", namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def check_name(context: Context, metadata: Object) -> None:
    """The name in a body must be the one in the URL."""
    wanted = context.info.name
    name = metadata.get("name")
    if not name:
        raise BadRequest(f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided")
    if name != wanted:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({wanted})")


def drop_repeated_owners(context: Context, metadata: Object) -> None:
    """Identical owner references are kept once, and the client is told."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: list[Object] = []
    for owner in owners:
        if owner in kept:
            context.warnings.append(
                ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
                "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
                + str(owner.get("uid", ""))
            )
        else:
            kept.append(owner)
    metadata["ownerReferences"] = kept
