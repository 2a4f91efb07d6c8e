"""What a controller needs around it, as protocols: somebody who runs it, and the things all controllers share.

A manager is a host; so is whatever a test puts together. Controllers know hosts only by this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kapi.base.clock import Clock
    from kapi.client.mapper import RESTMapper
    from kapi.informer.factory import SharedInformerFactory


class Runnable(Protocol):
    """Something a host runs: until `stop` lets it come to its end, or until it is cancelled."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    @property
    def needs_leader_election(self) -> bool:
        """Whether only the leader may run it."""
        ...

    async def run(self) -> None:
        """Work until stopped. An error that comes out of it is one the host cannot go on with."""
        ...

    def stop(self) -> None:
        """Come to an end: `run` returns when what is going on is finished. May be called before `run`, and again."""
        ...


@runtime_checkable
class Measured(Protocol):
    """Something that has metrics, and is told where they go."""

    def measure(self, registry: CollectorRegistry, /) -> None:
        """Count in a registry from now on."""
        ...


class ControllerHost(Protocol):
    """Who runs controllers."""

    @property
    def informers(self) -> SharedInformerFactory:
        """The caches all controllers share."""
        ...

    @property
    def mapper(self) -> RESTMapper:
        """Which kinds the server serves, and whether they live in namespaces."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def registry(self) -> CollectorRegistry:
        """Where metrics go."""
        ...

    def add(self, runnable: Runnable, /) -> None:
        """Run it with the others."""
        ...
