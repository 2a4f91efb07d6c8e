"""The change feed of the local backends: history first, then live, with no gap and nothing twice.

Shared by the memory and the SQLite store, which differ only in where history is read from. Everything here runs on the
event loop; that is what makes the join exact: the step from history to live happens between two awaits, where no commit
can be published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.storage.interface import Change


class FeedSubscription:
    """A follower that has caught up; `close` is idempotent and safe to call from inside the follower."""

    def __init__(self, feed: Feed, follower: Callable[[Sequence[Change]], None]) -> None:
        self._feed = feed
        self.follower = follower
        self.is_open = True

    def close(self) -> None:
        """Stop calling the follower."""
        self.is_open = False
        self._feed.remove(self)


class Feed:
    """The live followers of one store."""

    def __init__(self) -> None:
        self._live: list[FeedSubscription] = []

    def publish(self, changes: Sequence[Change]) -> Exception | None:
        """Hand one commit to every follower; the first exception of a follower, if any.

        A follower that raised has missed a change. The store cannot mend that, so it has to stop; see `StorageFailed`.
        """
        trouble: Exception | None = None
        for subscription in tuple(self._live):
            if not subscription.is_open:
                continue
            try:
                subscription.follower(changes)
            except Exception as error:
                trouble = trouble or error
        return trouble

    async def attach(
        self,
        since: int,
        follower: Callable[[Sequence[Change]], None],
        *,
        history: Callable[[int], Awaitable[Sequence[Change]]],
        published: Callable[[], int],
    ) -> FeedSubscription:
        """Deliver what `history` gives after `since`, slice by slice, up to what is published; then go live.

        `history(revision)` returns some of the changes after `revision`, at least one, none that is not published yet.
        Live changes are not buffered meanwhile, the log already holds them: a slow start costs no memory.
        """
        cursor = since
        while cursor < published():
            changes = await history(cursor)
            follower(changes)
            cursor = changes[-1].revision
        subscription = FeedSubscription(self, follower)
        self._live.append(subscription)
        return subscription

    def remove(self, subscription: FeedSubscription) -> None:
        """Forget a follower."""
        if subscription in self._live:
            self._live.remove(subscription)
