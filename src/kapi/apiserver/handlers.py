"""The handlers of an API server of one's own: Kapi's, but for reads of resources that have functions.

Which of them a request gets depends on the store of its resource: a stored resource is served as by Kapi itself, an
observed one too, after its copy was compared with the backing; the others are read by their functions each time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kapi.api.errors import UnsupportedMediaType
from kapi.api.patch.mergepatch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from kapi.apiserver.backing import BackedStore, Call, current_call
from kapi.apiserver.observed import ObservedStore
from kapi.apiserver.selection import backed_store, request_of, select
from kapi.apiserver.watch import BackedWatch
from kapi.registry.deletion import without_preconditions
from kapi.registry.request import DELETE
from kapi.server.handlers import delete as deleting
from kapi.server.handlers import patch as patching
from kapi.server.handlers import read as reading
from kapi.server.handlers import subresources
from kapi.server.handlers import watch as watching
from kapi.server.handlers import write as writing
from kapi.server.handlers.options import list_options
from kapi.server.handlers.respond import list_response, object_response, view_for, watch_view_for
from kapi.server.pages.handlers import Pages
from kapi.server.pipeline import DEFAULT_DEADLINE
from kapi.server.router import Router
from kapi.server.transport.message import StreamResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapi.server.context import Context
    from kapi.server.router import Endpoint
    from kapi.server.services import Services
    from kapi.server.transport.message import Response


def router(services: Services) -> Router:
    """Return the router of an API server of one's own."""
    return Router(
        verbs={
            "create": _by_store(writing.create),
            "get": _by_store(reading.get, backed=_get),
            "list": _by_store(reading.list_, backed=_list, observe=_all),
            "watch": _by_store(watching.watch, backed=_watch, observe=_all),
            "update": _by_store(writing.update),
            "patch": _by_store(patching.patch, backed=_patch),
            "delete": _by_store(deleting.delete),
            "deletecollection": _by_store(deleting.delete_collection, backed=_delete_collection, observe=_all),
        },
        subresources={
            "status": {
                "get": _by_store(reading.get, backed=_get),
                "update": _by_store(writing.update_status),
                "patch": _by_store(patching.patch_status, backed=_patch_status, observe=_one),
            },
            "scale": {
                "get": _by_store(subresources.get_scale),
                "update": _by_store(subresources.update_scale),
                "patch": _by_store(subresources.patch_scale),
            },
        },
        virtual={},
        page=Pages(services),
    )


async def _all(store: ObservedStore, context: Context) -> None:
    await store.refresh()


async def _one(store: ObservedStore, context: Context) -> None:
    await store.find_ready(context.info.namespace, context.info.name)


def _by_store(
    generic: Endpoint,
    *,
    backed: Endpoint | None = None,
    observe: Callable[[ObservedStore, Context], Awaitable[None]] | None = None,
) -> Endpoint:
    """Return a handler: Kapi's, or for resources that are read by their functions another.

    `observe` compares the copy of an observed resource with its backing before Kapi's handler reads the copy.
    """

    async def handle(context: Context) -> Response | StreamResponse:
        store = context.served.stored
        if not isinstance(store, BackedStore):
            return await generic(context)
        current_call.set(Call(request_of(context)))
        # The pipeline sets no deadline for reads that Kapi answers from memory.
        async with asyncio.timeout(DEFAULT_DEADLINE):
            if not isinstance(store, ObservedStore):
                return await (backed or generic)(context)
            if observe is not None:
                await observe(store, context)
            return await generic(context)

    return handle


# -- reading ----------------------------------------------------------------------------------------------------------


async def _get(context: Context) -> Response:
    """GET of one object."""
    view = view_for(context, listing=False)
    item = await backed_store(context).fetch(context.info.namespace, context.info.name)
    return await object_response(context, 200, view.one(item))


async def _list(context: Context) -> Response:
    """GET of a collection."""
    view = view_for(context, listing=True)
    items, meta = await select(context, list_options(context.query, context.served, watch=False))
    return await list_response(context, view, items, meta)


async def _watch(context: Context) -> StreamResponse:
    """GET with watch=true."""
    view = watch_view_for(context)
    options = list_options(context.query, context.served, watch=True)
    watching.check_name(context, options)
    session = BackedWatch(context, options, view)
    return StreamResponse(200, [("Content-Type", "application/json")], session.run)


# -- writing ----------------------------------------------------------------------------------------------------------


async def _patch(context: Context) -> Response:
    _refuse_apply(context)
    return await patching.patch(context)


async def _patch_status(context: Context) -> Response:
    _refuse_apply(context)
    return await patching.patch_status(context)


def _refuse_apply(context: Context) -> None:
    if patching.patch_media(context) == APPLY_PATCH:
        raise UnsupportedMediaType(
            f"server-side apply needs managedFields, which {context.served.group_resource} does not keep; "
            f"accepted media types include: {JSON_PATCH}, {MERGE_PATCH}"
        )


async def _delete_collection(context: Context) -> Response:
    view = view_for(context, listing=True)
    options = await deleting.read_options(context)
    items, meta = await select(context, list_options(context.query, context.served, watch=False))
    await deleting.delete_all(writing.new_write(context, DELETE, without_preconditions(options)), items)
    return await list_response(context, view, items, meta)
