"""The error with which an admission plug-in refuses a write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.api.errors import Forbidden
from kapi.server.admission.request import admitted_name

if TYPE_CHECKING:
    from kapi.api.meta import Object
    from kapi.registry.request import Write


def refusal(write: Write, obj: Object | None, why: str) -> Forbidden:
    """Return the error; it names the object, or the prefix of its name while a name is not generated."""
    metadata = (obj or {}).get("metadata") or {}
    # The request to delete a collection names no object.
    name = admitted_name(write, obj) or metadata.get("name") or metadata.get("generateName") or "Unknown"
    return Forbidden.of(write.resource.group_resource, name, why)
