"""Tracebacks that repeat are recognised by where they come from."""

import structlog

from kapi.controller.controller import Controller
from kapi.controller.reconcile import Request
from kapi.controller.tracebacks import KNOWN, Tracebacks
from virtual_time import LoopClock, run


def fail(text, kind=ValueError):
    raise kind(text)


def fail_elsewhere(text):
    raise ValueError(text)


def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_same_lines_are_the_same_traceback_whatever_the_text():
    tracebacks = Tracebacks()
    assert [tracebacks.count(raised(fail, text)) for text in "abc"] == [0, 1, 2]


def test_another_class_or_another_line_is_another_traceback():
    tracebacks = Tracebacks()
    assert tracebacks.count(raised(fail, "a")) == 0
    assert tracebacks.count(raised(fail, "a", TypeError)) == 0
    assert tracebacks.count(raised(fail_elsewhere, "a")) == 0


def test_the_cause_belongs_to_the_traceback():
    def caused(function):
        try:
            function("inner")
        except ValueError as error:
            raise RuntimeError("outer") from error

    tracebacks = Tracebacks()
    assert tracebacks.count(raised(caused, fail)) == 0
    assert tracebacks.count(raised(caused, fail_elsewhere)) == 0
    assert tracebacks.count(raised(caused, fail)) == 1


def test_what_is_remembered_is_bounded():
    tracebacks = Tracebacks()
    kinds = [type(f"Error{number}", (Exception,), {}) for number in range(KNOWN + 1)]
    for kind in kinds:
        assert tracebacks.count(raised(fail, "a", kind)) == 0
    assert tracebacks.count(raised(fail, "a", kinds[-1])) == 1
    assert tracebacks.count(raised(fail, "a", kinds[0])) == 0


def test_a_controller_logs_a_traceback_whole_once_and_then_counts_it():
    async def main():
        calls = []

        async def reconcile(request):
            calls.append(request)
            if len(calls) == 4:
                controller.stop()
            fail(f"number {len(calls)}")

        controller = Controller("failing", reconcile, clock=LoopClock())
        controller.queue.add(Request("default", "a"))
        with structlog.testing.capture_logs() as logs:
            await controller.run()
        failed = [line for line in logs if line["event"] == "reconcile failed"]
        assert [line["error"] for line in failed] == ["number 1", "number 2", "number 3", "number 4"]
        assert [line.get("same_traceback") for line in failed] == [None, 1, 2, 3]
        assert ["exc_info" in line for line in failed] == [True, False, False, False]

    run(main())
