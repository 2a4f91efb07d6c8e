"""The owner index: from the uid of an owner to the keys of the objects that name it in their ownerReferences.

The watch caches keep it up to date as they take changes in, so that garbage collection finds the dependents of an
object without reading anything else. That the owners exist is not checked here.
"""

from __future__ import annotations


class OwnerIndex:
    """Dependents by the uid of their owner. Exact for every change that a watch cache has taken in."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """The number of uids that are named as owners."""
        return len(self._keys)

    def replace(self, key: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> None:
        """Update the owners that an object names; None for none at all."""
        if before == after:
            return
        for uid in before or ():
            keys = self._keys.get(uid)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys[uid]
        for uid in after or ():
            self._keys.setdefault(uid, {})[key] = None

    def dependents(self, uid: str) -> list[str]:
        """The keys of the objects that name an owner, in the order in which they began to."""
        return list(self._keys.get(uid, ()))
