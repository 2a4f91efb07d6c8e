"""Charges: amounts that were added to the usage of quotas for writes whose outcome is not known yet.

Admission charges a quota before the object is committed, so for a moment `status.used` says more than there are
objects. The resourcequota controller, which counts objects, adds these charges to what it counts; otherwise it would
take them for a mistake, lower the usage, and more objects would be admitted than the quota allows. In Kubernetes that
race exists, because its controller runs in another process.

A writer of the status of quotas in a namespace holds the lock of the namespace while it reads, decides and writes.
Then a charge is in `status.used` of the watch cache if, and only if, it is here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kapi.registry.quota.amounts import added

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kapi.cache.watchcache import Item
    from kapi.registry.quota.amounts import Amounts


class Charge:
    """The amounts that one write was charged, by the key of the quota.

    `expected` is the revision of the object that the write replaces, 0 for a creation: while the object at `key` has
    that revision, the write is not committed.
    """

    __slots__ = ("amounts", "expected", "is_void", "key", "namespace")

    def __init__(self, namespace: str, key: str, expected: int, amounts: Mapping[str, Amounts]) -> None:
        self.namespace = namespace
        self.key = key
        self.expected = expected
        self.amounts = amounts
        self.is_void = False
        """True if the write has failed, and the amounts are about to be given back."""

    def is_pending(self, find: Callable[[str], Item | None]) -> bool:
        """Return True if the amounts are in the usage of the quotas, and the object that they are for is not there."""
        item = find(self.key)
        return self.is_void or (0 if item is None else item.revision) == self.expected


class Charges:
    """The charges of all writes of this server that are on their way, by namespace."""

    def __init__(self) -> None:
        self._charges: dict[str, dict[Charge, None]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, namespace: str) -> asyncio.Lock:
        """The lock that is held while the usage of the quotas of a namespace is decided and written."""
        lock = self._locks.get(namespace)
        if lock is None:
            lock = self._locks[namespace] = asyncio.Lock()
        return lock

    def add(self, charge: Charge) -> None:
        """Add a charge that was committed to the status of its quotas."""
        self._charges.setdefault(charge.namespace, {})[charge] = None

    def discard(self, charge: Charge) -> None:
        """Remove a charge: the object counts now, or the amounts were given back."""
        charges = self._charges.get(charge.namespace)
        if charges is not None:
            charges.pop(charge, None)
            if not charges:
                del self._charges[charge.namespace]

    def pending(self, namespace: str, quota: str, find: Callable[[str], Item | None]) -> list[Amounts]:
        """The amounts in the usage of a quota for objects that do not exist yet, or not in their new state."""
        return [
            charge.amounts[quota]
            for charge in self._charges.get(namespace, ())
            if quota in charge.amounts and charge.is_pending(find)
        ]


def total(several: list[Amounts]) -> Amounts:
    """The sum of amounts, name by name."""
    result: Amounts = {}
    for amounts in several:
        result = added(result, amounts)
    return result
