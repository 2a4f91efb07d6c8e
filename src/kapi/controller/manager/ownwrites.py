"""A cache of an informer with the writes of this process laid over it.

A cache is a little behind the server. What the server answered to our own writes is kept here until the informer has
seen a revision that is at least as new; until then reads show it in the place of what the cache holds, and hide what we
have deleted. Nothing is asked of the server for that.

An informer processes notifications in order and knows the revision of its cache, so it is certain when a write is in
it: also when the object has been deleted meanwhile, and also when the event itself was missed and a list came instead.
No I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kapi.api.access import is_deleting, name_of, namespace_of, resource_version_of
from kapi.api.keys import ObjectKey
from kapi.api.selectors import FieldSelector, LabelSelector
from kapi.client.documents import original_of
from kapi.client.metadata import PartialObjectMetadata
from kapi.codec import json
from kapi.informer.cached import revision_number
from kapi.informer.indexer import NAMESPACE, field_of

if TYPE_CHECKING:
    from kapi.informer.cached import Cached
    from kapi.informer.factory import Collection
    from kapi.informer.informer import SharedInformer

T = TypeVar("T")

_SWEEP: Final = 64
"""The number of own writes above which those that the cache has are looked for and dropped."""


class _Write(NamedTuple, Generic[T]):
    """The outcome of a write: the object, or None for one that is gone from the collection, at some revision."""

    revision: int
    uid: str
    object: Cached[T] | None


class OwnWrites(Generic[T]):
    """One collection as this process knows it: the cache of an informer and what was written since.

    Promise: what is read is at least as new as every write that was noted here, and is never a state that the object
    did not have. An object that others delete or change meanwhile is shown as such once the cache has come that far.
    """

    def __init__(self, collection: Collection, informer: SharedInformer[T]) -> None:
        self.collection = collection
        self.informer = informer
        self._labels = LabelSelector.parse(collection.labels)
        self._fields = FieldSelector.parse(collection.fields)
        self._writes: dict[ObjectKey, _Write[T]] = {}
        self._sweep_at = _SWEEP
        # Deletions of which it is not known what they deleted, by namespace: the revision that must have been seen.
        self._deletions: dict[str, int] = {}

    # -- reading ------------------------------------------------------------------------------------------------------

    def covers(self, namespace: str) -> bool:
        """Return True if the cache holds a namespace; the empty one is that of objects without."""
        namespaces = self.collection.namespaces
        return not namespaces or not namespace or namespace in namespaces

    def is_current(self, namespace: str) -> bool:
        """Return True if a namespace, or all for the empty one, can be read from here."""
        if not self.informer.has_synced:
            return False
        for where, revision in list(self._deletions.items()):
            if self.informer.has_seen(where, revision):
                del self._deletions[where]
        return not self._deletions if not namespace else not self._deletions.keys() & {namespace, ""}

    def get(self, key: ObjectKey) -> Cached[T] | None:
        """One object; None when there is none."""
        cached = self.informer.indexer.get(key)
        write = self._writes.get(key)
        if write is None:
            return cached
        if self._is_seen(key, write, cached):
            del self._writes[key]
            return cached
        return _newer(write, cached)

    def values(self, namespace: str | None) -> list[Cached[T]]:
        """The objects of a namespace, or of all, in no particular order."""
        indexer = self.informer.indexer
        found = indexer.values() if namespace is None else indexer.by_index(NAMESPACE, namespace)
        return self._laid_over(found, lambda obj: namespace is None or obj.key.namespace == namespace)

    def by_index(self, name: str, value: str) -> list[Cached[T]]:
        """The objects under a value of an index; KeyError when there is no such index."""
        indexer = self.informer.indexer
        found = indexer.by_index(name, value)
        return self._laid_over(found, lambda obj: value in indexer.index_values_of(name, obj))

    def _laid_over(self, found: list[Cached[T]], belongs: Any) -> list[Cached[T]]:
        self._sweep()
        if not self._writes:
            return found
        indexer = self.informer.indexer
        known = {obj.key: obj for obj in found if obj.key not in self._writes}
        for key, write in self._writes.items():
            obj = _newer(write, indexer.get(key))
            if obj is not None and belongs(obj):
                known[key] = obj
        return list(known.values())

    # -- writing ------------------------------------------------------------------------------------------------------

    def wrote(self, obj: Any) -> None:
        """Note what the server answered to a write."""
        key, revision = ObjectKey(namespace_of(obj), name_of(obj)), revision_number(resource_version_of(obj))
        if revision is None or not key.name or not self.covers(key.namespace):
            return
        cached = self.informer.intake.cached(self._bytes(obj))
        known = self._writes.get(key)
        if known is not None and (known.revision > revision or (known.object is None and known.uid == cached.uid)):
            return  # answers to two writes came in another order
        is_there = self._is_selected(cached, obj) and (not is_deleting(obj) or _is_held(cached))
        self._note(key, _Write(revision, cached.uid, cached if is_there else None))

    def deleted(self, key: ObjectKey, uid: str, revision: int) -> None:
        """Note that an object was deleted, at a revision when it was there or later."""
        self._note(key, _Write(revision, uid, None))

    def deleted_some(self, namespace: str, revision: int) -> None:
        """Note that objects of a namespace were deleted before a revision: until it is seen, the cache is too old."""
        self._deletions[namespace] = max(revision, self._deletions.get(namespace, 0))

    def _note(self, key: ObjectKey, write: _Write[T]) -> None:
        if self._is_seen(key, write, self.informer.indexer.get(key)):
            self._writes.pop(key, None)
            return
        self._writes[key] = write
        if len(self._writes) > self._sweep_at:
            self._sweep()
            self._sweep_at = max(_SWEEP, 2 * len(self._writes))

    def _sweep(self) -> None:
        indexer = self.informer.indexer
        for key, write in list(self._writes.items()):
            if self._is_seen(key, write, indexer.get(key)):
                del self._writes[key]

    def _is_seen(self, key: ObjectKey, write: _Write[T], cached: Cached[T] | None) -> bool:
        """Return True if the cache has the write, or something newer."""
        if not self.informer.has_seen(key.namespace, write.revision):
            return False
        if write.object is not None or cached is None or cached.uid != write.uid:
            return True
        # The revision is that of before the deletion. A later state that waits for finalizers shows that the server
        # has only begun to delete the object, whatever it answered.
        return (cached.revision or 0) > write.revision and _is_held(cached)

    def _bytes(self, obj: Any) -> bytes:
        """An answer as the informer receives objects of its collection."""
        raw = original_of(obj) or json.encode(obj)
        if not self.collection.is_metadata_only:
            return raw
        gvk = PartialObjectMetadata.gvk
        metadata = json.decode(raw)["metadata"]
        return json.encode({"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": metadata})

    def _is_selected(self, cached: Cached[T], obj: Any) -> bool:
        """Return True if an object belongs to the collection."""
        if not self._labels.matches(cached.labels):
            return False
        if not self._fields:
            return True
        document = json.decode(original_of(obj) or json.encode(obj))
        fields = {requirement.field for requirement in self._fields.requirements}
        return self._fields.matches({path: field_of(document, path) for path in fields})


def _newer(write: _Write[T], cached: Cached[T] | None) -> Cached[T] | None:
    """What an object is after a write that the cache does not have yet."""
    if write.object is not None:
        return write.object
    if cached is None or cached.uid == write.uid:
        return None
    # Another object of that name: from before the one that was deleted, or created after it.
    return cached if (cached.revision or 0) > write.revision else None


def _is_held(obj: Cached[Any]) -> bool:
    """Return True for an object whose deletion has begun, and waits for finalizers or for the grace period."""
    metadata = obj.metadata()
    return bool(metadata.deletion_timestamp and (metadata.finalizers or metadata.deletion_grace_period_seconds))
