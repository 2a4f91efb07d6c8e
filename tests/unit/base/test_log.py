"""Logs of programs that never set logging up: readable, on standard error, and without the values of variables."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

import kapi
from kapi.base.log import ensure_configured

PROGRAM = """
import asyncio, structlog
from kapi.controller.controller import Controller, ControllerOptions
from kapi.controller.reconcile import Request, Result
from kapi.controller.source import Trigger

async def main():
    trigger, runs = Trigger(), []

    async def reconcile(request):
        password = "hunter2"
        runs.append(request)
        if len(runs) == 1:
            raise RuntimeError("the login failed")
        controller.stop()

    controller = Controller("logins", reconcile, sources=[trigger])
    trigger.fire(Request("default", "a"))
    await controller.run()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def as_it_was():
    before, is_configured = structlog.get_config(), structlog.is_configured()
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if is_configured:
        structlog.configure(**before)


def test_a_secret_in_a_variable_of_a_reconciler_that_fails_is_not_printed():
    pytest.importorskip("rich")  # which is what would print it
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    assert "hunter2" not in done.stderr + done.stdout
    assert "Traceback (most recent call last)" in done.stderr
    assert "RuntimeError: the login failed" in done.stderr
    assert "controller=logins" in done.stderr


def test_logging_that_is_set_up_stays_as_it_is():
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    before = structlog.get_config()
    ensure_configured()
    assert structlog.get_config() == before


def test_logging_that_is_set_up_later_has_its_way(capsys):
    log = structlog.get_logger("kapi.controller")
    ensure_configured()
    log.info("before")
    structlog.configure(processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.PrintLoggerFactory())
    log.info("after")
    printed = capsys.readouterr()
    assert "before" in printed.err
    assert printed.out == '{"event": "after"}\n'


def test_a_traceback_is_plain_text(capsys):
    pytest.importorskip("rich")
    ensure_configured()
    password = "hunter2"
    try:
        raise ValueError(len(password))
    except ValueError:
        structlog.get_logger().exception("broken")
    printed = capsys.readouterr()
    assert "ValueError: 7" in printed.err
    assert "hunter2" not in printed.err
    assert printed.out == ""
