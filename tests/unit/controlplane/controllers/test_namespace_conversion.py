"""Namespaces with objects of a kind whose conversion webhook is unavailable.

The webhook is a socket, so these tests run in real time, and wait for events.
"""

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry

from api_client import NS
from converting_api import wired
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.controllerset import ControllerSet
from kapi.controlplane.controllers.namespace.controller import add_namespace_controller
from kapi.controlplane.rbac.reconciliation import ensure_policy
from webhook_server import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextlib.asynccontextmanager
async def controllers_running(api):
    await ensure_policy(api.transport, api.catalog)
    controllers = ControllerSet(
        api.pipeline,
        api.catalog,
        [add_namespace_controller],
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


@wired(seconds=2)
async def test_an_unavailable_conversion_webhook_is_reported_and_retried(api, webhook):
    await api.made(NS, {"metadata": {"name": "probe"}})
    await api.store_in("v1beta1")
    await api.listeners("a", "b", namespace="probe")
    await webhook.stop()
    async with controllers_running(api):
        watch = await api.watch(NS, resourceVersion=str(api.revision))
        await api.delete(f"{NS}/probe")
        _, reported = await watch.take(2)
        conditions = {one["type"]: one for one in reported["object"]["status"]["conditions"]}
        failure = conditions["NamespaceDeletionContentFailure"]
        assert (failure["status"], failure["reason"]) == ("True", "ContentDeletionFailed")
        assert failure["message"].startswith(
            "Failed to delete all resource types, 1 remaining: conversion webhook for net.example.dev/v1beta1, Kind=Listener"
        )
        assert conditions["NamespaceContentRemaining"]["message"].endswith("has 2 resource instances")
        await webhook.start()
        while (event := await watch.next())["type"] != "DELETED":
            assert event["object"]["status"]["phase"] == "Terminating"
    assert (await api.get(f"{NS}/probe")).status == 404
