"""The names that programs import from `kapi.controller`: they stay, and only those that are used are loaded."""

import subprocess
import sys

import pytest

import kapi.controller

NAMES = [
    "Builder",
    "CachedClient",
    "Cluster",
    "Controller",
    "ControllerOptions",
    "DelayingQueue",
    "EventRecorder",
    "Leadership",
    "LeadershipLost",
    "Manager",
    "Prioritized",
    "QueueShutDown",
    "RateLimitingQueue",
    "Reconciler",
    "Request",
    "Result",
    "TerminalError",
    "Trigger",
    "WorkQueue",
    "create_or_patch",
    "create_or_update",
    "reconcile_id",
    "reconcile_log",
]


def test_the_names_are_frozen():
    assert sorted(kapi.controller.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there(name):
    assert getattr(kapi.controller, name) is not None
    assert name in dir(kapi.controller)


def test_another_name_is_refused_as_in_any_module():
    with pytest.raises(AttributeError, match=r"module 'kapi\.controller' has no attribute 'nothing'"):
        kapi.controller.nothing  # noqa: B018


def test_a_program_that_uses_the_queue_alone_loads_no_client():
    code = "import sys; from kapi.controller import WorkQueue; print('kapi.client.rest' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "False"
