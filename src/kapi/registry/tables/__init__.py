"""Tables: the rows and columns kubectl prints, made by the server so that every client prints the same.

`table_for` gives the table of a kind. Each module here holds the kinds of one area and lists them in its `TABLES`; a
kind that is in none of them has the default table: its name and creation time. Tables read objects in the stored
version, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapi.registry.tables import (
    access,
    autoscaling,
    cells,
    cluster,
    devices,
    extension,
    networking,
    pods,
    storage,
    workloads,
)
from kapi.registry.tables.table import NAME, Column, Table

if TYPE_CHECKING:
    import datetime as dt

    from kapi.api.meta import Object

__all__ = ["Column", "Table", "table_for"]

_NO_TIME = "0001-01-01T00:00:00Z"


def _default_row(obj: Object, _now: dt.datetime) -> list[Any]:
    return [cells.name(obj), cells.string(obj, "metadata", "creationTimestamp") or _NO_TIME]


_DEFAULT = Table((NAME, Column("Created At", "date", "", "The moment the object was created.")), _default_row)

_TABLES: dict[tuple[str, str], Table] = {
    **access.TABLES,
    **autoscaling.TABLES,
    **cluster.TABLES,
    **devices.TABLES,
    **extension.TABLES,
    **networking.TABLES,
    **pods.TABLES,
    **storage.TABLES,
    **workloads.TABLES,
}


def table_for(group: str, resource: str) -> Table:
    """The table of a kind, by its API group and plural name. The same for every version of the group."""
    return _TABLES.get((group, resource), _DEFAULT)
