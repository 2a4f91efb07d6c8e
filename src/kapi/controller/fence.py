"""The fence of a reconcile: its code does not continue once its process may not act any more.

A process that was suspended (SIGSTOP, a paused virtual machine) resumes where it was, and what its reconcilers waited
for may be there already. The task that renews the lease notices that the lease is over, and cancels everything; but it
is one task of many, and others may be resumed before it. So each time a fenced coroutine is resumed, it is asked first
whether it may act; if not, CancelledError is raised where it waited.

What remains is code between two waits that was suspended in the middle, and tasks that the coroutine has started, which
are cancelled a moment later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

T = TypeVar("T")


class Fenced(Generic[T]):
    """An awaitable that is resumed only while `may_act` returns True."""

    __slots__ = ("_may_act", "awaitable")

    def __init__(self, awaitable: Awaitable[T], may_act: Callable[[], bool]) -> None:
        self.awaitable = awaitable
        self._may_act = may_act

    def __await__(self) -> Generator[Any, Any, T]:
        steps: Any = self.awaitable.__await__()
        error: BaseException | None = None
        while True:
            if error is None and not self._may_act():
                error = asyncio.CancelledError("this process does not lead any more")
            try:
                waited_for = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            error = None
            try:
                yield waited_for
            except BaseException as raised:
                error = raised
