"""Garbage collection of kinds with a conversion webhook that is unavailable: metadata is the same in all versions.

The webhook is a socket, so these tests run in real time, and wait for events.
"""

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry

from api_client import CM, cm
from converting_api import wired
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.controllerset import ControllerSet
from kapi.controlplane.controllers.garbagecollector.collector import add_garbage_collector
from kapi.controlplane.controllers.garbagecollector.metadata import metadata_of
from kapi.controlplane.rbac.reconciliation import ensure_policy
from owned_objects import blocking, owned
from webhook_server import NAME as LISTENERS
from webhook_server import V1BETA1, Certificates, listener, path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextlib.asynccontextmanager
async def controllers_running(api):
    await ensure_policy(api.transport, api.catalog)
    controllers = ControllerSet(
        api.pipeline,
        api.catalog,
        [add_garbage_collector],
        settings=ControllerSettings(),
        registry=CollectorRegistry(),
        clock=api.clock,
    )
    task = asyncio.ensure_future(controllers.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_dependents_are_deleted_without_conversion(policy, certificates):
    @wired
    async def check(api, webhook):
        """Stored in v1beta1, preferred in v1."""
        await api.store_in("v1beta1")
        owner = await api.made(CM, cm("owner"))
        child = listener("child", V1BETA1)
        child["metadata"]["ownerReferences"] = [blocking(owner)]
        made = await api.made(path(V1BETA1), child)
        await api.made(CM, owned("grandchild", blocking(made)))
        watch = await api.watch(CM, resourceVersion=str(api.revision))
        calls = len(webhook.calls)
        await webhook.stop()
        async with controllers_running(api):
            await api.delete(f"{CM}/owner", propagationPolicy=policy)
            gone = set()
            while gone != ({"owner"} if policy == "Orphan" else {"owner", "grandchild"}):
                event = await watch.next()
                if event["type"] == "DELETED":
                    gone.add(event["object"]["metadata"]["name"])
        assert len(webhook.calls) == calls
        left = api.catalog.store(LISTENERS).cache.items()
        assert [metadata_of(item).references for item in left] == ([[]] if policy == "Orphan" else [])

    check(certificates)
