"""The store of a resource whose objects are somewhere else: the write path and the handlers call its functions here.

A write takes the steps of every write (`registry/write.py`): decode, default, prepare, validate, and then the function
of the resource instead of a commit. Before that function is called, the object is read once more, and compared with
what was validated, under a lock of its key: two requests to one server never overwrite each other's changes. A program
that changes the backing without this server is noticed in most cases; to be certain, `update` has to compare itself.

Field owners are not recorded, because a backing has no place for them.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakValueDictionary

from kapi.api.errors import Conflict, NotFound
from kapi.apiserver.definitions import Objects, version_of
from kapi.apiserver.resources import Request
from kapi.cache.watchcache import Item
from kapi.registry.custom.store import CustomStore, compile_schema
from kapi.registry.custom.strategy import CustomStrategy
from kapi.registry.encoding import encode
from kapi.registry.request import SERVER
from kapi.registry.store import ReadyItem
from kapi.registry.updatescope import StatusScope, UpdateScope
from kapi.storage.interface import RevisionMismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kapi.api.meta import Object
    from kapi.apiserver.resources import Resource
    from kapi.registry.encoding import HubObject
    from kapi.registry.fieldmanagers import FieldManagers
    from kapi.registry.request import Write
    from kapi.storage.interface import Operation

MAX_READS: Final = 10
"""Times that an object is read for one write, before the write is given up as a conflict."""


@dataclass(frozen=True, slots=True)
class Call:
    """The request that is being handled, and the object that `get` has returned for it."""

    request: Request
    key: str = ""
    old: Any = None
    reads: int = 0
    """How often the object was read: once, and again each time it had changed before it was written."""


current_call: ContextVar[Call] = ContextVar("current_call", default=Call(Request(SERVER)))  # noqa: B039 - not changed
"""Set by the handlers. Each object of a deletecollection is deleted in a task, and so in a context, of its own."""


class BackedStrategy(CustomStrategy):
    """The rules of a kind whose objects are somewhere else: those of its schema, and no finalizers of the server's."""

    allow_unconditional_update: ClassVar[bool] = True
    tracks_generation: ClassVar[bool] = False
    default_propagation: ClassVar[str] = "Unsupported"


class _WithoutOwners(UpdateScope):
    async def record_owners(self, write: Write, managers: FieldManagers, obj: HubObject) -> None:
        """Remove managedFields."""
        obj["metadata"].pop("managedFields", None)


class _StatusWithoutOwners(_WithoutOwners, StatusScope):
    """The same for /status."""


class BackedStore(CustomStore):
    """The objects of a resource, which its functions read and write. There is nothing in its watch cache."""

    backing: Resource[Any]
    objects: Objects

    def connect(self, backing: Resource[Any]) -> None:
        """Set the resource that has the objects; once, before use."""
        self.backing = backing
        self.objects = Objects(backing.kind, self.gvk, self.resource)
        self.can_get = "get" in backing.verbs
        self.object_scope = _WithoutOwners(self.strategy)
        self.status_scope = _StatusWithoutOwners(self.strategy)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # -- reading ----------------------------------------------------------------------------------------------------

    def document(self, obj: Any) -> Object:
        """Return the document of an object that a function has returned."""
        return self.objects.document(obj, self.schemas[self.api_version], namespaced=self.namespaced)

    def item_of_object(self, obj: Any) -> ReadyItem:
        """Return the item of an object that a function has returned."""
        document = self.document(obj)
        metadata = document["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        revision = version_of(document)
        metadata["resourceVersion"] = str(revision)
        body = encode(document)[len(self.head) :]
        selection = self._selection(document)
        return ReadyItem(Item(self.key(namespace, name), namespace, name, revision, body, selection, self.api_version))

    async def find_ready(self, namespace: str, name: str) -> ReadyItem | None:
        """Read an object; None if there is none."""
        obj = await self.read(namespace, name)
        return None if obj is None else self.item_of_object(obj)

    async def fetch(self, namespace: str, name: str) -> ReadyItem:
        """Read an object; NotFound if there is none."""
        item = await self.find_ready(namespace, name)
        if item is None:
            raise NotFound.of(self.resource, name)
        return item

    async def read(self, namespace: str, name: str) -> Any:
        """Return what `get` returns, None for NotFound. It is the `old` of the function that is called next."""
        await compile_schema(self.schemas[self.api_version])
        obj = await self._get(namespace, name)
        call, key = current_call.get(), f"{namespace}/{name}"
        reads = call.reads + 1 if call.key == key else 1
        if reads > MAX_READS:
            # Another client changes it all the time, or `get` never returns the same twice.
            raise Conflict.modified(self.resource, name)
        current_call.set(replace(call, key=key, old=obj, reads=reads))
        return obj

    async def _get(self, namespace: str, name: str) -> Any:
        try:
            self.key(namespace, name)
        except ValueError:
            return None
        request = current_call.get().request
        try:
            return await self.backing.get(replace(request, namespace=namespace), name)
        except NotFound:
            return None

    # -- writing ----------------------------------------------------------------------------------------------------

    async def put(self, key: str, obj: HubObject, expected: int, companions: Sequence[Operation] = ()) -> ReadyItem:
        """Have an object created, or updated if it was read before; RevisionMismatch when it has changed since."""
        call, metadata = current_call.get(), obj["metadata"]
        wanted = self.objects.instance(obj)
        async with self._lock(key):
            await self._compare(key, metadata.get("namespace", ""), metadata["name"], call.old if expected else None)
            if expected:
                written = await self.backing.update(call.request, wanted, call.old)
            else:
                written = await self.backing.create(call.request, wanted)
            return await self._written(key, obj, written)

    async def _written(self, key: str, obj: HubObject, written: Any) -> ReadyItem:
        """Return the item of an object that was written; nothing else writes it meanwhile."""
        return self.item_of_object(written)

    async def remove(self, item: Item, companions: Sequence[Operation] = ()) -> int:
        """Have an object deleted; RevisionMismatch when it has changed since it was read."""
        call = current_call.get()
        async with self._lock(item.key):
            await self._compare(item.key, item.namespace, item.name, call.old)
            await self.backing.delete(replace(call.request, namespace=item.namespace), call.old)
            return await self._deleted(item)

    async def _deleted(self, item: Item) -> int:
        """Return the revision of a deletion; nothing else writes the object meanwhile."""
        return item.revision

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _compare(self, key: str, namespace: str, name: str, old: Any) -> None:
        """Raise RevisionMismatch if an object is not as it was read; `old` is None if there must be none."""
        if not self.can_get:
            return
        now = await self._get(namespace, name)
        before, after = (None if one is None else self.document(one) for one in (old, now))
        if before != after:
            raise RevisionMismatch(key, int(before is not None), int(after is not None))

    async def unchanged(self, item: ReadyItem) -> ReadyItem:
        """The outcome of an update that changes nothing: no function is called."""
        return item

    async def catch_up(self) -> bool:
        """Return True: the backing is read again for the next attempt."""
        return True

    async def is_latest(self, namespace: str, name: str, version: str | None) -> bool:
        """Return True: what was decided, was decided on what the backing returned."""
        return True
