"""The live feed: one watch of the whole prefix, which goes on from where it was wherever it breaks off.

The watch is the only source of order. What it delivers is published in the order of revisions, whichever server wrote
it; a commit of this server is answered when the watch has delivered it. A stream that ends, for whatever reason, is
opened again from the revision after the last that was published, on the member that calls go to.

A watch says nothing about revisions at which nothing below the prefix changed. etcd is asked how far it is (a progress
request) when a reader waits for such a revision, and when the stream was silent for long, which also finds out about
members that are reachable and do not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from kapi.storage.etcd import messages
from kapi.storage.etcd.cluster import WATCH, EtcdError, Unanswered
from kapi.storage.etcd.streams import CallError, Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kapi.storage.etcd.cluster import Cluster, Member
    from kapi.storage.etcd.messages import Event, WatchResponse
    from kapi.storage.etcd.streams import Stream

SILENT_SECONDS: Final = 5.0
"""A stream that was silent for so long is asked how far it is; one that stays silent as long again is given up."""
_PROGRESS_DELAY: Final = 0.002
"""Events that are on their way arrive within this time, and spare a progress request."""
_PROGRESS_AGAIN: Final = 0.1
"""etcd leaves a progress request unanswered while a watch of the stream is behind."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_LOG_SECONDS: Final = 10.0

_log = structlog.get_logger("kapi.storage.etcd")


class CompactedWatch(Exception):
    """The revision that a watch wanted to start from has been compacted; `revision` is the oldest that is left."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"compacted up to {revision}")
        self.revision = revision


class WatchStream:
    """One watch on one stream to one member: whole responses, in order, are given to a function.

    It is called as soon as they have been read, not by a task that has to wake up first: commits wait for their events.
    The events of all responses of a read are one response.
    """

    def __init__(
        self,
        cluster: Cluster,
        member: Member,
        key: bytes,
        end: bytes,
        start_revision: int,
        take: Callable[[WatchResponse], None],
    ) -> None:
        self.member = member
        self._cluster = cluster
        self._create = messages.watch_create(key, end, start_revision)
        self._take = take
        self._stream: Stream | None = None
        self._arrived: list[bytes] = []
        self._fragments: list[Event] = []
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Begin the watch, and wait until it ends.

        Raises:
            CompactedWatch: the start has been compacted.
            EtcdError: the stream has ended.
        """
        try:
            self._stream = await self.member.stream(WATCH, self._cluster.metadata, self._message_arrived, self._on_end)
            self._stream.send(self._create)
            await self._ended
        except CallError as error:
            raise EtcdError(error.code, error.details, self.member.endpoint) from None

    def _message_arrived(self, message: bytes) -> None:
        if not self._arrived and self._stream is not None:
            self._stream.at_end_of_read(self._read)
        self._arrived.append(message)

    def _on_end(self, error: CallError | None) -> None:
        # What came with it first: its reason may be among that.
        self._read()
        self._fail(error or CallError(Code.UNAVAILABLE, "the watch stream has ended"))

    def _read(self) -> None:
        """Hand over what has arrived."""
        arrived, self._arrived = self._arrived, []
        try:
            if not self._ended.done():
                self._hand_over([messages.read_watch(message) for message in arrived])
        except Exception as error:
            self._fail(error)

    def _hand_over(self, responses: Sequence[WatchResponse]) -> None:
        held: WatchResponse | None = None
        for one in responses:
            response = one
            if response.is_fragment or self._fragments:
                self._fragments += response.events
                if response.is_fragment:
                    continue
                response, self._fragments = response._replace(events=self._fragments), []
            if held is not None and response.events and not response.is_canceled:
                held.events.extend(response.events)
                continue
            if held is not None:
                self._take(held)
                held = None
            if response.is_canceled:
                raise self._reason(response)
            if response.events:
                held = response
            else:
                self._take(response)
        if held is not None:
            self._take(held)

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()  # Marks it as seen: `run` may have been cancelled meanwhile.

    def _reason(self, response: WatchResponse) -> Exception:
        if response.compact_revision:
            return CompactedWatch(response.compact_revision)
        reason = response.cancel_reason or "etcd has canceled the watch"
        return EtcdError(Code.UNAVAILABLE, reason, self.member.endpoint)

    def request_progress(self) -> None:
        """Ask how far the stream is; nothing if there is none, or it has ended."""
        if self._stream is not None:
            self._stream.send(messages.WATCH_PROGRESS)

    def close(self) -> None:
        """End the stream."""
        self._ended.cancel()
        if self._stream is not None:
            self._stream.cancel()


class LiveFeed:
    """Keeps the watch of a prefix running. Revisions here are etcd's own."""

    def __init__(
        self,
        cluster: Cluster,
        key: bytes,
        end: bytes,
        revision: int,
        publish: Callable[[int, Sequence[Event]], None],
    ) -> None:
        """`publish` is called with a revision and the events after the last call, up to that revision."""
        self._cluster = cluster
        self._key = key
        self._end = end
        self._publish = publish
        self.revision = revision
        """The revision up to which everything has been published."""
        self.interruption = ""
        """Why there is no stream now; empty while there is one."""
        self.resumptions = 0
        """How many times the watch was opened again."""
        self._stream: WatchStream | None = None
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._logged = 0.0
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Deliver until cancelled.

        Raises:
            CompactedWatch: the feed was interrupted for so long that what it missed has been compacted.
        """
        pause = _FIRST_PAUSE
        while True:
            reached = self.revision
            member = self._cluster.member
            self._cluster.moved.clear()
            try:
                await self._deliver(member)
            except EtcdError as error:
                self.interruption = str(error)
                if "auth" in error.details:
                    # The token has expired. etcd says so with a code, or in the reason why it canceled the watch.
                    with contextlib.suppress(EtcdError, Unanswered):
                        await self._cluster.authenticate()
            if self.revision > reached or self._loop.time() > self._logged + _LOG_SECONDS:
                self._logged = self._loop.time()
                _log.warning("the watch of etcd is opened again", reason=self.interruption, revision=self.revision)
            self.resumptions += 1
            pause = _FIRST_PAUSE if self.revision > reached else min(2 * pause, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _deliver(self, member: Member) -> None:
        """Publish what one stream delivers, until it ends, is silent, or calls go to another member."""
        # When it is opened again, from the revision it has: if that has been compacted meanwhile, so may have been
        # deletions after it, and etcd says so. At first that is not possible, and it costs up to 0.1 s.
        start = self.revision + (not self.resumptions)
        self._stream = stream = WatchStream(self._cluster, member, self._key, self._end, start, self._take)
        reading = asyncio.ensure_future(stream.run())
        moving = asyncio.ensure_future(self._cluster.moved.wait())
        watching = asyncio.ensure_future(self._expect_answers(stream))
        try:
            done, _ = await asyncio.wait((reading, moving, watching), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if watching in done:
                self.interruption = f"{member.endpoint}: the watch stream is silent"
                self._cluster.leave(member.endpoint)
            else:
                self.interruption = f"{member.endpoint}: calls go to another member"
        finally:
            self._stream = None
            stream.close()
            for task in (reading, moving, watching):
                task.cancel()
            await asyncio.gather(reading, moving, watching, return_exceptions=True)

    def _take(self, response: WatchResponse) -> None:
        self._heard = self._loop.time()
        if response.is_created:
            self.interruption = ""
            if self._wanted > self.revision:
                self._ask()
        elif response.events:
            events = response.events
            if events[0].mod_revision <= self.revision:
                events = [event for event in events if event.mod_revision > self.revision]
            if events:
                self.revision = events[-1].mod_revision
                self._publish(self.revision, events)
        elif response.revision > self.revision:
            # Progress: every event up to this revision has been sent.
            self.revision = response.revision
            self._publish(response.revision, ())

    async def _expect_answers(self, stream: WatchStream) -> None:
        """Return when a stream was silent although it was asked."""
        self._heard = self._loop.time()
        asked = False
        while True:
            waited = self._loop.time() - self._heard
            if waited < SILENT_SECONDS:
                asked = False
            elif not asked:
                asked = True
                stream.request_progress()
            elif waited >= 2 * SILENT_SECONDS:
                return
            await asyncio.sleep(SILENT_SECONDS / 2)

    def want(self, revision: int) -> None:
        """Make the feed reach a revision that the cluster has, whether anything below the prefix changed or not."""
        self._wanted = max(self._wanted, revision)
        if self._timer is None:
            self._timer = self._loop.call_later(_PROGRESS_DELAY, self._ask)

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self.revision >= self._wanted or self._stream is None:
            return
        self._stream.request_progress()
        self._timer = self._loop.call_later(_PROGRESS_AGAIN, self._ask)

    def close(self) -> None:
        """Ask for nothing more; the task of `run` is cancelled by its owner."""
        if self._timer is not None:
            self._timer.cancel()


class History:
    """Events of the past, for a follower that starts behind the live feed: a watch of its own."""

    def __init__(self, cluster: Cluster, key: bytes, end: bytes, after: int) -> None:
        # From `after` itself: etcd takes a start that is the compacted revision, where deletions are missing already.
        self._stream = WatchStream(cluster, cluster.member, key, end, after, self._take)
        self._after = after
        self._loop = asyncio.get_running_loop()
        self._responses: deque[WatchResponse] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._held: list[Event] = []
        self._reached = after
        self._running: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def until(self, revision: int) -> tuple[int, list[Event]]:
        """Some of the next events, whole revisions, none after `revision`; and how far they reach.

        Raises:
            CompactedWatch: they have been compacted.
            EtcdError: the stream has ended.
        """
        if self._running is None:
            self._running = asyncio.ensure_future(self._stream.run())
            self._running.add_done_callback(self._wake)
            self._asking = asyncio.ensure_future(self._ask())
        while not self._held and self._reached < revision:
            response = await self._next(self._running)
            if response.events:
                self._held = [event for event in response.events if event.mod_revision > self._after]
                self._reached = response.events[-1].mod_revision
            elif not response.is_created:
                self._reached = max(self._reached, response.revision)
        events = [event for event in self._held if event.mod_revision <= revision]
        self._held = self._held[len(events) :]
        return min(self._reached, revision), events

    async def _next(self, running: asyncio.Task[None]) -> WatchResponse:
        while not self._responses:
            if running.done():
                running.result()
            self._arrival = self._loop.create_future()
            await self._arrival
        return self._responses.popleft()

    def _take(self, response: WatchResponse) -> None:
        self._responses.append(response)
        self._wake()

    def _wake(self, _: object = None) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def _ask(self) -> None:
        while True:
            self._stream.request_progress()
            await asyncio.sleep(_PROGRESS_AGAIN / 4)

    async def close(self) -> None:
        """End the watch."""
        self._stream.close()
        tasks = [task for task in (self._running, self._asking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
