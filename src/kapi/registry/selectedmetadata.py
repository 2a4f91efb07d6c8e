"""The part of a stored object that the watch cache selects by, decoded without the rest of the object.

A module of its own because it is not compiled: msgspec reads the annotations of these classes when it runs.
"""

from __future__ import annotations

from typing import Any

import msgspec


class OwnerReference(msgspec.Struct):
    """An entry of `metadata.ownerReferences`."""

    uid: str


class SelectedMetadata(msgspec.Struct):
    """The fields of the metadata that are selected by."""

    labels: dict[str, str] | None = None
    owners: list[OwnerReference] | None = msgspec.field(name="ownerReferences", default=None)
    initializers: dict[str, Any] | None = None
    uid: str = ""
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)


class Selected(msgspec.Struct):
    """An object, of which only these fields are decoded."""

    metadata: SelectedMetadata


decode_selected = msgspec.json.Decoder(Selected).decode
