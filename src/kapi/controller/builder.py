"""The builder of a controller.

    builder(manager).for_(Network, generation_changed).owns(ConfigMap).watches(Secret, users_of).complete(reconcile)

`for_` names the kind that is reconciled; `owns` the kinds it creates, whose changes lead to the owner; `watches` any
other kind, with a function that says which keys a change concerns. Classes give typed objects; a GroupVersionKind gives
dictionaries. The reconciler takes a key, or, if its parameter is annotated so, the object: see `reconcile`.

A controller may also be keyed by a type of the user's: any hashable one, in the place of the name of an object.

    builder(manager, Zone).named("zones").watches(Node, zones_of).complete(reconcile_zone)

`priority=` is that of the keys of a watch, or a function of the event: higher ones are reconciled first, and a key that
is waiting has the highest of those it was added with. Without it the initial list and resyncs have a low one (-100) and
changes have 0.

`cluster=` is that of a kind, if it is another than the manager's own: see `manager.cluster`. What `owns` names is in
the cluster of the kind that `for_` names.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from kapi.api.errors import ApiError
from kapi.api.meta import GroupVersionKind
from kapi.api.scheme import SCHEME
from kapi.client.errors import ClientError
from kapi.controller.controller import SYNC_SECONDS, Controller, ControllerOptions
from kapi.controller.enqueue import for_object, for_owner, mapped
from kapi.controller.reconcile import R, Request, as_function, takes_object, with_object
from kapi.controller.source import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import CollectorRegistry

    from kapi.api.meta import Object
    from kapi.client.mapper import RESTMapper
    from kapi.client.metadata import PartialObjectMetadata
    from kapi.controller.enqueue import Handler, Mapper, Priority
    from kapi.controller.host import ControllerHost, WatchedCluster
    from kapi.controller.predicate import Predicate
    from kapi.controller.queue import RateLimitingQueue
    from kapi.controller.queue.ratelimit import RateLimiter
    from kapi.controller.reconcile import ObjectReconcileFunction, ReconcileFunction, Reconciler
    from kapi.controller.source import Source
    from kapi.informer.informer import SharedInformer

T = TypeVar("T")
K = TypeVar("K")
AnyKind: TypeAlias = type[Any] | GroupVersionKind

# How long to wait before asking again whether a kind is served.
_RETRY_SECONDS = 1.0

_names: WeakKeyDictionary[CollectorRegistry, set[str]] = WeakKeyDictionary()


@overload
def builder(host: ControllerHost) -> Builder[Request, Request]: ...
@overload
def builder(host: ControllerHost, request_type: type[R]) -> Builder[R, R]: ...
def builder(host: ControllerHost, request_type: type[Any] = Request) -> Builder[Any, Any]:
    """Begin a controller that a host will run, keyed by objects or by `request_type`, whose instances are hashable."""
    return Builder(host, request_type)


class Builder(Generic[K, R]):
    """Collects what a controller watches. Nothing is started before `complete`.

    `R` is the type of its keys, `K` what its reconciler may take: the class that `for_` names, or a key.
    """

    def __init__(self, host: ControllerHost, request_type: type[Any] = Request) -> None:
        if request_type.__hash__ is None:
            raise TypeError(f"{request_type.__name__} cannot be a key: its instances are not hashable")
        self._host = host
        self._home: WatchedCluster = host
        """The cluster of the kind that is reconciled."""
        self._request_type = request_type
        self._name = ""
        self._kind: GroupVersionKind | None = None
        self._reconciled: AnyKind | None = None
        self._owns_something = False
        # Made on completion: whatever asks for an informer makes the host start it.
        self._sources: list[Callable[[], Source[R]]] = []
        self._predicates: list[Predicate[Any]] = []
        self._options: ControllerOptions[R] = ControllerOptions()

    @overload
    def for_(
        self: Builder[Any, Request],
        kind: type[T],
        *predicates: Predicate[T],
        priority: Priority[T] | None = None,
        cluster: WatchedCluster | None = None,
    ) -> Builder[T, Request]: ...
    @overload
    def for_(
        self: Builder[Any, Request],
        kind: GroupVersionKind,
        *predicates: Predicate[Object],
        priority: Priority[Object] | None = None,
        cluster: WatchedCluster | None = None,
    ) -> Builder[Object, Request]: ...
    def for_(
        self: Builder[Any, Any],
        kind: Any,
        *predicates: Predicate[Any],
        priority: Priority[Any] | None = None,
        cluster: WatchedCluster | None = None,
    ) -> Builder[Any, Any]:
        """Set the kind that is reconciled. Called once."""
        self._check_keyed_by_object("for_")
        if self._kind is not None:
            raise ValueError(f"for_ was called before: a controller reconciles one kind, here {self._kind.kind}")
        self._kind, self._reconciled, self._home = _gvk(kind), kind, cluster or self._host
        self._sources.append(lambda: self._source(_informer(kind, self._home), for_object, predicates, priority))
        return self

    def owns(
        self,
        kind: type[T] | GroupVersionKind,
        *predicates: Predicate[T],
        every_owner: bool = False,
        metadata_only: bool = False,
        priority: Priority[T] | None = None,
    ) -> Self:
        """A kind the reconciler makes: changes lead to the owner that controls the object, or to `every_owner`.

        With `metadata_only` the server sends, and the cache keeps, nothing but the metadata; predicates then see
        `PartialObjectMetadata`.
        """
        _gvk(kind)
        self._check_keyed_by_object("owns")
        self._owns_something = True
        self._sources.append(
            lambda: self._owned(
                _informer(kind, self._home, metadata_only=metadata_only),
                predicates,
                controller_only=not every_owner,
                priority=priority,
            )
        )
        return self

    def watches(
        self,
        kind: type[T] | GroupVersionKind,
        mapper: Mapper[T, R],
        *predicates: Predicate[T],
        priority: Priority[T] | None = None,
        cluster: WatchedCluster | None = None,
    ) -> Self:
        """Any other kind; the mapper, a function or an async one, says which keys an object concerns."""
        _gvk(kind)
        where = cluster or self._host
        self._sources.append(lambda: self._source(_informer(kind, where), mapped(mapper), predicates, priority))
        return self

    def watches_metadata(
        self,
        kind: AnyKind,
        mapper: Mapper[PartialObjectMetadata, R],
        *predicates: Predicate[PartialObjectMetadata],
        priority: Priority[PartialObjectMetadata] | None = None,
        cluster: WatchedCluster | None = None,
    ) -> Self:
        """As `watches`, where the metadata is enough: the server sends, and the cache keeps, nothing else."""
        _gvk(kind)
        where = cluster or self._host
        self._sources.append(
            lambda: self._source(_informer(kind, where, metadata_only=True), mapped(mapper), predicates, priority)
        )
        return self

    def watches_source(self, source: Source[R]) -> Self:
        """Add any other source, such as a `Trigger`. Predicates do not apply to it."""
        self._sources.append(lambda: source)
        return self

    def with_predicates(self, *predicates: Predicate[Any]) -> Self:
        """Add predicates for the events of all kinds; called before the kinds' own."""
        self._predicates.extend(predicates)
        return self

    def named(self, name: str) -> Self:
        """The name in logs and metrics; unless given, the kind's in small letters. No two controllers may share one."""
        self._name = name
        return self

    def with_options(
        self,
        *,
        workers: int = 1,
        rate_limiter: RateLimiter[R] | None = None,
        timeout: float | None = None,
        sync_timeout: float = SYNC_SECONDS,
        needs_leader_election: bool = True,
        warm_up: bool | None = None,
    ) -> Self:
        """Set options, see `ControllerOptions`."""
        self._options = ControllerOptions(workers, rate_limiter, timeout, sync_timeout, needs_leader_election, warm_up)
        return self

    def complete(self, reconciler: Reconciler[R] | ReconcileFunction[R] | ObjectReconcileFunction[K]) -> Controller[R]:
        """Make the controller and give it to the host to run.

        Raises:
            ValueError: something is missing, or the name is taken.
            TypeError: the reconciler takes an object of another kind.
        """
        function, name = self._function(reconciler), self._checked_name()
        fields = {"controllerGroup": self._kind.group, "controllerKind": self._kind.kind} if self._kind else {}
        controller = Controller(
            name,
            function,
            sources=[make() for make in self._sources],
            options=self._options,
            clock=self._host.clock,
            registry=self._host.registry,
            log_fields=fields,
        )
        self._host.add(controller)
        _names.setdefault(self._host.registry, set()).add(name)
        return controller

    def _function(
        self, reconciler: Reconciler[R] | ReconcileFunction[R] | ObjectReconcileFunction[K]
    ) -> ReconcileFunction[R]:
        function = as_function(cast("Reconciler[R] | ReconcileFunction[R]", reconciler))
        if self._reconciled is not None and takes_object(function, self._reconciled):
            wanted = cast("ObjectReconcileFunction[Any]", function)
            # Only a builder whose keys are Requests has a kind to read.
            return cast("ReconcileFunction[R]", with_object(wanted, self._reconciled, self._home.client))
        return function

    def _check_keyed_by_object(self, method: str) -> None:
        if self._request_type is not Request:
            keys = self._request_type.__name__
            raise TypeError(f"{method} queues the keys of objects, and this controller is keyed by {keys}: use watches")

    def _checked_name(self) -> str:
        """Return the checked name; before any informer is requested, which would have to be released on failure."""
        if not self._sources:
            raise ValueError("the controller watches nothing: call for_, watches or watches_source")
        name = self._name or (self._kind.kind.lower() if self._kind else "")
        if not name:
            raise ValueError("the controller has no name: call for_ or named")
        if self._owns_something and self._kind is None:
            raise ValueError("owns maps objects to owners of the kind that for_ names: call for_, too")
        if name in _names.get(self._host.registry, ()):
            raise ValueError(f"there is a controller named {name!r} already; metrics would mix the two: call named")
        return name

    def _source(
        self,
        informer: SharedInformer[Any],
        handler: Handler[Any, Any],
        predicates: Iterable[Predicate[Any]],
        priority: Priority[Any] | None,
    ) -> Source[Any]:
        return Kind(informer, handler, (*self._predicates, *predicates), priority=priority)

    def _owned(
        self,
        informer: SharedInformer[Any],
        predicates: Iterable[Predicate[Any]],
        *,
        controller_only: bool,
        priority: Priority[Any] | None,
    ) -> Source[Any]:
        assert self._kind is not None
        return _Owned(
            informer,
            (*self._predicates, *predicates),
            self._kind,
            self._home.mapper,
            controller_only=controller_only,
            priority=priority,
        )


class _Owned(Kind[Any, Request]):
    """Objects that lead to their owners. Where owners live is asked of the server, for a reference does not say."""

    def __init__(
        self,
        informer: SharedInformer[Any],
        predicates: Iterable[Predicate[Any]],
        owner: GroupVersionKind,
        mapper: RESTMapper,
        *,
        controller_only: bool,
        priority: Priority[Any] | None,
    ) -> None:
        super().__init__(informer, for_object, predicates, priority=priority)
        self._owner = owner
        self._mapper = mapper
        self._controller_only = controller_only
        self._trouble = ""

    def __str__(self) -> str:
        return super().__str__() + self._trouble

    async def start(self, queue: RateLimitingQueue[Request], /) -> None:
        """Listen, as soon as the kind of the owners is served."""
        self._handler = for_owner(
            self._owner.group_kind, namespaced=await self._is_namespaced(), controller_only=self._controller_only
        )
        await super().start(queue)

    async def _is_namespaced(self) -> bool:
        while True:
            try:
                found = await self._mapper.by_kind(self._owner)
            except (ApiError, ClientError) as error:
                self._trouble = f" ({error})"
                # Its informer waits in the same way; the controller's timeout ends both.
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._trouble = ""
                return found.namespaced


def _gvk(kind: AnyKind) -> GroupVersionKind:
    """The kind; TypeError, at the line where it was said, for a class that stands for none."""
    return kind if isinstance(kind, GroupVersionKind) else SCHEME.gvk_of(kind)


def _informer(kind: AnyKind, cluster: WatchedCluster, *, metadata_only: bool = False) -> SharedInformer[Any]:
    return cluster.informers.metadata_informer(kind) if metadata_only else cluster.informers.informer(kind)
