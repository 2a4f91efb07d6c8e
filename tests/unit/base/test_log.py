"""Logs: one format for structlog and the standard logging module, and safe ones where a program configures nothing."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

import kapi
from kapi.base.log import configure, ensure_configured

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


def test_existing_logging_configuration_is_kept():
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    before = structlog.get_config()
    ensure_configured()
    assert structlog.get_config() == before


def test_programs_that_configure_no_logs_get_one_format_for_both_libraries():
    program = (
        "import logging, structlog\n"
        "from kapi.base.log import ensure_configured\n"
        "ensure_configured()\n"
        "structlog.get_logger('kapi.controller').info('reconciled', key='a/b')\n"
        "structlog.get_logger('kapi.controller').debug('detail')\n"
        "logging.getLogger('kapi.informer').warning('watch of %s ended', 'pods')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60, check=True
    )
    first, second = done.stderr.splitlines()
    assert re.fullmatch(f"{STAMP} INFO kapi.controller reconciled key=a/b", first)
    assert re.fullmatch(f"{STAMP} WARNING kapi.informer watch of pods ended", second)
    assert done.stdout == ""


def test_logging_that_is_configured_later_takes_effect(capsys):
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


STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"


def log_both_ways():
    """One line through each of the two libraries."""
    structlog.get_logger("kapi.server").warning("slow request", path="/api", reason='it "waits"\nlong', seconds=2)
    logging.getLogger("kapi.informer").warning("watch of %s ended", "pods")


def test_text_is_one_format_for_both_libraries(capsys):
    configure("info")
    log_both_ways()
    first, second = capsys.readouterr().err.splitlines()
    fields = r'path=/api reason="it \\"waits\\"\\nlong" seconds=2'
    assert re.fullmatch(f"{STAMP} WARNING kapi.server slow request {fields}", first)
    assert re.fullmatch(f"{STAMP} WARNING kapi.informer watch of pods ended", second)


def test_json_is_one_object_per_line_for_both_libraries(capsys):
    configure("info", "json")
    log_both_ways()
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert re.fullmatch(STAMP, first.pop("timestamp"))
    assert first == {
        "level": "warning",
        "logger": "kapi.server",
        "event": "slow request",
        "path": "/api",
        "reason": 'it "waits"\nlong',
        "seconds": 2,
    }
    del second["timestamp"]
    assert second == {"level": "warning", "logger": "kapi.informer", "event": "watch of pods ended"}


@pytest.mark.parametrize("form", ["text", "json"])
def test_level_applies_to_both_libraries(capsys, form):
    configure("error", form)
    log_both_ways()
    assert capsys.readouterr().err == ""


def test_traceback_follows_its_line_in_text_and_is_a_value_in_json(capsys):
    for form in ("text", "json"):
        configure("info", form)
        for log in (structlog.get_logger("a"), logging.getLogger("a")):
            password = "hunter2"
            try:
                raise ValueError(len(password))
            except ValueError:
                log.exception("broken")
            printed = capsys.readouterr().err
            assert "hunter2" not in printed
            if form == "json":
                assert json.loads(printed)["exception"].endswith("ValueError: 7")
            else:
                assert printed.splitlines()[0].endswith("ERROR a broken")
                assert printed.splitlines()[-1] == "ValueError: 7"


def test_line_breaks_in_a_message_do_not_make_a_line(capsys):
    configure("info")
    logging.getLogger("a").warning("one\ntwo")
    assert capsys.readouterr().err.count("\n") == 1
