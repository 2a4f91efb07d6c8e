"""The contract with the user: a reconciler is given a key, and makes actual state agree with the object of that name.

It gets the key of the object, not the change: several changes may have become one call, and a call may find nothing to
do. So it reads what is there now and acts on the difference. How it ends says when it wants to be called again:

    returns None or Result()             when something changes
    returns Result(requeue_after=30)     in 30 seconds, or sooner if something changes
    returns Result(requeue=True)         soon, later each time
    raises TerminalError                 when something changes; trying again would not help
    raises anything else                 soon, later each time

A key is never reconciled twice at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from kapi.api.keys import ObjectKey

Request = ObjectKey


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a reconcile: when to reconcile the key again.

    `requeue_after` is in seconds and wins over `requeue`, which backs off as failures do. `priority` is the one the key
    comes back with; unless given, the one it had.
    """

    requeue: bool = False
    requeue_after: float = 0.0
    priority: int | None = None


class TerminalError(Exception):
    """A failure that trying again cannot cure: it is logged and counted, and the key waits for the next change.

    Raise it with a message, or `raise TerminalError from error` to keep what happened.
    """


@runtime_checkable
class Reconciler(Protocol):
    """An object with a `reconcile` method."""

    async def reconcile(self, request: Request, /) -> Result | None:
        """Make actual state agree with the object that `request` names."""
        ...


ReconcileFunction: TypeAlias = Callable[[Request], Awaitable[Result | None]]


def as_function(reconciler: Reconciler | ReconcileFunction) -> ReconcileFunction:
    """A reconciler as a plain function, whichever way it was written; TypeError for something that is neither."""
    if isinstance(reconciler, Reconciler):
        return reconciler.reconcile
    if callable(reconciler):
        return reconciler
    raise TypeError(f"{reconciler!r} is not a reconciler: expected a method `reconcile` or an async function")


def is_terminal(error: BaseException) -> bool:
    """Return True if trying again cannot help. A group of errors is terminal only when each of them is."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_terminal(part) for part in error.exceptions)
    return isinstance(error, TerminalError)
