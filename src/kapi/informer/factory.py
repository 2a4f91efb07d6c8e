"""The shared informer factory: one informer for each collection, however many controllers use it.

Controllers of one program mostly watch the same kinds. All that request the informer of a kind, a namespace and
selectors get the same one, with one watch and one copy of the objects for all of them.

Namespaces are named in one text, `a,b`, or one by one. The empty name means all of them; see `namespaces_of`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, overload

from kapi.api.meta import GroupVersionKind, Object
from kapi.api.names import dns_label
from kapi.api.scheme import SCHEME
from kapi.api.selectors import LabelSelector
from kapi.client.discovery import DiscoveryClient
from kapi.client.mapper import RESTMapper
from kapi.client.metadata import PartialObjectMetadata
from kapi.informer.cached import decoder_of
from kapi.informer.informer import DRAIN_SECONDS, SharedInformer
from kapi.informer.namespaces import Parts
from kapi.informer.source import RESTSource, served_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import msgspec
    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.client.rest import RESTClient
    from kapi.informer.metrics import InformerMetrics
    from kapi.informer.reflector import Pace
    from kapi.informer.source import ListerWatcher

T = TypeVar("T", bound="msgspec.Struct")


def namespaces_of(names: str | Iterable[str], /) -> tuple[str, ...]:
    """Return the namespaces that names stand for, sorted and without duplicates; empty for all namespaces.

    A text may name several, with commas between them; white space around a name does not count. The empty name means
    all, so it must stand alone: next to others it would be redundant or wider than meant.

    Raises:
        ValueError: the empty name is one of several, there is no name at all, or one cannot be a namespace's.
    """
    listed = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    found = sorted(set(listed))
    if not found:
        raise ValueError("namespaces is empty: name some, or say '' for all of them")
    if found == [""] and len(listed) == 1:
        return ()
    if not found[0]:
        raise ValueError(
            f"namespaces {', '.join(map(repr, listed))}: the empty name means all of them and stands alone"
        )
    for name in found:
        if wrong := dns_label(name):
            raise ValueError(f"namespace {name!r}: {wrong[0]}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """The options of the cache of one kind, for all who ask for its informer and name nothing else.

    `namespaces` are the only ones that are cached, `labels` and `fields` select objects. `transform` is called with
    each object before it is cached, see `Intake`. With `metadata_only` nothing else is cached. With `resync` every
    handler is shown all objects again each time so many seconds have passed.
    """

    namespaces: str | Iterable[str] | None = None
    labels: LabelSelector | str = ""
    fields: str = ""
    transform: Callable[[Object], Object] | None = None
    metadata_only: bool = False
    resync: float = 0.0


_DEFAULTS: Final = CacheOptions()


class Collection(NamedTuple):
    """The collection of an informer. `namespace` is empty for all, and may be several, as in `a,b`.

    For a kind without namespaces it does not count.
    """

    gvk: GroupVersionKind
    cls: type
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces it is restricted to; none for all of them."""
        return tuple(self.namespace.split(",")) if self.namespace else ()

    @property
    def is_metadata_only(self) -> bool:
        """Return True if only the metadata of the objects is held."""
        return self.cls is PartialObjectMetadata

    def __str__(self) -> str:
        """Return the unique name of the collection, for logs and metrics."""
        form = "metadata" if self.is_metadata_only else "dictionaries" if self.cls is dict else ""
        where = [self.namespace and f"namespace {self.namespace}", self.labels, self.fields, form]
        return ", ".join([f"{self.gvk.kind}.{self.gvk.api_version}", *filter(None, where)])


class SharedInformerFactory:
    """Makes informers, starts and stops them.

    Promises: two who ask for the same collection in the same form get the same informer. Each must `release` what it
    asked for when it does not need it any more; when the last one has, the informer is stopped and forgotten. An
    informer that is asked for after `start` is started at once.

    With several namespaces, each has a list and a watch of its own for a kind; what they bring is one cache, which
    counts as synced when all of them are. A kind without namespaces is followed once.

    `transform` is applied to all objects before they are kept, see `Intake`; `options` are those of single kinds.
    `registry`, if given, is where metrics go. `name` is put before the names of informers, where a program has
    factories of several clusters.
    """

    def __init__(
        self,
        rest: RESTClient,
        *,
        mapper: RESTMapper | None = None,
        namespace: str | Iterable[str] = "",
        transform: Callable[[Object], Object] | None = None,
        options: Mapping[type[Any] | GroupVersionKind, CacheOptions] | None = None,
        pace: Pace | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
        name: str = "",
    ) -> None:
        self._rest = rest
        self._name = name
        self._mapper = mapper or RESTMapper(DiscoveryClient(rest))
        self._namespace = ",".join(namespaces_of(namespace))
        self._transform = transform
        self._options = {_gvk(kind): one for kind, one in (options or {}).items()}
        self._pace = pace
        self._clock = clock
        self._informers: dict[Collection, SharedInformer[Any]] = {}
        self._users: dict[Collection, int] = {}
        self._is_started = False
        self._metrics: InformerMetrics | None = None
        if registry is not None:
            from kapi.informer.metrics import InformerMetrics

            self._metrics = InformerMetrics(registry)

    @overload
    def informer(
        self,
        kind: type[T],
        *,
        namespace: str | Iterable[str] | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[T]: ...

    @overload
    def informer(
        self,
        kind: GroupVersionKind,
        *,
        namespace: str | Iterable[str] | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[Object]: ...

    def informer(
        self,
        kind: type[Any] | GroupVersionKind,
        *,
        namespace: str | Iterable[str] | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[Any]:
        """The informer of a class of objects, or with a GVK, of dictionaries.

        `namespace` is the factory's unless given; the empty one means all, and there may be several. What is not given
        is as the options of the kind say; with `metadata_only` the informer is that of `metadata_informer`. Where the
        kind is served is found out when the informer runs, so it need not be served yet.
        """
        gvk, cls = _gvk(kind), dict if isinstance(kind, GroupVersionKind) else kind
        if self._options.get(gvk, _DEFAULTS).metadata_only:
            cls = PartialObjectMetadata
        return self._share(self._collection(gvk, cls, namespace, labels, fields))

    def metadata_informer(
        self,
        kind: type[Any] | GroupVersionKind,
        *,
        namespace: str | Iterable[str] | None = None,
        labels: LabelSelector | str = "",
        fields: str = "",
    ) -> SharedInformer[PartialObjectMetadata]:
        """The informer of the metadata of a kind: the server sends nothing else."""
        return self._share(self._collection(_gvk(kind), PartialObjectMetadata, namespace, labels, fields))

    def is_whole(self, collection: Collection) -> bool:
        """Return True for a collection of those who name no selectors, in any namespaces."""
        whole = self._collection(collection.gvk, collection.cls, None, "", "")
        return collection == whole._replace(namespace=collection.namespace)

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
        self,
        gvk: GroupVersionKind,
        cls: type,
        namespace: str | Iterable[str] | None,
        labels: LabelSelector | str,
        fields: str,
    ) -> Collection:
        options = self._options.get(gvk, _DEFAULTS)
        labels, fields = labels or options.labels, fields or options.fields
        # Selectors that mean the same are printed the same.
        selector = str(LabelSelector.parse(labels) if isinstance(labels, str) else labels)
        if namespace is None:
            namespace = options.namespaces
        where = self._namespace if namespace is None else ",".join(namespaces_of(namespace))
        return Collection(gvk, cls, where, selector, fields)

    def _share(self, collection: Collection) -> SharedInformer[Any]:
        informer = self._informers.get(collection)
        if informer is None:
            options = self._options.get(collection.gvk, _DEFAULTS)
            informer = self._informers[collection] = SharedInformer(
                self._source(collection),
                decoder_of(collection.cls),
                name=f"{self._name}: {collection}" if self._name else str(collection),
                transform=options.transform or self._transform,
                resync=options.resync,
                pace=self._pace,
                clock=self._clock,
                metrics=self._metrics,
            )
            if self._is_started:
                informer.start()
        self._users[collection] = self._users.get(collection, 0) + 1
        return informer

    def _source(self, collection: Collection) -> ListerWatcher | Parts:
        return Parts(lambda: self._parts(collection)) if len(collection.namespaces) > 1 else self._part(collection)

    async def _parts(self, collection: Collection) -> dict[str, ListerWatcher]:
        resource = await self._mapper.by_kind(collection.gvk)
        namespaces = collection.namespaces if resource.namespaced else ("",)
        return {namespace: self._part(collection._replace(namespace=namespace)) for namespace in namespaces}

    def _part(self, collection: Collection) -> ListerWatcher:
        return RESTSource(
            self._rest,
            served_by(self._mapper, collection.gvk),
            namespace=collection.namespace,
            label_selector=collection.labels,
            field_selector=collection.fields,
            metadata_only=collection.is_metadata_only,
        )


def _gvk(kind: type[Any] | GroupVersionKind) -> GroupVersionKind:
    return kind if isinstance(kind, GroupVersionKind) else SCHEME.gvk_of(kind)
