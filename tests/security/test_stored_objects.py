"""Nothing that is stored stops the server: random patches of every kind, as valid as the API takes, then a restart.

Values are made from the schemas, with fields left out, null or empty at random: Kubernetes does not enforce the
required fields of a status. A first server takes the patches with its controllers running; a second one starts on what
it stored, shows the same objects, and runs the controllers on them.
"""

import asyncio
import contextlib
import os
import random

import msgspec
import pytest
import structlog
from every_route import STORED, collection, item
from valid_objects import make_all

from api_client import JSON_PATCH, MERGE, Api, serving
from controller_api import running_controllers
from custom_kinds import CRDS, WIDGET_CRD
from custom_kinds import definition as custom_definition
from fuzz.values import made_up
from kapi.cache.invalidobjects import InvalidObjects
from kapi.controlplane.controllers.context import ControllerSettings
from kapi.controlplane.controllers.controllerset import CONTROLLERS
from kapi.registry.custom import definitioncontroller, definitions, version
from kapi.schema.builtin.definitions import definition, definition_name
from kapi.storage.memory import MemoryStorage
from virtual_time import run

SEEDS = int(os.environ.get("KAPI_RESTART_SEEDS", "3"))
"""The long form: KAPI_RESTART_SEEDS=300."""
PATCHES = 6


def metadata(rng):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "it", "uid": rng.choice(["u", "x-1"])}
    return {
        "labels": rng.choice([None, {}, {"a": "b"}]),
        "annotations": rng.choice([None, {"a": ""}]),
        "ownerReferences": rng.choice([None, [], [owner]]),
        "finalizers": rng.choice([None, ["example.com/hold"]]),
    }


async def patch_everything(api, rng):
    """Patch an object of every kind at random; how many patches were accepted, and how many refused."""
    accepted = refused = 0
    for resource in STORED:
        name = definition_name(resource.group, resource.version, resource.kind)
        if name is None:
            continue  # An older version of definitions, without a schema of its own.
        fields = definition(name).properties
        for _ in range(PATCHES):
            part = rng.choice([one for one in ("spec", "status", "status", "metadata", *fields) if one in fields])
            if part in ("kind", "apiVersion"):
                continue
            body = {part: metadata(rng) if part == "metadata" else made_up(rng, fields[part])}
            target = (
                f"{item(resource)}/status" if part == "status" and "status" in resource.subresources else item(resource)
            )
            answer = await api.patch(target, body, MERGE)
            assert answer.status < 500, (target, body, answer)
            accepted += answer.status == 200
            refused += answer.status != 200
    return accepted, refused


async def everything(api):
    """All objects of all kinds, as lists show them."""
    return {collection(resource): (await api.get(collection(resource)))["items"] for resource in STORED}


@contextlib.asynccontextmanager
async def serving_with_controllers(storage):
    settings = ControllerSettings(authority=b"-----BEGIN CERTIFICATE-----", port=6443)
    async with running_controllers(*CONTROLLERS.values(), settings=settings, storage=storage) as api:
        yield api


async def patch_and_restart(seed):
    """Both servers' lives; what they recorded as invalid, and the logs that speak of failures."""
    rng, storage = random.Random(seed), MemoryStorage()
    with structlog.testing.capture_logs() as logs:
        async with serving_with_controllers(storage) as api:
            await make_all(api)
            accepted, refused = await patch_everything(api, rng)
            await asyncio.sleep(60)
            invalid = [api.catalog.hub.invalid.check()]
        second = Api(storage)
        await second.start()
        before = await everything(second)
        invalid.append(second.catalog.hub.invalid.check())
        await second.stop()
        async with serving_with_controllers(storage) as api:
            assert await everything(api) is not None
            await asyncio.sleep(60)
            assert (await api.post("/api/v1/namespaces", {"metadata": {"name": f"new-{seed}"}})).status == 201
            invalid.append(api.catalog.hub.invalid.check())
    assert accepted > 100, (accepted, refused)
    assert len(before) == len({collection(resource) for resource in STORED})
    return invalid, [log for log in logs if log["log_level"] in ("error", "critical")]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_server_restarts_after_any_patch_it_accepted(seed):
    invalid, failures = run(patch_and_restart(seed))
    assert invalid == [None, None, None]
    assert failures == []


# -- planted bugs

CONDITION_WITHOUT_TYPE = [{"op": "add", "path": "/status/conditions", "value": [{"message": "patched"}]}]


@pytest.fixture
def strict_outlines(monkeypatch):
    """Plant a bug: what serves definitions raises for one that has a condition without a type."""

    def outline_of(definition):
        outline = version.outline_of(definition)
        if any(not condition.type for condition in outline.status.conditions or ()):
            raise msgspec.ValidationError("Object missing required field `type`")
        return outline

    for module in (definitions, definitioncontroller):
        monkeypatch.setattr(module, "outline_of", outline_of)


@pytest.fixture
def no_guard(monkeypatch):
    """Plant a bug: what cannot be processed is raised."""

    def record(self, key, part, error):
        raise error

    monkeypatch.setattr(InvalidObjects, "record", record)


async def patch_a_definition(storage):
    async with serving(storage) as api:
        await api.made(CRDS, custom_definition())
        answer = await api.patch(f"{WIDGET_CRD}/status", CONDITION_WITHOUT_TYPE, JSON_PATCH)
        assert answer.status == 200, answer


@pytest.mark.usefixtures("strict_outlines")
def test_with_the_guard_a_follower_that_raises_skips_only_its_object():
    async def main():
        storage = MemoryStorage()
        await patch_a_definition(storage)
        async with serving(storage) as api:
            assert "widgets.example.com (registry.custom" in api.catalog.hub.invalid.check()
            assert (await api.get(WIDGET_CRD)).status == 200
            assert (await api.delete(WIDGET_CRD)).status == 200

    run(main())


@pytest.mark.usefixtures("strict_outlines", "no_guard")
def test_without_the_guard_a_follower_that_raises_stops_the_store_and_every_start():
    async def main():
        storage = MemoryStorage()
        with pytest.raises(AssertionError, match="the storage has failed"):
            await patch_a_definition(storage)
        storage._failure = None
        with pytest.raises(msgspec.ValidationError):
            await patch_a_definition(storage)

    run(main())
