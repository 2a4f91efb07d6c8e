"""Component statuses: computed, not stored. Deprecated since 1.19, and still asked for by scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import NotFound
from kapi.cache.watchcache import Item, Selection
from kapi.codec import json
from kapi.registry.store import ReadyItem
from kapi.server.handlers.respond import list_response, object_response, view_for
from kapi.server.handlers.views import ListMeta

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


def _components(context: Context) -> dict[str, ReadyItem]:
    """The storage is the one component this process has besides itself."""
    reason = context.services.health.checks("livez")["storage"]()
    condition: Object = {"type": "Healthy", "status": "True" if reason is None else "False", "message": reason or "ok"}
    body = json.encode({"metadata": {"name": "storage"}, "conditions": [condition]})[1:]
    return {"storage": ReadyItem(Item("", "", "storage", 0, body, Selection(None, None)))}


async def get_component(context: Context) -> Response:
    """GET of one component."""
    view = view_for(context, listing=False)
    component = _components(context).get(context.info.name)
    if component is None:
        raise NotFound.of(context.served.group_resource, context.info.name)
    return await object_response(context, 200, view.one(component))


async def list_components(context: Context) -> Response:
    """GET of all components."""
    view = view_for(context, listing=True)
    return await list_response(context, view.many(list(_components(context).values()), ListMeta(0)))
