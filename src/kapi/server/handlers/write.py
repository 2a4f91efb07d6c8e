"""The handlers of create and update (PUT), on main endpoints and on sub-resources that take the whole object.

A handler decodes the request, builds its `Write`, calls the write path (`registry/write.py`) and responds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kapi.api.errors import BadRequest
from kapi.api.objectmeta import MAX_FIELD_MANAGER_BYTES
from kapi.registry import write as writepath
from kapi.registry.deletion import DeleteOptions
from kapi.registry.initializers import wait_until_initialized
from kapi.registry.request import CREATE, UPDATE, Write
from kapi.registry.write import Body, Replacement
from kapi.server.authz.attributes import attributes_of
from kapi.server.authz.authorizer import require
from kapi.server.handlers.decode import Expectation, read_object
from kapi.server.handlers.options import write_options
from kapi.server.handlers.respond import object_response, view_for
from kapi.server.requestinfo import is_true

if TYPE_CHECKING:
    from kapi.api.meta import GroupVersionKind, Object
    from kapi.registry.request import Admission, WriteOptions
    from kapi.registry.resource import Resource
    from kapi.registry.store import ReadyItem, Store
    from kapi.registry.updatescope import UpdateScope
    from kapi.registry.write import Written
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


_MAX_CHARACTER_BYTES = 4
INITIALIZATION_SECONDS = 30.0
"""The time that a creation waits for initializers; the object stays, uninitialized, when it is up."""


async def create(context: Context) -> Response:
    """POST to a collection."""
    view = view_for(context, listing=False)
    options = write_options(context.query, "CreateOptions")
    obj = await read_object(context, _expected(context.served), validation=options.field_validation)
    match_namespace(context, obj["metadata"])
    written = await writepath.create(new_write(context, CREATE, options), Body(obj))
    return await object_response(context, 201, view.one(await initialized(context, written)))


async def update(context: Context) -> Response:
    """PUT of one object."""
    return await put(context, context.served.stored.object_scope)


async def update_status(context: Context) -> Response:
    """PUT of /status."""
    return await put(context, context.served.stored.status_scope)


async def put(context: Context, scope: UpdateScope) -> Response:
    """Replace an object, as far as the scope of an endpoint allows."""
    store = context.served.stored
    view = view_for(context, listing=False)
    options = write_options(context.query, "UpdateOptions")
    obj = await read_object(context, _expected(context.served), validation=options.field_validation)
    check_name(context, obj["metadata"])
    match_namespace(context, obj["metadata"])
    creates = scope is store.object_scope and store.strategy.allow_create_on_update
    written = await writepath.update(
        new_write(context, UPDATE, options),
        Replacement(obj),
        scope,
        may_create=partial(authorize_create, context) if creates else None,
    )
    item = await initialized(context, written)
    return await object_response(context, 201 if written.created else 200, view.one(item))


def _expected(resource: Resource) -> Expectation:
    return Expectation(resource.gvk, resource.schema, is_custom=resource.custom is not None)


# -- shared by the handlers that write ------------------------------------------------------------------------------


def new_write(
    context: Context,
    operation: str,
    options: WriteOptions | DeleteOptions,
    *,
    name: str | None = None,
    kind: GroupVersionKind | None = None,
    store: Store | None = None,
    admission: Admission | None = None,
) -> Write:
    """The `Write` of a request; name, kind and store where they are not those of the URL."""
    info, services = context.info, context.services
    return Write(
        operation,
        context.served,
        lookup=services.catalog,
        now=services.clock.now(),
        namespace=info.namespace,
        name=info.name if name is None else name,
        subresource=info.subresource,
        kind=kind,
        store=store,
        user=context.user,
        verb=info.verb,
        options=options,
        field_manager="" if isinstance(options, DeleteOptions) else options.field_manager or _user_agent(context),
        field_managers=services.catalog.field_managers,
        admission=admission or services.admission,
        warnings=context.warnings,
        audit_annotations=context.audit_annotations,
        request_bytes=len(context.request.body),
    )


async def initialized(context: Context, written: Written) -> ReadyItem:
    """The item to respond with: that of a new object when its initializers have finished it."""
    item = written.item
    waits = item.is_uninitialized and written.created and item.revision  # a dry run has no revision
    if not waits or is_true(context.query, "includeUninitialized"):
        return item
    return await wait_until_initialized(context.served.stored, item, INITIALIZATION_SECONDS)


def _user_agent(context: Context) -> str:
    """The name of the client program, which owns fields where the request names no field manager."""
    program = context.request.headers.get("user-agent", "").partition("/")[0]
    if not program.isprintable():
        program = "".join(character for character in program if character.isprintable())
    if len(program) * _MAX_CHARACTER_BYTES <= MAX_FIELD_MANAGER_BYTES:
        return program
    return program.encode()[:MAX_FIELD_MANAGER_BYTES].decode(errors="ignore")


async def authorize_create(context: Context) -> None:
    """Raise Forbidden unless the user of an update or an apply that creates the object may create."""
    attributes = attributes_of(context.user, context.info)._replace(verb="create")
    await require(context.services.authorizer, attributes, context.request.path)


def match_namespace(context: Context, metadata: Object) -> None:
    """Set the namespace of an object to that of the URL; BadRequest if it names another."""
    if not context.served.namespaced:
        metadata.pop("namespace", None)
        return
    namespace = context.info.namespace
    if metadata.get("namespace") not in (None, "", namespace):
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace


def check_name(context: Context, metadata: Object) -> None:
    """Raise BadRequest unless the name in a body is the one in the URL."""
    wanted = context.info.name
    name = metadata.get("name")
    if not name:
        raise BadRequest(f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided")
    if name != wanted:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({wanted})")
