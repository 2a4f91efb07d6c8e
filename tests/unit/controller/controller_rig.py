"""A controller under test, with a trigger to set it off and its metrics at hand."""

import asyncio
import contextlib

from prometheus_client import CollectorRegistry

from kapi.controller.controller import Controller, ControllerOptions
from kapi.controller.queue.ratelimit import ItemExponential
from kapi.controller.reconcile import Request
from kapi.controller.source import Trigger
from virtual_time import LoopClock

A, B, C = (Request("default", name) for name in "abc")


def now():
    return round(asyncio.get_running_loop().time() - 1000.0, 6)


class Rig:
    """A controller under test, its trigger, and what it was told to do."""

    def __init__(self, reconciler, *, sources=(), **options):
        self.registry = CollectorRegistry()
        self.trigger = Trigger()
        options.setdefault("rate_limiter", ItemExponential(1, 100))
        self.controller = Controller(
            "networks",
            reconciler,
            sources=[self.trigger, *sources],
            options=ControllerOptions(**options),
            clock=LoopClock(),
            registry=self.registry,
            log_fields={"controllerKind": "Network"},
        )

    def read(self, metric, **labels):
        return self.registry.get_sample_value(f"controller_runtime_{metric}", {"controller": "networks", **labels})

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.controller.run())
        await asyncio.sleep(0.001)
        try:
            yield task
        finally:
            self.controller.stop()
            await task
