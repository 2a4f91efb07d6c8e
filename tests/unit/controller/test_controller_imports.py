"""Controllers install and start with the base dependencies alone."""

import os
import subprocess
import sys
from pathlib import Path

import kapi

PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"cryptography", "httptools", "uvloop", "typer", "click", "rich", "re2"}:
            raise ImportError(f"{name} is not a base dependency")

sys.meta_path.insert(0, Forbidden())
from kapi.controller import builder, controller, enqueue, event, host, manager, metrics, objects, predicate, queue, reconcile
from kapi.controller import recorder, source, tracing
from kapi.controller.objects import conditions, finalizer, ownership, upsert
print(sorted(name for name in sys.modules if name.split(".")[:2][-1] in ("server", "registry", "storage") and name.startswith("kapi.")))
"""


def test_controllers_need_only_base_dependencies_and_no_server():
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


HEAVY = ("aiohttp", "yarl", "yaml", "re2", "cryptography", "kapi.api.builtin.core_v1", "kapi.schema")
"""What a program that only names its controllers has no use for: HTTP, YAML, thousands of generated classes."""


def test_importing_the_manager_leaves_what_is_heavy_for_later():
    environment = {**os.environ, "PYTHONPATH": str(Path(kapi.__file__).parents[1])}
    program = f"import sys, kapi.controller.manager; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
