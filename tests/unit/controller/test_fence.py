import asyncio

import pytest
from controller_rig import A, Rig

from kapi.controller.fence import Fenced
from virtual_time import run


def test_what_is_awaited_goes_on_while_it_may_act():
    async def work():
        await asyncio.sleep(1)
        with pytest.raises(ZeroDivisionError):
            await fail()
        return "done"

    async def fail():
        await asyncio.sleep(1)
        raise ZeroDivisionError

    async def main():
        assert await Fenced(work(), lambda: True) == "done"

    run(main())


def test_nothing_runs_after_a_wait_once_it_may_not_act():
    ran, may_act = [], True

    async def work():
        ran.append("before")
        try:
            await asyncio.sleep(10)
            ran.append("after")
        finally:
            ran.append("cleaned up")

    async def main():
        nonlocal may_act
        task = asyncio.ensure_future(_awaited(Fenced(work(), lambda: may_act)))
        await asyncio.sleep(5)
        may_act = False
        with pytest.raises(asyncio.CancelledError, match="does not lead"):
            await task

    run(main())
    assert ran == ["before", "cleaned up"]


def test_code_that_ignores_the_cancellation_is_cancelled_at_each_wait():
    ran = []

    async def work():
        for _ in range(3):
            try:
                await asyncio.sleep(1)
                ran.append("after")
            except asyncio.CancelledError:
                ran.append("cancelled")

    async def main():
        asked = iter([True, False, False, False])
        await Fenced(work(), lambda: next(asked))

    run(main())
    assert ran == ["cancelled"] * 3


def test_a_cancellation_of_the_task_reaches_the_coroutine():
    async def main():
        task = asyncio.ensure_future(_awaited(Fenced(asyncio.sleep(10), lambda: True)))
        await asyncio.sleep(1)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


async def _awaited(fenced):
    return await fenced


def test_a_reconcile_that_was_fenced_off_is_no_failure_and_does_not_come_back():
    async def main():
        calls = []

        async def reconcile(request):
            calls.append(request)
            await asyncio.sleep(10)
            calls.append("acted")

        rig, is_leading = Rig(reconcile), True
        rig.controller.may_act = lambda: is_leading
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(5)
            is_leading = False
            await asyncio.sleep(500)
            assert calls == [A]
            assert not rig.read("reconcile_errors_total")

    run(main())
