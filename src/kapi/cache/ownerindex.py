"""Who says of itself that it belongs to whom: from the uid of an owner to the keys of the objects that name it.

Kept by the watch caches as they take changes in, so that whoever looks for the dependents of an object finds them
without reading anything else. What an object says of its owners is its own word: nobody checks here that they exist.
"""

from __future__ import annotations


class OwnerIndex:
    """Dependents by the uid of their owner. Exact for every change that a watch cache has taken in."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """How many uids are named as owners."""
        return len(self._keys)

    def replace(self, key: str, before: tuple[str, ...] | None, after: tuple[str, ...] | None) -> None:
        """An object names other owners than before; None for none at all."""
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
