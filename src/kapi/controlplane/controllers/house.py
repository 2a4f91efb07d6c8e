"""What a part of housekeeping is given to work with, and how it is put together with our own framework.

A part is a function that takes a `House` and adds controllers to its manager. The controllers are ordinary: a source of
keys, a queue, a reconciler that reads the state and acts on the difference. Two things are particular to running inside
the control plane: they read from the server's own watch caches (`inventory`) and hear of changes from the commit log
(`feed`), so that nothing is held twice and nothing is polled. Changes go through the API (`client`), as everybody's do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kapi.controller.controller import Controller, ControllerOptions
from kapi.controller.reconcile import Request
from kapi.controlplane.controllers.feed import CommitFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from kapi.base.clock import Clock
    from kapi.cache.watchcache import Event, WatchCache
    from kapi.client.client import Client
    from kapi.controller.manager import Manager
    from kapi.controller.reconcile import ReconcileFunction, Reconciler
    from kapi.controlplane.controllers.feed import Hear
    from kapi.controlplane.controllers.inventory import Inventory

EVENT_SECONDS = 3600.0
"""How long Events are kept after they were last written, as by Kubernetes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be said about housekeeping."""

    event_seconds: float = EVENT_SECONDS
    authority: bytes = b""
    """The certificate (PEM) by which clients know this server."""
    address: str = ""
    port: int = 0
    """Where this server listens."""
    account_key: Path | None = None
    """The private key that service account tokens are signed with; None: none can be made."""


@dataclass(frozen=True, slots=True)
class House:
    """The means of housekeeping."""

    manager: Manager
    inventory: Inventory
    settings: Settings = field(default_factory=Settings)

    @property
    def client(self) -> Client:
        """For changes, and for nothing that the inventory can answer."""
        return self.manager.live

    @property
    def clock(self) -> Clock:
        """The time."""
        return self.manager.clock

    def prefix(self, resource: str) -> str:
        """The key prefix of a built-in resource, such as `pods` or `jobs.batch`."""
        return self.inventory.catalog.store(resource).prefix

    def add(
        self,
        name: str,
        reconciler: Reconciler | ReconcileFunction,
        *,
        hear: Mapping[str, Hear] | Callable[[WatchCache, Event], Iterable[Request]],
        initial: Callable[[], Iterable[Request]],
        workers: int = 1,
    ) -> Controller:
        """A controller on the commit log: `hear` is by resource (`pods`) or for every change, see `CommitFeed`."""
        heard = hear if callable(hear) else {self.prefix(resource): each for resource, each in hear.items()}
        controller = Controller(
            name,
            reconciler,
            sources=[CommitFeed(self.inventory.hub, heard, initial, name=f"the commits {name} hears")],
            options=ControllerOptions(workers=workers, quiet=True),
            clock=self.clock,
            registry=self.manager.registry,
        )
        self.manager.add(controller)
        return controller

    def every(self, resource: str) -> Callable[[], Iterable[Request]]:
        """The keys of all objects of a resource: what most controllers look at when they start."""
        return lambda: [Request(item.namespace, item.name) for item in self.inventory.items(resource)]


def itself(event: Event) -> Iterable[Request]:
    """The key of the object that changed or went."""
    return (Request(event.item.namespace, event.item.name),)


def itself_unless_gone(event: Event) -> Iterable[Request]:
    """The key of the object that changed; nothing when it went."""
    return () if event.deleted else (Request(event.item.namespace, event.item.name),)
