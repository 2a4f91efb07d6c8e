"""Reading an informer's cache: objects by name, by namespace, by labels, by index.

The cache may be behind the server, but never holds a state that did not exist. Objects are decoded when they are handed
out, so each caller has its own copy and may change it; `cached` reads the same without decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from kapi.api.keys import ObjectKey
from kapi.api.selectors import EVERYTHING, LabelSelector
from kapi.informer.indexer import NAMESPACE

if TYPE_CHECKING:
    from kapi.informer.cached import Cached
    from kapi.informer.indexer import Indexer

T = TypeVar("T")


def _selector(labels: LabelSelector | Mapping[str, str] | str | None) -> LabelSelector:
    if labels is None:
        return EVERYTHING
    if isinstance(labels, str):
        return LabelSelector.parse(labels)
    return LabelSelector.of(labels) if isinstance(labels, Mapping) else labels


class CachedLister(Generic[T]):
    """Reads without decoding. Cheap: a `get` is a dictionary look-up."""

    def __init__(self, indexer: Indexer[T]) -> None:
        self._indexer = indexer

    def get(self, name: str, namespace: str = "") -> Cached[T] | None:
        """One object; None when it is not in the cache."""
        return self._indexer.get(ObjectKey(namespace, name))

    def by_key(self, key: ObjectKey) -> Cached[T] | None:
        """One object by its key; None when it is not in the cache."""
        return self._indexer.get(key)

    def by_index(self, name: str, value: str) -> list[Cached[T]]:
        """The objects under a value of an index; KeyError when there is no such index."""
        return self._indexer.by_index(name, value)

    def list(
        self, *, namespace: str | None = None, labels: LabelSelector | Mapping[str, str] | str | None = None
    ) -> list[Cached[T]]:
        """The objects of a namespace, or of all, whose labels match.

        `labels` is a selector, its text (`app in (a,b),!canary`), or labels that objects must have; SelectorError for
        a text that is none.
        """
        selector = _selector(labels)
        found = self._indexer.values() if namespace is None else self._indexer.by_index(NAMESPACE, namespace)
        if not selector:
            return found
        matches = selector.matches
        return [obj for obj in found if matches(obj.labels)]

    def __len__(self) -> int:
        return len(self._indexer)


class Lister(Generic[T]):
    """Reads and decodes. DecodeError from any method names an object that is not what its class says."""

    def __init__(self, indexer: Indexer[T]) -> None:
        self.cached = CachedLister(indexer)
        """The same look-ups without decoding."""

    def get(self, name: str, namespace: str = "") -> T | None:
        """One object; None when it is not in the cache."""
        found = self.cached.get(name, namespace)
        return None if found is None else found.object()

    def by_key(self, key: ObjectKey) -> T | None:
        """One object by its key; None when it is not in the cache."""
        found = self.cached.by_key(key)
        return None if found is None else found.object()

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects under a value of an index; KeyError when there is no such index."""
        return [found.object() for found in self.cached.by_index(name, value)]

    def list(
        self, *, namespace: str | None = None, labels: LabelSelector | Mapping[str, str] | str | None = None
    ) -> list[T]:
        """The objects of a namespace, or of all, whose labels match; see `CachedLister.list`."""
        return [found.object() for found in self.cached.list(namespace=namespace, labels=labels)]

    def in_namespace(self, namespace: str) -> NamespaceLister[T]:
        """The same look-ups in one namespace."""
        return NamespaceLister(self, namespace)

    def __len__(self) -> int:
        return len(self.cached)


@dataclass(frozen=True, slots=True)
class NamespaceLister(Generic[T]):
    """Reads the objects of one namespace and decodes them."""

    lister: Lister[T]
    namespace: str

    def get(self, name: str) -> T | None:
        """One object; None when it is not in the cache."""
        return self.lister.get(name, self.namespace)

    def list(self, *, labels: LabelSelector | Mapping[str, str] | str | None = None) -> list[T]:
        """The objects whose labels match; see `CachedLister.list`."""
        return self.lister.list(namespace=self.namespace, labels=labels)
