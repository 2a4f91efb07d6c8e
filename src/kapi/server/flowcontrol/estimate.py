"""The number of seats a request needs: one, or more for a list or the start of a watch that reads many objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kapi.registry.catalog import Catalog
    from kapi.server.context import Context

OBJECTS_PER_SEAT: Final = 100
MAX_SEATS: Final = 10


def estimated_seats(context: Context, catalog: Catalog, nominal: int) -> int:
    """Return the seats of a request, never more than its level has."""
    info, query = context.info, context.query
    if info.verb not in ("list", "watch") or info.name or not info.is_resource:
        return 1
    if info.verb == "watch" and not _sends_initial_events(query.get("resourceVersion"), query.get("sendInitialEvents")):
        return 1
    resource = catalog.find(info.group, info.version, info.resource)
    if resource is None or resource.store is None:
        return 1
    objects = len(resource.store.cache)
    limit = query.get("limit", "")
    if limit.isascii() and limit.isdigit() and not info.label_selector and not info.field_selector:
        objects = min(objects, int(limit[:9]) or objects)
    return max(1, min(math.ceil(objects / OBJECTS_PER_SEAT), MAX_SEATS, nominal))


def _sends_initial_events(version: str | None, wanted: str | None) -> bool:
    return wanted == "true" or (wanted is None and version in (None, "", "0"))
