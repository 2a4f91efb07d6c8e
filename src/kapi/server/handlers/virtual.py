"""Component statuses: computed, not stored. Deprecated since 1.19, and still asked for by scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import NotFound
from kapi.server.respond import json_response, plain_only

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.server.context import Context
    from kapi.server.message import Response


def _components(context: Context) -> dict[str, Object]:
    """The storage is the one component this process has besides itself."""
    reason = context.services.health.checks("livez")["storage"]()
    condition: Object = {"type": "Healthy", "status": "True" if reason is None else "False", "message": reason or "ok"}
    return {
        "storage": {
            "kind": "ComponentStatus",
            "apiVersion": "v1",
            "metadata": {"name": "storage"},
            "conditions": [condition],
        }
    }


async def get_component(context: Context) -> Response:
    """GET of one component."""
    plain_only(context)
    component = _components(context).get(context.info.name)
    if component is None:
        raise NotFound.of(context.served.group_resource, context.info.name)
    return json_response(context, 200, component)


async def list_components(context: Context) -> Response:
    """GET of all components."""
    plain_only(context)
    items = list(_components(context).values())
    return json_response(
        context, 200, {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items}
    )
