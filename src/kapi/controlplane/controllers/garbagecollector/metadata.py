"""The metadata that the garbage collector reads of an object, out of the bytes in the watch cache, whatever its kind.

Metadata is the same in all versions of a kind, so it is read from what is stored and nothing is converted. Some of it
is read in every commit; that is done on the bytes, relying on their order, which `registry.encoding` promises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kapi.controller.reconcile import Request
from kapi.storage.keys import CORE, object_key

if TYPE_CHECKING:
    from kapi.cache.watchcache import Item

_UID: Final = b'"uid":"'
_REVISION: Final = b'"resourceVersion":"'
_DELETION_TIMESTAMP: Final = b'"deletionTimestamp":'
_DELETION_WITHIN: Final = 200
"""Between resourceVersion and deletionTimestamp are a revision, a generation and a time: less than this many bytes."""
_REFERENCES: Final = b'"ownerReferences":['
_REFERENCES_END: Final = b'}],"'


class Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `metadata.ownerReferences`, with all its fields."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """The fields of an object's metadata that garbage collection depends on."""

    uid: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[Reference] | None = None
    finalizers: list[str] | None = None

    @property
    def references(self) -> list[Reference]:
        """The owner references."""
        return self.owner_references or []

    def has(self, finalizer: str) -> bool:
        """Return True if the object has a finalizer."""
        return finalizer in (self.finalizers or ())

    def blocks(self, uid: str) -> bool:
        """Return True if the object blocks the foreground deletion of an owner."""
        return any(reference.uid == uid and reference.block_owner_deletion for reference in self.references)


class _Object(msgspec.Struct):
    metadata: Metadata


_decode = msgspec.json.Decoder(_Object).decode


def metadata_of(item: Item) -> Metadata:
    """The metadata of an object in a watch cache."""
    return _decode(b"{" + item.body).metadata


def uid_of(item: Item) -> str:
    """The uid of an object; nothing that a user can nest comes before it."""
    body = item.body
    start = body.find(_UID) + len(_UID)
    return body[start : body.find(b'"', start)].decode()


def is_being_deleted(item: Item) -> bool:
    """Return True if an object has a deletionTimestamp. A label may have that name, too, but is within braces."""
    body = item.body
    start = body.find(_REVISION)
    at = body.find(_DELETION_TIMESTAMP, start, start + _DELETION_WITHIN)
    return at >= 0 and body.find(b"{", start, at) < 0


def has_same_references(item: Item, previous: Item) -> bool:
    """Return True if an object has the owner references it had before; False also when the bytes do not tell."""
    if item.owners != previous.owners:
        return False
    encoded = _encoded_references(item.body)
    return encoded is not None and encoded == _encoded_references(previous.body)


def _encoded_references(body: bytes) -> bytes | None:
    """The bytes of the references, or more than that; None if they cannot be told from what follows.

    Behind the list comes `finalizers` or `managedFields`. A name may end with the same bytes as the list, but then the
    quote is its end, and no letter follows.
    """
    start = body.find(_REFERENCES)
    end = body.find(_REFERENCES_END, start)
    if start < 0 or end < 0 or body[end + len(_REFERENCES_END)] not in b"fm":
        return None
    return body[start:end]


def request_of(key: str) -> Request:
    """The request for an object of any resource: `default`, `replicasets.apps/web`."""
    _, _, group, resource, *namespace, name = key.split("/")
    where = resource if group == CORE else f"{resource}.{group}"
    return Request(namespace[0] if namespace else "", f"{where}/{name}")


def key_of(request: Request) -> str:
    """The storage key of the object of a request: the inverse of `request_of`."""
    where, _, name = request.name.partition("/")
    resource, _, group = where.partition(".")
    return object_key(group, resource, request.namespace, name)
