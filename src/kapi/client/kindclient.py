"""The verbs of `Client` for one kind in one namespace: `client.resource(Network, "default")`.

    networks = client.resource(Network, "default")
    network = await networks.get("a")                          # a Network
    pods = client.resource(("v1", "Pod"), ALL_NAMESPACES)
    for pod in await pods.list(labels="app=web"): ...          # dictionaries

Each method calls the client's, and does what that does: the client of a manager reads from caches and writes only while
its process leads, a dry-run client stores nothing. Packages that `kapi generate client` writes have a class for each
kind, with the verbs of the subresources that the kind has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Unpack

    from kapi.api.builtin.autoscaling_v1 import Scale
    from kapi.api.meta import Object
    from kapi.client.client import Client, Named
    from kapi.client.options import (
        DeleteAllOptions,
        DeleteOptions,
        ListOptions,
        PatchOptions,
        ReadOptions,
        WatchOptions,
        WriteOptions,
    )
    from kapi.client.typed import ObjectList, PatchKind, Watch
    from kapi.client.wait import Deleted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KindVerbs(Generic[T]):
    """The verbs that every kind has. `target` is a class, or names the kind of dictionaries.

    Without a namespace the object's own is meant, else the client's; `ALL_NAMESPACES` is for lists and watches.
    """

    client: Client
    target: type[T] | Named
    namespace: str | None = None

    async def create(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Store a new object; what comes back is the object as it was stored."""
        stored: T = await self._verbs.create(await self._own(obj), namespace=self.namespace, **options)
        return stored

    async def update(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Replace an object; `Conflict` when it was changed since it was read."""
        stored: T = await self._verbs.update(await self._own(obj), namespace=self.namespace, **options)
        return stored

    async def patch(
        self,
        name: str,
        patch: Object | Sequence[Object] | T,
        *,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> T:
        """Change an object; what the patch does not mention stays."""
        stored: T = await self._verbs.patch(
            self.target, patch, name=name, namespace=self.namespace, kind=kind, **options
        )
        return stored

    async def apply(self, obj: T, **options: Unpack[PatchOptions]) -> T:
        """Server-side apply: create the object, or set exactly these fields of it; needs a field manager."""
        stored: T = await self._verbs.apply(await self._own(obj), namespace=self.namespace, **options)
        return stored

    async def get(self, name: str, **options: Unpack[ReadOptions]) -> T:
        """One object; `NotFound` when there is none."""
        found: T = await self._verbs.get(self.target, name, namespace=self.namespace, **options)
        return found

    async def find(self, name: str, **options: Unpack[ReadOptions]) -> T | None:
        """One object, or None when there is none."""
        found: T | None = await self._verbs.find(self.target, name, namespace=self.namespace, **options)
        return found

    async def list(self, **options: Unpack[ListOptions]) -> ObjectList[T]:
        """All objects, or those that selectors select, fetched in pages."""
        found: ObjectList[T] = await self._verbs.list(self.target, namespace=self.namespace, **options)
        return found

    def pages(self, **options: Unpack[ListOptions]) -> AsyncIterator[ObjectList[T]]:
        """The same page by page."""
        pages: AsyncIterator[ObjectList[T]] = self._verbs.pages(self.target, namespace=self.namespace, **options)
        return pages

    def watch(self, **options: Unpack[WatchOptions]) -> AbstractAsyncContextManager[Watch[T]]:
        """Changes as they happen, until the server ends it."""
        changes: AbstractAsyncContextManager[Watch[T]] = self._verbs.watch(
            self.target, namespace=self.namespace, **options
        )
        return changes

    @overload
    async def wait_for(self, name: str, condition: Deleted, *, timeout: float | None = 30.0) -> None: ...  # noqa: ASYNC109
    @overload
    async def wait_for(
        self,
        name: str,
        condition: str | Callable[[T], bool],
        *,
        timeout: float | None = 30.0,  # noqa: ASYNC109
    ) -> T: ...
    async def wait_for(
        self,
        name: str,
        condition: Any,
        *,
        timeout: float | None = 30.0,  # noqa: ASYNC109 - what is raised says what was waited for
    ) -> Any:
        """The object once it meets a condition; see `Client.wait_for`."""
        return await self._verbs.wait_for(self.target, name, condition, namespace=self.namespace, timeout=timeout)

    async def delete(self, name: str, **options: Unpack[DeleteOptions]) -> T | None:
        """Delete an object; what the server shows of it, or None when it only says that it is done."""
        shown: T | None = await self._verbs.delete(self.target, name, namespace=self.namespace, **options)
        return shown

    async def delete_all(self, **options: Unpack[DeleteAllOptions]) -> None:
        """Delete all objects, or those that selectors select."""
        await self._verbs.delete_all(self.target, namespace=self.namespace, **options)

    @property
    def _verbs(self) -> Any:
        # Its overloads tell classes from names, which is not known here.
        return self.client

    async def _own(self, obj: T) -> Any:
        """An object of this kind: the client would write one of any other kind as what it is."""
        if isinstance(self.target, type):
            if not isinstance(obj, self.target):
                raise TypeError(f"{type(obj).__qualname__} is not {self.target.__qualname__}, the kind of this client")
            return obj
        gvk = await self.client.gvk_of(self.target)
        head = {"apiVersion": gvk.api_version, "kind": gvk.kind}
        whole = {**head, **obj} if isinstance(obj, dict) else obj
        if not isinstance(whole, dict) or {key: whole[key] for key in head} != head:
            raise TypeError(f"the object is not a dictionary of {gvk.api_version} {gvk.kind}, the kind of this client")
        return whole


class StatusVerbs(KindVerbs[T]):
    """Those of a kind with a status subresource."""

    __slots__ = ()

    async def update_status(self, obj: T, **options: Unpack[WriteOptions]) -> T:
        """Replace the status of an object, and nothing else of it."""
        stored: T = await self._verbs.update_status(await self._own(obj), namespace=self.namespace, **options)
        return stored

    async def patch_status(
        self,
        name: str,
        patch: Object | Sequence[Object] | T,
        *,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> T:
        """Change an object's status; the patch is one of the whole object."""
        stored: T = await self._verbs.patch_status(
            self.target, patch, name=name, namespace=self.namespace, kind=kind, **options
        )
        return stored

    async def apply_status(self, obj: T, **options: Unpack[PatchOptions]) -> T:
        """Server-side apply of the fields of its status."""
        stored: T = await self._verbs.apply(
            await self._own(obj), namespace=self.namespace, subresource="status", **options
        )
        return stored


class ScaleVerbs(KindVerbs[T]):
    """Those of a kind with a scale subresource."""

    __slots__ = ()

    async def get_scale(self, name: str, **options: Unpack[ReadOptions]) -> Scale:
        """Return the Scale of an object: desired and current replicas."""
        found: Scale = await self._verbs.get_scale(self.target, name, namespace=self.namespace, **options)
        return found

    async def scale(self, name: str, replicas: int, **options: Unpack[PatchOptions]) -> Scale:
        """Set the desired number of replicas of an object."""
        stored: Scale = await self._verbs.scale(self.target, name, replicas, namespace=self.namespace, **options)
        return stored


class KindClient(StatusVerbs[T], ScaleVerbs[T]):
    """All verbs; those of a subresource that the kind does not have are a `NotFound`."""

    __slots__ = ()
