"""The reflector: lists or streams a collection once, then watches it, and feeds a store with every change.

`states` is the table of transitions; here is what each state does. The reflector trusts no connection: every watch has
a time-out for silence, every failure a back-off, and every revision may turn out to be unusable.

Silence. A server whose objects do not change says nothing for a minute (bookmarks come about that often) or longer, and
a server that is stuck, or behind a dead link, says nothing either. TCP notices the dead link after minutes, and the
stuck server never. So silence has a limit of `idle_seconds`; past it the connection is dropped and the watch resumed
from the revision we have, which costs one request and loses nothing. To tell quiet from stuck, the watch after a
silence asks the server to end it before the limit: a living server then does, and right before that sends a bookmark,
so our revision stays young even where nothing happens. A stall is noticed within `idle_seconds`; a collection where
nothing happens costs about one request in that time. An `idle_seconds` of 90 is above the bookmarks of most servers and
saves those requests, for a stall that is noticed later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, Generic, NoReturn, Protocol, Self, TypeVar

from kapi.api.errors import ApiError, Expired, TooManyRequests
from kapi.base.clock import SystemClock
from kapi.client.errors import AnswerError, AnswerTooLarge, ClientError
from kapi.codec.errors import DecodeError
from kapi.informer.backoff import Backoff, Delays
from kapi.informer.cached import Cached, revision_number
from kapi.informer.states import TRANSITIONS, Outcome, State, Step
from kapi.informer.watchevents import read_change, read_event, read_mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from types import TracebackType

    from kapi.api.keys import ObjectKey
    from kapi.base.clock import Clock
    from kapi.informer.cached import Intake
    from kapi.informer.metrics import InformerMetrics
    from kapi.informer.source import ListerWatcher, Page

T = TypeVar("T")

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

_MOST_FAILURES: Final = 3
"""A watch that cannot be resumed so many times in a row is given up for a list."""

_PAGE_DIVISOR: Final = 4
"""A page that is too large is asked for again with its limit divided by this."""

_VERSION_CHARACTERS: Final = 1024
"""The longest resourceVersion that is sent back. It is part of a URL, and servers refuse longer ones."""

_LOGGED_CHARACTERS: Final = 1000
"""How much of an error is logged; a server chooses how long its message is."""

_BRIEF_SECONDS: Final = 1.0
REMEMBERED_DELETIONS = 4096
_SLICE: Final = 256
"""Objects taken in before the event loop gets its turn."""

_log = logging.getLogger("kapi.informer")


class Sink(Protocol[T]):
    """The queue that a reflector feeds: an `InOrderFIFO`."""

    def add(self, obj: Cached[T]) -> None:
        """Add a new object."""
        ...

    def update(self, obj: Cached[T]) -> None:
        """Put a new state of an object."""
        ...

    def delete(self, obj: Cached[T]) -> None:
        """Remove an object; `obj` is its last state."""
        ...

    def replace(self, objects: Iterable[Cached[T]], version: str) -> None:
        """Replace the collection by what it was at a revision."""
        ...

    def bookmark(self, version: str) -> None:
        """Note that the collection is unchanged up to a revision."""
        ...

    def newest(self, key: ObjectKey) -> Cached[T] | None:
        """Return the newest known state of an object."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """The figures of a reflector, in seconds where nothing else is said."""

    page_size: int = 500
    idle_seconds: float = 55.0
    initial_idle_seconds: float = 30.0
    """Silence before the end of the initial events after which listing is tried; old servers ignore the question."""
    watch_seconds: tuple[float, float] = (300.0, 600.0)
    """A watch is asked to last for a random time between these, so that many do not end at the same instant."""
    delays: Delays = field(default_factory=Delays)


class _Lost(Exception):
    """An event contradicts what the server sent before; the message is for the log."""


class Reflector(Generic[T]):
    """Feeds one sink from one source. Run it once, in a task; it ends only by being cancelled.

    Promises: what reaches the sink for one object is in the order in which the server had it. An event that repeats
    what is known to be past is dropped; one that contradicts what is known shows that the server's history is not the
    one we followed (it was restored from a copy, say), and everything is listed again. Where revisions are numbers they
    are taken to grow, as Kubernetes requires. Between two requests after a failure there is a back-off, always. Nothing
    that a server answers ends the reflector.
    """

    def __init__(
        self,
        source: ListerWatcher,
        intake: Intake[T],
        sink: Sink[T],
        *,
        name: str = "",
        pace: Pace | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self._source = source
        self._intake = intake
        self._sink = sink
        self._name = name
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._random = random or Random()  # noqa: S311 - spreads load, hides nothing
        self._backoff = Backoff(self._pace.delays, self._clock, self._random)
        self.state = State.STOPPED
        """The current state."""
        self.last_error: Exception | None = None
        """The error of the last failed request; None if the last one succeeded."""
        self.last_heard = self._clock.monotonic()
        """The time at which the server last sent anything, on the monotonic clock."""
        self.resource_version = ""
        """The revision up to which everything has been handed on; empty before the first list."""
        self._revision: int | None = None
        """The same as a number, if it is one."""
        self._is_version_useless = False
        self._is_streaming_supported = True
        self._is_quiet = False
        self._page_size = self._pace.page_size
        self._must_page = False
        self._failures = 0
        self._asked_to_wait = 0.0
        self._opened_at: int | None = None
        self._connection = contextlib.AsyncExitStack()
        self._lines: AsyncIterator[bytes] | None = None
        # The keys and revisions of deletions: an event about one of these from before that is an echo. A later one is
        # not: an object that a selector no longer selects is deleted here, and may come back.
        self._gone: dict[str, int] = {}
        self._meter = metrics.reflector(name, self) if metrics is not None else None

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the server last sent anything."""
        return self._clock.monotonic() - self.last_heard

    async def run(self) -> NoReturn:
        """Reflect until cancelled."""
        step = Step(State.STREAMING, wait=False)
        try:
            while True:
                if step.wait:
                    await self._wait()
                state = step.state
                if state is State.STREAMING and not self._is_streaming_supported:
                    state = State.LISTING
                self.state = state
                began = self._clock.monotonic()
                outcome = await self._outcome(state)
                _log.debug("%s: %s %s", self._name, state.value, outcome.value)
                step = TRANSITIONS[state][outcome]
                if self._meter is not None:
                    self._meter.ended(state, outcome, self._clock.monotonic() - began)
        finally:
            self.state = State.STOPPED
            await self._disconnect()

    async def _wait(self) -> None:
        self.state = State.WAITING
        delay = self._backoff.next(self._asked_to_wait)
        if self.last_error is not None:
            why = str(self.last_error)[:_LOGGED_CHARACTERS]
            _log.warning("%s: trying again in %.1f s: %s", self._name, delay, why)
        self._asked_to_wait = 0.0
        await asyncio.sleep(delay)

    async def _outcome(self, state: State) -> Outcome:
        """Be in a state until it ends."""
        action = {State.STREAMING: self._stream, State.LISTING: self._list, State.WATCHING: self._watch}[state]
        try:
            outcome = await action()
        except (Expired, _Lost) as error:
            self.last_error = error
            # A stream asks for our revision or a later one. Asked for and refused, only "whatever is current" is left.
            self._is_version_useless = state is State.STREAMING or isinstance(error, _Lost)
            outcome = Outcome.LOST
        except (ApiError, ClientError, DecodeError, OSError) as error:
            outcome = self._outcome_of(state, error)
        except Exception as error:
            _log.exception("%s: %s failed with an unexpected error", self._name, state.value)
            outcome = self._outcome_of(state, error)
        if outcome is not Outcome.SYNCED or state is not State.STREAMING:
            await self._disconnect()
        return outcome

    def _outcome_of(self, state: State, error: Exception) -> Outcome:
        """Return the outcome that a failure means. A `TooManyRequests` or 503 is never more than a failed request."""
        self.last_error = error
        if isinstance(error, ApiError):
            self._asked_to_wait = float(error.retry_after)
        if _is_version_too_large(error):
            self._is_version_useless = True
        if state is State.STREAMING and isinstance(error, ApiError) and error.code in _NOT_UNDERSTOOD:
            self._is_streaming_supported = False
            return Outcome.UNSUPPORTED
        if state is State.WATCHING:
            self._failures += 1
            refused = isinstance(error, ApiError) and error.code < 500 and not isinstance(error, TooManyRequests)
            if refused or self._failures >= _MOST_FAILURES:
                self._failures = 0
                return Outcome.LOST
        return Outcome.FAILED

    # -- everything there is ----------------------------------------------------------------------------------------

    async def _list(self) -> Outcome:
        version, limit = self._list_version()
        try:
            objects, version = await self._pages(version, limit)
        except (Expired, ApiError) as error:
            if not isinstance(error, Expired) and not _is_version_too_large(error):
                raise
            # The revision is not to be had, or the pages took longer than the server keeps their revision. As much as
            # there is now, in one piece, is always to be had.
            self._is_version_useless = True
            try:
                objects, version = await self._pages("", 0)
            except Expired as again:
                raise AnswerError(f"the server cannot even list what is current: {again}") from None
        except AnswerTooLarge:
            self._list_less(version, limit)
            raise
        self._synced(objects, version)
        return Outcome.SYNCED

    def _list_less(self, version: str, limit: int) -> None:
        """List in pages, or in smaller pages, from now on: after an answer that was larger than the client's bound.

        Only a list of what is current is cut into pages by every server: with a revision, or with "0", it may come
        whole from the server's memory, whatever the limit.
        """
        self._must_page = True
        if limit > 1 and not version:
            self._page_size = max(1, limit // _PAGE_DIVISOR)

    def _list_version(self) -> tuple[str, int]:
        """The revision and the page size to ask for.

        The first list may be anything that the server has at hand. A later one must not be older than what we have
        seen; without a limit it can be answered from the server's memory, with one it cannot.
        """
        if self._is_version_useless or self._must_page:
            return "", self._page_size
        if not self.resource_version:
            return "0", self._page_size
        return self.resource_version, 0

    async def _pages(self, version: str, limit: int) -> tuple[dict[ObjectKey, Cached[T]], str]:
        objects: dict[ObjectKey, Cached[T]] = {}
        guard, token = self._source.page_guard(), ""
        while True:
            page = await self._source.list_page(resource_version=version, limit=limit, continue_=token)
            self._heard()
            token = page.continue_
            guard.take([bytes(item) for item in (*page.items[:1], *page.items[-1:])], token, sum(map(len, page.items)))
            await self._take_page(page, objects)
            if not token:
                return objects, page.resource_version
            version = ""  # the token knows

    async def _take_page(self, page: Page, objects: dict[ObjectKey, Cached[T]]) -> None:
        for position, item in enumerate(page.items):
            cached = self._intake.cached(item, page.head)
            objects[cached.key] = cached
            if position % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    async def _stream(self) -> Outcome:
        version = "" if self._is_version_useless else self.resource_version
        objects: dict[ObjectKey, Cached[T]] = {}
        guard = self._source.page_guard()
        async with _Silence(self._pace.initial_idle_seconds) as silence:
            lines = await self._connect(version, initial_events=True)
            async for line in lines:
                silence.broken()
                self._heard()
                guard.count(len(line))
                mark = self._collect(line, objects)
                if mark:
                    self._lines = lines
                    self._synced(objects, mark)
                    return Outcome.SYNCED
                if len(objects) % _SLICE == 0:
                    await asyncio.sleep(0)
        if silence.was_too_long:
            self._is_streaming_supported = False
            self.last_error = AnswerError("the server did not say where the initial events end")
            return Outcome.SILENT
        self.last_error = AnswerError("the server ended the initial events in the middle")
        return Outcome.ENDED

    def _collect(self, line: bytes, objects: dict[ObjectKey, Cached[T]]) -> str:
        """Take in one event of a stream's beginning; the revision of its end, when this was it."""
        change = read_change(line, self._intake)
        if change is None:
            event = read_event(line)
            if event.type == "BOOKMARK":
                metadata = read_mark(event)
                is_end = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                return metadata.resource_version if is_end else ""
            change = event.type, self._intake.cached(event.object)
        kind, cached = change
        if kind == "DELETED":
            objects.pop(cached.key, None)
        else:
            objects[cached.key] = cached
        return ""

    def _synced(self, objects: dict[ObjectKey, Cached[T]], version: str) -> None:
        self._sink.replace(objects.values(), version)
        self.resource_version = version
        self._revision = revision_number(version)
        self._is_version_useless = False
        self._failures = 0
        self._gone.clear()
        self.last_error = None
        if self._meter is not None:
            self._meter.listed(len(objects))

    # -- changes ----------------------------------------------------------------------------------------------------

    async def _watch(self) -> Outcome:
        began, events = self._clock.monotonic(), 0
        self._opened_at = revision_number(self.resource_version)
        async with _Silence(self._pace.idle_seconds) as silence:
            lines, self._lines = self._lines, None
            if lines is None:
                lines = await self._connect(self.resource_version, initial_events=False)
            async for line in lines:
                silence.broken()
                self._heard()
                events += self._take_event(line)
                if events % _SLICE == _SLICE - 1:
                    await asyncio.sleep(0)
        if self._meter is not None:
            self._meter.watched(events)
        self._is_quiet = silence.was_too_long or (self._is_quiet and not events)
        if silence.was_too_long:
            return Outcome.SILENT
        lasted = self._clock.monotonic() - began
        return Outcome.ENDED if lasted >= _BRIEF_SECONDS else Outcome.BRIEF

    def _take_event(self, line: bytes) -> int:
        """Hand on one event; how many changes it was, which is none for a bookmark or an echo."""
        change = read_change(line, self._intake)
        event = read_event(line) if change is None else None
        self._failures = 0
        self.last_error = None
        if event is not None and event.type == "BOOKMARK":
            version = read_mark(event).resource_version
            self._sink.bookmark(version)
            self._move_to(version, revision_number(version))
            return 0
        if change is None:
            assert event is not None
            change = event.type, self._intake.cached(event.object)
        kind, cached = change
        revision = cached.revision
        is_echo = self._is_echo(kind, cached, revision)
        if not is_echo:
            self._hand_on(kind, cached)
        self._move_to(cached.resource_version, revision)
        return int(not is_echo)

    def _hand_on(self, kind: str, cached: Cached[T]) -> None:
        if kind == "DELETED":
            self._remember_deletion(cached)
            self._sink.delete(cached)
        elif kind == "ADDED":
            self._sink.add(cached)
        elif kind == "MODIFIED":
            self._sink.update(cached)
        else:
            _log.warning("%s: %s has an event of unknown type %r, which is ignored", self._name, cached.key, kind)

    def _is_echo(self, kind: str, cached: Cached[T], theirs: int | None) -> bool:
        """Return True if an event repeats what is known to be past.

        Raises:
            _Lost: it is of the time before this watch, and we do not know it.
        """
        if theirs is None:
            return False
        if theirs <= self._gone.get(cached.uid, -1):
            return True
        known = self._sink.newest(cached.key)
        ours = known.revision if known else None
        if self._opened_at is None or theirs >= self._opened_at:
            return ours is not None and theirs < ours
        # A watch only has events after its revision. Repeated older ones are tolerated.
        if kind != "DELETED" if known is None else not known.is_same_state(cached):
            raise _Lost(f"{cached.key} is said to be at revision {theirs}, but the watch began at {self._opened_at}")
        return True

    def _move_to(self, version: str, revision: int | None) -> None:
        """Note how far we have come; never back, for an echo says nothing about how far the server is."""
        if version and (self._revision is None or revision is None or revision > self._revision):
            self.resource_version = version
            self._revision = revision

    def _remember_deletion(self, cached: Cached[T]) -> None:
        if cached.uid and cached.revision is not None:
            self._gone[cached.uid] = cached.revision
            if len(self._gone) > REMEMBERED_DELETIONS:
                del self._gone[next(iter(self._gone))]

    # -- connections ------------------------------------------------------------------------------------------------

    async def _connect(self, version: str, *, initial_events: bool) -> AsyncIterator[bytes]:
        if len(version) > _VERSION_CHARACTERS:
            raise _Lost(f"the server sent a resourceVersion of {len(version)} characters")
        watch = self._source.watch(
            resource_version=version, timeout_seconds=self._watch_seconds(), initial_events=initial_events
        )
        lines = await self._connection.enter_async_context(watch)
        self._heard()
        return lines

    def _watch_seconds(self) -> int:
        if self._is_quiet:
            return max(1, int(self._pace.idle_seconds - 5))
        return int(self._random.uniform(*self._pace.watch_seconds))

    async def _disconnect(self) -> None:
        self._lines = None
        # Leaving a broken connection may fail like the connection did; there is nothing to be learnt from it.
        with contextlib.suppress(ClientError, OSError):
            await self._connection.aclose()

    def _heard(self) -> None:
        self.last_heard = self._clock.monotonic()


_NOT_UNDERSTOOD: Final = frozenset({400, 405, 406, 415, 422, 501})
"""The errors of servers that cannot stream a list."""


def _is_version_too_large(error: Exception) -> bool:
    """Return True if the server is behind our revision: restored from a copy, or not up to date yet."""
    causes = (error.details or {}).get("causes") if isinstance(error, ApiError) else None
    return any(isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes or ())


class _Silence:
    """A time-out for silence: leaves its block when nothing was received for too long; `was_too_long` is then true.

    `asyncio.timeout`, but cheap to push back a million times: the timer moves at most once a second.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(seconds)
        self._moved = self._loop.time()
        self.was_too_long = False

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            await self._timeout.__aexit__(exc_type, exc, traceback)
        except TimeoutError:
            self.was_too_long = True
            return True
        return False

    def broken(self) -> None:
        """Restart the time-out."""
        now = self._loop.time()
        if now - self._moved >= 1.0:
            self._moved = now
            self._timeout.reschedule(now + self._seconds)
