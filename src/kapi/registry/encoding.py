"""The encoding of stored objects: an object becomes bytes once, at its write.

A stored value is JSON that begins `{"kind":…,"apiVersion":…,"metadata":{…}` with resourceVersion before anything a
user can nest. That order is what lets the rest of the server splice: the `head` (kind and apiVersion) is cut off
and put back per served version, and the revision is filled in by the store at commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NewType

import msgspec

from kapi.cache.watchcache import Selection
from kapi.codec.pieces import PIECE_BYTES, decode_pieces
from kapi.registry.selectedmetadata import decode_selected
from kapi.storage.encryption.prefix import require_plain
from kapi.storage.interface import Draft

if TYPE_CHECKING:
    from collections.abc import Callable

    from kapi.api.meta import Object

HubObject = NewType("HubObject", dict[str, Any])
"""An object in the version its store works in, as strategies and admission see it; a request may be in another."""
StoredObject = NewType("StoredObject", dict[str, Any])
"""An object in the version that is written to storage; only the stores of custom kinds work in another one."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_SLOT = b'"resourceVersion":"'
_METADATA = b',"metadata":'
_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_METADATA_FIELDS = frozenset(_METADATA_ORDER)


def head_of(api_version: str, kind: str) -> bytes:
    """The opening of every object of a kind: `{"kind":"Pod","apiVersion":"v1",`."""
    return b'{"kind":%b,"apiVersion":%b,' % (_encode(kind), _encode(api_version))


def ordered(obj: Object, version: str | None = None) -> Object:
    """The object with its fields in the order bytes rely on, perhaps at another resourceVersion; itself unchanged."""
    metadata = obj["metadata"]
    if version is not None:
        metadata = {**metadata, "resourceVersion": version}
    in_order: dict[str, Any] = {key: metadata[key] for key in _METADATA_ORDER if key in metadata}
    if len(in_order) != len(metadata):
        in_order.update((key, value) for key, value in metadata.items() if key not in _METADATA_FIELDS)
    result = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": in_order}
    for key, value in obj.items():
        if key not in result:
            result[key] = value
    return result


def draft(obj: StoredObject) -> Draft:
    """The value to store, with the slot for its revision. The object is not changed: a lost race tries it again."""
    data = _encode(ordered(obj, ""))
    at = data.index(_SLOT) + len(_SLOT)
    return Draft(data[:at], data[at:])


def encode(obj: Object) -> bytes:
    """The bytes of an object as it is, with or without a revision."""
    return _encode(ordered(obj))


def decode(head: bytes, body: bytes) -> Object:
    """The object of a cached body; a fresh one each time, which the caller may change."""
    obj: Object = _decoded(head + body)
    return obj


def copy_of(obj: Any) -> Any:
    """A deep copy of anything decoded from JSON; several times faster than `copy.deepcopy`."""
    return _decoded(_encode(obj))


def _decoded(data: bytes) -> Any:
    """A document of our own, which has no duplicate fields; a long one in pieces, between which other threads run."""
    return _decode(data) if len(data) <= 2 * PIECE_BYTES else decode_pieces(data, lambda piece, _: _decode(piece))


def uid_of(body: bytes) -> str:
    """Return the uid of the object of a cached body."""
    return decode_selected(b"{" + body).metadata.uid


def is_marked(body: bytes) -> bool:
    """Return True if the object of a cached body is marked for deletion."""
    return decode_selected(b"{" + body).metadata.deleted is not None


def owners_of(metadata: Object) -> tuple[str, ...] | None:
    """The uids of the owners that an object's metadata names; None when it names none."""
    references = metadata.get("ownerReferences")
    return tuple(reference["uid"] for reference in references) if references else None


def _selection(value: bytes) -> Selection:
    metadata = decode_selected(value).metadata
    owners = tuple(owner.uid for owner in metadata.owners) if metadata.owners else None
    return Selection(metadata.labels, None, None, owners, metadata.initializers is not None)


class BodyReader:
    """Reads stored values of one kind for the watch cache."""

    def __init__(self, head: bytes, selectable: Callable[[Object], dict[str, str]] | None) -> None:
        self._head = head
        self._length = len(head)
        self._selectable = selectable

    def split(self, value: bytes) -> tuple[str, bytes]:
        """The value without its head; values written in another order are put in ours."""
        if value.startswith(self._head):
            return "", value[self._length :]
        return "", _encode(ordered(_decode(value)))[self._length :]

    def select(self, value: bytes) -> Selection:
        """Labels, owners and selectable fields."""
        require_plain(value)
        if self._selectable is None:
            return _selection(value)
        obj = _decode(value)
        metadata = obj["metadata"]
        owners, is_uninitialized = owners_of(metadata), "initializers" in metadata
        return Selection(metadata.get("labels"), self._selectable(obj), None, owners, is_uninitialized)


class CustomReader:
    """Reads stored values of custom kinds for the watch cache, whatever version they are in.

    It knows nothing of the kind, so that values can be read before their definition is: selectable fields and the body
    in the served version are computed on the first read.
    """

    def __init__(self) -> None:
        self._versions: dict[bytes, str] = {}
        """Heads seen, and the version each stands for."""

    def split(self, value: bytes) -> tuple[str, bytes]:
        """The apiVersion, and the value without its head; values written in another order are put in ours."""
        at = value.find(_METADATA) + 1
        version = self._versions.get(value[:at])
        if version is None:
            obj = _decode(value)
            version = obj["apiVersion"]
            head = head_of(version, obj["kind"])
            if not value.startswith(head):
                return version, _encode(ordered(obj))[len(head) :]
            self._versions[head] = version
            at = len(head)
        return version, value[at:]

    def select(self, value: bytes) -> Selection:
        """Labels and owners."""
        require_plain(value)
        return _selection(value)
