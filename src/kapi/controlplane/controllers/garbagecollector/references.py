"""The classification of an object's owner references: solid, dangling or waiting. Reads the view; changes nothing.

An owner is looked up by the apiVersion, kind and name of its owner reference, in the namespace of the dependent if the
kind is namespaced. It must have the uid of the owner reference, else it is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.controlplane.controllers.garbagecollector.metadata import is_being_deleted, metadata_of, uid_of
from kapi.registry.deletion import FOREGROUND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.cache.watchcache import Item
    from kapi.controlplane.controllers.garbagecollector.metadata import Metadata, Reference
    from kapi.controlplane.controllers.view import ObjectView
    from kapi.registry.resource import Resource

MAX_MISSES: Final = 10_000
"""The number of owners that are remembered to be in no namespace."""


class UnservedKind(NamedTuple):
    """A kind that is not served: of an owner, or (then only the key prefix of its objects) of the dependent itself."""

    api_version: str
    kind: str
    prefix: str = ""


@dataclass(slots=True)
class ClassifiedReferences:
    """The references of one object, by the state of their owners.

    `solid`: the owner exists. `waiting`: it exists and waits for its dependents to be deleted before it. `dangling`: it
    is absent from the view. With `unserved` kinds among them, or when `is_out_of_scope`, nothing can be decided.
    """

    solid: list[Reference] = field(default_factory=list)
    dangling: list[Reference] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    unserved: list[UnservedKind] = field(default_factory=list)
    is_out_of_scope: bool = False
    """True if a cluster-scoped object names a namespaced kind: in which namespace the owner is cannot be told."""

    @property
    def is_solid(self) -> bool:
        """True if every owner exists: there is nothing to do."""
        return not (self.dangling or self.waiting or self.unserved or self.is_out_of_scope)


class ReferenceClassifier:
    """Classifies references by the view as it is at that moment.

    `deleted` maps the uids of owners whose deletion was seen to their namespaces: these owners are known to be absent
    even when their kind is not served any more.
    """

    def __init__(self, view: ObjectView, deleted: Mapping[str, str]) -> None:
        self._view = view
        self._deleted = deleted
        self._misses: set[tuple[str, str, str, str]] = set()
        """Owners that were searched for in all namespaces and not found."""

    def classify(self, item: Item, metadata: Metadata) -> ClassifiedReferences:
        """Classify the owner references of an object."""
        classified = ClassifiedReferences()
        for reference in metadata.references:
            resource = self._view.of_kind(reference.api_version, reference.kind)
            if resource is None and self.was_deleted(item, reference):
                classified.dangling.append(reference)
            elif resource is None:
                classified.unserved.append(UnservedKind(reference.api_version, reference.kind))
            elif resource.namespaced and not item.namespace:
                classified.is_out_of_scope = True
            else:
                owner = self._find(resource, item.namespace, reference)
                if owner is None:
                    classified.dangling.append(reference)
                elif waits_for_dependents(owner):
                    classified.waiting.append(reference)
                else:
                    classified.solid.append(reference)
        return classified

    def was_deleted(self, item: Item, reference: Reference) -> bool:
        """Return True if the deletion of the owner that an object names was seen."""
        return self._deleted.get(reference.uid) in ("", item.namespace)

    def is_solid(self, item: Item) -> bool:
        """Return True if every owner of an object exists."""
        return self.classify(item, metadata_of(item)).is_solid

    def in_other_namespaces(self, item: Item, metadata: Metadata) -> list[Reference]:
        """The references of an object whose owners exist in another namespace than its own."""
        return [reference for reference in metadata.references if self._is_elsewhere(item, reference)]

    def _is_elsewhere(self, item: Item, reference: Reference) -> bool:
        resource = self._view.of_kind(reference.api_version, reference.kind)
        sought = (reference.api_version, reference.kind, reference.name, reference.uid)
        if resource is None or not resource.namespaced or reference.uid in self._deleted or sought in self._misses:
            return False
        namespaces = [namespace.name for namespace in self._view.items("namespaces")]
        places = [name for name in namespaces if self._find(resource, name, reference) is not None]
        if not places:
            if len(self._misses) >= MAX_MISSES:
                self._misses.clear()
            self._misses.add(sought)
        return any(name != item.namespace for name in places)

    def _find(self, resource: Resource, namespace: str, reference: Reference) -> Item | None:
        """The owner that a reference names, if the view has it."""
        prefix = resource.stored.prefix
        where = f"{prefix}{namespace}/" if resource.namespaced else prefix
        owner = self._view.at(f"{where}{reference.name}")
        return owner if owner is not None and uid_of(owner) == reference.uid else None


def waits_for_dependents(item: Item) -> bool:
    """Return True if an object is being deleted in the foreground."""
    return is_being_deleted(item) and metadata_of(item).has(FOREGROUND)
