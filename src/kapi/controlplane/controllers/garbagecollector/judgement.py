"""How the owners stand that an object names. Reads the watch caches; changes nothing.

An owner is looked for where the reference says: by apiVersion, kind and name, in the namespace of whoever names it if
the kind has namespaces. It must have the uid that the reference says, else it is not there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kapi.controlplane.controllers.garbagecollector.metadata import is_marked, metadata_of, uid_of
from kapi.registry.deletion import FOREGROUND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapi.cache.watchcache import Item
    from kapi.controlplane.controllers.garbagecollector.metadata import Metadata, Reference
    from kapi.controlplane.controllers.inventory import Inventory
    from kapi.registry.resource import Resource

MOST_SOUGHT: Final = 10_000
"""How many owners are remembered that are in no namespace."""


class Unserved(NamedTuple):
    """A kind that is not served now: in an object's references, or (then only where its objects lie) its own."""

    api_version: str
    kind: str
    prefix: str = ""


@dataclass(slots=True)
class Judgement:
    """The references of one object, by how they stand.

    `solid`: the owner is there. `waiting`: it is there and waits for its dependents to go before it. `dangling`: it is
    not there. With `unserved` kinds among them, or when `is_out_of_scope`, nothing can be decided.
    """

    solid: list[Reference] = field(default_factory=list)
    dangling: list[Reference] = field(default_factory=list)
    waiting: list[Reference] = field(default_factory=list)
    unserved: list[Unserved] = field(default_factory=list)
    is_out_of_scope: bool = False
    """Whether an object without a namespace names a kind that has them: which one is meant cannot be said."""

    @property
    def is_fine(self) -> bool:
        """Whether there is nothing to do: every owner is there."""
        return not (self.dangling or self.waiting or self.unserved or self.is_out_of_scope)


class Judge:
    """Judges objects by the inventory as it is at that moment."""

    def __init__(self, inventory: Inventory, gone: Mapping[str, str]) -> None:
        self._inventory = inventory
        self._gone = gone
        """The namespaces of owners that were seen to go, by uid: of them it is known even when their kind went, too."""
        self._nowhere: set[tuple[str, str, str, str]] = set()
        """Owners that were looked for in all namespaces, in vain; for as long as there are not too many."""

    def judge(self, item: Item, metadata: Metadata) -> Judgement:
        """How the owners of an object stand."""
        judgement = Judgement()
        for reference in metadata.references:
            resource = self._inventory.of_kind(reference.api_version, reference.kind)
            if resource is None and self._gone.get(reference.uid) in ("", item.namespace):
                judgement.dangling.append(reference)
            elif resource is None:
                judgement.unserved.append(Unserved(reference.api_version, reference.kind))
            elif resource.namespaced and not item.namespace:
                judgement.is_out_of_scope = True
            else:
                owner = _find(resource, item.namespace, reference)
                if owner is None:
                    judgement.dangling.append(reference)
                elif is_emptying(owner):
                    judgement.waiting.append(reference)
                else:
                    judgement.solid.append(reference)
        return judgement

    def is_fine(self, item: Item) -> bool:
        """Whether every owner of an object is there."""
        return self.judge(item, metadata_of(item)).is_fine

    def misplaced(self, item: Item, metadata: Metadata) -> list[Reference]:
        """The references of an object whose owners are there, but in another namespace than its own."""
        return [reference for reference in metadata.references if self._is_misplaced(item, reference)]

    def _is_misplaced(self, item: Item, reference: Reference) -> bool:
        resource = self._inventory.of_kind(reference.api_version, reference.kind)
        sought = (reference.api_version, reference.kind, reference.name, reference.uid)
        if resource is None or not resource.namespaced or reference.uid in self._gone or sought in self._nowhere:
            return False
        namespaces = [namespace.name for namespace in self._inventory.items("namespaces")]
        places = [name for name in namespaces if _find(resource, name, reference) is not None]
        if not places:
            if len(self._nowhere) >= MOST_SOUGHT:
                self._nowhere.clear()
            self._nowhere.add(sought)
        return any(name != item.namespace for name in places)


def _find(resource: Resource, namespace: str, reference: Reference) -> Item | None:
    """The owner that a reference means, if it is there."""
    store = resource.stored
    where = f"{store.prefix}{namespace}/" if resource.namespaced else store.prefix
    owner = store.cache.get(f"{where}{reference.name}")
    return owner if owner is not None and uid_of(owner) == reference.uid else None


def is_emptying(item: Item) -> bool:
    """Whether an object is being deleted in the foreground: it waits for its dependents."""
    return is_marked(item) and metadata_of(item).has(FOREGROUND)
