"""The builder of a controller.

    builder(manager).for_(Network, generation_changed).owns(ConfigMap).watches(Secret, users_of).complete(reconcile)

`for_` names the kind that is reconciled; `owns` the kinds it creates, whose changes lead to the owner; `watches` any
other kind, with a function that says which keys a change concerns. Classes give typed objects; a GroupVersionKind gives
dictionaries.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from kapi.api.errors import ApiError
from kapi.api.meta import GroupVersionKind
from kapi.api.scheme import SCHEME
from kapi.client.errors import ClientError
from kapi.controller.controller import SYNC_SECONDS, Controller, ControllerOptions
from kapi.controller.enqueue import for_object, for_owner, mapped
from kapi.controller.reconcile import as_function
from kapi.controller.source import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import CollectorRegistry

    from kapi.client.mapper import RESTMapper
    from kapi.controller.enqueue import Handler, Mapper
    from kapi.controller.host import ControllerHost
    from kapi.controller.predicate import Predicate
    from kapi.controller.queue import RateLimitingQueue
    from kapi.controller.queue.ratelimit import RateLimiter
    from kapi.controller.reconcile import ReconcileFunction, Reconciler, Request
    from kapi.controller.source import Source
    from kapi.informer.cached import PartialObjectMetadata
    from kapi.informer.informer import SharedInformer

T = TypeVar("T")
AnyKind: TypeAlias = type[Any] | GroupVersionKind

# How long to wait before asking again whether a kind is served.
_RETRY_SECONDS = 1.0

_names: WeakKeyDictionary[CollectorRegistry, set[str]] = WeakKeyDictionary()


def builder(host: ControllerHost) -> Builder:
    """Begin a controller that a host will run."""
    return Builder(host)


class Builder:
    """Collects what a controller watches. Nothing is started before `complete`."""

    def __init__(self, host: ControllerHost) -> None:
        self._host = host
        self._name = ""
        self._kind: GroupVersionKind | None = None
        self._owns_something = False
        # Made on completion: whatever asks for an informer makes the host start it.
        self._sources: list[Callable[[], Source]] = []
        self._predicates: list[Predicate[Any]] = []
        self._options = ControllerOptions()

    def for_(self, kind: type[T] | GroupVersionKind, *predicates: Predicate[T]) -> Self:
        """Set the kind that is reconciled. Called once."""
        if self._kind is not None:
            raise ValueError(f"for_ was called before: a controller reconciles one kind, here {self._kind.kind}")
        self._kind = _gvk(kind)
        self._sources.append(lambda: self._source(self._informer(kind), for_object, predicates))
        return self

    def owns(
        self,
        kind: type[T] | GroupVersionKind,
        *predicates: Predicate[T],
        every_owner: bool = False,
        metadata_only: bool = False,
    ) -> Self:
        """A kind the reconciler makes: changes lead to the owner that controls the object, or to `every_owner`.

        With `metadata_only` the server sends, and the cache keeps, nothing but the metadata; predicates then see
        `PartialObjectMetadata`.
        """
        _gvk(kind)
        self._owns_something = True
        self._sources.append(
            lambda: self._owned(
                self._informer(kind, metadata_only=metadata_only), predicates, controller_only=not every_owner
            )
        )
        return self

    def watches(self, kind: type[T] | GroupVersionKind, mapper: Mapper[T], *predicates: Predicate[T]) -> Self:
        """Any other kind; the mapper, a function or an async one, says which keys an object concerns."""
        _gvk(kind)
        self._sources.append(lambda: self._source(self._informer(kind), mapped(mapper), predicates))
        return self

    def watches_metadata(
        self,
        kind: AnyKind,
        mapper: Mapper[PartialObjectMetadata],
        *predicates: Predicate[PartialObjectMetadata],
    ) -> Self:
        """As `watches`, where the metadata is enough: the server sends, and the cache keeps, nothing else."""
        _gvk(kind)
        self._sources.append(lambda: self._source(self._informer(kind, metadata_only=True), mapped(mapper), predicates))
        return self

    def watches_source(self, source: Source) -> Self:
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
        rate_limiter: RateLimiter[Request] | None = None,
        timeout: float | None = None,
        sync_timeout: float = SYNC_SECONDS,
        needs_leader_election: bool = True,
        warm_up: bool | None = None,
    ) -> Self:
        """Set options, see `ControllerOptions`."""
        self._options = ControllerOptions(workers, rate_limiter, timeout, sync_timeout, needs_leader_election, warm_up)
        return self

    def complete(self, reconciler: Reconciler | ReconcileFunction) -> Controller:
        """Make the controller and give it to the host to run.

        Raises:
            ValueError: something is missing, or the name is taken.
        """
        function, name = as_function(reconciler), self._checked_name()
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

    def _informer(self, kind: AnyKind, *, metadata_only: bool = False) -> SharedInformer[Any]:
        if metadata_only:
            return self._host.informers.metadata_informer(kind)
        return self._host.informers.informer(kind)

    def _source(
        self, informer: SharedInformer[Any], handler: Handler[Any], predicates: Iterable[Predicate[Any]]
    ) -> Source:
        return Kind(informer, handler, (*self._predicates, *predicates))

    def _owned(
        self, informer: SharedInformer[Any], predicates: Iterable[Predicate[Any]], *, controller_only: bool
    ) -> Source:
        assert self._kind is not None
        return _Owned(
            informer, (*self._predicates, *predicates), self._kind, self._host.mapper, controller_only=controller_only
        )


class _Owned(Kind[Any]):
    """Objects that lead to their owners. Where owners live is asked of the server, for a reference does not say."""

    def __init__(
        self,
        informer: SharedInformer[Any],
        predicates: Iterable[Predicate[Any]],
        owner: GroupVersionKind,
        mapper: RESTMapper,
        *,
        controller_only: bool,
    ) -> None:
        super().__init__(informer, for_object, predicates)
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
