"""Snapshots of the whole state of a control plane in this process, and how a running one is brought back to one.

A snapshot is the latest version of every object. A fork is another control plane that begins with it.

Restoring changes the objects that differ, in new revisions: resourceVersions move forward, never back, as they would
for any client that puts things back. So nothing has to be told to forget what it knows: watches stay open and deliver
the changes as ADDED, MODIFIED and DELETED, and informers, watch caches, RBAC and the served kinds follow by the same
events as ever. An object that is restored has the uid and the creationTimestamp that it had. Its resourceVersion is
new, unless it had not been changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.storage.interface import Delete, Draft, Put

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.storage.interface import Entry, Operation
    from kapi.storage.memory import MemoryStorage, Snapshot

_DEFINITIONS: Final = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_NAMESPACES: Final = "/registry/core/namespaces/"


async def restore(storage: MemoryStorage, snapshot: Snapshot) -> int:
    """Bring every object back to its state in a snapshot; returns the number of objects that differed.

    Each object is a commit of its own, as the watch cache wants it, but no other task runs in between: a commit in
    memory does not wait for anything.
    """
    present = {entry.key: entry for entry in storage.snapshot().entries}
    wanted = {entry.key: entry for entry in snapshot.entries}
    gone = [entry for key, entry in present.items() if key not in wanted]
    changed = [entry for key, entry in wanted.items() if key not in present or present[key].value != entry.value]
    # Objects before what they depend on is deleted, and after it is put back.
    operations: list[Operation] = [Delete(entry.key, entry.revision) for entry in reversed(_ordered(gone))]
    operations += [Put(entry.key, _draft(entry), _revision(present.get(entry.key))) for entry in _ordered(changed)]
    for operation in operations:
        await storage.commit((operation,))
    return len(operations)


def _ordered(entries: Iterable[Entry]) -> list[Entry]:
    """Definitions first, then namespaces, then other objects."""
    return sorted(entries, key=lambda entry: (not entry.key.startswith(_DEFINITIONS), _is_in_namespace(entry)))


def _is_in_namespace(entry: Entry) -> bool:
    return not entry.key.startswith(_NAMESPACES)


def _revision(entry: Entry | None) -> int:
    return 0 if entry is None else entry.revision


def _draft(entry: Entry) -> Draft:
    """The value with a slot for its next revision. The first resourceVersion is that of the object's metadata."""
    before, slot, after = entry.value.partition(b'"resourceVersion":"%d"' % entry.revision)
    if not slot:
        raise ValueError(f"{entry.key} has no resourceVersion {entry.revision} and cannot be restored")
    return Draft(before + b'"resourceVersion":"', b'"' + after)
