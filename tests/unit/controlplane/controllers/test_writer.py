"""The writes of controllers, and their preconditions."""

import pytest

from api_client import CM, NS, cm
from controller_api import with_controllers
from kapi.api.errors import Conflict, Forbidden, NotFound
from kapi.client.errors import NoMatch
from kapi.controlplane.controllers.view import CacheView
from kapi.controlplane.controllers.writer import Writer, is_namespace_terminating
from kapi.controlplane.loopback import loopback_client


def writer_of(api):
    return Writer(loopback_client(api.transport, agent="test").rest, CacheView(api.catalog))


def config_map(name, namespace="default", **fields):
    return cm(name) | {"metadata": {"name": name, "namespace": namespace, **fields}}


@with_controllers()
async def test_objects_are_created_updated_and_deleted_by_their_kind(api):
    writer = writer_of(api)
    made = await writer.create(config_map("a"))
    updated = await writer.update({**made, "data": {"x": "1"}})
    assert api.find("configmaps", "default", "a")["data"] == {"x": "1"}
    with pytest.raises(Conflict):
        await writer.update(made)
    await writer.delete(updated)
    assert api.find("configmaps", "default", "a") is None
    with pytest.raises(NoMatch, match=r"example\.com/v1 Widget is not served"):
        await writer.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})


@with_controllers()
async def test_only_this_very_object_is_deleted(api):
    writer = writer_of(api)
    former = await writer.create(config_map("a"))
    await writer.delete(former)
    await writer.create(config_map("a"))
    with pytest.raises(Conflict):
        await writer.delete(former)
    assert api.find("configmaps", "default", "a") is not None


@with_controllers()
async def test_a_changed_object_is_not_deleted_if_it_must_be_unchanged(api):
    writer = writer_of(api)
    made = await writer.create(config_map("a"))
    await writer.update({**made, "data": {"x": "1"}})
    with pytest.raises(Conflict):
        await writer.delete(made, unchanged=True)
    await writer.delete(made)
    with pytest.raises(NotFound):
        await writer.delete(made)


@with_controllers()
async def test_metadata_is_read_from_the_store(api):
    writer, resource = writer_of(api), CacheView(api.catalog).of_kind("v1", "ConfigMap")
    made = await api.made(CM, cm("a"))
    assert (await writer.read_metadata(resource, "default", "a"))["uid"] == made["metadata"]["uid"]
    assert await writer.read_metadata(resource, "default", "b") is None


@with_controllers()
async def test_a_write_into_a_terminating_namespace_is_recognised(api):
    writer = writer_of(api)
    await api.made(NS, {"metadata": {"name": "other"}})
    await api.delete(f"{NS}/other")
    with pytest.raises(Forbidden) as refused:
        await writer.create(config_map("a", "other"))
    assert is_namespace_terminating(refused.value)
    assert not is_namespace_terminating(Forbidden("no"))
