"""Tests of the controller of CustomResourceDefinitions: names, deletion of instances, retries, and shutdown."""

import asyncio
import itertools

import pytest

from api_client import Api
from custom_kinds import (
    CRDS,
    GROUP,
    WIDGET_CRD,
    WIDGETS,
    background_work,
    conditions,
    defined,
    definition,
    gone,
    until,
    widget,
)
from kapi.api.errors import InternalError
from kapi.registry.custom.definitioncontroller import FIRST_BACKOFF, DefinitionController
from kapi.storage.interface import StorageBusy
from virtual_time import run

HELD = {"finalizers": ["example.com/hold"]}


def controlled(test):
    """Run `test(api, controller)` on a server whose definition controller the test starts itself."""

    def runner():
        async def main():
            api = Api()
            await api.catalog.load()
            await api.made("/api/v1/namespaces", {"metadata": {"name": "default"}})
            controller = _Runner(DefinitionController(api.catalog))
            try:
                async with asyncio.timeout(3600):
                    await test(api, controller)
            finally:
                await controller.stop()
                await api.transport.close()
                api.catalog.hub.close()

        run(main())

    runner.__name__ = test.__name__
    return runner


class _Runner:
    def __init__(self, controller):
        self._controller = controller
        self._task = None

    def start(self):
        self._task = asyncio.ensure_future(self._controller.run())

    async def stop(self):
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def terminating(api):
    return conditions((await api.get(WIDGET_CRD)).json).get("Terminating")


@controlled
async def test_a_deletion_begun_before_the_start_is_finished(api, controller):
    await defined(api, definition(), definition("Widget", plural="widgetz"))
    await api.made(WIDGETS, widget())
    await api.delete(WIDGET_CRD)
    await background_work()
    assert await terminating(api) == ("True", "InstanceDeletionPending")
    assert (await api.get(WIDGETS)).names == ["w"]
    controller.start()
    await gone(api, f"widgets.{GROUP}")
    await background_work()
    assert conditions((await api.get(f"{CRDS}/widgetz.{GROUP}")).json)["Established"][0] == "True"


@controlled
async def test_a_change_during_a_sync_is_not_missed(api, controller):
    controller.start()
    await defined(api, definition())
    for number in range(20):
        # Created and deleted at once: the second event arrives while the first is synced.
        name = f"widgetz{number}"
        await defined(api, definition("Widget", plural=name))
        assert (await api.delete(f"{CRDS}/{name}.{GROUP}")).status == 200
    await background_work()
    assert (await api.get(CRDS)).names == [f"widgets.{GROUP}"]


@controlled
async def test_a_released_name_is_accepted_for_one_waiting_definition(api, controller):
    controller.start()
    plurals = [f"widget{letter}" for letter in "abcde"]
    for plural in plurals:
        await defined(api, definition("Widget", plural=plural))
    left = list(plurals)
    while left:
        states = {
            plural: conditions((await api.get(f"{CRDS}/{plural}.{GROUP}")).json)["Established"][0] for plural in left
        }
        (winner,) = [plural for plural, state in states.items() if state == "True"]
        await api.delete(f"{CRDS}/{winner}.{GROUP}")
        await gone(api, f"{winner}.{GROUP}")
        await background_work()
        left.remove(winner)


@controlled
async def test_the_finalizer_stays_until_the_last_instance_is_deleted(api, controller):
    controller.start()
    await defined(api, definition())
    for name in "ab":
        await api.made(WIDGETS, widget(name, metadata=HELD))
    await api.delete(WIDGET_CRD)
    await background_work()
    await api.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    await asyncio.sleep(1800)
    assert await terminating(api) == ("True", "InstanceDeletionInProgress")
    await api.patch(f"{WIDGETS}/b", {"metadata": {"finalizers": None}})
    await gone(api, f"widgets.{GROUP}")


@controlled
async def test_a_failed_deletion_is_reported_in_a_condition_and_retried_with_backoff(api, controller):
    controller.start()
    await defined(api, definition())
    await api.made(WIDGETS, widget())
    store = api.catalog.find(GROUP, "v1", "widgets").stored
    real, attempts = store.remove, []

    async def failing(*arguments):
        attempts.append(api.clock.monotonic())
        if len(attempts) < 4:
            raise InternalError.of("the webhook is unavailable")
        return await real(*arguments)

    store.remove = failing
    await api.delete(WIDGET_CRD)

    async def is_reported():
        return await terminating(api) == ("True", "InstanceDeletionFailed")

    await until(is_reported)
    message = next(one for one in (await api.get(WIDGET_CRD))["status"]["conditions"] if one["type"] == "Terminating")
    assert message["message"] == "could not issue all deletes: Internal error occurred: the webhook is unavailable"
    await gone(api, f"widgets.{GROUP}")
    pauses = [after - before for before, after in itertools.pairwise(attempts)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(FIRST_BACKOFF)


@controlled
async def test_an_unexpected_error_is_retried_and_kept_to_its_definition(api, controller):
    controller.start()
    await defined(api, definition())
    real, attempts = api.storage.put, []

    async def broken(*arguments):
        attempts.append(1)
        if len(attempts) == 2:
            raise ZeroDivisionError
        return await real(*arguments)

    api.storage.put = broken
    await api.delete(WIDGET_CRD)
    await gone(api, f"widgets.{GROUP}")
    assert len(attempts) > 2


@controlled
async def test_a_busy_store_is_retried(api, controller):
    controller.start()
    await defined(api, definition())
    real, attempts = api.storage.put, []

    async def busy(*arguments):
        attempts.append(1)
        if len(attempts) in (2, 3):
            raise StorageBusy
        return await real(*arguments)

    api.storage.put = busy
    await api.delete(WIDGET_CRD)
    await gone(api, f"widgets.{GROUP}")
    assert len(attempts) > 3


@controlled
async def test_shutdown_cancels_all_tasks(api, controller):
    controller.start()
    await defined(api, definition())
    await api.made(WIDGETS, widget(metadata=HELD))
    await api.delete(WIDGET_CRD)
    await background_work()
    tasks = asyncio.all_tasks()
    await controller.stop()
    assert len(asyncio.all_tasks()) < len(tasks)
    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    await background_work()
    assert (await api.get(WIDGET_CRD)).status == 200


@controlled
async def test_a_definition_whose_finalizer_was_removed_by_hand_is_deleted(api, controller):
    controller.start()
    await defined(api, definition())
    await api.made(WIDGETS, widget(metadata=HELD))
    await api.delete(WIDGET_CRD)
    await background_work()
    assert (await api.patch(WIDGET_CRD, {"metadata": {"finalizers": None}})).status == 200
    assert (await api.get(WIDGET_CRD)).status == 404
    await background_work()
    # Made again, it has what was left behind, as its keys say.
    await defined(api, definition())
    assert (await api.get(WIDGETS)).names == ["w"]
