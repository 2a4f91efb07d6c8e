"""An API server in memory with some built-in controllers, in virtual time: what the tests of controllers use.

@with_controllers(add_garbage_collector)
async def test_something(api):
    await api.made(CM, cm("owner"))
    await api.run_until_idle()
"""

import asyncio
import contextlib
import functools
import inspect

from prometheus_client import CollectorRegistry

from api_client import Api
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.controllerset import ControllerSet
from kapi.controlplane.rbac.reconciliation import ensure_policy
from virtual_time import run


class ControllerApi(Api):
    """A server with controllers, and a client of it."""

    registry: CollectorRegistry

    async def run_until_idle(self, seconds=120.0):
        """Let virtual time pass, in which the controllers finish what they do."""
        await asyncio.sleep(seconds)

    def there(self, resource):
        """The (namespace, name) of all objects of a resource, such as `jobs.batch`."""
        return {(item.namespace, item.name) for item in self.catalog.store(resource).cache.items()}

    def find(self, resource, namespace, name):
        """One object, or None."""
        return self.catalog.get(resource, namespace, name)

    def controller_set(self, *controllers, settings=None, leadership=None):
        """The controllers of one more server on this API."""
        return ControllerSet(
            self.pipeline,
            self.catalog,
            controllers,
            settings=settings or ControllerSettings(),
            registry=self.registry,
            clock=self.clock,
            leadership=leadership,
        )


@contextlib.asynccontextmanager
async def running(controller_set):
    """Run a controller set in the background."""
    task = asyncio.ensure_future(controller_set.run())
    try:
        await asyncio.sleep(1)
        assert not task.done(), task
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def running_controllers(*controllers, settings=None, storage=None):
    """A `ControllerApi` on a store, with its controllers running; within `virtual_time.run`."""
    api = ControllerApi(storage)
    api.registry = CollectorRegistry()
    await api.start()
    # The controllers act as their service accounts, which have the permissions of the default roles.
    await ensure_policy(api.transport, api.catalog)
    try:
        async with running(api.controller_set(*controllers, settings=settings)):
            yield api
    finally:
        await api.stop()


def with_controllers(*controllers, settings=None):
    """Make a test of `test(api, …)`: against a new server with controllers, in virtual time."""

    def decorate(test):
        @functools.wraps(test)
        def runner(*args, **kwargs):
            async def main():
                async with running_controllers(*controllers, settings=settings) as api:
                    await test(api, *args, **kwargs)

            run(main())

        parameters = list(inspect.signature(test).parameters.values())[1:]
        runner.__signature__ = inspect.Signature(parameters)
        return runner

    return decorate
