"""The reconciles of a manager, as they begin and end: for records of tests and for the live view of `kapi dev`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeAlias

from kapi.api.keys import ObjectKey

if TYPE_CHECKING:
    from kapi.controller.manager import Manager
    from kapi.controller.reconcile import Result
    from kapi.controller.tracing import ReconcileEnd, ReconcileTracer

Ended: TypeAlias = Callable[[str], None]
"""Is called at the end of a reconcile with its result: `ok`, `ok, again after 5 s`, `cancelled`, or the error."""
Began: TypeAlias = "Callable[[str, Hashable, str], Ended]"
"""Is called at the begin of a reconcile, with the name of the controller, the request and the reconcile's id."""


def observe_reconciles(manager: Manager, began: Began) -> None:
    """Call `began` for every reconcile of the controllers that the manager has now, and what it returns at the end."""
    for controller in manager.controllers:
        controller.tracing = _Observed(began, controller.tracing)


def shown_key(request: Hashable) -> ObjectKey:
    """Return the key of the object that a request names; of a request of another type, its text in place of a name."""
    return request if isinstance(request, ObjectKey) else ObjectKey("", str(request))


class _Observed:
    """Takes the place of a controller's tracing, which is called at the begin and the end of each reconcile."""

    def __init__(self, began: Began, inner: ReconcileTracer | None) -> None:
        self._began = began
        self._inner = inner

    def reconcile(self, controller: str, request: Hashable, identity: str, /) -> _Span:
        """A reconcile begins."""
        ended = self._began(controller, request, identity)
        return _Span(ended, None if self._inner is None else self._inner.reconcile(controller, request, identity))


class _Span:
    """One reconcile. What the tracing it stands for would have been told is passed on."""

    def __init__(self, ended: Ended, inner: ReconcileEnd | None) -> None:
        self._ended = ended
        self._inner = inner
        self._result = "cancelled"

    def succeeded(self, result: Result) -> None:
        """The reconciler returned."""
        after = f", again after {result.requeue_after:g} s" if result.requeue_after > 0 else ""
        self._result = "ok, again" if result.requeue and not after else f"ok{after}"
        if self._inner is not None:
            self._inner.succeeded(result)

    def failed(self, error: Exception) -> None:
        """The reconciler raised."""
        self._result = f"{type(error).__name__}: {error}"
        if self._inner is not None:
            self._inner.failed(error)

    def end(self) -> None:
        """The reconcile is over."""
        self._ended(self._result)
        if self._inner is not None:
            self._inner.end()
