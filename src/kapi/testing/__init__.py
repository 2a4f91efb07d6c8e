"""Support for tests of operators, and of other programs that use the API: a control plane in the process of the test.

    from kapi.testing import Environment

    async with Environment(crds=[Network]) as env:
        await env.client.create(Network(...))

`docs/how-to/testing-operators.md` shows what can be done with it. The fixtures of pytest are in `pytest_plugin`, and
`history` has checkers of recorded histories. Names are imported when they are used, so that importing this package does
not import a control plane.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kapi.testing.collector import collector_paused

if TYPE_CHECKING:
    from kapi.storage.memory import Snapshot
    from kapi.testing.environment import Environment
    from kapi.testing.faults import Fault, Faults
    from kapi.testing.record import Entry, History, HistoryError
    from kapi.testing.servers import Unsupported, User
    from kapi.testing.sync import SyncEnvironment
    from kapi.testing.virtualtime import VirtualTime

_HOMES = {
    "Entry": "kapi.testing.record",
    "Environment": "kapi.testing.environment",
    "Fault": "kapi.testing.faults",
    "Faults": "kapi.testing.faults",
    "History": "kapi.testing.record",
    "HistoryError": "kapi.testing.record",
    "Snapshot": "kapi.storage.memory",
    "SyncEnvironment": "kapi.testing.sync",
    "Unsupported": "kapi.testing.servers",
    "User": "kapi.testing.servers",
    "VirtualTime": "kapi.testing.virtualtime",
}

__all__ = [
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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kapi.testing' has no attribute {name!r}")
    # What modules create stays: looking for garbage among it would be a tenth of the time that importing them takes.
    with collector_paused():
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
