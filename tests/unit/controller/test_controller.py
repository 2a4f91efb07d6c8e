"""Workers and what becomes of the keys they reconcile, in virtual time."""

import asyncio
import itertools

import pytest
from controller_rig import A, B, C, Rig, now
from structlog.testing import capture_logs

from kapi.controller.controller import Controller, ControllerOptions, reconcile_id, reconcile_log
from kapi.controller.queue import LOW_PRIORITY
from kapi.controller.reconcile import Request, Result, TerminalError
from kapi.controller.source import Trigger
from virtual_time import run


def test_every_key_is_reconciled_and_a_success_needs_no_second_time():
    async def main():
        seen = []

        async def reconcile(request):
            seen.append(request)

        rig = Rig(reconcile)
        rig.trigger.fire(A)
        async with rig.running():
            rig.trigger.fire(B)
            await asyncio.sleep(10_000)
        assert seen == [A, B]
        assert rig.read("reconcile_total", result="success") == 2
        assert rig.read("reconcile_time_seconds_count") == 2
        assert rig.read("reconcile_errors_total") == 0

    run(main())


def test_a_failing_key_comes_back_later_each_time_while_others_go_on_and_starts_anew_after_a_success():
    async def main():
        times, failing = [], True

        async def reconcile(request):
            if request == A:
                times.append(now())
                if failing:
                    raise OSError("the world is not ready")

        rig = Rig(reconcile)
        async with rig.running():
            start = now()
            rig.trigger.fire(A)
            await asyncio.sleep(3.5)
            rig.trigger.fire(B)
            await asyncio.sleep(6)
            assert [round(time - start, 3) for time in times] == [0, 1, 3, 7]
            assert rig.controller.queue.num_requeues(A) == 4
            failing = False
            await asyncio.sleep(100)
            assert rig.controller.queue.num_requeues(A) == 0
        assert len(times) == 5
        assert rig.read("reconcile_total", result="error") == 4
        assert rig.read("reconcile_total", result="success") == 2
        assert rig.read("reconcile_errors_total") == 4
        assert rig.read("terminal_reconcile_errors_total") == 0
        assert rig.read("reconcile_panics_total") == 0

    run(main())


@pytest.mark.parametrize(
    "error",
    [TerminalError("no such zone"), ExceptionGroup("both", [TerminalError("x"), TerminalError("y")])],
    ids=["one", "group"],
)
def test_a_terminal_error_waits_for_the_next_change(error):
    async def main():
        calls = []

        async def reconcile(request):
            calls.append(request)
            raise error

        rig = Rig(reconcile)
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(10_000)
            assert len(calls) == 1
            rig.trigger.fire(A)
            await asyncio.sleep(10_000)
        assert len(calls) == 2
        assert rig.controller.queue.num_requeues(A) == 0
        assert rig.read("terminal_reconcile_errors_total") == 2
        assert rig.read("reconcile_errors_total") == 2

    run(main())


def test_a_terminal_error_ends_the_backing_off_of_the_failures_before_it():
    async def main():
        outcomes = [OSError("a"), OSError("b"), TerminalError("c")]

        async def reconcile(request):
            if outcomes:
                raise outcomes.pop(0)

        rig = Rig(reconcile)
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(1.5)
            assert rig.controller.queue.num_requeues(A) == 2
            await asyncio.sleep(10)
            assert not outcomes
            assert rig.controller.queue.num_requeues(A) == 0

    run(main())


def test_a_failing_key_keeps_its_priority():
    async def main():
        order = []

        async def reconcile(request):
            order.append(request.name)
            if len(order) == 1:
                raise OSError("once")
            await asyncio.sleep(5)

        rig = Rig(reconcile)
        rig.trigger.fire(A, priority=LOW_PRIORITY)
        async with rig.running():
            rig.trigger.fire(B)
            # A is back while the worker is busy with B, and C comes after it.
            await asyncio.sleep(3)
            rig.trigger.fire(C)
            await asyncio.sleep(100)
        assert "".join(order) == "abca"

    run(main())


def test_a_result_can_ask_for_a_time_and_that_is_not_a_failure():
    async def main():
        times = []

        async def reconcile(request):
            times.append(now())
            if len(times) in (1, 2, 4):
                raise OSError
            return Result(requeue_after=30) if len(times) < 6 else None

        rig = Rig(reconcile)
        async with rig.running():
            start = now()
            rig.trigger.fire(A)
            await asyncio.sleep(1000)
        assert [round(time - start, 3) for time in times] == [0, 1, 3, 33, 34, 64]
        assert rig.controller.queue.num_requeues(A) == 0
        assert rig.read("reconcile_total", result="requeue_after") == 2

    run(main())


def test_a_result_can_ask_to_come_back_with_backing_off():
    async def main():
        times = []

        async def reconcile(request):
            times.append(now())
            return Result(requeue=len(times) < 4)

        rig = Rig(reconcile)
        async with rig.running():
            start = now()
            rig.trigger.fire(A)
            await asyncio.sleep(1000)
        assert [round(time - start, 3) for time in times] == [0, 1, 3, 7]
        assert rig.read("reconcile_total", result="requeue") == 3
        assert rig.read("reconcile_total", result="success") == 1

    run(main())


def test_a_key_comes_back_with_the_priority_it_had_unless_the_result_says_otherwise():
    async def main():
        order = []

        async def reconcile(request):
            order.append(request.name)
            if len(order) <= 3:
                return Result(requeue_after=5, priority=7 if request == C else None)
            return None

        rig = Rig(reconcile)
        rig.trigger.fire(A, priority=LOW_PRIORITY)
        rig.trigger.fire(B)
        rig.trigger.fire(C, priority=LOW_PRIORITY)
        async with rig.running():
            await asyncio.sleep(100)
        assert "".join(order) == "baccba"

    run(main())


def test_so_many_workers_work_at_once_and_never_two_on_one_key():
    async def main():
        busy, most = [], 0

        async def reconcile(request):
            nonlocal most
            assert request not in busy
            busy.append(request)
            most = max(most, len(busy))
            assert rig.read("active_workers") == len(busy)
            await asyncio.sleep(5)
            busy.remove(request)

        rig = Rig(reconcile, workers=3)
        async with rig.running():
            for _ in range(4):
                for name in "abcdefg":
                    rig.trigger.fire(Request("", name))
                await asyncio.sleep(3)
            await asyncio.sleep(100)
        assert most == 3
        assert rig.read("max_concurrent_reconciles") == 3
        assert rig.read("active_workers") == 0
        assert rig.read("reconcile_errors_total") == 0

    run(main())


def test_a_reconcile_that_takes_too_long_is_cancelled_counted_and_tried_again():
    async def main():
        times = []

        async def reconcile(request):
            times.append(now())
            if len(times) == 1:
                await asyncio.sleep(3600)

        rig = Rig(reconcile, timeout=10)
        with capture_logs() as logs:
            async with rig.running():
                start = now()
                rig.trigger.fire(A)
                await asyncio.sleep(100)
        assert [round(time - start, 3) for time in times] == [0, 11]
        assert rig.read("reconcile_timeouts_total") == 1
        assert rig.read("reconcile_errors_total") == 1
        assert "the reconcile took longer than 10 s" in [line.get("error") for line in logs]

    run(main())


def test_a_timeout_of_the_reconcilers_own_is_an_error_like_any_other():
    async def main():
        async def reconcile(request):
            async with asyncio.timeout(1):
                await asyncio.sleep(3600)

        rig = Rig(reconcile, timeout=10)
        with capture_logs() as logs:
            async with rig.running():
                rig.trigger.fire(A)
                await asyncio.sleep(1.5)
        assert "the reconcile took longer than 10 s" not in [line.get("error") for line in logs]
        assert rig.read("reconcile_timeouts_total") == 0
        assert rig.read("reconcile_errors_total") == 1

    run(main())


@pytest.mark.parametrize(
    "mistake",
    [AttributeError("x"), KeyError("spec"), ZeroDivisionError(), ExceptionGroup("g", [OSError(), TypeError()])],
    ids=["attribute", "key", "arithmetic", "in a group"],
)
def test_mistakes_of_the_program_are_counted_apart_and_tried_again(mistake):
    async def main():
        calls = []

        async def reconcile(request):
            calls.append(request)
            if len(calls) == 1:
                raise mistake

        rig = Rig(reconcile)
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(100)
        assert len(calls) == 2
        assert rig.read("reconcile_panics_total") == 1
        assert rig.read("reconcile_errors_total") == 1

    run(main())


def test_a_reconciler_that_returns_something_else_fails_and_the_worker_lives():
    async def main():
        async def reconcile(request):
            return True if request == A else None

        rig = Rig(reconcile)
        with capture_logs() as logs:
            async with rig.running():
                rig.trigger.fire(A)
                rig.trigger.fire(B)
                await asyncio.sleep(0.5)
        assert rig.read("reconcile_total", result="success") == 1
        assert "the reconciler returned True: expected a Result or None" in [line.get("error") for line in logs]

    run(main())


def test_a_cancellation_that_is_not_ours_does_not_end_the_worker():
    async def main():
        calls = []

        async def reconcile(request):
            calls.append(request)
            if len(calls) == 1:
                task = asyncio.create_task(asyncio.sleep(3600))
                task.cancel()
                await task

        rig = Rig(reconcile)
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(100)
        assert len(calls) == 2
        assert rig.read("reconcile_panics_total") == 1

    run(main())


def test_logs_name_controller_object_and_reconcile_and_reconcilers_can_log_the_same_way():
    async def main():
        ids = []

        async def reconcile(request):
            ids.append(reconcile_id())
            await asyncio.create_task(helper())
            raise OSError("away")

        async def helper():
            reconcile_log().info("helping", step=1)

        rig = Rig(reconcile)
        with capture_logs() as logs:
            async with rig.running():
                rig.trigger.fire(A)
                await asyncio.sleep(1.5)
        assert len(set(ids)) == 2
        fields = {"controller": "networks", "controllerKind": "Network", "namespace": "default", "name": "a"}
        helping = [line for line in logs if line["event"] == "helping"]
        failed = [line for line in logs if line["event"] == "reconcile failed"]
        assert helping == [
            {**fields, "reconcileID": identity, "event": "helping", "step": 1, "log_level": "info"} for identity in ids
        ]
        assert [{**line, **fields} == line and line["error"] == "away" for line in failed] == [True, True]
        assert [line["reconcileID"] for line in failed] == ids
        assert reconcile_id() == ""

    run(main())


def test_a_reconciler_that_never_waits_leaves_others_their_turn():
    async def main():
        done, turns = [], []

        async def reconcile(request):
            done.append(request)

        async def other():
            while len(done) < 1000:
                turns.append(len(done))
                await asyncio.sleep(0)

        rig = Rig(reconcile)
        async with rig.running():
            for number in range(1000):
                rig.trigger.fire(Request("default", str(number)))
            await other()
        assert max(after - before for before, after in itertools.pairwise(turns)) <= 32

    run(main())


def test_a_reconcile_keeps_the_id_it_is_first_asked_for():
    async def main():
        ids, tasks = [], []

        async def later():
            await asyncio.sleep(5)
            ids.append(reconcile_id())

        async def reconcile(request):
            ids.append(reconcile_id())
            tasks.append(asyncio.create_task(later()))
            ids.append(reconcile_id())

        rig = Rig(reconcile)
        async with rig.running():
            rig.trigger.fire(A)
            await asyncio.sleep(1)
            rig.trigger.fire(B)
            await asyncio.sleep(10)
        first, same, second, likewise, *late = ids
        assert first == same != second == likewise
        assert late == [first, second]

    run(main())


def test_the_series_of_a_controller_are_there_before_anything_happens():
    rig = Rig(lambda request: None)
    for result in ("success", "error", "requeue", "requeue_after"):
        assert rig.read("reconcile_total", result=result) == 0
    for metric in (
        "reconcile_errors_total",
        "terminal_reconcile_errors_total",
        "reconcile_panics_total",
        "reconcile_timeouts_total",
        "reconcile_time_seconds_count",
        "max_concurrent_reconciles",
        "active_workers",
    ):
        assert rig.read(metric) == 0
    assert rig.registry.get_sample_value("workqueue_adds_total", {"name": "networks", "controller": "networks"}) == 0


@pytest.mark.parametrize("options", [{"workers": 0}, {"timeout": 0}, {"timeout": -1}], ids=str)
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ValueError, match="expected"):
        ControllerOptions(**options)


def test_a_controller_needs_a_name():
    with pytest.raises(ValueError, match="needs a name"):
        Controller("", lambda request: None)


def test_a_trigger_keeps_the_highest_priority_of_what_waits_and_is_silent_after_stop():
    async def main():
        order = []

        async def reconcile(request):
            order.append(request)

        rig = Rig(reconcile)
        rig.trigger.fire(A, priority=LOW_PRIORITY)
        rig.trigger.fire(B)
        rig.trigger.fire(C, priority=3)
        rig.trigger.fire(A, priority=9)
        rig.trigger.fire(A, priority=LOW_PRIORITY)
        async with rig.running():
            await asyncio.sleep(1)
        rig.trigger.fire(B)
        assert order == [A, C, B]
        assert rig.trigger._waiting == {}
        assert str(rig.trigger) == "trigger"

        unused = Trigger()
        unused.stop()
        unused.fire(A)
        assert unused._waiting == {}

    run(main())
