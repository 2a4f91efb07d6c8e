from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kapi.base import failpoint as module
from kapi.base.failpoint import FailpointError, arm_all, armed, disarm, failpoint, is_armed


def test_an_unarmed_point_does_nothing():
    failpoint("some.point")
    assert not is_armed("some.point")


def test_an_armed_point_raises_and_only_that_one():
    with armed("some.point", "raise"):
        failpoint("another.point")
        with pytest.raises(FailpointError, match=r"some\.point"):
            failpoint("some.point")
    failpoint("some.point")


def test_a_point_can_wait_for_a_later_passage():
    with armed("some.point", "raise@3"):
        failpoint("some.point")
        failpoint("some.point")
        for _ in range(2):
            with pytest.raises(FailpointError):
                failpoint("some.point")


def test_a_point_can_call_a_function():
    calls = []
    with armed("some.point", lambda: calls.append(1)):
        failpoint("some.point")
    assert calls == [1]


def test_a_switch_is_armed_and_harmless():
    with armed("some.switch", "on"):
        failpoint("some.switch")
        assert is_armed("some.switch")
    assert not is_armed("some.switch")


def test_several_points_are_armed_from_one_text():
    arm_all(" one.point=raise , two.point=sleep:0 ")
    try:
        failpoint("two.point")
        with pytest.raises(FailpointError):
            failpoint("one.point")
    finally:
        disarm("one.point")
        disarm("two.point")


@pytest.mark.parametrize("text", ["point", "point=explode", "point=kill@0", "point=kill@x", "point=sleep:soon"])
def test_invalid_fail_points_are_refused(text):
    with pytest.raises(ValueError):
        arm_all(text)
    assert not is_armed("point")


def test_a_process_is_armed_from_its_environment_and_killed():
    program = "from kapi.base.failpoint import failpoint; failpoint('a'); print('once', flush=True); failpoint('a'); print('twice')"
    environment = {**os.environ, module.ENVIRONMENT_VARIABLE: "a=kill@2"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == "once\n"
