"""A store whose values of chosen resources are encrypted.

It wraps any other store. A value is encrypted without its revision, which the store may learn only from its commit; the
revision is filled in on read (`storage/revisionslot.py`). Values are written with the first provider of their resource
and read with the one whose prefix they have, so that keys can be exchanged while the server runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kapi.storage import revisionslot
from kapi.storage.encryption.prefix import PREFIX
from kapi.storage.encryption.providers import DecryptionError
from kapi.storage.interface import Change, Draft, Entry, Page, Put, StorageDamaged
from kapi.storage.keys import CORE, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.storage.encryption.providers import Provider
    from kapi.storage.interface import Follower, GapHandler, Operation, Storage, Subscription


REMEMBERED: Final = 4096
"""Resources whose providers are remembered."""


class ResourceProviders:
    """The providers of each resource; the first of them encrypts."""

    def __init__(self, rules: Sequence[tuple[Sequence[str], Sequence[Provider]]]) -> None:
        """`rules` are names of resources and their providers, the first that matches a resource decides.

        A name is `secrets`, `deployments.apps`, `*.apps` for a group, `*.` for the core group, or `*.*` for all.
        """
        self._rules = [(frozenset(names), tuple(providers)) for names, providers in rules]
        self._found: dict[tuple[str, str], tuple[Provider, ...]] = {}

    def of(self, key: str) -> tuple[Provider, ...]:
        """Return the providers of the resource a key is of; empty if its values are not encrypted."""
        group, resource = [*key.split("/", 4), "", "", "", ""][2:4]
        found = self._found.get((group, resource))
        if found is None:
            found = self._find(group, resource)
            if len(self._found) < REMEMBERED:
                self._found[group, resource] = found
        return found

    def _find(self, group: str, resource: str) -> tuple[Provider, ...]:
        if group == RESERVATIONS:
            return ()
        group = "" if group == CORE else group
        name = f"{resource}.{group}" if group else resource
        for names, providers in self._rules:
            if not names.isdisjoint((name, f"*.{group}", "*.*")):
                return providers
        return ()


class EncryptedStorage:
    """The store that the server uses when encryption is configured."""

    def __init__(self, inner: Storage, providers: ResourceProviders) -> None:
        self._inner = inner
        self._providers = providers
        self._written_with: dict[str, bytes] = {}
        """The prefix that the value of each encrypted key was last seen with."""

    def replace_providers(self, providers: ResourceProviders) -> None:
        """Use another configuration from now on."""
        self._providers = providers

    def is_stale(self, key: str) -> bool:
        """Return True if the value of a key should be written again, because it is not encrypted as configured."""
        providers = self._providers.of(key)
        if not providers:
            return bool(self._written_with.get(key))
        return self._written_with.get(key, b"") != providers[0].prefix

    # -- the store ----------------------------------------------------------------------------------------------------

    @property
    def on_failure(self) -> Callable[[BaseException], None] | None:
        """Called when the store fails."""
        return self._inner.on_failure

    @on_failure.setter
    def on_failure(self, callback: Callable[[BaseException], None] | None) -> None:
        self._inner.on_failure = callback

    @property
    def on_gap(self) -> GapHandler | None:
        """Called when the feed has a gap."""
        return self._inner.on_gap

    @on_gap.setter
    def on_gap(self, callback: GapHandler | None) -> None:
        self._inner.on_gap = callback

    @property
    def revision(self) -> int:
        """The latest committed revision this process knows of."""
        return self._inner.revision

    @property
    def waiting(self) -> int:
        """A count of the writes that were not answered yet."""
        return self._inner.waiting

    @property
    def compacted(self) -> int:
        """The oldest revision that can be read."""
        return self._inner.compacted

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Encrypt the values of a commit, and make it."""
        return await self._inner.commit([self._encrypted(operation) for operation in operations])

    async def put(self, key: str, draft: Draft, expected: int, note: object = None) -> int:
        """Commit one `Put`."""
        return await self._inner.put(key, self._draft(key, draft), expected, note)

    async def delete(self, key: str, expected: int, note: object = None) -> int:
        """Commit one `Delete`."""
        return await self._inner.delete(key, expected, note)

    async def latest(self) -> int:
        """The revision that a linearizable read has to wait for."""
        return await self._inner.latest()

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """The value of a key."""
        entry = await self._inner.get(key, revision)
        return None if entry is None else self._entry(entry, is_latest=not revision)

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0, counted: bool = True
    ) -> Page:
        """The keys that begin with `prefix`."""
        page = await self._inner.range(prefix, start=start, limit=limit, revision=revision, counted=counted)
        return page._replace(entries=[self._entry(entry, is_latest=not revision) for entry in page.entries])

    async def follow(self, since: int, follower: Follower) -> Subscription:
        """Feed every change after `since` to the follower."""

        def decrypted(revision: int, changes: Sequence[Change]) -> None:
            follower(revision, [self._change(change) for change in changes])

        return await self._inner.follow(since, decrypted)

    async def compact(self, revision: int) -> None:
        """Remove old versions."""
        await self._inner.compact(revision)

    async def close(self) -> None:
        """Release the store."""
        await self._inner.close()

    # -- values -------------------------------------------------------------------------------------------------------

    def _encrypted(self, operation: Operation) -> Operation:
        if not isinstance(operation, Put):
            return operation
        return operation._replace(draft=self._draft(operation.key, operation.draft))

    def _draft(self, key: str, draft: Draft) -> Draft:
        providers = self._providers.of(key)
        if not providers or not providers[0].prefix:
            return draft
        return Draft(providers[0].encrypt(key, revisionslot.pack(draft)), b"")

    def _entry(self, entry: Entry, *, is_latest: bool) -> Entry:
        if is_latest:
            self._note_prefix(entry.key, entry.value)
        return entry._replace(value=self._value(entry.key, entry.value, entry.revision))

    def _change(self, change: Change) -> Change:
        self._note_prefix(change.key, change.value or b"")
        if change.value is None:
            return change
        return change._replace(value=self._value(change.key, change.value, change.revision))

    def _note_prefix(self, key: str, stored: bytes) -> None:
        if stored.startswith(PREFIX):
            # PREFIX, cipher, version and name of the key, each with a colon.
            self._written_with[key] = b":".join(stored.split(b":", 5)[:5]) + b":"
        else:
            self._written_with.pop(key, None)

    def _value(self, key: str, stored: bytes, revision: int) -> bytes:
        return decrypted_value(self._providers, key, stored, revision)


def decrypted_value(providers: ResourceProviders, key: str, stored: bytes, revision: int) -> bytes:
    """The value that was written at a revision, from what a store holds of it; `StorageDamaged` if that fails."""
    if not stored.startswith(PREFIX):
        return stored
    for provider in providers.of(key):
        if provider.prefix and stored.startswith(provider.prefix):
            # A store puts the revision where the draft says: at the end of what is encrypted.
            try:
                plain = provider.decrypt(key, stored.removesuffix(b"%d" % revision))
            except DecryptionError as error:
                raise StorageDamaged(f"{key}: {error}") from None
            return revisionslot.fill(plain, revision)
    name = b":".join(stored.split(b":", 5)[:5]).decode(errors="replace")
    raise StorageDamaged(f"{key} is encrypted as {name}, for which the configuration has no key")
