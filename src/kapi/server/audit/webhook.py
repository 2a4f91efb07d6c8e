"""The audit webhook: events are sent in batches to another server, as EventLists.

Requests never wait for it. Events wait in a bounded queue; when it is full, or a batch is refused again and again, they
are dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

from kapi.base.http import Outbound, OutboundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import Counter

    from kapi.base.http import Endpoint
    from kapi.base.httpconnection import Answer

QUEUED_EVENTS: Final = 10_000
BATCH_EVENTS: Final = 400
BATCH_SECONDS: Final = 30.0
"""The longest time that an event waits for others to be sent with."""
BATCH_BYTES: Final = 8 * 1024 * 1024
SEND_SECONDS: Final = 30.0
RETRIES: Final = 4
FIRST_BACKOFF: Final = 10.0
CLOSE_SECONDS: Final = 5.0
"""The time to send what is queued when the server stops."""
ANSWER_BYTES: Final = 64 * 1024

_HEAD: Final = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['
_log = structlog.get_logger("kapi.audit")


class AuditWebhook:
    """Sends events to a webhook. `run` does the sending, until it is cancelled."""

    def __init__(
        self,
        endpoint: Endpoint,
        errors: Counter,
        *,
        batch_seconds: float = BATCH_SECONDS,
        first_backoff: float = FIRST_BACKOFF,
    ) -> None:
        self._endpoint = endpoint
        self._outbound = Outbound()
        self._batch_seconds = batch_seconds
        self._first_backoff = first_backoff
        self._errors = errors.labels("webhook")
        self._queue: deque[bytes] = deque()
        self._full = asyncio.Event()
        self._some = asyncio.Event()

    def write(self, events: Sequence[bytes]) -> None:
        """Queue events; those for which the queue is too full are lost."""
        taken = events[: QUEUED_EVENTS - len(self._queue)]
        if len(taken) < len(events):
            self._errors.inc(len(events) - len(taken))
        if not taken:
            return
        self._queue.extend(taken)
        self._some.set()
        if len(self._queue) >= BATCH_EVENTS:
            self._full.set()

    async def run(self) -> None:
        """Send batches, until cancelled."""
        while True:
            await self._some.wait()
            if len(self._queue) < BATCH_EVENTS:
                await self._wait_for_more()
            await self._send(self._take(), RETRIES)

    async def close(self) -> None:
        """Send what is queued, once, for a bounded time."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._queue:
                    await self._send(self._take(), 0)
        except TimeoutError:
            self._errors.inc(len(self._queue))
        await self._outbound.close()

    async def _wait_for_more(self) -> None:
        """Wait until a batch is full, or its first event has waited long enough."""
        self._full.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._batch_seconds):
                await self._full.wait()

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._queue and len(batch) < BATCH_EVENTS and size < BATCH_BYTES:
            event = self._queue.popleft()
            batch.append(event)
            size += len(event)
        if not self._queue:
            self._some.clear()
        return batch

    async def _send(self, batch: list[bytes], retries: int) -> None:
        """Send a batch. What is not accepted after several tries is lost: later events are not to wait for ever."""
        body = b"".join((_HEAD, b",".join(batch), b"]}"))
        for attempt in range(retries + 1):
            problem = await self._attempt(body)
            if not problem:
                return
            if attempt < retries:
                await asyncio.sleep(self._first_backoff * 1.5**attempt)
        self._errors.inc(len(batch))
        _log.error("audit events are lost", webhook=self._endpoint.url, events=len(batch), error=problem)

    async def _attempt(self, body: bytes) -> str:
        """Return why a batch was not accepted; empty if it was."""
        try:
            answer: Answer = await self._outbound.post(self._endpoint, body, seconds=SEND_SECONDS, limit=ANSWER_BYTES)
        except OutboundError as error:
            return str(error)
        return "" if 200 <= answer.status < 300 else f"the webhook answered {answer.status}"
