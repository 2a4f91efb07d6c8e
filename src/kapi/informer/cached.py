"""One object in a cache: the bytes the server sent, and the few decoded fields that look-ups need.

A decoded Pod takes several times the memory of its JSON, and most objects in a cache are never read. So the bytes are
kept, and every reader gets a fresh copy, which it may change. `Intake` makes `Cached` objects from the bytes of a
source; there is one per informer, and it shares what its objects have in common. No I/O.
"""

from __future__ import annotations

import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from kapi.api.builtin.meta_v1 import ObjectMeta
from kapi.api.keys import ObjectKey
from kapi.client.documents import remember
from kapi.codec import json
from kapi.codec.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.api.meta import Object

T = TypeVar("T")

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_SHARED: Final = 4096
"""The number of sets of labels and namespaces that an intake shares before it starts over, to bound its memory."""

_DIGITS: Final = 20
_log = logging.getLogger("kapi.informer")


class _OnlyMetadata(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class _Metadata(msgspec.Struct, gc=False):
    """The metadata that is kept decoded; labels stay bytes until we know whether we have seen them before."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    generation: int | None = None
    labels: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Head(msgspec.Struct, gc=False):
    metadata: _Metadata
    kind: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_metadata = msgspec.json.Decoder(_OnlyMetadata).decode
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode


class Cached(msgspec.Struct, Generic[T], frozen=True, eq=False, gc=False):
    """One state of one object. Immutable: a later state is another `Cached`.

    `raw` is a whole JSON object that says its apiVersion and kind, whatever the server left out. `labels` may be shared
    with other objects.
    """

    key: ObjectKey
    resource_version: str
    uid: str
    labels: Mapping[str, str]
    generation: int
    raw: bytes
    _decode: Callable[[bytes], T]

    @property
    def revision(self) -> int | None:
        """The resourceVersion as a number that can be compared; None for a server whose versions are not numbers."""
        return revision_number(self.resource_version)

    def object(self) -> T:
        """The object, decoded anew: change it as you like.

        Raises:
            DecodeError: the object is not what its class says; the text names it and the field.
        """
        try:
            return self._decode(self.raw)
        except (msgspec.DecodeError, DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"{self.key} cannot be decoded: {error}") from None

    def metadata(self) -> ObjectMeta:
        """The metadata, decoded anew; a fraction of the cost of the object."""
        return _decode_metadata(self.raw).metadata

    def is_same_state(self, other: Cached[T]) -> bool:
        """Return True if both are the same version of the same object, so that handlers need not be called."""
        if self.uid != other.uid or self.resource_version != other.resource_version:
            return False
        return bool(self.resource_version) or self.raw == other.raw

    def __repr__(self) -> str:
        return f"Cached({str(self.key)!r}, resource_version={self.resource_version!r}, {len(self.raw)} bytes)"


def revision_number(text: str) -> int | None:
    """A resourceVersion as a number; None when it is not one of 64 bits, as those of Kubernetes are."""
    return int(text) if text.isdigit() and len(text) <= _DIGITS and text.isascii() else None


def decoder_of(cls: type[T]) -> Callable[[bytes], T]:
    """Return the function that decodes bytes into objects of a class, or into dictionaries for `dict`."""
    if cls is dict:
        decode: Callable[[bytes], Any] = json.decode
        return decode
    read = msgspec.json.Decoder(cls).decode

    def decode_and_remember(raw: bytes) -> T:
        obj = read(raw)
        remember(obj, raw)
        return obj

    return decode_and_remember


def without_managed_fields(obj: Object) -> Object:
    """A transform that drops `metadata.managedFields`: often half of an object, and nothing to a controller."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Intake(Generic[T]):
    """Makes `Cached` objects from the bytes of a source.

    `transform` is called with each object as a dictionary before it is cached, to drop unneeded fields, and returns
    what to cache; it must not change name, namespace, uid, labels or resourceVersion. If it fails, the object is cached
    unchanged and the failure is logged: a cache with a large object is better than one without it.
    """

    def __init__(self, decode: Callable[[bytes], T], *, transform: Callable[[Object], Object] | None = None) -> None:
        self._decode = decode
        self._transform = transform
        self._labels: dict[bytes, Mapping[str, str]] = {}
        self._namespaces: dict[str, str] = {}

    def cached(self, raw: bytes | msgspec.Raw, head: bytes = b"") -> Cached[T]:
        """The object in `raw`. `head` is the opening of an object of its kind, for lists whose items do not say.

        Raises:
            DecodeError: this is no object.
        """
        try:
            found = _decode_head(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(f"not an object: {error}") from None
        metadata = found.metadata
        if not metadata.name:
            raise DecodeError("an object without a name")
        kept = bytes(raw)
        if head and not found.kind:
            kept = head + kept[kept.index(b"{") + 1 :]
        key = ObjectKey(self._namespace(metadata.namespace), metadata.name)
        return Cached(
            key=key,
            resource_version=metadata.resource_version,
            uid=metadata.uid,
            labels=self._shared_labels(metadata.labels),
            generation=metadata.generation or 0,
            raw=self._transformed(kept, key) if self._transform else kept,
            _decode=self._decode,
        )

    def _namespace(self, namespace: str) -> str:
        if len(self._namespaces) > _SHARED:
            self._namespaces.clear()
        return self._namespaces.setdefault(namespace, namespace)

    def _shared_labels(self, raw: msgspec.Raw) -> Mapping[str, str]:
        text = bytes(raw)
        if not text:
            return _NO_LABELS
        labels = self._labels.get(text)
        if labels is None:
            if len(self._labels) > _SHARED:
                self._labels.clear()
            try:
                decoded = _decode_labels(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise DecodeError(f"labels: {error}") from None
            labels = self._labels[text] = MappingProxyType(decoded) if decoded else _NO_LABELS
        return labels

    def _transformed(self, raw: bytes, key: ObjectKey) -> bytes:
        assert self._transform is not None
        try:
            return json.encode(self._transform(json.decode(raw)))
        except Exception:
            _log.exception("the transform failed for %s; the object is kept as it came", key)
            return raw
