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
from kapi.storage.interface import MAX_OPERATIONS, Draft, Put
from virtual_time import run

RBAC_RESOURCES = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")


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


_POLICY = []
"""The default roles and bindings as they are stored, once a server has made them."""


async def grant_default_roles(api):
    """Store the default roles: controllers act as their service accounts. All but the first server get copies."""
    stores = [api.catalog.store(f"{name}.rbac.authorization.k8s.io") for name in RBAC_RESOURCES]
    if _POLICY and not len(stores[0].cache):
        for start in range(0, len(_POLICY), MAX_OPERATIONS):
            await api.storage.commit(_POLICY[start : start + MAX_OPERATIONS])
        return
    await ensure_policy(api.transport, api.catalog)
    if not _POLICY:
        _POLICY.extend(_copy(store, item) for store in stores for item in store.cache.items())


def _copy(store, item):
    before, field, rest = (store.head + item.body).partition(b'"resourceVersion":"')
    return Put(item.key, Draft(before + field, rest[rest.index(b'"') :]), 0)


@contextlib.asynccontextmanager
async def running_controllers(*controllers, settings=None, storage=None, **parts):
    """A `ControllerApi` on a store, with its controllers running; within `virtual_time.run`."""
    api = ControllerApi(storage, **parts)
    api.registry = CollectorRegistry()
    await api.start()
    await grant_default_roles(api)
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
