"""One informer for each collection, however many want it.

Controllers of one program mostly look at the same kinds. Whoever asks here for the informer of a kind, a namespace and
selectors gets the one that others asked for before, with one watch and one copy of the objects for all of them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, overload

from kapi.api.meta import GroupVersionKind, Object
from kapi.api.scheme import SCHEME
from kapi.api.selectors import LabelSelector
from kapi.client.discovery import DiscoveryClient
from kapi.client.mapper import RESTMapper
from kapi.informer.cached import PartialObjectMetadata, decoder_of
from kapi.informer.informer import DRAIN_SECONDS, SharedInformer
from kapi.informer.source import RESTSource, served_by

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from kapi.base.clock import Clock
    from kapi.client.rest import RESTClient
    from kapi.informer.reflector import Pace
    from kapi.informer.source import ListerWatcher

T = TypeVar("T", bound="msgspec.Struct")


class Collection(NamedTuple):
    """What an informer is of. `namespace` is empty for all, or for a kind without namespaces."""

    gvk: GroupVersionKind
    cls: type
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def is_metadata_only(self) -> bool:
        """Whether only the metadata of the objects is held."""
        return self.cls is PartialObjectMetadata

    def __str__(self) -> str:
        where = [self.namespace and f"namespace {self.namespace}", self.labels, self.fields]
        return ", ".join([f"{self.gvk.kind}.{self.gvk.api_version}", *filter(None, where)])


class SharedInformerFactory:
    """Makes informers, starts and stops them.

    Promises: two who ask for the same collection in the same form get the same informer. Each must `release` what it
    asked for when it does not need it any more; when the last one has, the informer is stopped and forgotten. An
    informer that is asked for after `start` is started at once.

    `transform` is applied to all objects before they are kept, see `Intake`.
    """

    def __init__(
        self,
        rest: RESTClient,
        *,
        mapper: RESTMapper | None = None,
        namespace: str = "",
        transform: Callable[[Object], Object] | None = None,
        pace: Pace | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._rest = rest
        self._mapper = mapper or RESTMapper(DiscoveryClient(rest))
        self._namespace = namespace
        self._transform = transform
        self._pace = pace
        self._clock = clock
        self._informers: dict[Collection, SharedInformer[Any]] = {}
        self._users: dict[Collection, int] = {}
        self._is_started = False

    @overload
    def informer(
        self, kind: type[T], *, namespace: str | None = None, labels: LabelSelector | str = "", fields: str = ""
    ) -> SharedInformer[T]: ...

    @overload
    def informer(
        self,
        kind: GroupVersionKind,
        *,
        namespace: str | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[Object]: ...

    def informer(
        self,
        kind: type[Any] | GroupVersionKind,
        *,
        namespace: str | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[Any]:
        """The informer of a class of objects, or with a GVK, of dictionaries.

        `namespace` is the factory's unless given; the empty one means all. Where the kind is served is found out when
        the informer runs, so it need not be served yet.
        """
        gvk, cls = (kind, dict) if isinstance(kind, GroupVersionKind) else (SCHEME.gvk_of(kind), kind)
        return self._share(self._collection(gvk, cls, namespace, labels, fields))

    def metadata_informer(
        self,
        kind: type[Any] | GroupVersionKind,
        *,
        namespace: str | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[PartialObjectMetadata]:
        """The informer of the metadata of a kind: the server sends nothing else."""
        gvk = kind if isinstance(kind, GroupVersionKind) else SCHEME.gvk_of(kind)
        return self._share(self._collection(gvk, PartialObjectMetadata, namespace, labels, fields))

    @property
    def informers(self) -> dict[Collection, SharedInformer[Any]]:
        """The informers there are now, by what they are of."""
        return dict(self._informers)

    def start(self) -> None:
        """Start all informers that are not running yet, and from now on every one when it is asked for."""
        self._is_started = True
        for informer in self._informers.values():
            informer.start()

    async def wait_for_sync(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - what is raised is ours
        """Wait until every informer has synced; TimeoutError names the first that has not."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        for informer in list(self._informers.values()):
            left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
            await informer.wait_for_sync(left)

    async def release(self, informer: SharedInformer[Any]) -> None:
        """Say that an informer is not needed any more by one of those who asked for it."""
        collection = next((key for key, shared in self._informers.items() if shared is informer), None)
        if collection is None:
            raise ValueError(f"{informer.name} is not of this factory, or was released as often as it was asked for")
        self._users[collection] -= 1
        if not self._users[collection]:
            del self._informers[collection], self._users[collection]
            await informer.stop()

    async def stop(self, *, drain: float = DRAIN_SECONDS) -> None:
        """Stop all informers at once."""
        informers = list(self._informers.values())
        self._informers.clear()
        self._users.clear()
        await asyncio.gather(*(informer.stop(drain=drain) for informer in informers))

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def _collection(
        self, gvk: GroupVersionKind, cls: type, namespace: str | None, labels: LabelSelector | str, fields: str
    ) -> Collection:
        # Selectors that mean the same are printed the same.
        selector = str(LabelSelector.parse(labels) if isinstance(labels, str) else labels)
        return Collection(gvk, cls, self._namespace if namespace is None else namespace, selector, fields)

    def _share(self, collection: Collection) -> SharedInformer[Any]:
        informer = self._informers.get(collection)
        if informer is None:
            informer = self._informers[collection] = SharedInformer(
                self._source(collection),
                decoder_of(collection.cls),
                name=str(collection),
                transform=self._transform,
                pace=self._pace,
                clock=self._clock,
            )
            if self._is_started:
                informer.start()
        self._users[collection] = self._users.get(collection, 0) + 1
        return informer

    def _source(self, collection: Collection) -> ListerWatcher:
        return RESTSource(
            self._rest,
            served_by(self._mapper, collection.gvk),
            namespace=collection.namespace,
            label_selector=collection.labels,
            field_selector=collection.fields,
            metadata_only=collection.is_metadata_only,
        )
