"""Settings that all tests share. Being here also puts this directory on the path, for `api_client` and `virtual_time`."""

import itertools
import logging
import os

import pytest
import structlog
from hypothesis import settings

from kapi.base.version import compiler
from kapi.testing.threads import import_before_threads


def _configure_without_caching(configure):
    """Wrap `structlog.configure` so that loggers follow a later configuration.

    A program configures its logs once. Here the command line does it in one test, and the logger of a module that was
    used then would not be seen by `capture_logs` in the tests that follow.
    """

    def configured(*args, **options):
        configure(*args, **{**options, "cache_logger_on_first_use": False})

    return configured


structlog.configure = _configure_without_caching(structlog.configure)

import_before_threads()


# The duration of an example depends on what else the machine does, so there is no deadline.
# CI tests a change with the same examples each time; the search for new ones is for developers' machines.
settings.register_profile("kapi", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.load_profile(os.environ.get("KAPI_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "kapi"))


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    """Undo what a test configures, so that it does not hide the logs of later tests."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    before, is_configured = structlog.get_config(), structlog.is_configured()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    if is_configured:
        structlog.configure(**before)


def pytest_configure(config):
    """Allow what compiled coroutines do: mypyc passes an exception on to a future in the old way, with three arguments."""
    if compiler() == "mypyc":
        ignored = r"ignore:the \(type, exc, tb\) signature of throw\(\) is deprecated:DeprecationWarning"
        config.addinivalue_line("filterwarnings", ignored)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item):
    """Skip what cannot run where Kapi is compiled."""
    marker = item.get_closest_marker("plain")
    if marker is not None and compiler() == "mypyc":
        item.add_marker(pytest.mark.skip(reason=f"needs plain Python: {marker.kwargs['reason']}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Give every test process an equal share of the slow modules, first.

    pytest-xdist hands each process one contiguous run of tests and lets idle processes steal from the end of others'
    runs. Left in order, one process would get all of tests/reliability and still be at it when the others are done.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1:
        return
    modules = [list(tests) for _, tests in itertools.groupby(items, key=lambda item: item.path)]
    slow = [tests for tests in modules if any(test.get_closest_marker("slow") for test in tests)]
    quick = [test for tests in modules if tests not in slow for test in tests]
    share, ordered = len(items) // processes, []
    for process in range(processes):
        mine = [test for tests in slow[process::processes] for test in tests]
        room = len(quick) if process == processes - 1 else max(0, share - len(mine))
        ordered += mine + quick[:room]
        quick = quick[room:]
    items[:] = ordered
