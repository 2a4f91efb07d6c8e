"""A pause of Python's garbage collector, for the short time in which a control plane is started.

A start creates tens of thousands of objects that stay, and no garbage. The collector would look at all of them, and
several times at everything that the process holds: a third of the CPU time of a fork.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_pauses: list[bool] = []
"""For each pause that is going on, whether the collector was enabled when it began."""


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector for a block; blocks of several tasks may overlap. It stays disabled if it was."""
    _pauses.append(gc.isenabled())
    gc.disable()
    try:
        yield
    finally:
        was_enabled = _pauses.pop(0)
        if _pauses:
            # The first one knows how it was, whichever ends last.
            _pauses[0] = was_enabled
        elif was_enabled:
            gc.enable()
