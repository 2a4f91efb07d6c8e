"""Waiting for a condition of an object by watching it, and retries after a conflict.

Nothing here polls. An object is listed once and then watched from that revision; when the watch ends, a new one
continues from where it was, and only an expired revision makes for another list. Once the object was listed, failures
are retried with back-off until the time-out; before that they are raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from kapi.api.access import conditions_of, generation_of, resource_version_of, uid_of
from kapi.api.errors import ApiError, Conflict
from kapi.client.errors import AnswerError, TransportError, WaitTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from kapi.client.typed import TypedClient

T = TypeVar("T")
R = TypeVar("R")

WATCH_SECONDS: Final = 60
"""The duration of one watch. A server that sends nothing for a little longer than that is taken to be down."""

_GRACE_SECONDS: Final = 10.0
_SHORT_SECONDS: Final = 1.0
_FIRST_DELAY: Final = 0.5
_MOST_DELAY: Final = 30.0
CONFLICT_TRIES: Final = 5
CONFLICT_SECONDS: Final = 0.01


class _Deletion(enum.Enum):
    DELETED = "deleted"


DELETED: Final = _Deletion.DELETED
"""The condition of `wait_for` that an object is deleted."""
Deleted: TypeAlias = Literal[_Deletion.DELETED]


async def wait_for(
    client: TypedClient[T],
    name: str,
    condition: str | Callable[[T], bool],
    *,
    timeout: float | None,  # noqa: ASYNC109 - what is raised says what was waited for
) -> T:
    """The object once it meets a condition: a function of it, or `condition=Type`, or `condition=Type=Status`.

    An object that is not there is waited for like any other.

    Raises:
        WaitTimeout: time was up.
    """
    meets: Callable[[T], bool] = condition_met(condition) if isinstance(condition, str) else condition
    what = condition if isinstance(condition, str) else getattr(condition, "__name__", "the condition")
    seen, last = states(client, name), None
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline, contextlib.aclosing(seen):
            async for state in seen:
                last = state
                if state is not None and meets(state):
                    return state
    except TimeoutError:
        if not deadline.expired():
            raise
        raise _overdue(client, name, f"meet {what!r}", timeout, last) from None
    raise AssertionError("unreachable: states never end")


async def wait_until_deleted(
    client: TypedClient[T],
    name: str,
    *,
    timeout: float | None,  # noqa: ASYNC109 - what is raised says what was waited for
) -> None:
    """Return once the object that has this name now is gone; another one that has taken its name does not count."""
    uid, last = "", None
    seen: AsyncGenerator[Any, None] = states(client, name)
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline, contextlib.aclosing(seen):
            async for state in seen:
                last = state
                if state is None or uid not in ("", uid_of(state)):
                    return
                uid = uid_of(state)
    except TimeoutError:
        if not deadline.expired():
            raise
        raise _overdue(client, name, "go away", timeout, last) from None


async def states(client: TypedClient[T], name: str) -> AsyncGenerator[T | None, None]:
    """The states of one object, from now on and without end; None where it does not exist."""
    only = {"metadata.name": name}
    failures = 0
    has_seen = False
    while True:
        try:
            listed = await client.list(fields=only)
            has_seen = True
            yield listed.items[0] if listed.items else None
            version = listed.resource_version
            while True:
                started = asyncio.get_running_loop().time()
                async with client.watch(
                    fields=only,
                    resource_version=version,
                    timeout_seconds=WATCH_SECONDS,
                    idle_timeout=WATCH_SECONDS + _GRACE_SECONDS,
                ) as events:
                    async for event in events:
                        yield None if event.type == "DELETED" else event.object
                    version = events.resource_version
                if asyncio.get_running_loop().time() - started >= _SHORT_SECONDS:
                    failures = 0
                else:
                    failures += 1
                    await _back_off(failures)
        except (ApiError, TransportError) as error:
            if not has_seen or not _passes(error):
                raise
            failures += 1
            await _back_off(failures)


def _passes(error: ApiError | TransportError) -> bool:
    """Return True if an error may go away by itself, or by listing again."""
    if isinstance(error, ApiError):
        return error.code in (410, 429) or error.code >= 500
    return not isinstance(error, AnswerError)


async def _back_off(failures: int) -> None:
    longest = min(_MOST_DELAY, _FIRST_DELAY * (1 << min(failures - 1, 10)))
    await asyncio.sleep(longest * (1 + random.random()) / 2)  # noqa: S311 - spreads load, hides nothing


def condition_met(text: str) -> Callable[[Any], bool]:
    """Return True if an object's condition has a status: `condition=Ready` (which is True), or `condition=Ready=False`.

    A condition that was made for an older generation of the object does not count.
    """
    form, _, rest = text.partition("=")
    wanted_type, _, status = rest.partition("=")
    if form != "condition" or not wanted_type:
        raise ValueError(f"{text!r} is no condition; write condition=Type, condition=Type=Status, or give a function")
    wanted = (status or "True").casefold()

    def is_met(obj: Any) -> bool:
        generation = generation_of(obj)
        return any(
            condition.type.casefold() == wanted_type.casefold()
            and condition.status.casefold() == wanted
            and (condition.observed_generation is None or condition.observed_generation >= generation)
            for condition in conditions_of(obj)
        )

    return is_met


def _overdue(client: TypedClient[T], name: str, what: str, timeout: float | None, last: Any) -> WaitTimeout:
    where = f"{client.namespace}/{name}" if client.namespace else name
    seen = "it does not exist"
    if last is not None:
        conditions = ", ".join(
            f"{each.type}={each.status}{f' ({each.message or each.reason})' if each.message or each.reason else ''}"
            for each in conditions_of(last)
        )
        seen = f"last seen at revision {resource_version_of(last)}{f' with {conditions}' if conditions else ''}"
    return WaitTimeout(f"{client.gvr.resource} {where} did not {what} within {timeout or 0:g} s; {seen}")


async def retry_on_conflict(
    change: Callable[[], Awaitable[R]],
    *,
    tries: int = CONFLICT_TRIES,
) -> R:
    """Call a function that reads, changes and updates an object; again when the update is a `Conflict`.

    `change` must read the object anew each time. The `Conflict` of the last try is raised.
    """
    for left in range(tries - 1, -1, -1):
        try:
            return await change()
        except Conflict:
            if not left:
                raise
        await asyncio.sleep(CONFLICT_SECONDS * (1 + 0.1 * random.random()))  # noqa: S311 - spreads load, hides nothing
    raise ValueError("at least one try is needed")
