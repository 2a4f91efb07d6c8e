"""Servers with a bug in them: the fuzzer must find each, and reduce it to what matters.

Run as `python -m fuzz.planted up …`, with the name of the bug in `KAPI_FUZZ_BUG`. Each bug needs something particular of a request, so
that a sequence that is too short, or a body that is too small, does not show it.
"""

import os
import sys
import time

from live_server import LiveServer

from kapi.cli.main import main
from kapi.registry import write

VARIABLE = "KAPI_FUZZ_BUG"
HELD = 1.0
"""Seconds of CPU that the planted stall holds the event loop for."""


class PlantedServer(LiveServer):
    """A live server with the bug that a subclass names."""

    module = "fuzz.planted"
    bug = ""

    def __init__(self, *arguments, **options):
        environment = {VARIABLE: self.bug, "PYTHONPATH": os.pathsep.join(sys.path)}
        super().__init__(*arguments, environment=environment, **options)


def plant_server_error():
    """A Lease with a holder is answered with 500."""

    def fail(obj):
        if (obj.get("spec") or {}).get("holderIdentity"):
            raise KeyError("holderIdentity")

    _on_create(fail)


def plant_stall():
    """A Lease that changed hands often holds the event loop."""

    def hold(obj):
        until = time.thread_time() + (HELD if (obj.get("spec") or {}).get("leaseTransitions", 0) >= 100 else 0)
        while time.thread_time() < until:
            pass

    _on_create(hold)


def plant_lost_write():
    """The replacement (PUT) of a Lease that has labels is acknowledged and not stored."""
    replace = write._replace

    async def forget(request, item, obj, old):
        if request.resource.resource == "leases" and request.verb == "update" and old["metadata"].get("labels"):
            request.dry_run = True
        return await replace(request, item, obj, old)

    write._replace = forget


def _on_create(act):
    create_errors = write.create_errors

    def checked(request, obj):
        if request.resource.resource == "leases":
            act(obj)
        return create_errors(request, obj)

    write.create_errors = checked


BUGS = {"server error": plant_server_error, "stall": plant_stall, "lost write": plant_lost_write}

if __name__ == "__main__":
    BUGS[os.environ[VARIABLE]]()
    sys.exit(main())
