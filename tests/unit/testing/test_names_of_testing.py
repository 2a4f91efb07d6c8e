"""The names that tests import from `kapi.testing`: they stay, and importing the package imports no control plane."""

import subprocess
import sys

import kapi.testing

NAMES = [
    "Entry",
    "Environment",
    "Fault",
    "Faults",
    "History",
    "HistoryError",
    "Snapshot",
    "SyncEnvironment",
    "Unsupported",
    "User",
    "VirtualTime",
]


def test_the_names_of_testing_are_frozen():
    assert sorted(kapi.testing.__all__) == sorted(NAMES)
    for name in NAMES:
        assert getattr(kapi.testing, name).__name__ == name
        assert name in dir(kapi.testing)


def test_nothing_in_the_package_needs_pytest():
    code = (
        "import sys; sys.modules['pytest'] = None; sys.modules['hypothesis'] = None\n"
        "import kapi.testing; print([name for name in sys.modules if name.startswith('kapi.server')])\n"
        "from kapi.testing import *"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
