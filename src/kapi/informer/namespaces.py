"""A kind in several namespaces: a list and a watch for each of them, one cache for all.

For programs that may read some namespaces and not all. Discovery decides what the parts are: a cluster-scoped kind is
one part, however many namespaces were named. Above the reflector nothing is different: one FIFO, one indexer, one
lister, one queue per handler. No I/O of its own.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from kapi.api.errors import ApiError
from kapi.base.clock import SystemClock
from kapi.client.errors import ClientError
from kapi.informer.backoff import Backoff
from kapi.informer.reflector import Pace, Reflector
from kapi.informer.states import State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from kapi.api.keys import ObjectKey
    from kapi.base.clock import Clock
    from kapi.informer.cached import Cached, Intake
    from kapi.informer.fifo import InOrderFIFO
    from kapi.informer.metrics import InformerMetrics
    from kapi.informer.reflector import Sink
    from kapi.informer.source import ListerWatcher

T = TypeVar("T")

_log = logging.getLogger("kapi.informer")


@dataclass(frozen=True, slots=True)
class Parts:
    """A collection that is several. `find` says which, by namespace; until the server serves the kind, it raises."""

    find: Callable[[], Awaitable[Mapping[str, ListerWatcher]]]


class NamespacesReflector(Generic[T]):
    """One reflector for each part of a collection, all feeding one sink. Run it once, as a `Reflector`.

    Promises, beyond those of each reflector: the sink's first list is that of all parts together, so that a cache that
    counts as filled is filled. After that the parts go their own ways: one that cannot be reached leaves the others as
    they are, and one that is listed again removes nothing of theirs.
    """

    def __init__(
        self,
        parts: Parts,
        intake: Intake[T],
        sink: InOrderFIFO[T],
        *,
        name: str = "",
        pace: Pace | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self._find = parts.find
        self._intake = intake
        self._sink = sink
        self._name = name
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._random = random or Random()  # noqa: S311 - spreads load, hides nothing
        self._metrics = metrics
        self._is_running = False
        self._trouble: Exception | None = None
        self.parts: dict[str, Reflector[T]] = {}
        """The reflectors, by namespace; none before the kind was found."""

    @property
    def state(self) -> State:
        """Return the state of the part that is furthest behind."""
        if not self.parts:
            return State.WAITING if self._is_running else State.STOPPED
        return next((part.state for part in self.parts.values() if part.state is not State.WATCHING), State.WATCHING)

    @property
    def last_error(self) -> Exception | None:
        """Return the error of the last failed request of any part; None if the last requests succeeded."""
        errors = (part.last_error for part in self.parts.values())
        return self._trouble or next((error for error in errors if error is not None), None)

    async def run(self) -> NoReturn:
        """Reflect until cancelled."""
        self._is_running = True
        try:
            sources = await self._sources()
            whole = _Whole(self._sink, sources)
            for namespace, source in sources.items():
                self.parts[namespace] = self._reflector(namespace, source, whole.parts[namespace])
            async with asyncio.TaskGroup() as group:
                for part in self.parts.values():
                    group.create_task(part.run())
        finally:
            self._is_running = False
        raise AssertionError("a reflector ended by itself")

    async def _sources(self) -> Mapping[str, ListerWatcher]:
        """Return the sources by namespace; waits for a kind that is not served yet."""
        backoff = Backoff(self._pace.delays, self._clock, self._random)
        while True:
            try:
                found = await self._find()
            except (ApiError, ClientError) as error:
                self._trouble = error
                delay = backoff.next(float(error.retry_after) if isinstance(error, ApiError) else 0.0)
                _log.warning("%s: trying again in %.1f s: %s", self._name, delay, error)
                await asyncio.sleep(delay)
            else:
                self._trouble = None
                return found

    def _reflector(self, namespace: str, source: ListerWatcher, sink: Sink[T]) -> Reflector[T]:
        return Reflector(
            source,
            self._intake,
            sink,
            name=f"{self._name}, in {namespace}" if namespace else self._name,
            pace=self._pace,
            clock=self._clock,
            random=self._random,
            metrics=self._metrics,
        )


def reflecting(
    source: ListerWatcher | Parts,
    intake: Intake[T],
    sink: InOrderFIFO[T],
    *,
    name: str,
    pace: Pace | None,
    clock: Clock,
    random: Random | None,
    metrics: InformerMetrics | None,
) -> Reflector[T] | NamespacesReflector[T]:
    """The reflector of a collection, be it one or several."""
    if isinstance(source, Parts):
        return NamespacesReflector(
            source, intake, sink, name=name, pace=pace, clock=clock, random=random, metrics=metrics
        )
    return Reflector(source, intake, sink, name=name, pace=pace, clock=clock, random=random, metrics=metrics)


class _Whole(Generic[T]):
    """All parts. Until each has its first list, their objects are collected here; then the sink gets them at once."""

    def __init__(self, sink: InOrderFIFO[T], namespaces: Iterable[str]) -> None:
        self.sink = sink
        self.parts = {namespace: _Part(self, namespace) for namespace in namespaces}
        self.waiting = set(self.parts)
        self.gathered: dict[ObjectKey, Cached[T]] = {}
        self.versions: dict[str, str] = {}

    def outside_of(self, part: _Part[T]) -> Iterator[Cached[T]]:
        """Return the known objects of the other parts."""
        for other in self.parts.values():
            if other is not part:
                yield from (known for key in other.keys if (known := self.sink.newest(key)) is not None)


class _Part(Generic[T]):
    """The sink of one part's reflector."""

    def __init__(self, whole: _Whole[T], namespace: str) -> None:
        self._whole = whole
        self._namespace = namespace
        self.keys: dict[ObjectKey, None] = {}
        """The objects of this part, of which the sink knows; some may still be in its queue."""

    def add(self, obj: Cached[T]) -> None:
        """See `Sink`."""
        self.keys[obj.key] = None
        if self._whole.waiting:
            self._whole.gathered[obj.key] = obj
        else:
            self._whole.sink.add(obj)

    def update(self, obj: Cached[T]) -> None:
        """See `Sink`."""
        self.keys[obj.key] = None
        if self._whole.waiting:
            self._whole.gathered[obj.key] = obj
        else:
            self._whole.sink.update(obj)

    def delete(self, obj: Cached[T]) -> None:
        """See `Sink`."""
        self.keys.pop(obj.key, None)
        if self._whole.waiting:
            self._whole.gathered.pop(obj.key, None)
        else:
            self._whole.sink.delete(obj)

    def replace(self, objects: Iterable[Cached[T]], version: str) -> None:
        """These are all the objects of this part."""
        whole, mine = self._whole, {obj.key: obj for obj in objects}
        if whole.waiting:
            for key in self.keys:
                whole.gathered.pop(key, None)
            whole.gathered.update(mine)
            whole.versions[self._namespace] = version
            whole.waiting.discard(self._namespace)
            if not whole.waiting:
                whole.sink.replace_parts(whole.gathered.values(), whole.versions)
                whole.gathered = {}
        else:
            # The objects of the other parts are unchanged; the sink compares versions and calls no handler for them.
            whole.sink.replace_parts(chain(mine.values(), whole.outside_of(self)), {self._namespace: version})
        self.keys = dict.fromkeys(mine)

    def bookmark(self, version: str) -> None:
        """See `Sink`."""
        if self._whole.waiting:
            self._whole.versions[self._namespace] = version
        else:
            self._whole.sink.bookmark_part(self._namespace, version)

    def newest(self, key: ObjectKey) -> Cached[T] | None:
        """See `Sink`."""
        return self._whole.gathered.get(key) if self._whole.waiting else self._whole.sink.newest(key)
