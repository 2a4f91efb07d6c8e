"""Controllers: changes are queued by key, and each key is reconciled until actual and desired state agree.

In reading order: `reconcile` is the whole contract with the user, `queue` the work queue and its guarantees, `event`,
`predicate`, `enqueue` and `source` turn events into keys, `controller` runs the workers, `builder` assembles a
controller, and `manager` runs several of them with caches and leader election. `objects` has functions that reconcilers
call, `recorder` records Events, `webhook` serves admission and conversion webhooks, `metrics` and `tracing` observe all
of it. Needs the base dependencies only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapi.controller.builder import Builder as Builder
    from kapi.controller.controller import Controller as Controller
    from kapi.controller.controller import ControllerOptions as ControllerOptions
    from kapi.controller.controller import reconcile_id as reconcile_id
    from kapi.controller.controller import reconcile_log as reconcile_log
    from kapi.controller.enqueue import Prioritized as Prioritized
    from kapi.controller.manager import Leadership as Leadership
    from kapi.controller.manager import LeadershipLost as LeadershipLost
    from kapi.controller.manager import Manager as Manager
    from kapi.controller.manager.cachedclient import CachedClient as CachedClient
    from kapi.controller.manager.cluster import Cluster as Cluster
    from kapi.controller.objects.upsert import create_or_patch as create_or_patch
    from kapi.controller.objects.upsert import create_or_update as create_or_update
    from kapi.controller.queue import DelayingQueue as DelayingQueue
    from kapi.controller.queue import QueueShutDown as QueueShutDown
    from kapi.controller.queue import RateLimitingQueue as RateLimitingQueue
    from kapi.controller.queue import WorkQueue as WorkQueue
    from kapi.controller.reconcile import Reconciler as Reconciler
    from kapi.controller.reconcile import Request as Request
    from kapi.controller.reconcile import Result as Result
    from kapi.controller.reconcile import TerminalError as TerminalError
    from kapi.controller.recorder import EventRecorder as EventRecorder
    from kapi.controller.source import Trigger as Trigger

# Imported when they are first asked for: a program that uses the queue alone has no use for HTTP and caches.
_HOMES = {
    "Builder": "builder",
    "CachedClient": "manager.cachedclient",
    "Cluster": "manager.cluster",
    "Controller": "controller",
    "ControllerOptions": "controller",
    "DelayingQueue": "queue",
    "EventRecorder": "recorder",
    "Leadership": "manager",
    "LeadershipLost": "manager",
    "Manager": "manager",
    "Prioritized": "enqueue",
    "QueueShutDown": "queue",
    "RateLimitingQueue": "queue",
    "Reconciler": "reconcile",
    "Request": "reconcile",
    "Result": "reconcile",
    "TerminalError": "reconcile",
    "Trigger": "source",
    "WorkQueue": "queue",
    "create_or_patch": "objects.upsert",
    "create_or_update": "objects.upsert",
    "reconcile_id": "controller",
    "reconcile_log": "controller",
}

__all__ = [
    "Builder",
    "CachedClient",
    "Cluster",
    "Controller",
    "ControllerOptions",
    "DelayingQueue",
    "EventRecorder",
    "Leadership",
    "LeadershipLost",
    "Manager",
    "Prioritized",
    "QueueShutDown",
    "RateLimitingQueue",
    "Reconciler",
    "Request",
    "Result",
    "TerminalError",
    "Trigger",
    "WorkQueue",
    "create_or_patch",
    "create_or_update",
    "reconcile_id",
    "reconcile_log",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kapi.controller' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kapi.controller.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
