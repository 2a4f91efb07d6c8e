"""The change feed of the backends: history first, then live, with no gap and nothing twice.

Backends differ only in where history is read from. Everything here runs on the event loop; that is what makes the join
exact: the step from history to live happens between two awaits, where no commit can be published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kapi.storage.interface import Change, Follower


class FeedSubscription:
    """A follower that has been given all of history; `close` is idempotent and may be called from the follower."""

    def __init__(self, feed: Feed, follower: Follower) -> None:
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

    def publish(self, revision: int, changes: Sequence[Change]) -> Exception | None:
        """Call every follower with the changes up to a revision; returns the first exception of a follower.

        A follower that raised has missed a change. The store cannot repair that, so it has to stop; see
        `StorageFailed`.
        """
        failure: Exception | None = None
        for subscription in tuple(self._live):
            if not subscription.is_open:
                continue
            try:
                subscription.follower(revision, changes)
            except Exception as error:
                failure = failure or error
        return failure

    async def attach(
        self,
        since: int,
        follower: Follower,
        *,
        history: Callable[[int], Awaitable[tuple[int, Sequence[Change]]]],
        published: Callable[[], int],
    ) -> FeedSubscription:
        """Deliver what `history` returns after `since`, slice by slice, up to what is published; then go live.

        `history(revision)` returns a later revision and the changes up to it, whole commits, none that is not
        published yet. Live changes are not buffered meanwhile, the log already holds them: a slow start is cheap.
        """
        cursor = since
        while cursor < published():
            cursor, changes = await history(cursor)
            follower(cursor, changes)
        subscription = FeedSubscription(self, follower)
        self._live.append(subscription)
        return subscription

    def remove(self, subscription: FeedSubscription) -> None:
        """Remove a follower."""
        if subscription in self._live:
            self._live.remove(subscription)
