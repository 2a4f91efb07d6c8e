"""The state machine of a reflector, as a table: its states, how each can end, and the state that follows.

Apart from the code that acts on it, so that the whole behaviour under failure can be read, and tested, in one place.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(Enum):
    """The state of a reflector."""

    STREAMING = "streaming"
    """Receives everything there is as the beginning of a watch (WatchList), and collects it aside."""
    LISTING = "listing"
    """Lists everything there is, page by page: for servers that do not stream, and after a stream that failed."""
    WATCHING = "watching"
    """Follows changes from the revision it knows."""
    WAITING = "waiting"
    """Waits for the back-off to pass after a failure; no request is sent."""
    STOPPED = "stopped"
    """Has not been started, or has ended."""


class Outcome(Enum):
    """The outcome of a state."""

    SYNCED = "synced"
    """All there is at one revision has been handed on."""
    ENDED = "ended"
    """The server ended the watch in good order, as it does every few minutes."""
    BRIEF = "brief"
    """The same, but so soon that doing it again at once could turn into a loop."""
    SILENT = "silent"
    """Nothing arrived for longer than a healthy server stays silent."""
    UNSUPPORTED = "unsupported"
    """The server does not know how to stream a list."""
    LOST = "lost"
    """The revision cannot be used: too old (410), of another server's history, or refused repeatedly."""
    FAILED = "failed"
    """No response, an incomplete response, or an error such as 429 or 503."""


class Step(NamedTuple):
    """The state that follows, and whether to back off first."""

    state: State
    wait: bool


_NOW: Final = False
_LATER: Final = True

TRANSITIONS: Final[Mapping[State, Mapping[Outcome, Step]]] = MappingProxyType(
    {
        # A stream that fails is followed by a list, and a list that fails by a stream: should only one of the two work
        # (a proxy that cannot hold a stream open, say) the reflector still gets there.
        State.STREAMING: {
            Outcome.SYNCED: Step(State.WATCHING, _NOW),  # on the same connection
            Outcome.UNSUPPORTED: Step(State.LISTING, _NOW),
            Outcome.SILENT: Step(State.LISTING, _NOW),
            Outcome.ENDED: Step(State.LISTING, _LATER),
            Outcome.LOST: Step(State.STREAMING, _LATER),
            Outcome.FAILED: Step(State.LISTING, _LATER),
        },
        State.LISTING: {
            Outcome.SYNCED: Step(State.WATCHING, _NOW),
            Outcome.FAILED: Step(State.STREAMING, _LATER),
        },
        # Whatever breaks a watch, its revision is still good: it is resumed, and nothing is listed again. Only a lost
        # revision is worth a list, and even then not at once: a server that answers 410 each time gets no loop.
        State.WATCHING: {
            Outcome.ENDED: Step(State.WATCHING, _NOW),
            Outcome.BRIEF: Step(State.WATCHING, _LATER),
            Outcome.SILENT: Step(State.WATCHING, _NOW),
            Outcome.LOST: Step(State.STREAMING, _LATER),
            Outcome.FAILED: Step(State.WATCHING, _LATER),
        },
    }
)
"""Every state's possible outcomes, and nothing else. Where streaming is known not to work, listing takes its place."""
