"""The history of an environment: every request, watch event and reconcile, in order, and assertions on it.

    env.history.at_most(3, verb="write", resource="networks/*", within=60)
    env.history.never_two_workers_on_one_key()
    print(env.history.story())

An assertion that fails shows what happened, as a table. `history.py` has checkers of another kind: they decide whether
a history of reads and writes is linearizable.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kapi.testing.rights import RightsRecord
from kapi.testing.target import Pattern, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapi.api.crd import CustomResource
    from kapi.base.clock import Clock

STORY_LINES: Final = 60
"""Lines of a story that are shown when an assertion fails: the last ones."""

FOLDED: Final = 4
"""Additions of one kind in a row that are one line of a story."""

_is_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("kapi_testing_quiet", default=False)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Do not record what is asked inside, and inject no faults into it: it is the test that looks, not the program."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def is_unrecorded() -> bool:
    """Return True inside `unrecorded`."""
    return _is_quiet.get()


class HistoryError(AssertionError):
    """An assertion on a history does not hold; the text ends with the story."""


@dataclass(slots=True, eq=False)
class Entry:
    """One request, watch event or reconcile, or the injection of a fault.

    `time` is in seconds since the history began, `ended` is None while it goes on. `status` is the HTTP status of a
    request; 0 while there is none, and if it never came.
    """

    number: int
    """The place in the order of all beginnings and ends."""
    time: float
    what: str
    """request, event, reconcile, fault or note."""
    user: str
    target: Target
    status: int = 0
    result: str = ""
    ended: float | None = None
    end_number: int = 0
    reconcile: str = ""
    """The id of the reconcile in which a request was made."""

    @property
    def is_write(self) -> bool:
        """True for a request that changed something, or may have; writes of Leases and Events do not count."""
        target = self.target
        return (
            self.what == "request"
            and target.is_write
            and self.status < 300
            and target.resource not in ("leases", "events")
        )


class History:
    """The record of one environment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._change = asyncio.Event()
        self._number = 0
        self._last_write = 0.0
        self.entries: list[Entry] = []
        self.rights = RightsRecord()

    # -- recording ----------------------------------------------------------------------------------------------------

    def add(self, what: str, user: str, target: Target, *, result: str = "", reconcile: str = "") -> Entry:
        """Record the beginning of something."""
        self._number += 1
        entry = Entry(self._number, self._now(), what, user, target, result=result, reconcile=reconcile)
        self.entries.append(entry)
        self._change.set()
        return entry

    def end(self, entry: Entry, *, status: int = 0, result: str = "") -> None:
        """Record the end of it."""
        self._number += 1
        entry.ended, entry.end_number, entry.status, entry.result = self._now(), self._number, status, result
        if entry.is_write:
            self._last_write = entry.ended
        if entry.what == "request":
            self.rights.add(entry.user, entry.target, status)
        self._change.set()

    def note(self, text: str) -> None:
        """Write a line of the test's own into the story."""
        self.add("note", "", Target(""), result=text)

    def clear(self) -> None:
        """Forget what was recorded."""
        self.entries.clear()

    async def changed(self, *, within: float) -> None:
        """Wait until something is recorded, for so many seconds at most."""
        self._change.clear()
        with contextlib.suppress(TimeoutError):
            # Not wait_for, which in Python 3.11 swallows a cancellation that comes together with the change.
            async with asyncio.timeout(within):
                await self._change.wait()

    def _now(self) -> float:
        return self._clock.monotonic() - self._began

    # -- reading ------------------------------------------------------------------------------------------------------

    def requests(
        self,
        *,
        verb: str = "",
        resource: str | type[CustomResource] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
    ) -> list[Entry]:
        """Return the requests that match; see `Pattern`."""
        pattern = Pattern(verb=verb, resource=resource, namespace=namespace, name=name, user=user)
        return [
            entry for entry in self.entries if entry.what == "request" and pattern.matches(entry.target, entry.user)
        ]

    @property
    def reconciles(self) -> list[Entry]:
        """The reconciles: `user` is the controller, `target` has the key."""
        return [entry for entry in self.entries if entry.what == "reconcile"]

    @property
    def last_write(self) -> float:
        """When something was last written, in seconds since the history began."""
        return self._last_write

    @property
    def age(self) -> float:
        """Seconds since the history began."""
        return self._now()

    # -- assertions ---------------------------------------------------------------------------------------------------

    def at_most(
        self,
        count: int,
        *,
        verb: str = "write",
        resource: str | type[CustomResource] = "",
        namespace: str = "",
        name: str = "",
        user: str = "",
        within: float | None = None,
    ) -> None:
        """Assert that so many requests were made at most, in all or in any `within` seconds; refused ones count too.

        A reconciler whose own write makes it run again, for ever, is found by this.
        """
        pattern = Pattern(verb=verb, resource=resource, namespace=namespace, name=name, user=user)
        found = self.requests(verb=verb, resource=resource, namespace=namespace, name=name, user=user)
        for index in range(count, len(found)):
            seconds = found[index].time - found[index - count].time
            if within is None or seconds <= within:
                total = len(found) if within is None else count + 1
                when = "" if within is None else f" within {seconds:g} s (bound: {within:g} s)"
                self.fail(f"{total} times {pattern}{when}, expected at most {count}", around=found[index])

    def never_two_workers_on_one_key(self) -> None:
        """Assert that no controller reconciled a key while it was reconciling it already."""
        running: dict[tuple[str, str], Entry] = {}
        for entry in self.reconciles:
            key = (entry.user, entry.target.key)
            before = running.get(key)
            if before is not None and (before.ended is None or before.end_number > entry.number):
                self.fail(
                    f"two workers of {entry.user} on {entry.target.key}: the reconcile at {entry.time:.3f} s began "
                    f"while that of {before.time:.3f} s was going on",
                    around=entry,
                )
            running[key] = entry

    def fail(self, why: str, *, around: Entry | None = None) -> None:
        """Raise with the story."""
        raise HistoryError(f"{why}\n\n{self.story(around=around)}")

    # -- the story ----------------------------------------------------------------------------------------------------

    def story(self, *, lines: int = STORY_LINES, around: Entry | None = None) -> str:
        """Return what happened as a table in order; the last lines of it, or those up to an entry."""
        last = len(self.entries)
        if around is not None:
            last = min(last, self.entries.index(around) + lines // 4)
        left_out = max(0, last - lines)
        shown = self.entries[left_out:last]
        if not shown:
            return "What happened: nothing was recorded."
        rows = sorted((row for entry in shown for row in _rows(entry)), key=lambda row: row[0])
        head = "What happened:" if not left_out else f"What happened (without the first {left_out} entries):"
        return "\n".join([head, *_table(_folded([cells for _, cells in rows]))])


def _rows(entry: Entry) -> Iterable[tuple[int, tuple[str, ...]]]:
    """The lines of an entry with their place: two for a reconcile, with what happened meanwhile between them."""
    target = entry.target
    time, subject = f"{entry.time:.3f}", f"{target.kind} {target.key}".strip()
    if entry.what == "reconcile":
        yield entry.number, (time, entry.user, "reconcile begins", target.key, "")
        if entry.ended is not None:
            ended = f"{entry.ended:.3f}"
            yield entry.end_number, (ended, entry.user, "reconcile ends", target.key, entry.result)
    elif entry.what == "note":
        yield entry.number, (time, "", entry.result, "", "")
    elif entry.what == "request":
        result = entry.result or (str(entry.status) if entry.status else "no answer yet")
        if entry.ended is not None and entry.ended - entry.time >= 0.1:
            result += f" after {entry.ended - entry.time:.1f} s"
        yield entry.number, (time, entry.user, target.verb, subject, result)
    else:
        yield entry.number, (time, entry.user, f"{entry.what} {target.verb}".strip(), subject, entry.result)


def _folded(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The lines with what a new watch shows first, the objects that are there, in one line for each kind."""
    folded: list[tuple[str, ...]] = []
    for (user, what, kind, is_late), group in itertools.groupby(rows, key=_sort_of):
        same = list(group)
        if what != "event ADDED" or is_late or len(same) < FOLDED:
            folded += same
        else:
            folded.append((same[0][0], user, what, kind, f"{len(same)} objects"))
    return folded


def _sort_of(row: tuple[str, ...]) -> tuple[str, str, str, bool]:
    _, user, what, subject, result = row
    return user, what, subject.partition(" ")[0], "(injected)" in result


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    header = ("SECONDS", "WHO", "WHAT", "OBJECT", "RESULT")
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]


def shorten(value: Any, length: int = 60) -> str:
    """Return a text in one line, not longer than so many characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
