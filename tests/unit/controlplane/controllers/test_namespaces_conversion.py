"""Namespaces with objects that a webhook must convert before they can be deleted, when the webhook is away.

The webhook is a socket, so these tests run in real time, and wait for events instead.
"""

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry

from api_client import NS
from converting_api import wired
from kapi.controlplane.controllers.house import Settings
from kapi.controlplane.controllers.keeper import keep_house
from kapi.controlplane.controllers.namespace import empty_namespaces
from webhook_server import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextlib.asynccontextmanager
async def _kept(api):
    keeper = asyncio.ensure_future(
        keep_house(
            api.pipeline,
            api.catalog,
            [empty_namespaces],
            settings=Settings(),
            registry=CollectorRegistry(),
            clock=api.clock,
        )
    )
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


@wired(seconds=2)
async def test_a_webhook_that_is_away_is_told_of_and_waited_for(api, webhook):
    await api.made(NS, {"metadata": {"name": "probe"}})
    await api.store_in("v1beta1")
    await api.listeners("a", "b", namespace="probe")
    await webhook.stop()
    async with _kept(api):
        watch = await api.watch(NS, resourceVersion=str(api.revision))
        await api.delete(f"{NS}/probe")
        _, told = await watch.take(2)
        said = {one["type"]: one for one in told["object"]["status"]["conditions"]}
        failure = said["NamespaceDeletionContentFailure"]
        assert (failure["status"], failure["reason"]) == ("True", "ContentDeletionFailed")
        assert failure["message"].startswith(
            "Failed to delete all resource types, 1 remaining: conversion webhook for net.example.dev/v1beta1, Kind=Listener"
        )
        assert said["NamespaceContentRemaining"]["message"].endswith("has 2 resource instances")
        await webhook.start()
        while (event := await watch.next())["type"] != "DELETED":
            assert event["object"]["status"]["phase"] == "Terminating"
    assert (await api.get(f"{NS}/probe")).status == 404
