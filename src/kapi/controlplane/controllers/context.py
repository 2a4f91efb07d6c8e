"""The context that every built-in controller is given, as kube-controller-manager's `ControllerContext`.

Each controller has a function that takes the context and adds one or more controllers of our own framework to its
manager: a source of keys, a queue, and a reconciler that reads the current state and acts on the difference. Two things
differ from a controller outside the server: it reads the server's own watch caches (`view`) and learns of changes from
the commit log (`source`), so that nothing is held twice and nothing is polled. Writes go through the API (`writer`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kapi.controller.controller import Controller, ControllerOptions
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.source import CommitSource
from kapi.controlplane.controllers.writer import Writer
from kapi.registry.quota.charges import Charges

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from kapi.base.clock import Clock
    from kapi.base.tls import KeyPair
    from kapi.cache.watchcache import Event, Item
    from kapi.client.rest import RESTClient
    from kapi.controller.manager import Manager
    from kapi.controller.reconcile import ReconcileFunction, Reconciler
    from kapi.controlplane.controllers.source import Enqueue, EnqueueAny
    from kapi.controlplane.controllers.view import ObjectView

EVENT_SECONDS = 3600.0
"""The default of `--event-ttl`, as kube-apiserver's."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The settings of the built-in controllers."""

    event_seconds: float = EVENT_SECONDS
    authority: bytes = b""
    """The CA certificate (PEM) that clients verify this server with."""
    address: str = ""
    port: int = 0
    """The address and port that this server listens on."""
    shares_store: bool = False
    """True if other servers may use the same store."""
    authority_files: KeyPair | None = None
    """The CA that signs certificates that were approved; without it none are signed."""
    account_key: Path | None = None
    """The private key that signs service account tokens; without it no tokens are issued."""


class ControllerContext:
    """The context of the built-in controllers: the manager that runs them, a view of all objects, and a writer."""

    def __init__(
        self,
        manager: Manager,
        view: ObjectView,
        settings: ControllerSettings | None = None,
        *,
        rest: RESTClient | None = None,
        populating: Collection[str] = (),
        charges: Charges | None = None,
    ) -> None:
        self.manager = manager
        self.view = view
        self.settings = settings or ControllerSettings()
        self.populating = populating
        """The namespaces that are being populated by their creation, see `namespacepopulation`."""
        self.charges = charges or Charges()
        """The charges of admission to quotas for writes that are on their way."""
        self.writer = Writer(rest or manager.live.rest, view)
        """Writes as the controller's own service account, see `identity`."""

    @property
    def clock(self) -> Clock:
        """The manager's clock."""
        return self.manager.clock

    def add(
        self,
        name: str,
        reconciler: Reconciler | ReconcileFunction,
        *,
        enqueue: Mapping[str, Enqueue] | EnqueueAny,
        initial: Callable[[], Iterable[Request]],
        workers: int = 1,
        needs_leader_election: bool = True,
    ) -> Controller:
        """Add a controller that is fed by the commit log.

        `enqueue` maps resources (`pods`, `jobs.batch`) to functions from events to requests, or is one function for the
        events of all resources; see `CommitSource`. `needs_leader_election=False` is for what every server does.
        """
        if not callable(enqueue):
            enqueue = {self.view.prefix(resource): function for resource, function in enqueue.items()}
        controller = Controller(
            name,
            reconciler,
            sources=[CommitSource(self.view, enqueue, initial, name=f"commits for {name}")],
            options=ControllerOptions(workers=workers, quiet=True, needs_leader_election=needs_leader_election),
            clock=self.clock,
            registry=self.manager.registry,
        )
        self.manager.add(controller)
        return controller

    def all_of(self, resource: str) -> Callable[[], Iterable[Request]]:
        """The requests for all objects of a resource: what most controllers reconcile when they start."""
        return lambda: [request_for(item) for item in self.view.items(resource)]


def request_for(item: Item) -> Request:
    """The request for an object in a watch cache."""
    return Request(item.namespace, item.name)


def enqueue_object(event: Event) -> Iterable[Request]:
    """The request for the object that was written or deleted."""
    return (request_for(event.item),)


def enqueue_unless_deleted(event: Event) -> Iterable[Request]:
    """The request for the object that was written; none when it was deleted."""
    return () if event.deleted else (request_for(event.item),)
