"""Records the reconciles of a manager's controllers in a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapi.controller.observation import observe_reconciles, shown_key
from kapi.testing.record import shorten
from kapi.testing.target import Target

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kapi.controller.manager import Manager
    from kapi.controller.observation import Ended
    from kapi.testing.record import History


def follow_reconciles(manager: Manager, history: History) -> None:
    """Record every reconcile of a manager from now on."""

    def began(controller: str, request: Hashable, identity: str) -> Ended:
        key = shown_key(request)
        target = Target("reconcile", namespace=key.namespace, name=key.name)
        entry = history.add("reconcile", controller, target, reconcile=identity)
        return lambda result: history.end(entry, result=shorten(result, 100))

    observe_reconciles(manager, began)
