"""An API server in memory with chosen parts of housekeeping at work, in virtual time: what the tests of those parts use.

@kept(collect_garbage)
async def test_something(api):
    await api.made(CM, cm("owner"))
    await api.settled()
"""

import asyncio
import contextlib
import functools
import inspect

from prometheus_client import CollectorRegistry

from api_client import Api
from kapi.controlplane.controllers.house import Settings
from kapi.controlplane.controllers.keeper import keep_house
from virtual_time import run


class KeptApi(Api):
    """A server whose house is kept, and a client of it."""

    registry: CollectorRegistry

    async def settled(self, seconds=120.0):
        """Let time pass, in which everything that is under way comes to its end."""
        await asyncio.sleep(seconds)

    def there(self, resource):
        """The (namespace, name) of all objects of a resource, such as `jobs.batch`."""
        return {(item.namespace, item.name) for item in self.catalog.store(resource).cache.items()}

    def find(self, resource, namespace, name):
        """One object, or None."""
        return self.catalog.get(resource, namespace, name)


@contextlib.asynccontextmanager
async def keeping(*parts, settings=None, storage=None):
    """A `KeptApi` on a store, with housekeeping running; within `virtual_time.run`."""
    api = KeptApi(storage)
    api.registry = CollectorRegistry()
    await api.start()
    keeper = asyncio.ensure_future(
        keep_house(
            api.pipeline,
            api.catalog,
            parts,
            settings=settings or Settings(),
            registry=api.registry,
            clock=api.clock,
        )
    )
    try:
        await asyncio.sleep(1)
        assert not keeper.done(), keeper
        yield api
        assert not keeper.done(), keeper
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await api.stop()


def kept(*parts, settings=None):
    """Make a test of `test(api, …)`: against a fresh server with parts of housekeeping, in virtual time."""

    def decorate(test):
        @functools.wraps(test)
        def runner(*args, **kwargs):
            async def main():
                async with keeping(*parts, settings=settings) as api:
                    await test(api, *args, **kwargs)

            run(main())

        parameters = list(inspect.signature(test).parameters.values())[1:]
        runner.__signature__ = inspect.Signature(parameters)
        return runner

    return decorate
