"""Component statuses: computed, not stored. Deprecated since 1.19, and still read by scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import NotFound
from kapi.api.meta import GroupResource
from kapi.cache.watchcache import Item, Selection
from kapi.codec import json
from kapi.registry.store import ReadyItem
from kapi.server.handlers.respond import list_response, object_response, view_for
from kapi.server.handlers.views import ListMeta
from kapi.server.pages.health import STORE

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.context import Context
    from kapi.server.transport.message import Response


NO_SCHEDULER = "no scheduler is part of this server"


def _components(context: Context) -> dict[str, ReadyItem]:
    """Return the three components of kube-apiserver; the built-in controllers are its controller manager."""
    store = context.services.health.checks("livez")[STORE]()
    reasons = {"scheduler": NO_SCHEDULER, "controller-manager": None, "etcd-0": store}
    return {name: _component(name, reason) for name, reason in reasons.items()}


def _component(name: str, reason: str | None) -> ReadyItem:
    condition: Object = {"type": "Healthy", "status": "True" if reason is None else "False", "message": reason or "ok"}
    body = json.encode({"metadata": {"name": name}, "conditions": [condition]})[1:]
    return ReadyItem(Item("", "", name, 0, body, Selection(None, None)))


async def get_component(context: Context) -> Response:
    """Return one component."""
    view = view_for(context, listing=False)
    component = _components(context).get(context.info.name)
    if component is None:
        # The only resource that kube-apiserver names in the singular here.
        raise NotFound.of(GroupResource("", "componentstatus"), context.info.name)
    return await object_response(context, 200, view.one(component))


async def list_components(context: Context) -> Response:
    """Return all components."""
    view = view_for(context, listing=True)
    return await list_response(context, view, list(_components(context).values()), ListMeta(0))
