"""Named instants where a test may make the program die, fail or wait.

A crash test is worth what its instants are worth: "after the commit, before the answer" is found by luck with random
kills and every time with a fail point. `failpoint("storage.before_commit")` marks such an instant. When nothing is
armed it costs one look at an empty dictionary.

Tests arm points with `armed(...)`; a process under test is armed from outside:

    KAPI_FAILPOINTS="storage.after_commit=kill@20,storage.before_publish=sleep:0.1"

Actions: `kill` ends the process at once, as SIGKILL would; `raise` raises `FailpointError`; `sleep:SECONDS` blocks
the calling thread; `on` does nothing by itself and is for switches that code asks about with `is_armed`. `@N` waits
for the N-th passage. The environment is read once, when this module is imported. This module touches nothing else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENVIRONMENT_VARIABLE = "KAPI_FAILPOINTS"


class FailpointError(Exception):
    """Raised by a point armed with `raise`; never seen in production."""


class _Action:
    """The action of an armed point, from its N-th passage on."""

    def __init__(self, act: Callable[[], None], after: int) -> None:
        self._act = act
        self._left = after

    def __call__(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._act()


_armed: dict[str, _Action] = {}


def failpoint(name: str) -> None:
    """Mark an instant; does what the point is armed with, normally nothing."""
    if _armed and name in _armed:
        _armed[name]()


def is_armed(name: str) -> bool:
    """Return True if a point is armed; for switches such as a planted bug."""
    return name in _armed


def arm(name: str, action: str | Callable[[], None]) -> None:
    """Arm a point with an action in the notation above, or with a callable."""
    _armed[name] = _Action(action, 1) if callable(action) else _parse(name, action)


def disarm(name: str) -> None:
    """Disarm a point; no error if it was not armed."""
    _armed.pop(name, None)


@contextlib.contextmanager
def armed(name: str, action: str | Callable[[], None]) -> Iterator[None]:
    """Arm a point for the length of a block."""
    arm(name, action)
    try:
        yield
    finally:
        disarm(name)


def arm_all(specification: str) -> None:
    """Arm several points: `name=action,name=action`."""
    for part in filter(None, (piece.strip() for piece in specification.split(","))):
        name, equals, action = part.partition("=")
        if not equals:
            raise ValueError(f"fail point {part!r}: want name=action")
        arm(name, action)


def _parse(name: str, text: str) -> _Action:
    what, at, count = text.partition("@")
    verb, _, argument = what.partition(":")
    if at and not (count.isdigit() and int(count) > 0):
        raise ValueError(f"fail point {name}: want a positive number after @, not {count!r}")
    return _Action(_act(name, verb, argument), int(count) if at else 1)


def _act(name: str, verb: str, argument: str) -> Callable[[], None]:
    match verb:
        case "kill":
            return _kill
        case "raise":
            return lambda: _fail(name)
        case "sleep":
            seconds = float(argument)
            return lambda: time.sleep(seconds)
        case "on":
            return lambda: None
        case _:
            raise ValueError(f"fail point {name}: unknown action {verb!r}; want kill, raise, sleep:SECONDS or on")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(name: str) -> None:
    raise FailpointError(f"fail point {name}")


arm_all(os.environ.get(ENVIRONMENT_VARIABLE, ""))
