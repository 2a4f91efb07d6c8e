"""The output of a client under test: lines of JSON on its standard output, read by the runner.

It runs in the environments of other clients, so it imports nothing but the standard library. A program reports each event
it receives, and `show`s the view it keeps: its client's cache, or a dictionary of the events where there is no cache.
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
    """Report an event: ADDED, MODIFIED or DELETED, of this object in this version."""
    if kind == "DELETED":
        _heard.pop(name, None)
    else:
        _heard[name] = version
    _print(heard=[kind, name])


def show(view: Callable[[], View] = lambda: dict(_heard)) -> None:
    """From now on, print the view whenever it has changed: versions by name."""
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
            _print(view=now)
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _print(**what: object) -> None:
    with _lock:
        print(json.dumps(what), flush=True)


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _print(error=kind.__name__)
    sys.__excepthook__(kind, error, trace)


sys.excepthook = _end
