"""The protocols between a controller and the host that runs it.

A manager is a host; tests may use another. Controllers know hosts only by these protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.client.client import Client
    from kapi.client.mapper import RESTMapper
    from kapi.informer.factory import SharedInformerFactory


class Runnable(Protocol):
    """A task of a host: runs until `stop` is called, or until it is cancelled."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    @property
    def needs_leader_election(self) -> bool:
        """Return True if only the leader may run it."""
        ...

    async def run(self) -> None:
        """Run until stopped. An error that it raises stops the host."""
        ...

    def stop(self) -> None:
        """Stop gracefully: `run` returns when work in progress is finished. May be called before `run`, and again."""
        ...


@runtime_checkable
class Measured(Protocol):
    """An object with metrics."""

    def measure(self, registry: CollectorRegistry, /) -> None:
        """Register the metrics, and count from now on."""
        ...


class WatchedCluster(Protocol):
    """A cluster whose objects controllers watch."""

    @property
    def informers(self) -> SharedInformerFactory:
        """The caches all controllers share."""
        ...

    @property
    def mapper(self) -> RESTMapper:
        """The REST mapper."""
        ...

    @property
    def client(self) -> Client:
        """The client with which objects are read for reconcilers that take them."""
        ...


class ControllerHost(WatchedCluster, Protocol):
    """Runs controllers, and holds what they share. What is watched is in its own cluster unless another is named."""

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def registry(self) -> CollectorRegistry:
        """The registry of all metrics."""
        ...

    def add(self, runnable: Runnable, /) -> None:
        """Run it with the others."""
        ...
