"""A server that is started again on the same data: it serves every definition, and finishes what was begun."""

import asyncio

import pytest

from api_client import serving
from custom_kinds import CRDS, WIDGET_CRD, WIDGETS, conditions, defined, definition, gone, until, version, widget
from kapi.storage.memory import MemoryStorage
from kapi.storage.sqlite.storage import SqliteStorage
from virtual_time import run

HELD = {"finalizers": ["example.com/hold"]}


def two_runs(first, second, storages):
    """Run two coroutines against servers that are started one after the other on the same data."""
    open_, close, runner = storages

    async def main():
        for part in (first, second):
            storage = await open_()
            try:
                async with serving(storage) as api:
                    await part(api)
            finally:
                await close(storage)

    runner(main())


def in_memory():
    storage = MemoryStorage()

    async def open_():
        return storage

    async def close(_):
        pass

    return open_, close, run


def on_disk(path):
    async def open_():
        return await SqliteStorage.open(path)

    async def close(storage):
        await storage.close()

    # The writer's thread knows nothing of virtual time.
    return open_, close, asyncio.run


@pytest.fixture(params=["memory", "sqlite"])
def storages(request, tmp_path):
    return in_memory() if request.param == "memory" else on_disk(tmp_path / "state.db")


def test_after_a_restart_everything_is_served_as_before(storages):
    kept = {}

    async def before(api):
        beta = version("v1beta1")
        await defined(api, definition(versions=[version("v1", storage=True), beta]), definition("Gadget"))
        await api.made(WIDGETS, widget("a", {"size": 3}))
        kept["object"] = (await api.get(f"{WIDGETS}/a")).raw
        kept["discovery"] = (await api.get("/apis/example.com/v1")).raw
        kept["definition"] = (await api.get(WIDGET_CRD)).raw

    async def after(api):
        assert (await api.get(f"{WIDGETS}/a")).raw == kept["object"]
        assert (await api.get("/apis/example.com/v1")).raw == kept["discovery"]
        assert (await api.get(WIDGET_CRD)).raw == kept["definition"]
        assert (await api.get("/apis/example.com/v1beta1/namespaces/default/widgets/a"))["spec"]["size"] == 3
        assert (await api.post(WIDGETS, widget("b"))).status == 201
        assert (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 4}})).status == 200
        refused = await api.post(WIDGETS, widget("c", {"size": "x"}))
        assert refused.status == 422

    two_runs(before, after, storages)


def test_after_a_restart_a_deletion_that_had_begun_is_finished(storages):
    async def before(api):
        async def has_begun():
            return conditions((await api.get(WIDGET_CRD)).json)["Terminating"][1] == "InstanceDeletionInProgress"

        await defined(api, definition(), definition("Widget", plural="widgetz"))
        await api.made(WIDGETS, widget("held", metadata=HELD))
        await api.delete(WIDGET_CRD)
        await until(has_begun)

    async def after(api):
        async def is_established():
            return conditions((await api.get(f"{CRDS}/widgetz.example.com")).json)["Established"][0] == "True"

        assert (await api.post(WIDGETS, widget("new"))).status == 403
        await api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
        await gone(api, "widgets.example.com")
        # And what waited for its names gets them.
        await until(is_established)

    two_runs(before, after, storages)


def test_a_definition_marked_just_before_a_restart_is_emptied_after_it(storages):
    async def before(api):
        await defined(api, definition())
        await api.made(WIDGETS, widget())
        api._definition_controller.cancel()
        await asyncio.gather(api._definition_controller, return_exceptions=True)
        await api.delete(WIDGET_CRD)
        assert (await api.get(f"{WIDGETS}/w")).status == 200

    async def after(api):
        await gone(api, "widgets.example.com")
        assert (await api.get(WIDGETS)).status == 404

    two_runs(before, after, storages)
