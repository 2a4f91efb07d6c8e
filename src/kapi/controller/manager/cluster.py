"""A cluster of a manager: a client, and the caches that it reads from.

A manager has one of its own. An operator that watches objects of several clusters adds the others to it:

    edge = manager.add_cluster("edge", edge_client)
    manager.builder().for_(Network).watches(Site, networks_of, cluster=edge).complete(reconcile)

`edge.client` reads from the caches of what is watched there, and sees its own writes, as `manager.client` does. The
caches of all clusters are synced before the first reconcile, and stopped after the last. Leases and Events are written
to the manager's own cluster. A key does not say which cluster it is of: a controller for objects of several clusters is
keyed by a type that does, see `builder`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from kapi.client.transport.metrics import RequestMeter
from kapi.controller.manager.cachedclient import CachedClient
from kapi.informer.factory import SharedInformerFactory
from kapi.informer.indexer import by_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import msgspec
    from prometheus_client import CollectorRegistry

    from kapi.api.meta import GroupVersionKind, Object
    from kapi.base.clock import Clock
    from kapi.client.client import Client
    from kapi.client.mapper import RESTMapper
    from kapi.client.transport.observer import Observer
    from kapi.controller.tracing import Tracing
    from kapi.informer.factory import CacheOptions
    from kapi.informer.indexer import IndexFunction

T = TypeVar("T", bound="msgspec.Struct")


class Cluster:
    """A cluster that a manager's controllers watch; made by `Manager.add_cluster`, and used as a context manager by it.

    `client` reads from the caches of the kinds controllers watch and sees its own writes; `live` asks the server each
    time. `name` is in the names of its caches, in logs and metrics; the manager's own cluster has none.
    """

    def __init__(
        self,
        name: str,
        live: Client,
        *,
        namespaces: tuple[str, ...],
        caches: Mapping[type[Any] | GroupVersionKind, CacheOptions] | None,
        clock: Clock | None,
        registry: CollectorRegistry,
        tracing: Tracing | None,
    ) -> None:
        self.name = name
        self.live = live
        self.client = CachedClient(live)
        self.namespaces = namespaces
        """The namespaces that are watched; none stands for all of them."""
        self.informers = SharedInformerFactory(
            live.rest,
            mapper=live.mapper,
            namespace=",".join(namespaces),
            options=caches,
            clock=clock,
            registry=registry,
            name=name,
        )
        self._registry = registry
        self._tracing = tracing
        self._stack = contextlib.AsyncExitStack()

    def __repr__(self) -> str:
        return f"<Cluster {self.name!r}>"

    @property
    def mapper(self) -> RESTMapper:
        """The REST mapper of the client."""
        return self.live.mapper

    @overload
    def index(self, kind: type[T], name: str, values: Callable[[T], Iterable[str]] | None = None) -> None: ...
    @overload
    def index(
        self, kind: GroupVersionKind, name: str, values: Callable[[Object], Iterable[str]] | None = None
    ) -> None: ...
    def index(
        self, kind: type[Any] | GroupVersionKind, name: str, values: Callable[[Any], Iterable[str]] | None = None
    ) -> None:
        """Index the cache of a kind, which is watched from then on, for `client.list(kind, index={name: value})`.

        `values` returns the values that an object is found under. Without it `name` is a field, such as
        `spec.nodeName`, by whose value `client.list(kind, fields={name: value})` then finds objects, too.
        """
        index: IndexFunction[Any] = by_field(name) if values is None else lambda cached: values(cached.object())
        self.informers.informer(kind).indexer.add_index(name, index)

    def share_caches(self) -> None:
        """Let the client read from every cache that holds a kind whole."""
        for collection, informer in self.informers.informers.items():
            if self.informers.is_whole(collection):
                self.client.use(collection, informer)

    async def __aenter__(self) -> Self:
        """Start the caches, and have metrics and traces follow the client; others may use it before and after."""
        rest = self.live.rest
        mine: list[Observer] = [RequestMeter(self._registry), *([self._tracing] if self._tracing else ())]

        def unobserve() -> None:
            rest.observers = tuple(one for one in rest.observers if one not in mine)

        rest.observers = (*rest.observers, *mine)
        self._stack.callback(unobserve)
        self.share_caches()
        await self._stack.enter_async_context(self.informers)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()
