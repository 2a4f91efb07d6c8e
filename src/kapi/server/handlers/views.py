"""The forms an object can be asked for in: itself, a Table, or its metadata alone.

A view makes JSON bytes of items, the parts of lists, and watch events. The plain view only joins what the cache holds;
the others decode. Lists are put together, and media types (YAML, pretty printing) applied, in `listing.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import msgspec

from kapi.api.errors import BadRequest
from kapi.codec.stream import frame, frame_parts
from kapi.registry.encoding import HubObject, decode
from kapi.registry.store import ReadyItem

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    from kapi.api.meta import Object
    from kapi.cache.watchcache import Item
    from kapi.registry.resource import Resource
    from kapi.registry.tables import Column, Table

_encode = msgspec.json.Encoder().encode
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ListMeta(NamedTuple):
    """The metadata of a list: its snapshot, and where the next page starts."""

    revision: int
    token: str = ""
    remaining: int = 0

    def encode(self, *, custom: bool = False) -> bytes:
        """Return it as JSON without empty parts; a list of a custom kind always has `continue`."""
        fields: dict[str, Any] = {"resourceVersion": str(self.revision)} if self.revision else {}
        if self.token or custom:
            fields["continue"] = self.token
        if self.remaining:
            fields["remainingItemCount"] = self.remaining
        return _encode(fields)


class ListFrame(NamedTuple):
    """The bytes around the items of a list: `before`, then `start` and the entry of each item, with commas, `after`."""

    before: bytes
    start: bytes
    after: bytes = b"]}\n"


class View(Protocol):
    """One form, for one resource. `share` is equal for views whose events are equal bytes."""

    share: object

    @property
    def is_stored(self) -> bool:
        """True if the entries are bytes that the watch cache keeps, and not made for the list."""
        ...

    def one(self, item: ReadyItem) -> bytes:
        """A single object."""
        ...

    def arrange(self, items: Sequence[ReadyItem]) -> Sequence[ReadyItem]:
        """The items in the order in which a list shows them."""
        ...

    def list_frame(self, meta: ListMeta) -> ListFrame:
        """What is around the items of a list."""
        ...

    def entry(self, item: ReadyItem) -> bytes:
        """An item of a list, without the `start` that all have in common."""
        ...

    def encode(self, kind: str, item: Item) -> bytes:
        """A watch event with its newline."""
        ...

    def event_parts(self, kind: str, item: Item) -> tuple[bytes, ...]:
        """The same in parts, of which the largest is shared with the cache where that is possible."""
        ...

    def bookmark(self, revision: int, *, initial: bool) -> bytes:
        """A BOOKMARK event; `initial` marks the end of the initial events."""
        ...


def _bookmark_metadata(revision: int, *, initial: bool) -> Object:
    metadata: Object = {"resourceVersion": str(revision)}
    if initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata


class PlainView:
    """The object as it is stored, in the version asked for."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._head = resource.head
        self._shown = resource.shown
        # What a webhook converts is written at another time than the event is handed out, so it cannot be shared.
        remote = resource.needs_webhook
        self.share: object = None if remote else ("plain", resource.api_version)
        self.is_stored = resource.from_hub is None

    def one(self, item: ReadyItem) -> bytes:
        """A single object."""
        return self._head + (item.body if self._shown is None else self._shown(item))

    def arrange(self, items: Sequence[ReadyItem]) -> Sequence[ReadyItem]:
        """The items in the order of their keys."""
        return items

    def list_frame(self, meta: ListMeta) -> ListFrame:
        """What is around a list. Its items carry no kind or apiVersion, as typed lists do; those of custom kinds do."""
        resource = self._resource
        before = b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[' % (
            _encode(resource.list_kind),
            _encode(resource.api_version),
            meta.encode(custom=resource.custom is not None),
        )
        return ListFrame(before, b"{" if resource.custom is None else self._head)

    def entry(self, item: ReadyItem) -> bytes:
        """An item of a list."""
        return item.body if self._shown is None else self._shown(item)

    def encode(self, kind: str, item: Item) -> bytes:
        """A watch event."""
        return frame(kind, self.one(ReadyItem(item)))

    def event_parts(self, kind: str, item: Item) -> tuple[bytes, ...]:
        """A watch event in parts."""
        before, after = frame_parts(kind)
        return before + self._head, self.entry(ReadyItem(item)), after

    def bookmark(self, revision: int, *, initial: bool) -> bytes:
        """A bookmark."""
        metadata = _encode(_bookmark_metadata(revision, initial=initial))
        return b'{"type":"BOOKMARK","object":%b"metadata":%b}}\n' % (self._head, metadata)


class _RawMetadata(msgspec.Struct):
    metadata: msgspec.Raw


_raw_metadata = msgspec.json.Decoder(_RawMetadata).decode


class PartialView:
    """Metadata alone: what garbage collectors and metadata informers ask for."""

    is_stored = False

    def __init__(self, resource: Resource, version: str) -> None:
        self._api_version = f"meta.k8s.io/{version}"
        self._body = None if resource.custom is None else resource.stored.body
        self._head = b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":' % self._api_version.encode()
        remote = resource.needs_webhook
        self.share: object = None if remote else ("partial", version, resource.custom and resource.version)

    def one(self, item: ReadyItem) -> bytes:
        """A single object."""
        return self._head + self.entry(item)

    def arrange(self, items: Sequence[ReadyItem]) -> Sequence[ReadyItem]:
        """The items in the order of their keys."""
        return items

    def list_frame(self, meta: ListMeta) -> ListFrame:
        """What is around a list."""
        before = b'{"kind":"PartialObjectMetadataList","apiVersion":"%b","metadata":%b,"items":[' % (
            self._api_version.encode(),
            meta.encode(),
        )
        return ListFrame(before, self._head)

    def entry(self, item: ReadyItem) -> bytes:
        """An item of a list."""
        body = item.body if self._body is None else self._body(item)
        return bytes(_raw_metadata(b"{" + body).metadata) + b"}"

    def encode(self, kind: str, item: Item) -> bytes:
        """A watch event."""
        return frame(kind, self.one(ReadyItem(item)))

    def event_parts(self, kind: str, item: Item) -> tuple[bytes, ...]:
        """A watch event, which is small."""
        return (self.encode(kind, item),)

    def bookmark(self, revision: int, *, initial: bool) -> bytes:
        """A bookmark."""
        return frame("BOOKMARK", b"%b%b}" % (self._head, _encode(_bookmark_metadata(revision, initial=initial))))


class TableView:
    """Rows and columns, as kubectl prints them. Ages are told as of now, and only the first event names the columns."""

    share: object = None
    is_stored = False

    def __init__(self, resource: Resource, version: str, include: str, now: Callable[[], dt.datetime]) -> None:
        if include not in ("", "Metadata", "Object", "None"):
            raise BadRequest(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        self._resource = resource
        self._api_version = f"meta.k8s.io/{version}"
        self._table: Table = resource.table
        self._include = include or "Metadata"
        self._now = now
        self._columns_sent = False

    def one(self, item: ReadyItem) -> bytes:
        """A single object."""
        return self._encode({"resourceVersion": str(item.revision)}, [self._row(item)], columns=True)

    def arrange(self, items: Sequence[ReadyItem]) -> Sequence[ReadyItem]:
        """The items in the order of the rows."""
        return cast("Sequence[ReadyItem]", self._table.arrange(items))

    def list_frame(self, meta: ListMeta) -> ListFrame:
        """What is around the rows."""
        before = self._encode(msgspec.Raw(meta.encode()), [], columns=True).removesuffix(b"]}")
        return ListFrame(before, b"")

    def entry(self, item: ReadyItem) -> bytes:
        """A row."""
        return _encode(self._row(item))

    def encode(self, kind: str, item: Item) -> bytes:
        """A watch event."""
        table = self._encode({"resourceVersion": str(item.revision)}, [self._row(item)], columns=not self._columns_sent)
        self._columns_sent = True
        return frame(kind, table)

    def event_parts(self, kind: str, item: Item) -> tuple[bytes, ...]:
        """A watch event."""
        return (self.encode(kind, item),)

    def bookmark(self, revision: int, *, initial: bool) -> bytes:
        """A bookmark: a table with one empty row that carries the metadata."""
        metadata = _bookmark_metadata(revision, initial=initial)
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        blank = ["" for _ in self._table.columns]
        table = self._encode({"resourceVersion": str(revision)}, [{"cells": blank, "object": partial}], columns=False)
        return frame("BOOKMARK", table)

    def _encode(self, metadata: Any, rows: list[Object], *, columns: bool) -> bytes:
        return _encode(
            {
                "kind": "Table",
                "apiVersion": self._api_version,
                "metadata": metadata,
                "columnDefinitions": [_column(column) for column in self._table.columns] if columns else None,
                "rows": rows,
            }
        )

    def _row(self, item: Item) -> Object:
        store = self._resource.store
        obj = decode(self._resource.head, item.body) if store is None else store.decode(item)
        row: Object = {"cells": self._table.cells(obj, self._now())}
        conditions = self._table.conditions(obj)
        if conditions:
            row["conditions"] = conditions
        row["object"] = self._object(obj)
        return row

    def _object(self, obj: Object) -> Object | None:
        if self._include == "None":
            return None
        if self._include == "Object":
            return self._resource.convert_out(HubObject(obj))
        return {"kind": "PartialObjectMetadata", "apiVersion": self._api_version, "metadata": obj["metadata"]}


def _column(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
