"""Sources of a controller's events: an informer of a kind, or anything else that puts keys into the queue.

A source is started with the controller's queue and puts keys into it. Nothing is decoded on the way unless a predicate
or a mapping function wants the object.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kapi.controller.enqueue import Prioritized
from kapi.controller.event import Created, Deleted, Updated
from kapi.controller.queue import LIVE_PRIORITY
from kapi.controller.reconcile import R

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kapi.controller.enqueue import Handler, Priority, Requests
    from kapi.controller.event import Event
    from kapi.controller.predicate import Predicate
    from kapi.controller.queue import RateLimitingQueue
    from kapi.informer.cached import Cached
    from kapi.informer.handlers import Registration
    from kapi.informer.informer import SharedInformer

T = TypeVar("T")


class Source(Protocol[R]):
    """A source of keys for a controller's queue."""

    async def start(self, queue: RateLimitingQueue[R], /) -> None:
        """Begin. Called once; returns when set up, not when done."""
        ...

    async def wait_for_sync(self) -> None:
        """Wait until the keys of all that was there at the start are in the queue."""
        ...

    def stop(self) -> None:
        """Put nothing into the queue any more. May be called without a start, and more than once."""
        ...


class Kind(Generic[T, R]):
    """The events of an informer: `handler` returns the keys to reconcile for those that pass all predicates.

    `priority` is that of the keys; without it the event says: low for the initial list and for resyncs. Starts the
    informer unless it is started, and leaves stopping it to its factory. What a predicate or the handler raises is
    logged by the informer, and that event is skipped.
    """

    def __init__(
        self,
        informer: SharedInformer[T],
        handler: Handler[T, R],
        predicates: Iterable[Predicate[T]] = (),
        *,
        priority: Priority[T] | None = None,
    ) -> None:
        self._informer = informer
        self._handler = handler
        self._predicates = tuple(predicates)
        self._priority = priority
        self._registration: Registration[T] | None = None

    def __str__(self) -> str:
        """Return what it watches and, while it has not synced, why not."""
        error = self._informer.reflector.last_error
        return self._informer.name if self._informer.has_synced or not error else f"{self._informer.name} ({error})"

    async def start(self, queue: RateLimitingQueue[R], /) -> None:
        """Add a handler to the informer."""
        self._registration = self._informer.add_raw_handler(
            _Feed(queue, self._handler, self._predicates, self._priority), name=f"of controller {queue.name}"
        )
        self._informer.start()

    async def wait_for_sync(self) -> None:
        """Wait until the keys of all that was there are in the queue."""
        if self._registration is not None:
            await self._registration.wait_for_sync()

    def stop(self) -> None:
        """Remove the handler from the informer."""
        if self._registration is not None:
            self._informer.remove_handler(self._registration)
            self._registration = None


class _Feed(Generic[T, R]):
    """An informer's handler that puts keys into a queue."""

    def __init__(
        self,
        queue: RateLimitingQueue[R],
        handler: Handler[T, R],
        predicates: tuple[Predicate[T], ...],
        priority: Priority[T] | None,
    ) -> None:
        self._queue = queue
        self._handler = handler
        self._predicates = predicates
        self._priority = priority

    def on_add(self, obj: Cached[T], *, initial: bool) -> Awaitable[Any] | None:
        """See `Handler`."""
        return self._enqueue(Created(obj, initial))

    def on_update(self, old: Cached[T], new: Cached[T]) -> Awaitable[Any] | None:
        """See `Handler`."""
        return self._enqueue(Updated(old, new))

    def on_delete(self, obj: Cached[T], *, stale: bool) -> Awaitable[Any] | None:
        """See `Handler`."""
        return self._enqueue(Deleted(obj, stale))

    def _enqueue(self, event: Event[T]) -> Awaitable[Any] | None:
        for predicate in self._predicates:
            if not predicate(event):
                return None
        requests = self._handler(event)
        # Most handlers answer with a tuple, and asking what can be awaited takes longer than they do.
        if type(requests) is not tuple and isinstance(requests, Awaitable):
            return self._add_later(requests, event)
        self._add(requests, event)
        return None

    async def _add_later(self, requests: Awaitable[Requests[R]], event: Event[T]) -> None:
        self._add(await requests, event)

    def _add(self, requests: Requests[R], event: Event[T]) -> None:
        priority = event.priority if self._priority is None else self._priority
        if callable(priority):
            priority = priority(event)
        for request in requests:
            if isinstance(request, Prioritized):
                self._queue.add(request.request, priority=request.priority)
            else:
                self._queue.add(request, priority=priority)


class Trigger(Generic[R]):
    """A source that code fires: a timer, a webhook, another controller.

    What is fired before the controller starts waits for it; what is fired after it stopped is ignored.
    """

    def __init__(self, name: str = "trigger") -> None:
        self._name = name
        self._queue: RateLimitingQueue[R] | None = None
        self._waiting: dict[R, int] = {}
        self._is_stopped = False

    def __str__(self) -> str:
        return self._name

    def fire(self, request: R, *, priority: int = LIVE_PRIORITY) -> None:
        """Have a key reconciled."""
        if self._is_stopped:
            return
        if self._queue is None:
            self._waiting[request] = max(priority, self._waiting.get(request, priority))
        else:
            self._queue.add(request, priority=priority)

    async def start(self, queue: RateLimitingQueue[R], /) -> None:
        """Hand over what was fired so far."""
        self._queue = queue
        for request, priority in self._waiting.items():
            queue.add(request, priority=priority)
        self._waiting.clear()

    async def wait_for_sync(self) -> None:
        """Nothing to wait for."""

    def stop(self) -> None:
        """Ignore what is fired from now on."""
        self._is_stopped = True
        self._waiting.clear()
