"""The client: every verb, for kinds with and without classes, by class, by name, or by object.

    async with Client.connect() as client:
        network = await client.get(Network, "a", namespace="default")        # a Network
        config = await client.get(("v1", "ConfigMap"), "settings")           # a dictionary
        await client.patch(network, {"metadata": {"labels": {"tier": "1"}}})
        await client.wait_for(Network, "a", "condition=Ready", timeout=60)

Objects of a class are returned as instances of it; all others as dictionaries. Discovery runs when it is first needed,
and again for kinds that were not found.

A namespace that is not given is the object's own, else the client's (which is the kubeconfig's), as with kubectl;
`ALL_NAMESPACES` is for lists and watches. Cluster-scoped kinds need none. See `typed` for what happens to fields that a
class does not have.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, overload

from kapi.api.access import name_of, namespace_of
from kapi.api.errors import NotFound
from kapi.api.keys import ObjectKey
from kapi.api.meta import GroupVersion, GroupVersionKind, GroupVersionResource
from kapi.api.scheme import SCHEME, Scheme, TypedObject
from kapi.client.config import ClientConfig
from kapi.client.discovery import DiscoveryClient
from kapi.client.kindclient import KindClient
from kapi.client.mapper import RESTMapper
from kapi.client.rest import RESTClient
from kapi.client.subresource import SubresourceClient
from kapi.client.typed import client_for_class, client_for_dictionaries, client_for_metadata
from kapi.client.wait import DELETED, Deleted, wait_for, wait_until_deleted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from typing import Unpack

    from kapi.api.builtin.autoscaling_v1 import Scale
    from kapi.api.meta import Object
    from kapi.base.clock import Clock
    from kapi.client.discovery import APIResource
    from kapi.client.metadata import PartialObjectMetadata
    from kapi.client.options import (
        DeleteAllOptions,
        DeleteOptions,
        ListOptions,
        PatchOptions,
        ReadOptions,
        WatchOptions,
        WriteOptions,
    )
    from kapi.client.typed import ObjectList, PatchKind, TypedClient, Watch

T = TypeVar("T", bound=TypedObject)

Named: TypeAlias = str | tuple[str, str] | GroupVersionKind | GroupVersionResource
"""A kind or a resource by name: what kubectl understands, an apiVersion and a kind, or all three parts of either."""

ALL_NAMESPACES: Final = ""


class Client:
    """A client of one API server. One per program and event loop is enough; close it, or use it as a context manager.

    `rest`, `discovery` and `mapper` can be shared. `field_manager` is the field manager of writes that name none.
    """

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        rest: RESTClient | None = None,
        namespace: str = "",
        field_manager: str = "",
        scheme: Scheme = SCHEME,
        clock: Clock | None = None,
    ) -> None:
        self.rest = rest or RESTClient(config or ClientConfig.load(), clock=clock)
        self.discovery = DiscoveryClient(self.rest, clock=clock)
        self.mapper = RESTMapper(self.discovery)
        self.scheme = scheme
        self.namespace = namespace or self.rest.config.namespace
        self.field_manager = field_manager
        self.is_dry_run = False

    @classmethod
    def connect(
        cls,
        *,
        kubeconfig: Path | str | None = None,
        context: str = "",
        server: str = "",
        namespace: str = "",
        field_manager: str = "",
        **overrides: Any,
    ) -> Self:
        """Return a client of the server given, else of $KUBECONFIG or `~/.kube/config`, else of the pod's account.

        Nothing is sent yet. `overrides` are fields of `ClientConfig`.
        """
        config = ClientConfig.load(kubeconfig=kubeconfig, context=context, server=server, **overrides)
        return cls(config, namespace=namespace, field_manager=field_manager)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; watches that are open end."""
        await self.rest.close()

    def with_field_manager(self, name: str) -> Self:
        """The same client, on the same connections, whose writes are by another field manager."""
        client = copy.copy(self)
        client.field_manager = name
        return client

    def as_dry_run(self) -> Self:
        """The same client, on the same connections, whose writes are validated and answered but not stored."""
        client = copy.copy(self)
        client.is_dry_run = True
        return client

    # -- reading ------------------------------------------------------------------------------------------------------

    @overload
    async def get(
        self, target: type[T], name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> T: ...
    @overload
    async def get(
        self, target: Named, name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Object: ...
    async def get(
        self, target: Any, name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Any:
        """One object; `NotFound` when there is none. An `ObjectKey` has its namespace with it."""
        if isinstance(name, ObjectKey):
            namespace, name = name
        return await self._read(target, name, namespace, options)

    @overload
    async def find(
        self, target: type[T], name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> T | None: ...
    @overload
    async def find(
        self, target: Named, name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Object | None: ...
    async def find(
        self, target: Any, name: str | ObjectKey, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Any:
        """One object, or None when there is none."""
        try:
            return await self.get(target, name, namespace=namespace, **options)
        except NotFound:
            return None

    async def get_metadata(
        self,
        target: type[T] | Named,
        name: str | ObjectKey,
        *,
        namespace: str | None = None,
        **options: Unpack[ReadOptions],
    ) -> PartialObjectMetadata:
        """The metadata of an object: the server sends nothing else."""
        if isinstance(name, ObjectKey):
            namespace, name = name
        found: PartialObjectMetadata = await self._read(target, name, namespace, options, is_metadata_only=True)
        return found

    @overload
    async def list(
        self, target: type[T], *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ObjectList[T]: ...
    @overload
    async def list(
        self, target: Named, *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ObjectList[Object]: ...
    async def list(self, target: Any, *, namespace: str | None = None, **options: Unpack[ListOptions]) -> Any:
        """All objects of a kind, or those that selectors select, fetched in pages."""
        return await self._read_list(target, namespace, options)

    async def list_metadata(
        self, target: type[T] | Named, *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ObjectList[PartialObjectMetadata]:
        """The metadata of all objects of a kind, or of those that selectors select."""
        found: ObjectList[PartialObjectMetadata] = await self._read_list(
            target, namespace, options, is_metadata_only=True
        )
        return found

    @overload
    def pages(
        self, target: type[T], *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncIterator[ObjectList[T]]: ...
    @overload
    def pages(
        self, target: Named, *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncIterator[ObjectList[Object]]: ...
    async def pages(
        self, target: Any, *, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> AsyncIterator[Any]:
        """The same page by page, for collections that do not fit into memory."""
        async for page in (await self._bind(target, namespace)).pages(**options):
            yield page

    @overload
    def watch(
        self, target: type[T], *, namespace: str | None = None, **options: Unpack[WatchOptions]
    ) -> AbstractAsyncContextManager[Watch[T]]: ...
    @overload
    def watch(
        self, target: Named, *, namespace: str | None = None, **options: Unpack[WatchOptions]
    ) -> AbstractAsyncContextManager[Watch[Object]]: ...
    @contextlib.asynccontextmanager
    async def watch(
        self, target: Any, *, namespace: str | None = None, **options: Unpack[WatchOptions]
    ) -> AsyncIterator[Any]:
        """Changes as they happen, until the server ends it. An informer is what keeps watching for ever."""
        async with (await self._bind(target, namespace)).watch(**options) as events:
            yield events

    @overload
    async def wait_for(
        self,
        target: type[T] | Named,
        name: str | ObjectKey,
        condition: Deleted,
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109
    ) -> None: ...
    @overload
    async def wait_for(
        self,
        target: type[T],
        name: str | ObjectKey,
        condition: str | Callable[[T], bool],
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109
    ) -> T: ...
    @overload
    async def wait_for(
        self,
        target: Named,
        name: str | ObjectKey,
        condition: str | Callable[[Object], bool],
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109
    ) -> Object: ...
    async def wait_for(
        self,
        target: Any,
        name: str | ObjectKey,
        condition: Any,
        *,
        namespace: str | None = None,
        timeout: float | None = 30.0,  # noqa: ASYNC109 - what is raised says what was waited for
    ) -> Any:
        """The object once it meets a condition: a function, `condition=Ready`, `condition=Ready=False`, or DELETED.

        The object is watched, never polled, and needs not exist yet. `WaitTimeout` when time is up.
        """
        if isinstance(name, ObjectKey):
            namespace, name = name
        client = await self._one(target, namespace)
        if condition is DELETED:
            return await wait_until_deleted(client, name, timeout=timeout)
        return await wait_for(client, name, condition, timeout=timeout)

    # -- writing ------------------------------------------------------------------------------------------------------

    @overload
    async def create(self, obj: T, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> T: ...
    @overload
    async def create(self, obj: Object, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Object: ...
    async def create(self, obj: Any, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Any:
        """Store a new object; what comes back is the object as it was stored."""
        self._before_write()
        managed = self._managed(options)
        return self._after_write(await (await self._of(obj, namespace)).create(obj, **managed), managed)

    @overload
    async def update(self, obj: T, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> T: ...
    @overload
    async def update(self, obj: Object, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Object: ...
    async def update(self, obj: Any, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Any:
        """Replace an object; `Conflict` when it was changed since it was read."""
        self._before_write()
        managed = self._managed(options)
        return self._after_write(await (await self._of(obj, namespace)).update(obj, **managed), managed)

    @overload
    async def update_status(self, obj: T, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> T: ...
    @overload
    async def update_status(
        self, obj: Object, *, namespace: str | None = None, **options: Unpack[WriteOptions]
    ) -> Object: ...
    async def update_status(self, obj: Any, *, namespace: str | None = None, **options: Unpack[WriteOptions]) -> Any:
        """Replace the status of an object, and nothing else of it."""
        self._before_write()
        managed = self._managed(options)
        answer = await (await self._of(obj, namespace)).update(obj, subresource="status", **managed)
        return self._after_write(answer, managed)

    @overload
    async def patch(
        self,
        target: T | type[T],
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> T: ...
    @overload
    async def patch(
        self,
        target: Object | Named,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Object: ...
    async def patch(
        self,
        target: Any,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Any:
        """Change an object, given itself or by kind and `name`: merge patch, `json`, `strategic` or `apply`."""
        self._before_write()
        client, name = await self._addressed(target, name, namespace)
        managed = self._managed(options)
        return self._after_write(await client.patch(name, patch, kind=kind, **managed), managed)

    @overload
    async def patch_status(
        self,
        target: T | type[T],
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> T: ...
    @overload
    async def patch_status(
        self,
        target: Object | Named,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Object: ...
    async def patch_status(
        self,
        target: Any,
        patch: Any,
        *,
        name: str = "",
        namespace: str | None = None,
        kind: PatchKind = "merge",
        **options: Unpack[PatchOptions],
    ) -> Any:
        """Change an object's status; the patch is one of the whole object, such as `{"status": {...}}`."""
        self._before_write()
        client, name = await self._addressed(target, name, namespace)
        managed = self._managed(options)
        answer = await client.patch(name, patch, kind=kind, subresource="status", **managed)
        return self._after_write(answer, managed)

    @overload
    async def apply(
        self, obj: T, *, namespace: str | None = None, subresource: str = "", **options: Unpack[PatchOptions]
    ) -> T: ...
    @overload
    async def apply(
        self, obj: Object, *, namespace: str | None = None, subresource: str = "", **options: Unpack[PatchOptions]
    ) -> Object: ...
    async def apply(
        self, obj: Any, *, namespace: str | None = None, subresource: str = "", **options: Unpack[PatchOptions]
    ) -> Any:
        """Server-side apply: create the object, or set exactly these fields of it.

        Needs a field manager, the client's or `field_manager`. `Conflict` when another manager owns a field and has
        another value for it, unless `force` takes it over.
        """
        managed = self._managed(options)
        if not managed.get("field_manager"):
            raise ValueError("apply needs a field manager: give field_manager here, or to the client")
        self._before_write()
        client = await self._of(obj, namespace)
        return self._after_write(await client.apply(obj, subresource=subresource, **managed), managed)

    @overload
    async def delete(
        self,
        target: T | type[T],
        name: str | ObjectKey = "",
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> T | None: ...
    @overload
    async def delete(
        self,
        target: Object | Named,
        name: str | ObjectKey = "",
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> Object | None: ...
    async def delete(
        self,
        target: Any,
        name: str | ObjectKey = "",
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> Any:
        """Delete an object, given itself or by kind and name.

        What the server shows of it, which may wait for its finalizers; None when it only says that it is done.
        """
        if isinstance(name, ObjectKey):
            namespace, name = name
        self._before_write()
        client, name = await self._addressed(target, name, namespace)
        return await self._delete(client, target, name, self._dry(options))

    async def delete_all(
        self, target: type[T] | Named, *, namespace: str | None = None, **options: Unpack[DeleteAllOptions]
    ) -> None:
        """Delete all objects of a kind in one namespace, or those that selectors select."""
        self._before_write()
        await (await self._one(target, namespace)).delete_all(**self._dry(options))
        await self._after_delete_all(target, namespace, self._dry(options))

    # -- parts of objects ---------------------------------------------------------------------------------------------

    async def get_scale(
        self, target: type[T] | Named, name: str, *, namespace: str | None = None, **options: Unpack[ReadOptions]
    ) -> Scale:
        """Return the Scale of an object: desired and current replicas."""
        client = await self._subresource(target, "scale", namespace)
        return await client.get_scale(name, **options)

    async def scale(
        self,
        target: type[T] | Named,
        name: str,
        replicas: int,
        *,
        namespace: str | None = None,
        **options: Unpack[PatchOptions],
    ) -> Scale:
        """Set the desired number of replicas of an object."""
        self._before_write()
        client = await self._subresource(target, "scale", namespace)
        scale = await client.set_scale(name, replicas, **self._managed(options))
        await self._after_scale(target, name, namespace, self._dry(options))
        return scale

    async def sub(
        self, target: type[T] | Named, subresource: str, *, namespace: str | None = None
    ) -> SubresourceClient:
        """Return the client of a subresource: `eviction`, `token`, `binding`, `scale`, `status` ..."""
        if self.is_dry_run:
            raise ValueError("sub() of a dry-run client: the client that it returns would store what it writes")
        return await self._subresource(target, subresource, namespace)

    async def _subresource(self, target: Any, subresource: str, namespace: str | None) -> SubresourceClient:
        resource = await self._find(target)
        return SubresourceClient(
            self.rest, resource.gvr, self._namespace(resource, namespace, needed=True), subresource
        )

    # -- how requests are made; `CachedClient` does it otherwise ------------------------------------------------------

    async def _read(
        self, target: Any, name: str, namespace: str | None, options: ReadOptions, *, is_metadata_only: bool = False
    ) -> Any:
        client = await self._bind(target, namespace, needed=True, is_metadata_only=is_metadata_only)
        return await client.get(name, **options)

    async def _read_list(
        self, target: Any, namespace: str | None, options: ListOptions, *, is_metadata_only: bool = False
    ) -> Any:
        return await (await self._bind(target, namespace, is_metadata_only=is_metadata_only)).list(**options)

    async def _delete(self, client: TypedClient[Any], target: Any, name: str, options: DeleteOptions) -> Any:
        return await client.delete(name, **options)

    def _before_write(self) -> None:
        """Raise if nothing may be written."""

    def _after_write(self, answer: Any, options: WriteOptions) -> Any:
        """Note what the server answered to a write; returns it."""
        return answer

    async def _after_delete_all(self, target: Any, namespace: str | None, options: DeleteAllOptions) -> None:
        """Note that objects were deleted."""

    async def _after_scale(self, target: Any, name: str, namespace: str | None, options: PatchOptions) -> None:
        """Note that an object was scaled."""

    # -- finding ------------------------------------------------------------------------------------------------------

    @overload
    def resource(self, target: type[T], namespace: str | None = None) -> KindClient[T]: ...
    @overload
    def resource(self, target: Named, namespace: str | None = None) -> KindClient[Object]: ...
    def resource(self, target: Any, namespace: str | None = None) -> Any:
        """The verbs of this client for one kind, in one namespace or in all."""
        return KindClient(self, target, namespace)

    async def gvk_of(self, target: type[T] | Named) -> GroupVersionKind:
        """The kind of a class, or of a name; `NoMatch` when the server has no such kind."""
        match target:
            case type():
                return self.scheme.gvk_of(target)
            case GroupVersionKind():
                return target
            case (str(api_version), str(kind)):
                return GroupVersionKind(*GroupVersion.parse(api_version), kind)
        return (await self._find(target)).gvk

    async def _bind(
        self, target: Any, namespace: str | None, *, needed: bool = False, is_metadata_only: bool = False
    ) -> TypedClient[Any]:
        resource = await self._find(target)
        where = self._namespace(resource, namespace, needed=needed)
        if is_metadata_only:
            return client_for_metadata(self.rest, resource, where)
        if isinstance(target, type):
            return client_for_class(self.rest, target, resource, where)
        return client_for_dictionaries(self.rest, resource, where)

    async def _one(self, target: Any, namespace: str | None) -> TypedClient[Any]:
        """The client for single objects of a kind, which are always in one namespace."""
        return await self._bind(target, namespace, needed=True)

    async def _of(self, obj: Any, namespace: str | None) -> TypedClient[Any]:
        """The client for an object, where it says it is."""
        own = namespace_of(obj)
        if own and namespace is not None and namespace != own:
            raise ValueError(f"the object is in namespace {own!r}, and {namespace!r} was asked for")
        cls = type(obj) if not isinstance(obj, dict) else self.scheme.gvk_of(obj)
        return await self._one(cls, namespace if namespace is not None else own or None)

    async def _addressed(self, target: Any, name: str, namespace: str | None) -> tuple[TypedClient[Any], str]:
        """The client and the name for an object, or for a kind and a name."""
        if isinstance(target, (type, str, tuple)):
            return await self._one(target, namespace), name
        if name and name != name_of(target):
            raise ValueError(f"the object is called {name_of(target)!r}, and {name!r} was asked for")
        return await self._of(target, namespace), name_of(target)

    async def _find(self, target: Any) -> APIResource:
        match target:
            case str():
                return await self.mapper.by_name(target)
            case GroupVersionResource():
                return await self.mapper.by_resource(target)
            case type() | GroupVersionKind() | (str(), str()):
                return await self.mapper.by_kind(await self.gvk_of(target))
        raise TypeError(f"{target!r} is neither a class nor the name of a kind")

    def _namespace(self, resource: APIResource, namespace: str | None, *, needed: bool) -> str:
        if not resource.namespaced:
            if namespace:
                raise ValueError(f"{resource} are not in namespaces, and {namespace!r} was asked for")
            return ""
        where = self.namespace if namespace is None else namespace
        if needed and not where:
            raise ValueError(f"{resource} are in namespaces: name one")
        return where

    def _managed(self, options: Any) -> Any:
        """Options with the client's field manager, where they name none, and its dry run."""
        if self.field_manager:
            options = {"field_manager": self.field_manager, **options}
        return self._dry(options)

    def _dry(self, options: Any) -> Any:
        return {**options, "dry_run": True} if self.is_dry_run else options
