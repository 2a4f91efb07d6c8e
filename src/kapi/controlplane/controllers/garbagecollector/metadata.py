"""What the collector reads of an object: its metadata, out of the bytes in the watch cache, whatever its kind.

Metadata is the same in all versions of a kind, so it is read from what is stored and nothing is converted. Some of it
is looked at in every commit; that is done on the bytes, relying on their order, which `registry.encoding` promises.
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
_MARK: Final = b'"deletionTimestamp":'
_MARK_WITHIN: Final = 200
"""Between the revision and the mark are a revision, a generation and a time; they take less than this many bytes."""
_REFERENCES: Final = b'"ownerReferences":['
_REFERENCES_END: Final = b'}],"'


class Reference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry of `metadata.ownerReferences`, with all there is in it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    """The part of an object's metadata that decides about its life."""

    uid: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[Reference] | None = None
    finalizers: list[str] | None = None

    @property
    def references(self) -> list[Reference]:
        """The owners it names."""
        return self.owner_references or []

    def has(self, finalizer: str) -> bool:
        """Whether a finalizer holds it."""
        return finalizer in (self.finalizers or ())

    def blocks(self, uid: str) -> bool:
        """Whether an owner that waits for its dependents waits for this one."""
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


def is_marked(item: Item) -> bool:
    """Whether an object has a deletionTimestamp. A label may have that name, too, but comes within braces."""
    body = item.body
    start = body.find(_REVISION)
    at = body.find(_MARK, start, start + _MARK_WITHIN)
    return at >= 0 and body.find(b"{", start, at) < 0


def names_the_same(item: Item, previous: Item) -> bool:
    """Whether an object names its owners by the same words as before; when that is hard to tell, it says no."""
    if item.owners != previous.owners:
        return False
    words = _words(item.body)
    return words is not None and words == _words(previous.body)


def _words(body: bytes) -> bytes | None:
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
    """What the queue calls an object: `default`, `replicasets.apps/web`."""
    _, _, group, resource, *namespace, name = key.split("/")
    where = resource if group == CORE else f"{resource}.{group}"
    return Request(namespace[0] if namespace else "", f"{where}/{name}")


def key_of(request: Request) -> str:
    """Where the object of a request lies: the inverse of `request_of`."""
    where, _, name = request.name.partition("/")
    resource, _, group = where.partition(".")
    return object_key(group, resource, request.namespace, name)
