"""How a program under test says what it knows: lines of JSON on its standard output, read by the runner.

It runs in the environments of other clients, so it imports nothing but the standard library. A program tells of each event
it hears of, and `show`s the view it keeps: its client's cache, or the dictionary of what it has heard where there is none.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

View = dict[str, str]

_SECONDS_BETWEEN_LOOKS = 0.2
_lock = threading.Lock()
_heard: View = {}


def heard(kind: str, name: str, version: str) -> None:
    """An event came: ADDED, MODIFIED or DELETED, of this object in this version."""
    if kind == "DELETED":
        _heard.pop(name, None)
    else:
        _heard[name] = version
    _say(heard=[kind, name])


def show(view: Callable[[], View] = lambda: dict(_heard)) -> None:
    """From now on, say what the view is whenever it has changed: versions by name."""
    threading.Thread(target=_follow, args=(view,), daemon=True).start()


def _follow(view: Callable[[], View]) -> None:
    last: View | None = None
    while True:
        try:
            now: View | None = view()
        except RuntimeError:  # it changed while it was read; the next look will do
            now = last
        if now is not None and now != last:
            last = now
            _say(view=now)
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _say(**what: object) -> None:
    with _lock:
        print(json.dumps(what), flush=True)


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _say(error=kind.__name__)
    sys.__excepthook__(kind, error, trace)


sys.excepthook = _end
