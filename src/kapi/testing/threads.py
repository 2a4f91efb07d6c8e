"""Imports for tests whose process has a control plane: those that a server makes in threads are made before it starts.

pytest parses the modules of its plug-ins' packages, this one among them, to rewrite assertions. In CPython 3.11 two
threads that parse at the same time can make each other fail (SystemError: AST constructor recursion depth mismatch).
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

_IN_THREADS: Final = (
    "kapi.controlplane.controllers.controllerset",
    "kapi.schema.rules.checks",
    "kapi.schema.rules.validator",
    "kapi.server.admission.matchconditions",
    "kapi.server.admission.webhooks.call",
)


def import_before_threads() -> None:
    """Import what servers import in threads, if pytest may rewrite it."""
    if "_pytest.assertion.rewrite" in sys.modules:
        for name in _IN_THREADS:
            importlib.import_module(name)
