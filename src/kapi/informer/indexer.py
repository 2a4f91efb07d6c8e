"""The indexer: the objects of an informer in memory, by key and by any number of indexes.

An index is a function from an object to the values it is to be found under: its namespace, a label, the uids of its
owners, or what a program has use for. Putting an object in costs the same whatever the number of objects. No I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from kapi.codec import json
from kapi.informer.cached import Cached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.api.keys import ObjectKey

T = TypeVar("T")

IndexFunction = Callable[[Cached[T]], Iterable[str]]
"""The values an object is found under; none leaves it out of the index."""

NAMESPACE: Final = "namespace"
OWNER_UID: Final = "owner-uid"

_log = logging.getLogger("kapi.informer")


def by_namespace(obj: Cached[T]) -> Iterable[str]:
    """Objects by namespace; those without one are under the empty string."""
    return (obj.key.namespace,)


def by_label(key: str) -> IndexFunction[T]:
    """Objects by the value of a label; those that lack it are left out."""

    def values(obj: Cached[T]) -> Iterable[str]:
        value = obj.labels.get(key)
        return () if value is None else (value,)

    return values


def by_owner_uid(obj: Cached[T]) -> Iterable[str]:
    """Objects by the uids of those they belong to, whether these manage them or not."""
    return [owner.uid for owner in obj.metadata().owner_references or () if owner.uid]


def by_field(path: str) -> IndexFunction[T]:
    """Objects by the value of a field, such as `spec.nodeName`; those that lack it are under the empty string."""
    return lambda obj: (field_of(json.decode(obj.raw), path),)


def field_of(document: Any, path: str) -> str:
    """The value at a path in a document, as field selectors compare it; empty when there is none."""
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    if isinstance(document, bool):
        return "true" if document else "false"
    return "" if document is None or isinstance(document, dict | list) else str(document)


class _Index(Generic[T]):
    """One index: which objects are under a value, and under which values an object is."""

    def __init__(self, name: str, function: IndexFunction[T]) -> None:
        self._name = name
        self._function = function
        self._keys: dict[str, dict[ObjectKey, None]] = {}
        # Values are remembered rather than worked out again from the old object, which would be decoded for it.
        self._values: dict[ObjectKey, tuple[str, ...]] = {}

    def values_of(self, obj: Cached[T]) -> tuple[str, ...]:
        try:
            return tuple(self._function(obj))
        except Exception:
            _log.exception("index %r failed for %s, which cannot be found by it", self._name, obj.key)
            return ()

    def empty(self) -> _Index[T]:
        """The same index of no objects."""
        return _Index(self._name, self._function)

    def put(self, obj: Cached[T]) -> None:
        self.put_under(obj, self.values_of(obj))

    def put_like(self, obj: Cached[T], known: _Index[T]) -> None:
        """Put an object in under the values that another index has it under."""
        self.put_under(obj, known._values.get(obj.key, ()))

    def put_under(self, obj: Cached[T], values: tuple[str, ...]) -> None:
        old = self._values.get(obj.key, ())
        if values == old:
            return
        self.remove(obj.key)
        for value in values:
            self._keys.setdefault(value, {})[obj.key] = None
        if values:
            self._values[obj.key] = values

    def remove(self, key: ObjectKey) -> None:
        for value in self._values.pop(key, ()):
            keys = self._keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys[value]

    def keys(self, value: str) -> Iterable[ObjectKey]:
        return self._keys.get(value, ())

    def values(self) -> Iterable[str]:
        return self._keys


class _NamespaceIndex(_Index[T]):
    """The index that is always there. An object never leaves its namespace, so there are no values to remember."""

    def __init__(self) -> None:
        super().__init__(NAMESPACE, by_namespace)

    def empty(self) -> _NamespaceIndex[T]:
        return _NamespaceIndex()

    def put_like(self, obj: Cached[T], known: _Index[T]) -> None:
        self.put(obj)

    def put(self, obj: Cached[T]) -> None:
        key = obj.key
        keys = self._keys.get(key.namespace)
        if keys is None:
            keys = self._keys[key.namespace] = {}
        keys[key] = None

    def remove(self, key: ObjectKey) -> None:
        keys = self._keys[key.namespace]
        del keys[key]
        if not keys:
            del self._keys[key.namespace]


class Contents(Generic[T]):
    """The contents of an indexer in the making: a list that is to take the place of what it has."""

    def __init__(self, objects: Mapping[ObjectKey, Cached[T]], indexes: Mapping[str, _Index[T]]) -> None:
        self._known = objects
        self._known_indexes = indexes
        self.objects: dict[ObjectKey, Cached[T]] = {}
        self.indexes = {name: index.empty() for name, index in indexes.items()}

    def put(self, obj: Cached[T]) -> None:
        """Add an object. One that is unchanged is not given to index functions again, which may decode it."""
        self.objects[obj.key] = obj
        known = self._known.get(obj.key)
        is_known = known is not None and obj.is_same_state(known)
        for name, index in self.indexes.items():
            if is_known:
                index.put_like(obj, self._known_indexes[name])
            else:
                index.put(obj)


class Indexer(Generic[T]):
    """Objects by key and by index.

    Promises: an object is in an index under exactly the values that its latest state gives; a query sees all of an
    update or nothing of it, since none of this waits. An index function that raises is logged, and its object is left
    out of that index only.
    """

    def __init__(self, indexes: Mapping[str, IndexFunction[T]] | None = None) -> None:
        self._objects: dict[ObjectKey, Cached[T]] = {}
        self._indexes: dict[str, _Index[T]] = {NAMESPACE: _NamespaceIndex()}
        for name, function in (indexes or {}).items():
            self.add_index(name, function)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Another way to find objects, those that are here already included; ValueError when the name is taken."""
        if name in self._indexes:
            raise ValueError(f"there is an index {name!r} already")
        index = self._indexes[name] = _Index(name, function)
        for obj in self._objects.values():
            index.put(obj)

    def put(self, obj: Cached[T]) -> None:
        """Add an object or replace its state."""
        self._objects[obj.key] = obj
        for index in self._indexes.values():
            index.put(obj)

    def remove(self, key: ObjectKey) -> None:
        """Take an object out; one that is not here is none."""
        if self._objects.pop(key, None) is not None:
            for index in self._indexes.values():
                index.remove(key)

    def empty_contents(self) -> Contents[T]:
        """Return contents without objects, to be filled and given to `replace`; nothing may be put in meanwhile."""
        return Contents(self._objects, dict(self._indexes))

    def replace(self, contents: Contents[T]) -> Mapping[ObjectKey, Cached[T]]:
        """Put contents in the place of all objects, at once; returns the objects that were here."""
        before, self._objects = self._objects, contents.objects
        added = [name for name in self._indexes if name not in contents.indexes]
        self._indexes = {**contents.indexes, **{name: self._indexes[name].empty() for name in added}}
        for name in added:
            for obj in self._objects.values():
                self._indexes[name].put(obj)
        return before

    def get(self, key: ObjectKey) -> Cached[T] | None:
        """One object."""
        return self._objects.get(key)

    def has_index(self, name: str) -> bool:
        """Return True if there is an index of this name."""
        return name in self._indexes

    def index_values_of(self, name: str, obj: Cached[T]) -> tuple[str, ...]:
        """The values that an object, which need not be here, is found under; KeyError when there is no such index."""
        return self._index(name).values_of(obj)

    def keys(self) -> Iterable[ObjectKey]:
        """The keys of all objects; a view."""
        return self._objects.keys()

    def values(self) -> list[Cached[T]]:
        """All objects, as they are now."""
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[Cached[T]]:
        """The objects under a value of an index; KeyError when there is no such index."""
        objects = self._objects
        return [objects[key] for key in self._index(name).keys(value)]

    def index_values(self, name: str) -> list[str]:
        """The values under which an index has objects; KeyError when there is no such index."""
        return list(self._index(name).values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def _index(self, name: str) -> _Index[T]:
        try:
            return self._indexes[name]
        except KeyError:
            known = ", ".join(sorted(self._indexes))
            raise KeyError(f"there is no index {name!r}; there are: {known}") from None
